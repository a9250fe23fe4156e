// SPDX-License-Identifier: BSD-3-Clause
// The ring as it is shipped, in every order of what its threads do and with every stale value that
// the memory orders allow (tests/runtime/model/).
//
// NNTILE_MODEL=3 test_runtime '[explore]' is the long form: as many preemptions, "all" for no
// limit; it prints how many executions and states there were, and the time.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/runtime/model/programs.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

namespace {

using namespace nntile;
using namespace nntile::test::model;

/// How many preemptions are tried.
Limits limits(int in_the_suite) {
  char const* const asked = std::getenv("NNTILE_MODEL");
  if (in_the_suite < 0 || asked == nullptr) return {in_the_suite};
  return {std::string_view(asked) == "all" ? -1 : std::atoi(asked)};
}

void print(Program const& program, bool own_driver, Outcome const& outcome) {
  std::printf(
      "%-20s %s: %9llu executions, %10llu states, up to %llu operations, "
      "%.1f s\n",
      std::string(program.name).c_str(), own_driver ? "2 workers + driver" : "1 worker + driver ",
      static_cast<unsigned long long>(outcome.executions),
      static_cast<unsigned long long>(outcome.states),
      static_cast<unsigned long long>(outcome.longest), outcome.seconds);
  (void)std::fflush(stdout);
}

}  // namespace

TEST_CASE("no order and no delay breaks the ring", "[runtime][ring][model][explore]") {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  char const* const only = std::getenv("NNTILE_MODEL_PROGRAM");
  for (Program const& program : programs())
    for (bool const own_driver : {false, true}) {
      if ((only != nullptr && program.name != only) || (own_driver && program.is_part)) continue;
      Exploration exploration(limits(own_driver ? program.with_own_driver : program.preemptions));
      auto const outcome = exploration.explore([&] { program.run({2, own_driver, false}); });
      INFO(program.name << (own_driver ? ", 2 workers" : ", 1 worker"));
      CHECK(outcome.failure == "");
      CHECK(outcome.complete);
      CHECK(outcome.executions != 0);
      if (std::getenv("NNTILE_MODEL") != nullptr) print(program, own_driver, outcome);
    }
}
