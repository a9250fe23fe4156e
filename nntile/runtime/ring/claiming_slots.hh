#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Slots of tasks that accumulate, as claims see them.

#include <cstdint>
#include <span>

#include "nntile/runtime/ring/domain.hh"
#include "nntile/runtime/ring/payload.hh"
#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/support/claims.hh"

namespace nntile::detail::ring {

/// Slots in the root's window, whose tasks alone wait for any, as claims see them. The links of a
/// slot's own edges are free by then.
template <class Policy> struct ClaimingSlots {
  using Hot = HotSlot<Policy>;

  Domain<Policy>& domain;
  Payload& unpacked;
  static constexpr support::ClaimWaiter first_name = 2;

  Hot& slot(support::ClaimWaiter task) const {
    return domain.window.at(static_cast<std::uint32_t>(task - first_name));
  }
  support::ClaimWaiter name(Hot const& slot) const {
    return domain.window.slot_of(slot.id) + first_name;
  }
  std::span<Use<support::Buffer*> const> uses(support::ClaimWaiter task) const {
    return uses(slot(task));
  }
  std::span<Use<support::Buffer*> const> uses(Hot& slot) const {
    ColdSlot const& cold = domain.window.own_cold(slot.id);
    if (slot.runs_as == SlotKind::task) return unpacked.body(slot, cold).uses;
    return static_cast<Pending<Policy> const*>(cold.work)->body.uses;
  }
  support::ClaimWaiter next(support::ClaimWaiter task) const { return slot(task).next[0]; }
  void set_next(support::ClaimWaiter task, support::ClaimWaiter next) const {
    slot(task).next[0] = static_cast<std::uint32_t>(next);
  }
  std::uint32_t from(support::ClaimWaiter task) const { return slot(task).next[1]; }
  void set_from(support::ClaimWaiter task, std::uint32_t index) const {
    slot(task).next[1] = index;
  }
};

}  // namespace nntile::detail::ring
