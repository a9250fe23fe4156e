// SPDX-License-Identifier: BSD-3-Clause
// Rings with nothing to do, with more workers than cores, and many rings.

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/quiet.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Twenty steps on each of some cells, and what they leave.
void step_cells(Ring& ring, int cells) {
  std::vector<DataHandle> targets;
  for (int c = 0; c < cells; ++c) targets.push_back(cell(ring, c));
  for (long i = 0; i < 20; ++i)
    for (DataHandle const target : targets)
      submit(ring, step_codelet, {{target, Access::update}}, i);
  for (int c = 0; c < cells; ++c) {
    long expected = c;
    for (long i = 0; i < 20; ++i) expected = affine(expected, 3, i);
    REQUIRE(read(ring, targets[static_cast<std::size_t>(c)]) == expected);
  }
}

}  // namespace

TEST_CASE("idle workers use two cores for at most 10 ms after their last task",
          "[runtime][ring][idle]") {
  for (bool const own_driver : {false, true}) {
    Ring ring({4, own_driver, false});
    for (int round = 0; round < 3; ++round) {
      step_cells(ring, 10);
      CHECK(cpu_until_quiet() < 0.02);  // two cores for 10 ms
    }
  }
}

TEST_CASE("as many workers as there may be share the cores there are", "[runtime][ring][idle]") {
  int const workers = sanitized ? 64 : 1024;
  Ring ring({workers, false, false});
  CHECK(ring.workers().cpu == workers);
  CHECK(ring.stats().oversubscribed ==
        (workers > static_cast<int>(std::thread::hardware_concurrency())));
  step_cells(ring, 100);
}

TEST_CASE("many rings work side by side and end in any order", "[runtime][ring][idle]") {
  std::vector<std::unique_ptr<Ring>> rings;
  for (int i = 0; i < 12; ++i)
    rings.push_back(std::make_unique<Ring>(RuntimeOptions{1 + i % 4, i % 2 == 0, false}));
  for (auto const& ring : rings)
    for (int i = 0; i < 20; ++i) (void)cell(*ring, i);
  for (std::size_t i = 0; i < rings.size(); i += 2) rings[i].reset();
  for (std::size_t i = 1; i < rings.size(); i += 2) step_cells(*rings[i], 3);
}

TEST_CASE("while the driver is away one idle worker polls for each token that comes",
          "[runtime][ring][idle]") {
  struct Polled {
    std::atomic<int> calls{0};
    std::atomic<bool> over{false};
  };
  static constexpr Codelet polled{"polled", nullptr, nullptr,
                                  +[](KernelCall const& call, Completion token) noexcept -> Status {
                                    token.poll(
                                        [](void* state, Completion done) {
                                          auto& one = *static_cast<Polled*>(state);
                                          if (++one.calls < 2) return false;
                                          done.complete();
                                          one.over = true;
                                          return true;
                                        },
                                        *static_cast<Polled* const*>(call.arguments));
                                    return {};
                                  }};
  std::array<Polled, 10> all;
  Ring ring({3, true, false});
  for (Polled& one : all) {
    submit(ring, polled, {}, &one);
    for (int i = 0; i < 5000 && !one.over; ++i) detail::sleep_ns(1'000'000);
    REQUIRE(one.over);
    detail::sleep_ns(2'000'000);  // workers go to sleep
  }
}
