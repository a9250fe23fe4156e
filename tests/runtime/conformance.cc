// SPDX-License-Identifier: BSD-3-Clause
// The law of runtime/concept.hh on every runtime there is.
#include "nntile/testing/conformance.hh"

#include <algorithm>
#include <type_traits>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;

using test::sanitized;

/// Under a sanitizer, ten times slower, the default runtime is looked at closely and the others
/// once; and more than two threads where threads are what it looks at.
template <class R> testing::ConformanceOptions options_for() {
  constexpr bool close = !sanitized || std::is_same_v<R, Ring>;
  testing::ConformanceOptions options;
  options.max_workers = std::min(!sanitized                          ? 8
                                 : close && !test::address_sanitized ? 4
                                                                     : 2,
                                 test::most_workers<R>);
  options.own_driver = close;
  options.heavy = !sanitized;
  options.rounds = sanitized ? 1 : 2;
  if (sanitized) options.watchdog.idle_seconds = 60;
#ifdef NNTILE_HAVE_STARPU
  if (std::is_same_v<R, StarPU>) {  // its driver never executes
    options.helping_driver = false;
    options.own_driver = true;
  }
#endif
  return options;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a runtime keeps the law", "[runtime][conformance]", test::AllRuntimes) {
  auto const options = options_for<TestType>();
  auto const report = testing::conformance(
      [](RuntimeOptions const& runtime_options) { return TestType(runtime_options); }, options);
  INFO(runtime_name<TestType> << "\n" << to_string(report));
  CHECK(report.passed());
}
