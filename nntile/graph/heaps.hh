#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Capacities of a ring's heaps from a plan: its tiles in heaps by lifetime instead of an arena.

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
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

/// Chooses a heap for each buffer, so that the three are smallest together.
class HeapPass {
 public:
  explicit HeapPass(PlanData const& plan) : plan_(plan), ranges_(passes::live_ranges(plan)) {
    check_locations();
    std::vector<bool> alive(ranges_.size());
    for (std::uint32_t t = 0; t < plan.tasks.size(); ++t)
      for (bool const begins : {true, false})
        for (Use<BufferId> const& use : plan.uses_of(plan.tasks[t])) {
          auto const [first, last] = ranges_[use.handle];
          if ((begins ? first : last) != t || alive[use.handle] == begins ||
              !plan.in_arena(use.handle))
            continue;
          alive[use.handle] = begins;
          events_.push_back({use.handle, begins});
        }
    set_limits();
    set_groups();
  }

  HeapPlan run(OnFull on_full) const {
    Choice const cut = cut_lengths(), placed = place_groups();
    Choice const& best = placed.bytes() < cut.bytes() ? placed : cut;
    HeapPlan result;
    result.lifetimes.assign(ranges_.size(), Lifetime::persistent);
    for (Event const& event : events_)
      result.lifetimes[event.buffer] = lifetimes[best.heap_of[group_of_[event.buffer]]];
    result.capacities.records = 1;
    HeapCapacity* const capacities[] = {&result.capacities.scratch, &result.capacities.scope,
                                        &result.capacities.step};
    for (std::size_t i = 0; i < heap_count; ++i) {
      if (best.heaps[i].bytes == 0) continue;
      *capacities[i] = {static_cast<std::size_t>(best.heaps[i].bytes), on_full};
      result.capacities.records = std::max(result.capacities.records, best.heaps[i].records);
    }
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
  static constexpr std::size_t heap_count = 3;
  static constexpr Lifetime lifetimes[heap_count] = {Lifetime::scratch, Lifetime::scope,
                                                     Lifetime::step};
  /// Buffers that live about as long and take about as much: they share a heap.
  struct Group {
    unsigned size = 0;       // bits of its bytes
    std::size_t length = 0;  // index of the greatest limit that its length reaches
    auto operator<=>(Group const&) const = default;
  };
  struct Choice {
    std::vector<std::uint8_t> heap_of;  // by group; heap_count: none yet
    Heap heaps[heap_count];
    Index bytes() const { return heaps[0].bytes + heaps[1].bytes + heaps[2].bytes; }
  };

  void check_locations() const {
    for (PlannedBuffer const& buffer : plan_.buffers)
      if (buffer.location != Location{plan_.rank, host})
        throw PlanError(concat("heaps of plan '", plan_.name, "': tensor '",
                               plan_.tensors[buffer.tensor].name, "' is at ",
                               to_string(buffer.location),
                               ", and a ring's heaps are on the host of its rank"));
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

  /// Groups, the largest buffers first, and of these the longest lives.
  void set_groups() {
    auto const group_of = [&](std::uint32_t buffer) {
      auto const after = std::upper_bound(limits_.begin(), limits_.end(), length_of(buffer));
      auto const bytes = static_cast<std::uint64_t>(plan_.buffers[buffer].bytes);
      return Group{static_cast<unsigned>(std::bit_width(bytes)),
                   static_cast<std::size_t>(after - limits_.begin()) - 1};
    };
    for (Event const& event : events_)
      if (event.begins) groups_.push_back(group_of(event.buffer));
    std::sort(groups_.begin(), groups_.end(), std::greater<>());
    groups_.erase(std::unique(groups_.begin(), groups_.end()), groups_.end());
    group_of_.resize(ranges_.size());
    for (Event const& event : events_)
      group_of_[event.buffer] =
          static_cast<std::uint32_t>(std::lower_bound(groups_.begin(), groups_.end(),
                                                      group_of(event.buffer), std::greater<>()) -
                                     groups_.begin());
  }

  /// The best of those where a heap has all buffers whose lengths are between two limits.
  Choice cut_lengths() const {
    std::size_t const count = limits_.size();
    std::vector<Heap> heaps(count * count);  // of the lengths in [limits_[i], limits_[j])
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i + 1; j < count; ++j)
        heaps[i * count + j] = heap([&](std::uint32_t group) {
          return groups_[group].length >= i && groups_[group].length < j;
        });
    Choice best;
    std::size_t scope = 0, step = 0;  // begin of these lifetimes
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i; j < count; ++j) {
        Choice const choice{{}, {heaps[i], heaps[i * count + j], heaps[j * count + count - 1]}};
        if ((i != 0 || j != 0) && choice.bytes() >= best.bytes()) continue;
        best = choice, scope = i, step = j;
      }
    for (Group const& group : groups_)
      best.heap_of.push_back(group.length < scope ? 0 : group.length < step ? 1 : 2);
    return best;
  }

  /// Gives each group, the largest buffers first, to the heap that grows least by it; then once
  /// more, beside all others. A large buffer is then the oldest of its heap, or alone there.
  Choice place_groups() const {
    Choice choice;
    choice.heap_of.assign(groups_.size(), heap_count);
    for (int round = 0; round < 2; ++round)
      for (std::size_t group = 0; group < groups_.size(); ++group) place(group, choice);
    return by_length(choice);
  }
  void place(std::size_t group, Choice& choice) const {
    std::uint8_t& of = choice.heap_of[group];
    auto const heap_of = [&](std::size_t i) {
      return heap([&](std::uint32_t other) { return choice.heap_of[other] == i; });
    };
    std::uint8_t const before = std::exchange(of, std::uint8_t{heap_count});
    if (before != heap_count) choice.heaps[before] = heap_of(before);
    std::uint8_t best = heap_count;
    Index least = 0;
    Heap larger;
    for (std::uint8_t i = heap_count; i-- > 0;) {
      of = i;
      Heap const with = heap_of(i);
      Index const growth = with.bytes - choice.heaps[i].bytes;
      if (best == heap_count || growth < least) best = i, least = growth, larger = with;
    }
    of = best;
    choice.heaps[best] = larger;
  }

