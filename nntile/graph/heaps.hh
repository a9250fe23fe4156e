#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Capacities of a ring's heaps from a plan: its tiles in heaps by lifetime instead of an arena.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/compile.hh"
#include "nntile/runtime/ring/capacities.hh"

namespace nntile {

/// Lifetimes of a plan's tiles, and heaps in which they have room, where each tile is allocated
/// before the first task that uses it and retired behind the last, in the plan's order.
struct HeapPlan {
  RingCapacities capacities;
  std::vector<Lifetime> lifetimes;  // by buffer; persistent for one that is not the arena's

  Index bytes() const {
    return static_cast<Index>(capacities.step.bytes + capacities.scope.bytes +
                              capacities.scratch.bytes);
  }
};

namespace detail {

/// Cuts the lengths of live ranges into three lifetimes, so that their heaps are smallest together.
class HeapPass {
 public:
  explicit HeapPass(PlanData const& plan) : plan_(plan), ranges_(passes::live_ranges(plan)) {
    std::vector<bool> alive(ranges_.size());
    for (std::uint32_t t = 0; t < plan.tasks.size(); ++t)
      for (bool const begins : {true, false})
        for (Use<BufferId> const& use : plan.uses_of(plan.tasks[t])) {
          auto const [first, last] = ranges_[use.handle];
          if ((begins ? first : last) != t || alive[use.handle] == begins || !in_arena(use.handle))
            continue;
          alive[use.handle] = begins;
          events_.push_back({use.handle, begins});
        }
    set_limits();
  }

  HeapPlan run(OnFull on_full) const {
    std::size_t const count = limits_.size();
    std::vector<Heap> heaps(count * count);  // of the lengths in [limits_[i], limits_[j])
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i + 1; j < count; ++j)
        heaps[i * count + j] = heap(limits_[i], limits_[j]);
    std::size_t scope = 0, step = 0;  // begin of these lifetimes
    Index best = -1;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i; j < count; ++j) {
        Index const sum =
            heaps[i].bytes + heaps[i * count + j].bytes + heaps[j * count + count - 1].bytes;
        if (best < 0 || sum < best) best = sum, scope = i, step = j;
      }
    HeapPlan result;
    result.lifetimes.assign(ranges_.size(), Lifetime::persistent);
    for (Event const& event : events_) {
      std::uint32_t const length = length_of(event.buffer);
      result.lifetimes[event.buffer] = length < limits_[scope]  ? Lifetime::scratch
                                       : length < limits_[step] ? Lifetime::scope
                                                                : Lifetime::step;
    }
    result.capacities.records = 1;
    auto const fill = [&](HeapCapacity& capacity, Heap const& heap) {
      if (heap.bytes == 0) return;
      capacity = {static_cast<std::size_t>(heap.bytes), on_full};
      result.capacities.records = std::max(result.capacities.records, heap.records);
    };
    fill(result.capacities.scratch, heaps[scope]);
    fill(result.capacities.scope, heaps[scope * count + step]);
    fill(result.capacities.step, heaps[step * count + count - 1]);
    return result;
  }

 private:
  /// Of a live range: its begin, or its end.
  struct Event {
    std::uint32_t buffer;
    bool begins;
  };
  struct Heap {
    Index bytes = 0;
    std::uint32_t records = 0;
  };

  bool in_arena(std::uint32_t buffer) const {
    PlannedBuffer const& planned = plan_.buffers[buffer];
    if (plan_.tensors[planned.tensor].storage != Storage::arena) return false;
    if (planned.location == Location{}) return true;
    throw PlanError(concat("heaps of plan '", plan_.name, "': tensor '",
                           plan_.tensors[planned.tensor].name, "' is at ",
                           to_string(planned.location), ", and a ring's heaps are on the host"));
  }
  std::uint32_t length_of(std::uint32_t buffer) const {
    return ranges_[buffer].last - ranges_[buffer].first;
  }
  /// Candidates: lengths that grow by half, from 0 to one more than the greatest.
  void set_limits() {
    std::uint32_t greatest = 0;
    for (Event const& event : events_) greatest = std::max(greatest, length_of(event.buffer));
    limits_.push_back(0);
    for (std::uint32_t limit = 1; limit <= greatest; limit += limit / 2 + 1)
      limits_.push_back(limit);
    limits_.push_back(greatest + 1);
  }

  /// The heap of the buffers with lengths in [low, high).
  ///
  /// Let d be the bytes from the oldest live buffer to the newest, which is about to be allocated,
  /// and c the bytes of the largest of them. Where d + c - 64 bytes do, offsets may be any, and so
  /// do not depend on when tasks end: if the older ones lie in one piece, the larger of the two
  /// pieces that are free has room; if the end was skipped, that took less than c. The only live
  /// one begins at offset 0.
  Heap heap(std::uint32_t low, std::uint32_t high) const {
    struct Given {
      std::uint32_t buffer;
      Index start;
    };
    std::vector<Given> given;
    std::vector<bool> ended(ranges_.size());
    std::deque<Index> largest;  // sizes of live ones that no later one exceeds, from the oldest on
    std::size_t oldest = 0;
    Index head = 0;
    Heap heap;
    for (Event const& event : events_) {
      if (length_of(event.buffer) < low || length_of(event.buffer) >= high) continue;
      Index const bytes = plan_.buffers[event.buffer].bytes;
      if (event.begins) {
        given.push_back({event.buffer, head});
        head += bytes;
        while (!largest.empty() && largest.back() < bytes) largest.pop_back();
        largest.push_back(bytes);
        std::size_t const live = given.size() - oldest;
        Index const slack = live == 1 ? 0 : largest.front() - 64;
        heap.bytes = std::max(heap.bytes, head - given[oldest].start + slack);
        heap.records = std::max(heap.records, static_cast<std::uint32_t>(live));
      } else {
        ended[event.buffer] = true;
        for (; oldest < given.size() && ended[given[oldest].buffer]; ++oldest)
          if (largest.front() == plan_.buffers[given[oldest].buffer].bytes) largest.pop_front();
      }
    }
    return heap;
  }

  PlanData const& plan_;
  DynamicArray<passes::LiveRange> ranges_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> limits_;
};

}  // namespace detail

/// Heaps in which the tiles of a plan have room, by three lifetimes: those of the longest live
/// ranges are `step`. Heaps need not grow, whichever thread runs which task when: memory of tasks
/// that are behind is waited for. Cost: linear in the tiles, times a few hundred. Throws PlanError
/// for a plan of several locations.
inline HeapPlan plan_heaps(Plan const& plan, OnFull on_full = OnFull::wait) {
  return detail::HeapPass(plan.data()).run(on_full);
}

/// The plan of the same tasks as a program would submit them that calls op after op: in the graph's
/// order, and no result takes an operand's memory over.
inline Plan in_program_order(Plan const& plan) {
  PlanData data = plan.data();
  std::stable_sort(data.tasks.begin(), data.tasks.end(),
                   [](PlannedTask const& a, PlannedTask const& b) { return a.node < b.node; });
  std::sort(data.nodes.begin(), data.nodes.end());
  for (PlannedTask& task : data.tasks) task.replaces = 0;
  for (PlannedBuffer& buffer : data.buffers) buffer.slot = no_id;
  data.slots.clear();
  data.memory.clear();
  data.phases.clear();
  return Plan(passes::lifetime(std::move(data)));
}

}  // namespace nntile
