#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that lays out memory: tiles of the arena take slots in turn.

#include <algorithm>
#include <map>
#include <vector>

#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// First and last task that uses a buffer; `first` is `never` where nothing does.
struct Life {
  static constexpr std::uint32_t never = ~0u;
  std::uint32_t first = never;
  std::uint32_t last = 0;
};

struct SlotLayout {
  std::vector<std::uint32_t> slot;  // of a buffer; no_id where it has none
  std::vector<Index> bytes;         // of a slot
  Index lower_bound = 0;
};

/// Gives each buffer that lives in the arena a slot. A slot is one handle: it serves one tile at a
/// time, and as many bytes as the largest of them. A free slot that fits best is taken, among
/// equals the one that has been free longest, since its next user waits least; where none fits, the
/// largest free one grows. Cost: n log n in the number of buffers.
template <std::same_as<Index> Bytes>
SlotLayout assign_slots(std::vector<Life> const& lives, std::vector<Bytes> const& bytes,
                        std::vector<bool> const& in_arena, std::size_t task_count) {
  SlotLayout layout;
  layout.slot.assign(lives.size(), no_id);
  std::vector<std::vector<std::uint32_t>> begin(task_count), end(task_count);
  for (std::uint32_t b = 0; b < lives.size(); ++b) {
    if (!in_arena[b] || lives[b].first == Life::never) continue;
    begin[lives[b].first].push_back(b);
    end[lives[b].last].push_back(b);
  }
  std::multimap<Index, std::uint32_t> free;
  Index live = 0;
  for (std::size_t t = 0; t < task_count; ++t) {
    for (std::uint32_t const b : begin[t]) {
      live += bytes[b];
      auto at = free.lower_bound(bytes[b]);
      if (at == free.end() && !free.empty()) --at;
      if (at == free.end()) {
        layout.slot[b] = static_cast<std::uint32_t>(layout.bytes.size());
        layout.bytes.push_back(bytes[b]);
        continue;
      }
      layout.slot[b] = at->second;
      Index& size = layout.bytes[at->second];
      size = std::max(size, bytes[b]);
      free.erase(at);
    }
    layout.lower_bound = std::max(layout.lower_bound, live);
    for (std::uint32_t const b : end[t]) {
      live -= bytes[b];
      free.emplace(layout.bytes[layout.slot[b]], layout.slot[b]);
    }
  }
  return layout;
}

}  // namespace nntile::passes
