#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that lays out memory: live ranges of tiles, and slots that tiles use in turn.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// First and last task that uses a buffer; `first` is `never` where none does.
struct LiveRange {
  static constexpr std::uint32_t never = ~0u;
  std::uint32_t first = never;
  std::uint32_t last = 0;
};

/// The live ranges of all buffers.
inline DynamicArray<LiveRange> live_ranges(PlanData const& plan) {
  DynamicArray<LiveRange> ranges(plan.buffers.size());
  for (std::uint32_t t = 0; t < plan.tasks.size(); ++t)
    for (Use<BufferId> const& use : plan.uses_of(plan.tasks[t])) {
      LiveRange& range = ranges[use.handle];
      if (range.first == LiveRange::never) range.first = t;
      range.last = t;
    }
  return ranges;
}

/// The slots that hold no tile, by size, and those of one size by the time since when. Sizes are
/// few, slots many: a list of slots for each size. Cost: the number of sizes; std::multimap would
/// be as dear to compile as a pass.
class FreeSlots {
 public:
  /// One of them: its size's place, and its number; no_id for none.
  struct Place {
    std::size_t size;
    std::uint32_t slot;
  };

  bool empty() const { return sizes_.empty(); }
  std::size_t since(Place at) const { return links_[at.slot].since; }

  /// The first slot of at least `bytes`.
  Place lower_bound(Index bytes) const { return first(position(bytes)); }
  Place next(Place at) const {
    std::uint32_t const next = links_[at.slot].next;
    return next != no_id ? Place{at.size, next} : first(at.size + 1);
  }
  /// Of the largest the latest. There is one.
  Place last() const { return {sizes_.size() - 1, sizes_.back().last}; }

