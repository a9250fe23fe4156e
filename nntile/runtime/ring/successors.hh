#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The tasks that the end of another makes ready.

#include <cstdint>

#include "nntile/runtime/ring/domain.hh"
#include "nntile/runtime/ring/ready_task.hh"

namespace nntile::detail::ring {

/// Takes the tasks that a completion has made ready: keeps one, shares the others.
template <class Policy> struct Successors {
  using Hot = HotSlot<Policy>;
  static constexpr std::uint32_t outside = Machine<Policy>::outside;

  Machine<Policy>& machine;
  std::uint32_t self;
  Hot* kept = nullptr;
  std::uint32_t shared = 0;

  /// The list is walked from the youngest task to the oldest, and of several the oldest of the
  /// highest level is kept; the next older ones are then on top of the deque.
  void ready(Hot& slot) {
    if (self == outside) return share(slot);
    if (slot.worker != -1 && !machine.scheduler.named(self, slot.worker)) return share(slot);
    if (self != machine.submitter)  // its writer has it
      machine.root.window.prefetch_cold(machine.root.window.own_slot_of(slot.id));
    if (kept != nullptr && slot.level < kept->level) return share(slot);
    if (kept != nullptr) share(*kept);
    kept = &slot;
  }
  void ended(Reference task) { machine.parking.completed(machine.root.name_of(task)); }
  void share(Hot& slot) {
    if (slot.worker != -1) [[unlikely]]
      return machine.give_named(machine.root.task(slot), slot.level, slot.worker);
    if (self == outside)
      machine.scheduler.push_shared(machine.root.task(slot), slot.level);
    else
      machine.scheduler.push_local(self, machine.root.task(slot), slot.level);
    ++shared;
  }
  ReadyTask end() {
    if (shared != 0) machine.parking.wake(shared);
    return kept == nullptr ? no_task : machine.root.task(*kept);
  }
};

/// The same in another domain, where none is kept: a body that waits must find it. No other thread
/// is woken for one in the worker's deque: the worker is about to take it, or wakes one when it
/// goes back into a body.
template <class Policy> struct ChildSuccessors {
  static constexpr std::uint32_t outside = Machine<Policy>::outside;
  using BesideRoot = void;  // edges may lead to borrowed slots

  Machine<Policy>& machine;
  Domain<Policy>& domain;
  std::uint32_t self;
  std::uint32_t ready_now = 0;
  bool keeps_one = false;

  void ready(HotSlot<Policy>& slot) {
    keeps_one |= machine.queue(self, domain, slot);
    ++ready_now;
  }
  void ended(Reference task) { machine.parking.completed(domain.name_of(task)); }
  void end() {
    if (std::uint32_t const others = ready_now - (keeps_one ? 1u : 0u); others != 0)
      machine.parking.wake(others);
    machine.bodies.wake_all();
  }
};

}  // namespace nntile::detail::ring
