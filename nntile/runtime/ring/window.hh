#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ring of task slots: opening, wiring and publishing by the submitter, completion by workers.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "nntile/runtime/ring/slot.hh"
#include "nntile/runtime/ring/users.hh"
#include "nntile/runtime/support/submitted.hh"

namespace nntile::detail::ring {

/// Slots of the tasks from the watermark, the oldest unfinished one, up to the head. Tickets number
/// the slots as they are opened, joins included; sequences number the tasks for events and errors:
/// joins have none of their own, and a replay takes one for each task of its program.
///
/// Law: only the submitter opens slots and moves the watermark; workers publish `done` and nothing
/// else. A producer that is in the window can be linked to, because only the submitter recycles
/// slots.
///
/// A window that is full may go on in the slots of a larger one. No task moves: a worker finds a
/// slot by its number, or knows its address. For the submitter all are in the larger one: a task
/// that has not left the window has a join there, under its own ticket, which ends when it does.
template <class Policy> class Window {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  using Hot = HotSlot<Policy>;
  static constexpr std::uint32_t prefetch_ahead = 4;

  /// `slots` is a power of two.
  Window(std::uint32_t slots, std::uint64_t first_sequence)
      : own_mask_(slots - 1),
        own_hot_(std::make_unique<Hot[]>(slots)),
        own_cold_(std::make_unique<ColdSlot[]>(slots)),
        own_seen_(std::make_unique<std::uint32_t[]>(slots)),
        next_sequence_(first_sequence) {
    be_in(*this);
    finish_round(head());
  }

  std::uint32_t size() const { return mask_ + 1; }
  // By its number, of a slot that lies here, and by its id; for any thread that runs its task:
  Hot& at(std::uint32_t slot) { return own_hot_[slot]; }
  ColdSlot& own_cold(std::uint32_t id) { return own_cold_[id & own_mask_]; }
  std::uint32_t own_slot_of(std::uint32_t id) const { return id & own_mask_; }
  bool owns(Hot const& slot) const {
    return reinterpret_cast<std::uintptr_t>(&slot) -
               reinterpret_cast<std::uintptr_t>(own_hot_.get()) <=
           own_mask_ * sizeof(Hot);
  }
  // Submitter only:
  Hot& hot(std::uint32_t id) { return hot_[id & mask_]; }
  ColdSlot& cold(std::uint32_t id) { return cold_[id & mask_]; }
  std::uint32_t slot_of(std::uint64_t ticket) const {
    return static_cast<std::uint32_t>(ticket) & mask_;
  }

  /// Ticket of the next task; submitter only.
  std::uint64_t head() const { return head_.load(std::memory_order_relaxed); }
  std::uint64_t watermark() const { return watermark_.load(std::memory_order_relaxed); }
  bool full() const { return head() - watermark() > mask_; }
  /// Sequence of the next task. A thread that holds an event sees a later one.
  std::uint64_t next_sequence() const { return next_sequence_; }

  /// Whether that task has finished: its slot can be taken back. Submitter only.
  bool finished(std::uint64_t ticket) const {
    return ticket < watermark() || done(hot_[ticket & mask_], ticket, std::memory_order_acquire);
  }
  /// True once the task has completed or has begun to complete (its edge list is closed).
  bool finishing(std::uint64_t ticket) const {
    return ticket < watermark() || holder()->closed(ticket);
  }

  /// Whether a task in the window waits for no other. Submitter only, who is not wiring it.
  bool startable(std::uint64_t ticket) const {
    return hot_[ticket & mask_].awaited.load(std::memory_order_relaxed) == 0;
  }

  /// The ticket of a submitted task; `nothing` if it left the window. Submitter only.
  static constexpr std::uint64_t nothing = ~std::uint64_t{0};
  std::uint64_t find(std::uint64_t sequence) const {
    return holder()->find(sequence, watermark(), head());
  }

  /// Whether the task of that sequence, which was submitted, has ended: its list is closed, as that
  /// is all that a submitter asks before one that needs it may run. Any thread.
  bool ended(std::uint64_t sequence) const {
    for (;;) {
      std::uint64_t const mark = watermark_.load(std::memory_order_acquire);
      Window const* const where = holder();
      std::uint64_t const ticket =
          where->find(sequence, mark, head_.load(std::memory_order_acquire));
      // A join may end later than the task that it stands for.
      bool const lies_here = where != this && ticket < grown_at_.load(std::memory_order_relaxed);
      bool const over = ticket == nothing || where->closed(ticket) ||
                        (lies_here && own(ticket).consumers.is_closed());
      // No slot has been opened anew, or given up, as long as the mark has not moved.
      if (watermark_.load(std::memory_order_acquire) == mark && holder() == where) return over;
    }
  }

  /// Whether a reference to a task is inside the window; it may be finished nevertheless.
  bool live(Reference reference) const { return live()(reference); }
  /// The same for several, until the head or the watermark moves.
  struct Live {
    Reference first;
    std::uint32_t count;
    bool operator()(Reference reference) const {
      return ((reference - first) & ~pending_bit) < count;
    }
  };
  [[gnu::always_inline]] Live live() const {
    return {static_cast<Reference>(watermark()), static_cast<std::uint32_t>(head() - watermark())};
  }

  /// Moves the watermark over all finished tasks and calls retired(ticket) for each.
  template <class Retired> void advance(Retired retired) {
    std::uint64_t mark = watermark();
    std::uint64_t const first = mark;
    while (mark != head() && done(hot_[mark & mask_], mark, std::memory_order_acquire))
      retired(mark++);
    if (mark != first) watermark_.store(mark, std::memory_order_release);
  }

  /// Takes the next slot, which must be free, for a task without edges so far, and `sequences`
  /// numbers for it.
  [[gnu::always_inline]] Hot& open(SlotKind kind, std::uint8_t level, std::int16_t worker,
                                   std::uint64_t sequences) {
    std::uint64_t const ticket = head(), sequence = next_sequence_;
    std::uint32_t const mask = mask_;  // not read again behind each of the stores
    Hot* const all = hot_;
    ColdSlot* const all_cold = cold_;
    Hot& slot = all[ticket & mask];
    slot.id = static_cast<std::uint32_t>(ticket);
    slot.kind = kind;
    slot.level = level;
    slot.worker = worker;
    slot.consumers.open();
    slot.sequence.store(sequence, std::memory_order_release);
    next_sequence_ = sequence + sequences;
    head_.store(ticket + 1, std::memory_order_release);
    // The lines of a slot to come are with the worker that ran its last task.
    fetch_to_write(&all[(ticket + prefetch_ahead) & mask]);
    fetch_to_write(&all_cold[(ticket + prefetch_ahead) & mask]);
    return slot;
  }

  /// For a thread that is about to run that slot's task.
  void prefetch(std::uint32_t slot) const {
    fetch_to_write(&own_hot_[slot]);
    prefetch_cold(slot);
  }
  /// The same where it has the slot's other line.
  void prefetch_cold(std::uint32_t slot) const {
    __builtin_prefetch(&own_cold_[slot]);
    __builtin_prefetch(reinterpret_cast<std::byte const*>(&own_cold_[slot]) + 64);
  }

  void prefetch_consumer(Hot const& slot) const {
    std::uint32_t const edge = slot.consumers.head.load(std::memory_order_relaxed);
    if (edge < EdgeList<Policy>::closed) fetch_to_write(&own_hot_[edge / edges_per_slot]);
  }

  /// Makes `consumer` wait until the list is closed; false if it is closed already.
  bool link(EdgeList<Policy>& producer, Hot& consumer, std::uint32_t place) {
    return link(producer, consumer, number_of(consumer), place);
  }
  bool link(EdgeList<Policy>& producer, Hot& consumer, std::uint32_t number, std::uint32_t place) {
    return producer.push(edge_of(number, place), consumer.next[place]);
  }
  /// That of a slot among its own and the borrowed ones.
  std::uint32_t number_of(Hot const& slot) const { return first_number_ + (slot.id & mask_); }

  /// Before the wiring of a slot to `edges` producers; the one that ends last makes it ready.
  static void expect(Hot& slot, std::uint32_t edges) {
    slot.awaited.store(edges, std::memory_order_relaxed);
  }
  /// Ends the wiring, of which `missing` producers need not be waited for; true if the task is
  /// ready now, and then the caller's to enqueue. Where none is missing the slot is no more the
  /// caller's.
  static bool publish(Hot& slot, std::uint32_t missing) {
    return missing != 0 && slot.awaited.fetch_sub(missing, std::memory_order_acq_rel) == missing;
  }

  /// Ends a task: afterwards its slot may be another's. Calls sink.ended(reference) for it, and
  /// sink.ready(slot) for each task that waited for nothing else.
  template <class Sink> [[gnu::always_inline]] void complete(Hot& slot, Sink& sink) {
    walk(finish(slot, [&](Reference task) { sink.ended(task); }), sink);
  }

  /// The first half of that: closes the list, which is left to walk, and publishes the end, in this
  /// order: `done` is the last touch of the slot. Then calls ended(reference).
  template <class Ended>
  [[gnu::always_inline]] static std::uint32_t finish(Hot& slot, Ended const& ended) {
    return finish(slot, ended, slot.consumers.close());
  }
  template <class Ended>
  [[gnu::always_inline]] static std::uint32_t finish(Hot& slot, Ended const& ended,
                                                     std::uint32_t edges) {
    std::uint32_t const id = slot.id;
    slot.done.store(id + 1, std::memory_order_release);
    ended(reference_to(id));
    return edges;
  }

  /// Counts down the consumers of a closed list. Joins among them end here as well, in a loop: they
  /// can form chains as long as the window.
  template <class Sink> [[gnu::always_inline]] void walk(std::uint32_t edge, Sink& sink) {
    std::uint32_t joins = EdgeList<Policy>::none;  // a stack through next[0], which is free by then
    for (;;) {
      while (edge != EdgeList<Policy>::none) {
        std::uint32_t const index = edge / edges_per_slot;
        Hot& consumer = numbered<Sink>(index);
        fetch_to_write(&consumer);  // not by the read, which would have it asked for twice
        edge = consumer.next[edge % edges_per_slot];  // before the count: the slot may move on then
        if (edge != EdgeList<Policy>::none) fetch_to_write(&numbered<Sink>(edge / edges_per_slot));
        if (consumer.awaited.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (consumer.kind != SlotKind::join) {
          sink.ready(consumer);
          continue;
        }
        consumer.next[0] = joins;
        joins = index;
      }
      if (joins == EdgeList<Policy>::none) return;
      Hot& join = numbered<Sink>(joins);
      joins = join.next[0];
      edge = finish(join, [&](Reference task) { sink.ended(task); });
    }
  }

  /// The tag of another collection of producers. It is kept here, as what has been met is: another
  /// submitter of the domain goes on where this one stops. After 0 forget_collections is due.
  std::uint32_t next_collection() { return ++collection_; }
  /// Whether this producer is met for the first time in the collection `tag`, which is not 0.
  bool first_meeting(Reference producer, std::uint32_t tag) {
    return std::exchange(seen_[producer & mask_], tag) != tag;
  }
  /// Its slots for many looks in a row, without looks at the window behind each store.
  class Slots {
   public:
    explicit Slots(Window& window) : hot_(window.hot_), seen_(window.seen_), mask_(window.mask_) {}
    EdgeList<Policy>& consumers(Reference producer) const {
      return hot_[producer & mask_].consumers;
    }
    bool first_meeting(Reference producer, std::uint32_t tag) const {
      return std::exchange(seen_[producer & mask_], tag) != tag;
    }

   private:
    Hot* const hot_;
    std::uint32_t* const seen_;
    std::uint32_t const mask_;
  };
  Slots slots() { return Slots(*this); }
  /// Before tags come round again.
  void forget_collections() { std::fill_n(seen_, size(), 0u); }

  /// Goes on in the slots of a larger window that nothing uses. Calls linked(slot, join) for each
  /// task that has not ended. Submitter only.
  template <class Linked> void grow(Window& larger, Linked linked) {
    std::uint64_t const mark = watermark(), end = head();
    larger.finish_round(mark);
    for (std::uint64_t t = mark; t < end; ++t) {
      Hot const& task = own(t);
      Hot& join = larger.own(t);
      join.id = static_cast<std::uint32_t>(t);
      join.kind = SlotKind::join;
      join.sequence.store(task.sequence.load(std::memory_order_relaxed), std::memory_order_release);
      join.consumers.open();
      join.awaited.store(1, std::memory_order_relaxed);
    }
    first_number_ = own_mask_ + 1;
    grown_at_.store(end, std::memory_order_relaxed);
    be_in(larger);
    more_.store(&larger, std::memory_order_release);  // before an edge leads there
    for (std::uint64_t t = mark; t < end; ++t) {
      Hot& task = own(t);
      Hot& join = larger.own(t);
      if (link(task.consumers, join, 0)) {
        linked(task, join);
      } else {
        (void)join.consumers.close_own();
        join.done.store(static_cast<std::uint32_t>(t + 1), std::memory_order_release);
      }
    }
  }
  /// Goes back to its own slots, if it is in others, behind the end of all tasks. Submitter only.
  void shrink() {
    if (holder() == this) return;
    std::uint64_t const next = head() + 1;  // so that the mark moves: see `ended`
    first_number_ = 0;
    be_in(*this);
    finish_round(next);
    more_.store(nullptr, std::memory_order_release);
    head_.store(next, std::memory_order_release);
    watermark_.store(next, std::memory_order_release);
  }

 private:
  // Of a task that lies here:
  Hot& own(std::uint64_t ticket) const { return own_hot_[ticket & own_mask_]; }
  bool done(std::uint64_t ticket, std::memory_order order) const {
    return done(own(ticket), ticket, order);
  }
  static bool done(Hot const& slot, std::uint64_t ticket, std::memory_order order) {
    return slot.done.load(order) == static_cast<std::uint32_t>(ticket + 1);
  }
  /// Whether its list is closed, or was until the slot was opened anew: the latter is not to be
  /// seen without the mark, which has moved before.
  bool closed(std::uint64_t ticket) const {
    Hot const& slot = own(ticket);
    return done(slot, ticket, std::memory_order_acquire) || slot.consumers.is_closed();
  }
  /// The window where its tasks are, each there or with a join.
  Window const* holder() const {
    Window const* const more = more_.load(std::memory_order_acquire);
    return more == nullptr ? this : more;
  }
  /// The slot that an edge names.
  template <class Sink> Hot& numbered(std::uint32_t number) {
    if constexpr (requires { typename Sink::BesideRoot; })
      if (number > own_mask_)
        return more_.load(std::memory_order_relaxed)->own_hot_[number - own_mask_ - 1];
    return own_hot_[number];
  }

  void be_in(Window& window) {
    mask_ = window.own_mask_;
    hot_ = window.own_hot_.get();
    cold_ = window.own_cold_.get();
    seen_ = window.own_seen_.get();
  }
  /// Makes its slots ready for tasks from that ticket on, as if the round before had finished.
  void finish_round(std::uint64_t first) {
    std::uint32_t const mask = own_mask_, begin = static_cast<std::uint32_t>(first);
    Hot* const all = own_hot_.get();
    for (std::uint32_t i = 0; i <= mask; ++i)
      all[(begin + i) & mask].done.store(begin + i - mask, std::memory_order_release);
    std::fill_n(own_seen_.get(), mask + 1, 0u);
  }

  /// The last ticket of [first, end) whose sequence is not above the given one: a join has that of
  /// the task that it was made for, which comes after it.
  std::uint64_t find(std::uint64_t sequence, std::uint64_t first, std::uint64_t end) const {
    std::uint64_t low = first, high = end;
    while (low < high) {
      std::uint64_t const middle = low + (high - low) / 2;
      if (own(middle).sequence.load(std::memory_order_acquire) <= sequence)
        low = middle + 1;
      else
        high = middle;
    }
    return low == first ? nothing : low - 1;
  }

  std::uint32_t const own_mask_;
  std::unique_ptr<Hot[]> const own_hot_;
  std::unique_ptr<ColdSlot[]> const own_cold_;
  std::unique_ptr<std::uint32_t[]> const own_seen_;  // the last collection that met the slot's task
  // Those in use, here or in a larger window, whose slots have numbers behind those here.
  std::uint32_t mask_ = 0;
  std::uint32_t first_number_ = 0;
  Hot* hot_ = nullptr;
  ColdSlot* cold_ = nullptr;
  std::uint32_t* seen_ = nullptr;
  Atomic<Window*> more_{nullptr};      // the larger one
  Atomic<std::uint64_t> grown_at_{0};  // from that ticket on tasks lie there alone
  // Not beside what every worker reads: the submitter writes these at each task.
  alignas(apart) support::Submitted next_sequence_;
  std::uint32_t collection_ = 0u - 256;  // every run sees it come round
  Atomic<std::uint64_t> head_{Policy::Sizes::first_sequence};
  alignas(apart) Atomic<std::uint64_t> watermark_{Policy::Sizes::first_sequence};
};

}  // namespace nntile::detail::ring
