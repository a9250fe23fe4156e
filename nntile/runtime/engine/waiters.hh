#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Claims on buffers by the engine's tasks.

#include <cstdint>
#include <span>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/engine/task_node.hh"
#include "nntile/runtime/support/claims.hh"

namespace nntile::detail::engine {

using Claims = support::Claims<support::StandardAtomics>;

/// Nodes as claims see them.
struct Waiters {
  static support::TaskNode& node(support::ClaimWaiter task) noexcept {
    return *reinterpret_cast<support::TaskNode*>(task);
  }
  static support::ClaimWaiter name(support::TaskNode& node) noexcept {
    return reinterpret_cast<support::ClaimWaiter>(&node);
  }
  std::span<Use<support::Buffer*> const> uses(support::ClaimWaiter task) const noexcept {
    return node(task).uses;
  }
  support::ClaimWaiter next(support::ClaimWaiter task) const noexcept {
    return reinterpret_cast<support::ClaimWaiter>(node(task).next_free);
  }
  void set_next(support::ClaimWaiter task, support::ClaimWaiter next) const noexcept {
    node(task).next_free = reinterpret_cast<support::TaskNode*>(next);
  }
  std::uint32_t from(support::ClaimWaiter task) const noexcept { return node(task).claim_from; }
  void set_from(support::ClaimWaiter task, std::uint32_t index) const noexcept {
    node(task).claim_from = index;
  }
};

}  // namespace nntile::detail::engine
