// SPDX-License-Identifier: BSD-3-Clause
// The law of runtime/concept.hh on every runtime there is.
#include "nntile/testing/conformance.hh"

#include <algorithm>
#include <type_traits>

#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"

namespace {

using namespace nntile;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int rounds = 1;  // the sanitizers need no second look, and are ten times slower
constexpr int most_workers = 4;
#else
constexpr int rounds = 2;
constexpr int most_workers = 8;
#endif

}  // namespace

TEMPLATE_LIST_TEST_CASE("a runtime keeps the law", "[runtime][conformance]", test::AllRuntimes) {
  testing::ConformanceOptions options;
  options.max_workers = std::min(most_workers, test::most_workers<TestType>);
  options.rounds = rounds;
#ifdef NNTILE_HAVE_STARPU
  options.helping_driver = !std::is_same_v<TestType, StarPU>;  // its driver never executes
#endif
  auto const report = testing::conformance(
      [](RuntimeOptions const& runtime_options) { return TestType(runtime_options); }, options);
  INFO(runtime_name<TestType> << "\n" << to_string(report));
  CHECK(report.passed());
}