  /// The same heaps, that of the longest live range last.
  Choice by_length(Choice const& choice) const {
    std::size_t longest[heap_count] = {}, order[heap_count] = {0, 1, 2};
    std::uint8_t place_of[heap_count] = {};
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      std::size_t& most = longest[choice.heap_of[group]];
      most = std::max(most, groups_[group].length + 1);
    }
    std::sort(std::begin(order), std::end(order), [&](std::size_t a, std::size_t b) {
      return longest[a] != longest[b] ? longest[a] < longest[b] : a < b;
    });
    for (std::uint8_t i = 0; i < heap_count; ++i) place_of[order[i]] = i;
    Choice result;
    for (std::uint8_t const heap : choice.heap_of) result.heap_of.push_back(place_of[heap]);
    for (std::size_t i = 0; i < heap_count; ++i) result.heaps[place_of[i]] = choice.heaps[i];
    return result;
  }

  /// The heap of the groups for which holds(group).
  ///
  /// Let d be the bytes from the oldest live buffer to the newest, which is about to be allocated,
  /// and c the bytes of the largest of them but the oldest. Where d + c - 64 bytes do, offsets may
  /// be any, and so do not depend on when tasks end: if the older ones lie in one piece, the larger
  /// of the two pieces that are free has room; if the end was skipped, that took less than c, and
  /// came back with what lies before it if the oldest was put behind. The only live one begins at
  /// offset 0.
  template <class Holds> Heap heap(Holds holds) const {
    struct Given {
      std::uint32_t buffer;
      Index start;
    };
    std::vector<Given> given;
    std::vector<bool> ended(ranges_.size());
    std::deque<std::size_t> largest;  // live ones that no later one exceeds, from the oldest on
    std::size_t oldest = 0;
    Index head = 0;
    Heap heap;
    auto const bytes_of = [&](std::size_t i) { return plan_.buffers[given[i].buffer].bytes; };
    for (Event const& event : events_) {
      if (!holds(group_of_[event.buffer])) continue;
      if (event.begins) {
        Index const bytes = plan_.buffers[event.buffer].bytes;
        while (!largest.empty() && bytes_of(largest.back()) < bytes) largest.pop_back();
        largest.push_back(given.size());
        given.push_back({event.buffer, head});
        head += bytes;
        std::size_t const live = given.size() - oldest;
        std::size_t const behind = largest.front() == oldest ? 1 : 0;
        Index const slack = live == 1 ? 0 : bytes_of(largest[behind]) - 64;
        heap.bytes = std::max(heap.bytes, head - given[oldest].start + slack);
        heap.records = std::max(heap.records, static_cast<std::uint32_t>(live));
      } else {
        ended[event.buffer] = true;
        for (; oldest < given.size() && ended[given[oldest].buffer]; ++oldest)
          if (largest.front() == oldest) largest.pop_front();
      }
    }
    return heap;
  }

  PlanData const& plan_;
  DynamicArray<passes::LiveRange> ranges_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> limits_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> group_of_;  // by buffer
};

}  // namespace detail

/// Heaps in which the tiles of a plan have room, by three lifetimes: those of the longest live
/// ranges are `step`, but where a few are so large that it takes less to keep them from the others
/// of their lifetime. Heaps need not grow, whichever thread runs which task when: memory of tasks
/// that are behind is waited for. Cost: linear in the tiles, times a few hundred. Throws PlanError
/// for a plan of several locations.
inline HeapPlan plan_heaps(Plan const& plan, OnFull on_full = OnFull::wait) {
  return detail::HeapPass(plan.data()).run(on_full);
}

/// The plan of the same tasks as a program would submit them that calls op after op: in the graph's
/// order, and no result takes an operand's memory over. Throws PlanError where a tile has several
/// buffers in turn, as copies between places, and what is sent again, are in the plan's order
/// alone.
inline Plan in_program_order(Plan const& plan) {
  PlanData data = plan.data();
  for (BufferId b = 0; b < data.buffers.size(); ++b)
    if (PlannedBuffer const& of = data.buffers[b]; data.buffer_of(of.tensor, of.tile) != b)
      throw PlanError(concat("in_program_order: plan '", data.name, "': tile ", of.tile, " of '",
                             data.tensors[of.tensor].name, "' has several buffers; plan with all ",
                             "tensors at one place, and a part without keep_received or by_phase"));
  DynamicArray<std::uint32_t> nodes(data.tasks.size());
  std::size_t bound = 0;
  for (std::size_t t = 0; t < nodes.size(); ++t) {
    nodes[t] = data.tasks[t].node;
    bound = std::max<std::size_t>(bound, nodes[t] + 1u);
  }
  passes::reorder(data.tasks, 0, passes::counting_sort(nodes, bound));
  std::sort(data.nodes.begin(), data.nodes.end());
  for (PlannedTask& task : data.tasks) task.replaces = 0;
  for (PlannedBuffer& buffer : data.buffers) buffer.slot = no_id;
  data.slots.clear();
  data.memory.clear();
  data.phases.clear();
  return Plan(passes::lifetime(std::move(data)));
}

}  // namespace nntile
