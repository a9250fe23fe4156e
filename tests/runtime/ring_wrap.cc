// SPDX-License-Identifier: BSD-3-Clause
// Rings of the smallest sizes, whose ids pass 2^32, with scopes and retirements drawn at random:
// the cells that outlive all scopes must hold what one task at a time leaves.
//
// NNTILE_RING_TASKS=n runs n tasks in all, and prints their number and checksum.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/scope.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct WrappingPolicy : RingPolicy {
  struct Sizes : RingSizes {
    // Bodies are tiny, every one or every second of them:
    static constexpr std::uint32_t timed_every = 1;
    static constexpr std::int64_t tiny_ns = std::int64_t{1} << 40;
    static constexpr std::uint32_t most_rounds = 32;
    static constexpr std::uint32_t deque = 2;
    static constexpr std::uint32_t argument_bytes = 8192;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 1000;
    static constexpr std::uint64_t sweep_every = 1000;
  };
};

using WrappingRing = BasicRing<WrappingPolicy>;

/// Cells and what they must hold.
class Walk {
 public:
  static constexpr std::size_t kept = 5;  // cells that outlive all scopes
  static constexpr std::size_t most = 4;  // buffers of a scope
  static constexpr std::size_t most_bytes = 192;

  Walk(WrappingRing& ring, std::uint64_t seed) : ring_(ring), state_(seed) {
    for (std::size_t i = 0; i < kept; ++i) {
      cells_.push_back({ring.allocate(sizeof(long)), 0});
      put(cells_.back());
    }
  }

  void run(std::uint64_t tasks) {
    while (tasks_ < tasks) nest(1 + draw(3));
  }
  std::uint64_t tasks() const { return tasks_; }
  /// Checks the cells; a checksum of them.
  std::uint64_t check() {
    std::uint64_t sum = 0;
    for (Cell& cell : cells_) {
      REQUIRE(read(ring_, cell.handle) == cell.value);
      sum = sum * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(cell.value);
    }
    return sum;
  }

 private:
  struct Cell {
    DataHandle handle;
    long value;
  };

  std::size_t draw(std::size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    return static_cast<std::size_t>(state_ >> 33) % below;
  }
  void put(Cell& cell) {
    cell.value = static_cast<long>(draw(1u << 30));
    submit(ring_, put_codelet, {{cell.handle, Access::write}}, cell.value);
    ++tasks_;
  }
  void work() {
    Cell &a = cells_[draw(cells_.size())], &b = cells_[draw(cells_.size())];
    long const value = static_cast<long>(draw(1u << 30));
    if (draw(3) == 0 || &a == &b) {
      submit(ring_, step_codelet, {{a.handle, Access::update}}, value);
      a.value = affine(a.value, 3, value);
    } else {
      submit(ring_, copy_cell_codelet, {{a.handle, Access::write}, {b.handle, Access::read}},
             value);
      a.value = affine(b.value, 1, value);
    }
    ++tasks_;
  }
  /// One scope in another, `depth` of them.
  void nest(std::size_t depth) {
    constexpr Lifetime lifetimes[] = {Lifetime::step, Lifetime::scope, Lifetime::scratch};
    auto const scope_of_all = scope(ring_, lifetimes[depth - 1]);
    std::size_t const before = cells_.size(), count = draw(most + 1);
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t const bytes = sizeof(long) + draw(most_bytes - sizeof(long));
      cells_.push_back({ring_.allocate(bytes, host, lifetimes[depth - 1]), 0});
      put(cells_.back());
      for (std::size_t k = draw(4); k > 0; --k) work();
      if (draw(4) != 0) continue;
      ring_.retire(cells_.back().handle);
      cells_.pop_back();
    }
    if (depth > 1) nest(depth - 1);
    for (std::size_t k = draw(6); k > 0; --k) work();
    cells_.resize(before);
  }

  WrappingRing& ring_;
  std::uint64_t state_;
  std::vector<Cell> cells_;
  std::uint64_t tasks_ = 0;
};

/// Heaps with room for what the scopes of a lifetime may hold, wherever it comes to lie, and for
/// the tasks behind: so small that allocations wait.
RingCapacities small(std::uint32_t window) {
  constexpr std::size_t most = Walk::most, bytes = Walk::most_bytes;
  RingCapacities options;
  options.step = options.scope = options.scratch = {(most + 1) * bytes, OnFull::wait};
  options.records = 8;
  options.window = window;
  return options;
}

struct Totals {
  std::uint64_t tasks = 0, waits = 0, sum = 0;
};

void walk(std::uint32_t window, std::uint64_t tasks, int workers, Totals& totals) {
  WrappingRing ring({workers, false, false}, small(window));
  Walk walk(ring, window + static_cast<unsigned>(workers));
  std::uint64_t const part = 1 + tasks / 10;
  for (std::uint64_t done = part; walk.tasks() < tasks; done += part) {
    walk.run(done);
    totals.sum = totals.sum * 31 + walk.check();
  }
  ring.wait_all();
  auto const stats = ring.stats();
  CHECK(stats.step.growths + stats.scope.growths + stats.scratch.growths == 0);
  totals.waits += stats.step.waits + stats.scope.waits + stats.scratch.waits;
  totals.tasks += walk.tasks();
}

}  // namespace

TEST_CASE("small rings whose ids wrap leave what one task at a time leaves", "[runtime][heap]") {
  char const* const asked = std::getenv("NNTILE_RING_TASKS");
  std::uint64_t const tasks = (asked != nullptr ? std::strtoull(asked, nullptr, 10)
                               : sanitized      ? 24'000
                                                : 60'000) /
                              12;
  Totals totals;
  for (int const workers : {1, 2})
    for (std::uint32_t const window : {2u, 4u, 8u, 16u, 32u, 64u})
      walk(window, tasks, workers, totals);
  CHECK(totals.waits > 0);  // otherwise the heaps were too large
  if (asked != nullptr)
    std::printf("%" PRIu64 " tasks, %" PRIu64 " waits for memory, checksum %016" PRIx64 "\n",
                totals.tasks, totals.waits, totals.sum);
}