  void add(std::uint32_t slot, Index bytes, std::size_t now) {
    std::size_t const at = position(bytes);
    if (at == sizes_.size() || sizes_[at].bytes != bytes)
      sizes_.insert(sizes_.begin() + static_cast<std::ptrdiff_t>(at), Size{bytes, no_id, no_id});
    Size& size = sizes_[at];
    if (slot >= links_.size()) links_.resize(slot + 1);
    links_[slot] = {now, size.last, no_id};
    (size.last == no_id ? size.first : links_[size.last].next) = slot;
    size.last = slot;
  }
  void take(Place at) {
    Size& size = sizes_[at.size];
    Links const links = links_[at.slot];
    (links.previous == no_id ? size.first : links_[links.previous].next) = links.next;
    (links.next == no_id ? size.last : links_[links.next].previous) = links.previous;
    if (size.first == no_id) sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(at.size));
  }

 private:
  struct Size {
    Index bytes;
    std::uint32_t first, last;
  };
  struct Links {
    std::size_t since;
    std::uint32_t previous, next;
  };

  /// The first size that is at least `bytes`.
  std::size_t position(Index bytes) const {
    std::size_t begin = 0, end = sizes_.size();
    while (begin < end) {
      std::size_t const middle = begin + (end - begin) / 2;
      if (sizes_[middle].bytes < bytes)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
  Place first(std::size_t size) const {
    return {size, size < sizes_.size() ? sizes_[size].first : no_id};
  }

  DynamicArray<Size> sizes_;   // ascending, none empty
  DynamicArray<Links> links_;  // by slot
};

/// Gives each buffer that lives in the arena of one location a slot. A slot is one handle: it
/// serves one tile at a time, and as many bytes as the largest of them. A tile that takes a slot
/// waits for the task that freed it, so one that was freed less than `reuse_distance` tasks ago is
/// left alone as long as the arena stays within `slack` of its lower bound, or within a few tiles,
/// which is more in small graphs, and within `room`. Of the rested ones the smallest that fits is
/// taken; where none fits, the largest free one grows. A buffer whose live range ends where that of
/// one begins which may replace it passes its slot on. Cost: n log n in the number of buffers.
class SlotPass {
 public:
  static constexpr std::size_t reuse_distance = 16;  // tasks; a few for each worker of a node
  static constexpr Index slack = 20;                 // 1/20 more than the lower bound for that
  static constexpr Index slack_tiles = 8;  // or as many tiles of mean size: some for each worker

  SlotPass(PlanData& plan, Location const& location, Index room = INT64_MAX)
      : plan_(plan),
        location_(location),
        room_(room),
        begin_(plan.tasks.size()),
        end_(plan.tasks.size()),
        replaced_(plan.buffers.size(), no_id),
        passes_on_(plan.buffers.size()) {
    DynamicArray<LiveRange> const ranges = live_ranges(plan);
    for (std::uint32_t b = 0; b < ranges.size(); ++b) {
      if (!in_arena(b) || ranges[b].first == LiveRange::never) continue;
      begin_[ranges[b].first].push_back(b);
      end_[ranges[b].last].push_back(b);
    }
    for (std::uint32_t t = 0; t < plan.tasks.size(); ++t) find_replacement(t, ranges);
  }

  /// Sets the slots of the plan's buffers and returns the largest number of live bytes. Throws
  /// PlanError where 63 bits do not hold the bytes of the slots.
  Index run() {
    Index const bound = most_live();
    Index const tiles = slack_tiles * std::min(mean_bytes(), INT64_MAX / slack_tiles);
    Index const budget = std::min(room_, saturated_sum(bound, std::max(bound / slack, tiles)));
    for (std::size_t t = 0; t < begin_.size(); ++t) {
      for (std::uint32_t const b : begin_[t])
        plan_.buffers[b].slot = replaced_[b] != no_id ? plan_.buffers[replaced_[b]].slot
                                                      : take(plan_.buffers[b].bytes, t, budget);
      for (std::uint32_t const b : end_[t])
        if (!passes_on_[b])
          free_.add(plan_.buffers[b].slot, plan_.slots[plan_.buffers[b].slot].bytes, t);
    }
    return bound;
  }

 private:
  static constexpr int max_probes = 16;  // of free slots, before the first of them is taken

  bool in_arena(std::uint32_t buffer) const {
    return plan_.buffers[buffer].location == location_ && plan_.in_arena(buffer);
  }

  void add(Index& sum, Index bytes) const {
    if (__builtin_add_overflow(sum, bytes, &sum)) detail::fail_bytes("plan", plan_.name, location_);
  }

  /// The operand, if any, whose slot the last result of a task takes over.
  void find_replacement(std::uint32_t t, DynamicArray<LiveRange> const& ranges) {
    PlannedTask const& task = plan_.tasks[t];
    if (task.replaces == 0) return;
    auto const uses = plan_.uses_of(task);
    std::uint32_t const to = uses.back().handle;
    if (!in_arena(to) || ranges[to].first != t) return;
    for (std::size_t u = 0; u < uses.size() && replaced_[to] == no_id; ++u) {
      std::uint32_t const from = uses[u].handle;
      if ((task.replaces >> u & 1u) == 0 || !in_arena(from) || ranges[from].last != t) continue;
      replaced_[to] = from;
      passes_on_[from] = true;
    }
  }

  Index most_live() const {
    Index live = 0, most = 0;
    for (std::size_t t = 0; t < begin_.size(); ++t) {
      for (std::uint32_t const b : begin_[t])
        if (replaced_[b] == no_id) add(live, plan_.buffers[b].bytes);
      most = std::max(most, live);
      for (std::uint32_t const b : end_[t]) live -= passes_on_[b] ? 0 : plan_.buffers[b].bytes;
    }
    return most;
  }

  Index mean_bytes() const {
    Index sum = 0, count = 0;
    for (auto const& group : begin_)
      for (std::uint32_t const b : group) {
        add_saturated(sum, plan_.buffers[b].bytes);
        ++count;
      }
    return count == 0 ? 0 : sum / count;
  }

  std::uint32_t take(Index bytes, std::size_t now, Index budget) {
    FreeSlots::Place const fitting = free_.lower_bound(bytes);
    FreeSlots::Place at = fitting;
    for (int probe = 0; at.slot != no_id && probe < max_probes; at = free_.next(at), ++probe)
      if (free_.since(at) + reuse_distance <= now) return use(at, bytes);
    if (free_.empty() || bytes <= budget - total_) {
      add(total_, bytes);
      plan_.slots.push_back({bytes, location_});
      return static_cast<std::uint32_t>(plan_.slots.size() - 1);
    }
    return use(fitting.slot != no_id ? fitting : free_.last(), bytes);
  }

  std::uint32_t use(FreeSlots::Place at, Index bytes) {
    Index& size = plan_.slots[at.slot].bytes;
    add(total_, std::max<Index>(0, bytes - size));
    size = std::max(size, bytes);
    free_.take(at);
    return at.slot;
  }

  PlanData& plan_;
  Location location_;
  Index room_;
  DynamicArray<DynamicArray<std::uint32_t>> begin_;  // buffers whose live range begins at a task
  DynamicArray<DynamicArray<std::uint32_t>> end_;
  DynamicArray<std::uint32_t> replaced_;  // the buffer before it in its slot
  DynamicArray<bool> passes_on_;
  FreeSlots free_;
  Index total_ = 0;
};

/// Fills in slots, and the report of memory of each location of the plan's rank; slots waste
/// nothing where a place of `capacity` would be too small for it. Throws PlanError where 63 bits do
/// not hold a location's bytes.
inline PlanData lifetime(PlanData plan, std::vector<PlaceCapacity> const& capacity = {}) {
  for (PlannedBuffer const& buffer : plan.buffers) {
    if (buffer.location.rank != plan.rank) continue;
    MemoryReport* at = nullptr;
    for (MemoryReport& report : plan.memory)
      if (report.location == buffer.location) at = &report;
    if (at == nullptr) at = &plan.memory.emplace_back(MemoryReport{.location = buffer.location});
    at->add(plan.tensors[buffer.tensor], buffer);
  }
  for (MemoryReport& report : plan.memory) {
    std::size_t const before = plan.slots.size();
    Index room = INT64_MAX;
    for (PlaceCapacity const& given : capacity)
      if (given.place == report.location.place) room = given.bytes - report.stored;
    report.arena_lower_bound = SlotPass(plan, report.location, room).run();
    for (std::size_t s = before; s < plan.slots.size(); ++s) report.arena += plan.slots[s].bytes;
    if (report.arena > INT64_MAX - report.stored)
      detail::fail_bytes("plan", plan.name, report.location);
  }
  return plan;
}

}  // namespace nntile::passes
