// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Claims alone: threads that each run a task which accumulates into two buffers.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "nntile/runtime/support/claims.hh"
#include "tests/runtime/model/items.hh"

namespace nntile::test::model {

/// Tasks of up to two cells, by number; names start at 2.
struct Claimants {
  using Uses = std::vector<Use<support::Buffer*>>;
  std::vector<Uses> const& of;
  std::deque<Plain<std::uint32_t>>& nexts;
  std::deque<Plain<std::uint32_t>>& froms;

  static std::size_t at(support::ClaimWaiter task) {
    Exploration::current->check(task - 2 < 3, "a waiter is no task");
    return task - 2;
  }
  Uses const& uses(support::ClaimWaiter task) const { return of[at(task)]; }
  support::ClaimWaiter next(support::ClaimWaiter task) const { return nexts[at(task)]; }
  void set_next(support::ClaimWaiter task, support::ClaimWaiter next) const {
    nexts[at(task)] = static_cast<std::uint32_t>(next);
  }
  std::uint32_t from(support::ClaimWaiter task) const { return froms[at(task)]; }
  void set_from(support::ClaimWaiter task, std::uint32_t index) const { froms[at(task)] = index; }
};

/// Three tasks at one time, of two buffers that two of them name in opposite orders. All are to
/// end, and none meets another of its buffers. `mirrored`: a mistake, the second task takes its
/// claims in the opposite order.
template <bool mirrored = false> void claim_two() {
  using Claims = support::Claims<Policy<2>>;
  support::Buffer buffers[4];
  for (std::uint32_t i = 0; i < 4; ++i) buffers[i].index = i;
  auto const added = Access::accumulate;
  Claims claims;
  std::array<Use<support::Buffer*>, 2> const both{{{&buffers[0], added}, {&buffers[1], added}}};
  claims.prepare(both);
  buffers[2].claim = buffers[1].claim, buffers[3].claim = buffers[0].claim;
  std::uint32_t const first = mirrored ? 2 : 1, second = mirrored ? 3 : 0;
  std::vector<Claimants::Uses> const uses{{{&buffers[0], added}, {&buffers[1], added}},
                                          {{&buffers[first], added}, {&buffers[second], added}},
                                          {{&buffers[1], added}}};
  std::deque<Plain<std::uint32_t>> nexts(3), froms(3);
  std::deque<Plain<int>> cells(2);
  Claimants const claimants{uses, nexts, froms};
  Items items(3);
  auto const run = [&](support::ClaimWaiter started) {
    std::vector<support::ClaimWaiter> ready;
    if (Claims::take(claimants, started)) ready.push_back(started);
    while (!ready.empty()) {
      support::ClaimWaiter const task = ready.back();
      ready.pop_back();
      for (Use<support::Buffer*> const& use : claimants.uses(task)) {
        auto& cell = cells[use.handle->claim == buffers[0].claim ? 0 : 1];
        cell = cell + 1;
      }
      items.take(items.make(task - 2));
      Claims::release(claimants, claimants.uses(task),
                      [&](support::ClaimWaiter next) { ready.push_back(next); });
    }
  };
  together([&] { run(2); }, [&] { run(3); }, [&] { run(4); });
  items.check_all();
  Exploration::current->check(cells[0] == 2 && cells[1] == 3, "a task's sum is lost");
}

}  // namespace nntile::test::model
