// SPDX-License-Identifier: BSD-3-Clause
// Random programs whose tasks submit tasks, on every runtime that nests them: more than the battery
// draws. NNTILE_NESTED=N test_runtime '[nesting]' runs N of them for each number of workers.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/kinds.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance/nested_program.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Domains and heaps of bodies are as small as can be, and nearly all of them grow; the ids of some
/// wrap.
struct TinyChildPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t child_window = 2;
    static constexpr std::uint32_t larger_child_window = 8;
    static constexpr std::size_t child_heap_bytes = 64;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 20;
  };
};

}  // namespace

TEMPLATE_TEST_CASE("random programs whose tasks submit leave what one task at a time leaves",
                   "[runtime][nesting]", Serial, Threads, Ring, BasicRing<TinyChildPolicy>) {
  char const* const asked = std::getenv("NNTILE_NESTED");
  std::uint64_t const programs = asked != nullptr ? std::strtoull(asked, nullptr, 10)
                                 : sanitized      ? 12
                                                  : 150;
  std::uint64_t first = 0;  // each program under one configuration alone where they take long
  for (bool const own : {false, true})
    for (int const workers : worker_counts<TestType>()) {
      if (own && std::same_as<TestType, Serial>) continue;
      for (std::uint64_t seed = first; seed < first + programs; ++seed) {
        INFO(workers << " workers, own driver " << own);
        try {
          testing::run_nested_program(seed,
                                      [&] {
                                        return std::make_unique<TestType>(
                                            RuntimeOptions{.workers = workers, .own_driver = own});
                                      },
                                      {.regions = seed % 3 == 0});
        } catch (testing::Violation const& violation) {
          FAIL_CHECK(violation.text);
        }
      }
      if (sanitized) first += programs;
    }
}

TEST_CASE("random programs whose tasks submit, and name kinds, leave what one at a time leaves",
          "[runtime][nesting][kinds]") {
  using enum WorkerKind;
  char const* const asked = std::getenv("NNTILE_NESTED");
  std::uint64_t const programs = asked != nullptr ? std::strtoull(asked, nullptr, 10)
                                 : sanitized      ? 40
                                                  : 100;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    auto const cubes = static_cast<int>(1 + seed % 2), workers = static_cast<int>(2 + seed % 3);
    int const kinds[] = {any_of(cube), any_of(cpu)};
    int const named = workers > cubes ? 2 : 1;  // the rest are of kind cpu
    try {
      testing::run_nested_program(
          seed,
          [&] {
            return std::make_unique<Ring>(RuntimeOptions{.workers = workers}, RingCapacities{},
                                          WorkerKinds{.cube = cubes});
          },
          {.regions = seed % 5 == 0, .kinds = {kinds, static_cast<std::size_t>(named)}});
    } catch (testing::Violation const& violation) {
      FAIL_CHECK(violation.text);
    }
  }
}
