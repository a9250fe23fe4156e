#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous tasks, those that submit, and replays: they complete after their body has returned.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/ring/flight.hh"
#include "nntile/runtime/ring/slot.hh"
#include "nntile/runtime/ring/users.hh"
#include "nntile/runtime/support/groups.hh"
#include "nntile/runtime/support/parts.hh"

namespace nntile::detail::ring {

template <class Policy> struct Domain;
template <class Policy> class Machine;
template <class Policy> class Nest;

/// An asynchronous task, one that submits, or a replay, from its submission to its end. Buffers'
/// users name it in place of its slot, which is done when its body begins: consumers wait for this
/// one, and it alone holds its buffers.
template <class Policy> struct Pending : TokenTask<Policy> {
  Pending() { this->is_pending = true; }

  Domain<Policy>* domain = nullptr;
  EdgeList<Policy> consumers;
  std::uint32_t index = 0;
  std::uint32_t seen = 0;  // the last collection of producers that met it
  typename Policy::template Atomic<std::uint64_t> sequence{0};  // of its round, as others may ask
  support::Groups groups = support::Groups::none;
  support::TaskBody body;  // body.uses are its buffers, in `uses` or elsewhere
  DynamicArray<Use<support::Buffer*>> uses;
  DynamicArray<void*> pointers;
  DynamicArray<std::byte> arguments;
  std::int16_t worker = -1;  // as in its slot
  // Of a task on a device, whose slot is done once it has been launched:
  Stream stream{-1, 0};
  std::uint64_t ticket = 0;
  bool on_device() const { return Policy::Device::exists && stream.device >= 0; }
  /// Whether it holds claims until it ends.
  bool claims() const { return groups == support::Groups::claimed; }
  /// Of a task that submits, or of many blocks: runs it. Of the former the names of its operands.
  void (*start)(Machine<Policy>&, std::uint32_t self, Pending&) = nullptr;
  NestingBody<Nest<Policy>> submits;
  DynamicArray<DataHandle> handles;
  Pending* next = nullptr;  // in the stack of ended ones
};

/// The pending tasks of one domain. The submitter takes and recycles; any thread may end one or
/// ask.
///
/// Law: the submitter alone changes the list by which others find a task. It appends, and clears
/// what has ended; where half of the list is clear it moves the rest together, amid which the round
/// is odd. Who finds none that is open looks again unless the round was even, and is as before. An
/// entry may lead to a task that has been recycled since: its own sequence tells.
template <class Policy> class PendingTable {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  using R = Pending<Policy>;

  /// Whether `take` needs no memory.
  bool has_free() const { return !free_.empty() && count() != capacity_; }
  /// A free record with room for `operands` and `argument_bytes`. Throws std::bad_alloc.
  R& take(std::size_t operands, std::size_t argument_bytes) {
    if (count() == capacity_) grow(2 * capacity_);
    if (free_.empty()) make();
    R& pending = *free_.back();
    if (pending.uses.capacity() < operands || pending.pointers.capacity() < operands ||
        pending.arguments.capacity() < argument_bytes) {
      ++growths_;
      reserve(pending, operands, argument_bytes);
    }
    free_.pop_back();
    return pending;
  }
  /// Makes room for `count` at a time. Before the first is taken. Throws std::bad_alloc.
  void reserve(std::uint32_t count, std::size_t operands, std::size_t argument_bytes) {
    grow(2 * count);  // of entries less than half are clear
    pending_.reserve(count);
    free_.reserve(count);
    while (pending_.size() < count) {
      make();
      reserve(*free_.back(), operands, argument_bytes);
    }
  }
  /// Times that memory was taken.
  std::uint64_t growths() const { return growths_; }
  void give_back(R& pending) {
    pending.start = nullptr;
    free_.push_back(&pending);
  }

  /// Submits it under a sequence above all before.
  void open(R& pending, std::uint64_t sequence) {
    pending.sequence.store(sequence, std::memory_order_release);
    pending.seen = 0;
    pending.consumers.open(std::memory_order_release);
    std::uint32_t const at = count();
    entries()[at].set(sequence, &pending);
    open_.fetch_add(1, std::memory_order_seq_cst);
    count_.store(at + 1, std::memory_order_release);
  }

  /// Closes its list, which the caller walks before it calls `ended`.
  static std::uint32_t close(R& pending) { return pending.consumers.close(); }

  /// Hands it to the submitter, which may recycle it at once.
  void ended(R& pending) {
    R* first = ended_.load(std::memory_order_relaxed);
    do pending.next = first;
    while (!ended_.compare_exchange_weak(first, &pending, std::memory_order_release,
                                         std::memory_order_relaxed));
    open_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Whether the task of that sequence is pending and has not ended. Any thread.
  bool is_open(std::uint64_t sequence) const {
    for (;; Policy::Clock::yield_core()) {
      std::uint64_t const round = round_.load(std::memory_order_acquire);
      std::uint32_t const count = count_.load(std::memory_order_acquire);
      if (count == 0) return false;
      Entry const* const all = entries_.load(std::memory_order_acquire);
      Entry const* const at = find(all, count, sequence);
      R const* const pending =
          at == nullptr ? nullptr : at->pending.load(std::memory_order_acquire);
      if (pending != nullptr && !pending->consumers.is_closed() &&
          pending->sequence.load(std::memory_order_acquire) == sequence)
        return true;
      if (round % 2 == 0 && round_.load(std::memory_order_acquire) == round) return false;
    }
  }

  /// The one of that sequence, the oldest that has not ended, the newest; no_reference if there is
  /// none. Submitter only.
  Reference reference_of(std::uint64_t sequence) const {
    Entry const* const at = find(entries(), count(), sequence);
    R const* const pending = at == nullptr ? nullptr : at->own();
    return pending != nullptr ? reference_to_pending(pending->index) : no_reference;
  }
  Reference oldest() const {
    for (std::uint32_t i = 0; i < count(); ++i)
      if (R const* const pending = open_at(i)) return reference_to_pending(pending->index);
    return no_reference;
  }
  Reference newest() const {
    for (std::uint32_t i = count(); i-- != 0;)
      if (R const* const pending = open_at(i)) return reference_to_pending(pending->index);
    return no_reference;
  }

  /// One that has not ended and names the record, or a region of that buffer; no_reference if there
  /// is none. Submitter only.
  Reference naming(support::Buffer const& named) const {
    for (std::uint32_t i = 0; i < count(); ++i)
      if (R const* const pending = open_at(i))
        for (Use<support::Buffer*> const& use : pending->body.uses)
          if (use.handle == &named || &support::whole_of(*use.handle) == &named)
            return reference_to_pending(pending->index);
    return no_reference;
  }

  /// Before the tags of collections come round again. Submitter only.
  void forget_collections() {
    for (auto& pending : pending_) pending->seen = 0;
  }

  /// The number that have not ended.
  std::uint32_t open_count() const { return open_.load(std::memory_order_seq_cst); }

  /// Takes back all that have ended and calls forget(pending) for each. Submitter only.
  template <class Forget> void collect(Forget forget) {
    if (ended_.load(std::memory_order_relaxed) == nullptr) return;
    for (R* pending = ended_.exchange(nullptr, std::memory_order_acquire); pending != nullptr;) {
      R* const next = pending->next;
      forget(*pending);
      remove(pending->sequence.load(std::memory_order_relaxed));
      give_back(*pending);
      pending = next;
    }
  }

  R& operator[](Reference reference) { return *pending_[reference & ~pending_bit]; }

 private:
  struct Entry {
    Atomic<std::uint64_t> sequence{0};
    Atomic<R*> pending{nullptr};  // null once it is taken back

    void set(std::uint64_t its, R* task) {
      sequence.store(its, std::memory_order_release);
      pending.store(task, std::memory_order_release);
    }
    R* own() const { return pending.load(std::memory_order_relaxed); }
  };

  // Of the submitter:
  Entry* entries() const { return entries_.load(std::memory_order_relaxed); }
  std::uint32_t count() const { return count_.load(std::memory_order_relaxed); }
  R const* open_at(std::uint32_t i) const {
    R const* const pending = entries()[i].own();
    return pending != nullptr && !pending->consumers.is_closed() ? pending : nullptr;
  }

  void make() {
    free_.reserve(pending_.size() + 1);
    pending_.push_back(std::make_unique<R>());
    pending_.back()->index = static_cast<std::uint32_t>(pending_.size() - 1);
    free_.push_back(pending_.back().get());
    ++growths_;
  }
  static void reserve(R& pending, std::size_t operands, std::size_t argument_bytes) {
    pending.uses.reserve(operands);
    pending.pointers.reserve(operands);
    pending.arguments.reserve(argument_bytes);
  }

  /// The entry of that sequence; null if there is none.
  static Entry* find(Entry* all, std::uint32_t count, std::uint64_t sequence) {
    std::uint32_t low = 0, high = count;
    while (low < high) {
      std::uint32_t const middle = low + (high - low) / 2;
      std::uint64_t const its = all[middle].sequence.load(std::memory_order_acquire);
      if (its == sequence) return &all[middle];
      if (its < sequence)
        low = middle + 1;
      else
        high = middle;
    }
    return nullptr;
  }
  static Entry const* find(Entry const* all, std::uint32_t count, std::uint64_t sequence) {
    return find(const_cast<Entry*>(all), count, sequence);
  }

  void remove(std::uint64_t sequence) {
    find(entries(), count(), sequence)->pending.store(nullptr, std::memory_order_release);
    if (2 * ++removed_ >= count()) compact();
  }
  /// Moves what is left together.
  void compact() {
    std::uint64_t const round = round_.load(std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_relaxed);
    Entry* const all = entries();
    std::uint32_t left = 0;
    for (std::uint32_t i = 0; i < count(); ++i)
      if (R* const pending = all[i].own())
        all[left++].set(all[i].sequence.load(std::memory_order_relaxed), pending);
    count_.store(left, std::memory_order_release);
    round_.store(round + 2, std::memory_order_release);
    removed_ = 0;
  }
  /// Takes room for more entries, 8 at least; the old one stays, as other threads may look there.
  [[gnu::noinline]] void grow(std::uint32_t room) {
    std::uint32_t const wider = room < 8 ? 8 : room;
    ++growths_;
    arrays_.reserve(arrays_.size() + 1);
    auto array = std::make_unique<Entry[]>(wider);
    for (std::uint32_t i = 0; i < count(); ++i)
      array[i].set(entries()[i].sequence.load(std::memory_order_relaxed), entries()[i].own());
    entries_.store(array.get(), std::memory_order_release);
    arrays_.push_back(std::move(array));
    capacity_ = wider;
  }

  DynamicArray<std::unique_ptr<R>> pending_;
  DynamicArray<R*> free_;
  DynamicArray<std::unique_ptr<Entry[]>> arrays_;  // the last one is that of now
  std::uint32_t capacity_ = 0;
  std::uint32_t removed_ = 0;
  std::uint64_t growths_ = 0;
  Atomic<Entry*> entries_{nullptr};  // ascending
  Atomic<std::uint32_t> count_{0};
  Atomic<std::uint64_t> round_{0};
  alignas(apart) Atomic<std::uint32_t> open_{0};
  Atomic<R*> ended_{nullptr};
};

}  // namespace nntile::detail::ring
