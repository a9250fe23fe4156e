// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Rings in which a task has ended later for who asks than for a task that waits for it.

#include <cstdint>

#include "nntile/runtime/ring/machine.hh"
#include "tests/runtime/model/policy.hh"

namespace nntile::test::model {

/// The slot of a pending task ends behind its body, which may have ended the task.
struct SlotEndsLast : Policy<2> {};
/// A task has ended when its slot can be taken back, though its list is closed before.
struct ListClosesFirst : Policy<2> {};

}  // namespace nntile::test::model

namespace nntile::detail::ring {

template <>
template <class Sink>
void Machine<test::model::SlotEndsLast>::run_pending(std::uint32_t self,
                                                     Domain<test::model::SlotEndsLast>& place,
                                                     Hot& slot, Sink& successors) {
  void const* const work = place.window.own_cold(slot.id).work;
  auto& pending = *static_cast<Pending<test::model::SlotEndsLast>*>(const_cast<void*>(work));
  if (pending.flight != nullptr)
    launch(self, *pending.flight);
  else if (pending.start != nullptr)
    pending.start(*this, self, pending);
  else if (run_with_token(self, pending))
    end_pending(pending, self);
  place.host->window.complete(slot, successors);
}

template <> inline bool Window<test::model::ListClosesFirst>::ended(std::uint64_t sequence) const {
  std::uint64_t const ticket = find(sequence);
  return ticket == nothing || finished(ticket);
}

}  // namespace nntile::detail::ring
