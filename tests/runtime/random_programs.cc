// SPDX-License-Identifier: BSD-3-Clause
// Many small random programs, each on a runtime of its own, against one task at a time: words,
// marks, errors and what was cancelled.
//
// NNTILE_PROGRAMS=1000000 test_runtime '[programs]' is the long form.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance/draw.hh"
#include "nntile/testing/conformance/trial.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;

/// By default 10^4 on five runtimes: about a millisecond each.
std::uint64_t program_count() {
  if (char const* const asked = std::getenv("NNTILE_PROGRAMS"))
    return std::strtoull(asked, nullptr, 10);
  if (test::sanitized) return 100;
  return 2'000;
}

/// Whether a runtime of this type, of `usual`, stays alive for the others to start soon.
template <class R> inline constexpr bool starts_slowly = false;
#ifdef NNTILE_HAVE_STARPU
template <> inline constexpr bool starts_slowly<StarPU> = true;
#endif
constexpr RuntimeOptions usual{2, true, false};

template <class R> RuntimeOptions options_of(std::uint64_t number) {
  if (starts_slowly<R>) return usual;
  if (test::most_workers<R> == 1) return {1, false, false};
  return {1 + static_cast<int>(number / 2 % 3), number % 4 == 3, false};
}

/// Mixtures in turn: few buffers, more, failures and tokens, replays, mostly accumulating, mostly
/// writing disjoint bytes or in no order.
testing::ProgramShape shape_of(std::uint64_t number) {
  testing::ProgramShape const shapes[] = {
      {.buffers = 3, .steps = 24, .max_operands = 3},
      {.buffers = 8, .steps = 32, .late = 0},
      {.buffers = 4, .steps = 32, .failing = 8, .late = 20, .unwritten = 4},
      {.buffers = 5, .steps = 24, .failing = 4, .replays = 25, .replayed = 8},
      {.buffers = 3, .steps = 32, .max_operands = 3, .late = 5, .accumulating = 70},
      {.buffers = 4, .steps = 32, .failing = 8, .late = 20, .accumulating = 60},
      {.buffers = 3, .steps = 32, .failing = 6, .late = 15, .reordered = 60},
      {.buffers = 4, .steps = 24, .failing = 3, .replays = 20, .replayed = 8, .reordered = 50}};
  testing::ProgramShape shape = shapes[number % std::size(shapes)];
  shape.words = 24;
  return shape;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("small random programs leave what one task at a time leaves",
                        "[runtime][programs]", test::AllRuntimes) {
  auto make = [](RuntimeOptions const& options) { return TestType(options); };
  testing::Factory const factory = [&](RuntimeOptions const& options) {
    return std::make_unique<testing::detail::SubjectOf<TestType>>(make, options);
  };
  bool const replays = ReplayingRuntime<TestType>;
  std::uint64_t const count = program_count();
  std::optional<TestType> kept;
  if constexpr (starts_slowly<TestType>) kept.emplace(usual);
  for (std::uint64_t number = 0; number < count; ++number) {
    auto shape = shape_of(number);
    if (!replays) shape.replays = 0;
    testing::Trial const trial{.factory = factory, .options = options_of<TestType>(number)};
    try {
      testing::run_program(trial, testing::draw_program(0x9e3779b9 + number, shape));
    } catch (testing::Violation const& violation) {
      INFO("program " << number);
      FAIL(violation.text);
    }
  }
}
