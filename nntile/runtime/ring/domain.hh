#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A submission domain: the tasks of one submitter. Many may share one machine.

#include <bit>
#include <cstdint>
#include <memory>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/family.hh"
#include "nntile/runtime/ring/offers.hh"
#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/ring/ready_task.hh"
#include "nntile/runtime/ring/window.hh"
#include "nntile/runtime/support/event_name.hh"

namespace nntile {

/// Progress of a submitted task: it waits for others; nothing keeps it from running, or it runs; it
/// has ended; and so have all tasks before it.
enum class RingProgress : std::uint8_t { waiting, ready, ended, past };

}  // namespace nntile

namespace nntile::detail::ring {

template <class Policy> class Machine;

using support::EventName;
using support::root_domain;

/// The state of one submitter, beside the buffers' dependences (reclaim.hh), which it alone
/// touches. Sequences are packed event names.
template <class Policy> struct Domain {
  Domain(Machine<Policy>& of, std::uint32_t its_number, std::uint32_t slots)
      : machine(of),
        number(its_number),
        first_task(slot_task(its_number, 0)),
        first_name((std::uint64_t{its_number} + 1) << 32),
        window(slots, EventName{its_number, Policy::Sizes::first_sequence}.pack()),
        offers(its_number == root_domain ? 0 : slots) {}

  Machine<Policy>& machine;
  std::uint32_t const number;
  ReadyTask const first_task;
  std::uint64_t const first_name;
  Window<Policy> window;
  PendingTable<Policy> pending;
  // Of a domain beside the root:
  Offers<Policy> offers;
  std::uint32_t worker = ~0u;                  // that submits; none: a thread that is no worker
  Family<Policy>* family = nullptr;            // of the task whose tasks are here, if there is one
  std::int16_t outer_worker = -1;              // as in the slot of that task
  std::unique_ptr<Family<Policy>> own_family;  // for use after use
  Domain* host = this;                         // of the tasks in its slots
  typename Policy::template Atomic<Domain*> more{nullptr};  // lends slots for more of its tasks

  bool is_root() const { return number == root_domain; }
  /// The task of a slot that lies here, as queues name it.
  ReadyTask task(HotSlot<Policy> const& slot) const {
    return first_task | window.own_slot_of(slot.id);
  }
  /// The domain where the slot of one of its tasks lies. By who submits it, or has made it ready.
  Domain& place_of(HotSlot<Policy> const& slot) {
    return window.owns(slot) ? *this : *more.load(std::memory_order_relaxed);
  }
  /// Lends the slots of another domain, into which nothing is ever submitted, to its tasks, until
  /// it gives them back. As Window's.
  template <class Linked> void borrow(Domain& other, Linked linked) {
    other.host = this;
    more.store(&other, std::memory_order_seq_cst);
    window.grow(other.window, linked);
  }
  void give_back_borrowed() {
    Domain* const other = more.load(std::memory_order_relaxed);
    if (other == nullptr) return;
    window.shrink();
    more.store(nullptr, std::memory_order_relaxed);
    other->host = other;
  }
  /// A producer among those of all domains; never 0.
  std::uint64_t name_of(Reference producer) const { return first_name | producer; }

  /// Whether the task of that sequence, which was submitted, has ended. Any thread.
  bool over(std::uint64_t sequence) const {
    return window.ended(sequence) && !pending.is_open(sequence);
  }
  /// Whether its slot can be taken back, too, so that what it held may be. Submitter only.
  bool left(std::uint64_t sequence) const {
    std::uint64_t const ticket = window.find(sequence);
    return (ticket == window.nothing || window.finished(ticket)) && over(sequence);
  }
  /// Its reference as a producer; no_reference if it has ended.
  Reference reference_of(std::uint64_t sequence) const {
    std::uint64_t const ticket = window.find(sequence);
    bool const waits = ticket != window.nothing && !window.finishing(ticket);
    return waits ? reference_to(ticket) : pending.reference_of(sequence);
  }
  /// Progress of the task of that sequence, which was submitted. Submitter only.
  RingProgress progress(std::uint64_t sequence) {
    std::uint64_t const ticket = window.find(sequence);
    if (ticket != window.nothing && !window.finishing(ticket))
      return window.startable(ticket) ? RingProgress::ready : RingProgress::waiting;
    if (pending.is_open(sequence)) return RingProgress::ready;
    return ticket != window.nothing ? RingProgress::ended : RingProgress::past;
  }
  /// Whether the task that a reference names is finished. Submitter only.
  bool finished(Reference reference) {
    if (reference == no_reference) return true;
    if (is_pending(reference)) return pending[reference].consumers.is_closed();
    return !window.live(reference) || window.finished(ticket_of(reference));
  }
  /// Whether it is, or will be without further action of this thread.
  bool finishing(Reference reference) {
    if (is_pending(reference)) return finished(reference);
    return !window.live(reference) || window.finishing(ticket_of(reference));
  }

 private:
  std::uint64_t ticket_of(Reference reference) const {
    std::uint64_t const mark = window.watermark();
    return mark + ((reference - static_cast<Reference>(mark)) & ~pending_bit);
  }
};

/// The domains of a machine besides the root, by number. They are made when needed and never freed
/// before it. One that is given back keeps counting where it stopped: an event of its former tasks
/// names one that has ended, whatever runs there now.
template <class Policy> class DomainPool {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  explicit DomainPool(Machine<Policy>& machine) : machine_(machine) {}
  DomainPool(DomainPool const&) = delete;
  DomainPool& operator=(DomainPool const&) = delete;

  /// Takes a free domain with a window of `slots`, a power of two. Any thread. Throws OutOfMemory
  /// (all numbers are in use), std::bad_alloc.
  Domain<Policy>& take(std::uint32_t slots) {
    Lock guard(mutex_);
    auto& free = free_[std::countr_zero(slots)];
    if (free.empty()) make(slots);
    Domain<Policy>& domain = *free.back();
    free.pop_back();
    return domain;
  }
  /// All its tasks have ended and are taken back. Any thread. A number whose sequences may not last
  /// for another use stays unused.
  void give_back(Domain<Policy>& domain) {
    auto const name = EventName::unpack(domain.window.next_sequence());
    if (name.sequence > EventName::sequences / 2) return;
    Lock guard(mutex_);
    free_[std::countr_zero(domain.window.size())].push_back(&domain);
  }

  /// The domain of a number that was taken. Any thread.
  Domain<Policy>& operator[](std::uint32_t number) {
    return *chunks_[number >> bits].load(std::memory_order_acquire)[number & mask].get();
  }
  /// Null for a number that never was.
  Domain<Policy>* find(std::uint32_t number) {
    return number < count_.load(std::memory_order_acquire) ? &(*this)[number] : nullptr;
  }

 private:
  using Place = std::unique_ptr<Domain<Policy>>;
  static constexpr std::uint32_t bits = 10;
  static constexpr std::uint32_t mask = (1u << bits) - 1;

  void make(std::uint32_t slots) {
    std::uint32_t const number = count_.load(std::memory_order_relaxed);
    if (number == EventName::domains)
      throw OutOfMemory(concat("ring: ", number - 1, " domains are in use, and there are no more"));
    auto& chunk = chunks_[number >> bits];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      owned_.push_back(std::make_unique<Place[]>(mask + 1));
      chunk.store(owned_.back().get(), std::memory_order_release);
    }
    auto& free = free_[std::countr_zero(slots)];
    made_[std::countr_zero(slots)]++;
    free.reserve(made_[std::countr_zero(slots)]);  // giving back never allocates
    auto domain = std::make_unique<Domain<Policy>>(machine_, number, slots);
    try {
      machine_.scheduler.reserve(slots);
    } catch (...) {
      machine_.parking.wake_all();
      throw;
    }
    machine_.parking.wake_all();
    free.push_back(domain.get());
    chunk.load(std::memory_order_relaxed)[number & mask] = static_cast<Place&&>(domain);
    count_.store(number + 1, std::memory_order_release);
  }

  Machine<Policy>& machine_;
  typename Policy::Mutex mutex_;
  DynamicArray<Domain<Policy>*> free_[slot_bits + 1];  // by the binary logarithm of their slots
  std::size_t made_[slot_bits + 1] = {};
  DynamicArray<std::unique_ptr<Place[]>> owned_;
  Atomic<Place*> chunks_[EventName::domains >> bits] = {};
  Atomic<std::uint32_t> count_{root_domain + 1};
};

}  // namespace nntile::detail::ring
