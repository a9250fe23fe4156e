// SPDX-License-Identifier: BSD-3-Clause
// The ring as it is shipped, in every order of what its threads do and with every stale value that
// the memory orders allow (tests/runtime/model/).
//
// NNTILE_MODEL=3 test_runtime '[explore]' is the long form: as many preemptions, "all" for no
// limit; it prints how many executions and states there were, and the time.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "tests/runtime/model/programs.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

namespace {

using namespace nntile;
using namespace nntile::test::model;

constexpr Uses w(std::uint32_t cell) { return {cell, Access::write}; }
constexpr Uses r(std::uint32_t cell) { return {cell, Access::read}; }
constexpr Uses u(std::uint32_t cell) { return {cell, Access::update}; }

Limits limits(int in_the_suite) {
  char const* const asked = std::getenv("NNTILE_MODEL");
  if (asked == nullptr) return {in_the_suite};
  return {std::string_view(asked) == "all" ? -1 : std::atoi(asked)};
}

/// Explores a program. Its threads are the driver and one worker, or two that the driver only waits
/// for.
void explore(char const* name, int preemptions,
             std::function<void(RuntimeOptions)> const& program) {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  for (bool const own_driver : {false, true}) {
    Limits const most = limits(own_driver ? preemptions - 1 : preemptions);
    Exploration exploration(most);
    auto const outcome = exploration.explore([&] { program({2, own_driver, false}); });
    INFO(name << (own_driver ? ", own driver" : ""));
    CHECK(outcome.failure == "");
    CHECK(outcome.complete);
    CHECK(outcome.executions > 1);
    if (std::getenv("NNTILE_MODEL") == nullptr) continue;
    std::printf(
        "%-24s %s: %9llu executions (%llu cut short), %10llu states, up to %llu operations, "
        "%.1f s\n",
        name, own_driver ? "2 workers + driver" : "1 worker + driver ",
        static_cast<unsigned long long>(outcome.executions),
        static_cast<unsigned long long>(outcome.redundant),
        static_cast<unsigned long long>(outcome.states),
        static_cast<unsigned long long>(outcome.longest), outcome.seconds);
    std::fflush(stdout);
  }
}
/// Submits one task after the other through a window of 2 slots.
void submit(char const* name, int preemptions, Tasks const& tasks) {
  explore(name, preemptions,
          [&tasks](RuntimeOptions const& options) { submit_all<Policy<2>>(tasks, options); });
}

}  // namespace

TEST_CASE("no order loses a task", "[runtime][ring][model][explore]") {
  submit("one task", 2, {{w(0)}});
}
TEST_CASE("no order breaks a chain", "[runtime][ring][model][explore]") {
  submit("chain of 2", 2, {{w(0)}, {u(0)}});
  submit("chain of 3", 2, {{w(0)}, {u(0)}, {u(0)}});
}
TEST_CASE("no order loses one of two tasks", "[runtime][ring][model][explore]") {
  submit("2 independent", 2, {{w(0)}, {w(1)}});
}
TEST_CASE("no order lets a write pass a reader", "[runtime][ring][model][explore]") {
  submit("write after read", 2, {{w(0)}, {r(0), w(1)}, {w(0)}});
}
TEST_CASE("no order breaks a fork and its join", "[runtime][ring][model][explore]") {
  submit("diamond", 2, {{w(0)}, {r(0), w(1)}, {r(0), w(2)}, {r(1), r(2), w(0)}});
}
