#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that lays out memory: tiles of the arena take slots in turn.

#include <algorithm>
#include <map>
#include <vector>

#include "nntile/core/later.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// First and last task that uses a buffer; `first` is `never` where nothing does.
struct Life {
  static constexpr std::uint32_t never = ~0u;
  std::uint32_t first = never;
  std::uint32_t last = 0;
};

/// A task that may write buffer `to` over `from`: element by element, each read first.
struct Replacement {
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t task;
};

struct SlotLayout {
  std::vector<std::uint32_t> slot;  // of a buffer; no_id where it has none
  std::vector<Index> bytes;         // of a slot
  Index lower_bound = 0;
};

/// Gives each buffer that lives in the arena a slot. A slot is one handle: it serves one tile at a
/// time, and as many bytes as the largest of them. Whoever takes a slot waits for the task that
/// freed it, so one that was freed less than `rest` tasks ago is left alone as long as the arena
/// stays within `slack` of its lower bound, or within a few tiles, which is more in small graphs.
/// Of the rested ones the smallest that fits is taken; where none fits, the largest free one grows.
/// A buffer that ends where one begins that may replace it hands its slot on. Cost: n log n in the
/// number of buffers.
template <std::same_as<Index> Bytes> class SlotPass {
 public:
  static constexpr std::size_t rest = 16;  // tasks; a few for each worker of a node
  static constexpr Index slack = 20;       // 1/20 more than the lower bound for that
  static constexpr Index tiles = 8;        // or as many of mean size: some in each worker's hands

  SlotPass(std::vector<later_t<Life, Bytes>> const& lives, std::vector<Bytes> const& bytes,
           std::vector<bool> const& in_arena, std::size_t task_count)
      : bytes_(bytes),
        begin_(task_count),
        end_(task_count),
        replaced_(lives.size(), no_id),
        hands_on_(lives.size()) {
    for (std::uint32_t b = 0; b < lives.size(); ++b) {
      if (!in_arena[b] || lives[b].first == Life::never) continue;
      begin_[lives[b].first].push_back(b);
      end_[lives[b].last].push_back(b);
    }
  }

  SlotLayout run(std::vector<later_t<Life, Bytes>> const& lives, std::vector<bool> const& in_arena,
                 std::vector<later_t<Replacement, Bytes>> const& replacements) {
    layout_.slot.assign(lives.size(), no_id);
    for (auto const& [from, to, task] : replacements) {
      bool const both = in_arena[from] && in_arena[to] && bytes_[from] == bytes_[to];
      if (!both || lives[from].last != task || lives[to].first != task) continue;
      if (replaced_[to] != no_id || hands_on_[from]) continue;
      replaced_[to] = from;
      hands_on_[from] = true;
    }
    layout_.lower_bound = most_live();
    Index const budget =
        layout_.lower_bound + std::max(layout_.lower_bound / slack, tiles * mean_bytes());
    for (std::size_t t = 0; t < begin_.size(); ++t) {
      for (std::uint32_t const b : begin_[t])
        layout_.slot[b] =
            replaced_[b] != no_id ? layout_.slot[replaced_[b]] : take(bytes_[b], t, budget);
      for (std::uint32_t const b : end_[t])
        if (!hands_on_[b]) free_.emplace(layout_.bytes[layout_.slot[b]], Free{layout_.slot[b], t});
    }
    return std::move(layout_);
  }

 private:
  struct Free {
    std::uint32_t slot;
    std::size_t since;
  };
  static constexpr int looks = 16;  // at free slots, before the first of them is taken

  Index most_live() const {
    Index live = 0, most = 0;
    for (std::size_t t = 0; t < begin_.size(); ++t) {
      for (std::uint32_t const b : begin_[t]) live += replaced_[b] == no_id ? bytes_[b] : 0;
      most = std::max(most, live);
      for (std::uint32_t const b : end_[t]) live -= hands_on_[b] ? 0 : bytes_[b];
    }
    return most;
  }

  Index mean_bytes() const {
    Index sum = 0, count = 0;
    for (auto const& group : begin_)
      for (std::uint32_t const b : group) {
        sum += bytes_[b];
        ++count;
      }
    return count == 0 ? 0 : sum / count;
  }

  std::uint32_t take(Index bytes, std::size_t now, Index budget) {
    auto const fitting = free_.lower_bound(bytes);
    auto at = fitting;
    for (int look = 0; at != free_.end() && look < looks; ++at, ++look)
      if (at->second.since + rest <= now) return use(at, bytes);
    if (free_.empty() || total_ + bytes <= budget) {
      total_ += bytes;
      layout_.bytes.push_back(bytes);
      return static_cast<std::uint32_t>(layout_.bytes.size() - 1);
    }
    return use(fitting != free_.end() ? fitting : std::prev(fitting), bytes);
  }

  std::uint32_t use(typename std::multimap<Index, Free>::iterator at, Index bytes) {
    std::uint32_t const slot = at->second.slot;
    Index& size = layout_.bytes[slot];
    total_ += std::max<Index>(0, bytes - size);
    size = std::max(size, bytes);
    free_.erase(at);
    return slot;
  }

  std::vector<Bytes> const& bytes_;
  std::vector<std::vector<std::uint32_t>> begin_;  // buffers whose life begins at a task
  std::vector<std::vector<std::uint32_t>> end_;
  std::vector<std::uint32_t> replaced_;  // whose slot a buffer takes over
  std::vector<bool> hands_on_;
  std::multimap<Index, Free> free_;
  Index total_ = 0;
  SlotLayout layout_;
};

}  // namespace nntile::passes
