#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous tasks, those that submit, and replays: they complete after their body has returned.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"
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
/// users name it in place of its slot, which is done when its body has returned: consumers wait for
/// this one, and it alone holds its buffers.
template <class Policy> struct Pending : TokenTask<Policy> {
  Pending() { this->is_pending = true; }

  Domain<Policy>* domain = nullptr;
  EdgeList<Policy> consumers;
  std::uint32_t index = 0;
  std::uint32_t seen = 0;  // the last collection of producers that met it
  std::uint64_t sequence = 0;
  support::Groups groups = support::Groups::none;
  support::TaskBody body;  // body.uses are its buffers, in `uses` or elsewhere
  DynamicArray<Use<support::Buffer*>> uses;
  DynamicArray<void*> pointers;
  DynamicArray<std::byte> arguments;
  std::int16_t worker = -1;  // as in its slot
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
template <class Policy> class PendingTable {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  using R = Pending<Policy>;

  /// A free one. Throws std::bad_alloc.
  R& take() {
    {
      Lock guard(mutex_);
      if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 8);
    }
    if (free_.empty()) {
      free_.reserve(pending_.size() + 1);
      pending_.push_back(std::make_unique<R>());
      pending_.back()->index = static_cast<std::uint32_t>(pending_.size() - 1);
      free_.push_back(pending_.back().get());
    }
    R& pending = *free_.back();
    free_.pop_back();
    return pending;
  }
  void give_back(R& pending) {
    pending.start = nullptr;
    free_.push_back(&pending);
  }

  /// Submits it under a sequence above all before.
  void open(R& pending, std::uint64_t sequence) {
    pending.sequence = sequence;
    pending.seen = 0;
    pending.consumers.open();
    Lock guard(mutex_);
    entries_.push_back({sequence, &pending});
    open_.fetch_add(1, std::memory_order_seq_cst);
    known_.store(entries_.size(), std::memory_order_release);
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
    if (known_.load(std::memory_order_acquire) == 0) return false;
    Lock guard(mutex_);
    auto const at = find(sequence);
    return at != entries_.end() && at->sequence == sequence && at->pending != nullptr &&
           !at->pending->consumers.is_closed();
  }

  /// The one of that sequence, the oldest that has not ended, the newest; no_reference if there is
  /// none.
  Reference reference_of(std::uint64_t sequence) const {
    Lock guard(mutex_);
    auto const at = find(sequence);
    bool const open = at != entries_.end() && at->sequence == sequence && at->pending != nullptr;
    return open ? reference_to_pending(at->pending->index) : no_reference;
  }
  Reference oldest() const {
    Lock guard(mutex_);
    for (Entry const& entry : entries_)
      if (entry.pending != nullptr && !entry.pending->consumers.is_closed())
        return reference_to_pending(entry.pending->index);
    return no_reference;
  }
  Reference newest() const {
    Lock guard(mutex_);
    for (std::size_t i = entries_.size(); i-- != 0;)
      if (R* const pending = entries_[i].pending;
          pending != nullptr && !pending->consumers.is_closed())
        return reference_to_pending(pending->index);
    return no_reference;
  }

  /// One that has not ended and names the buffer or a region of it; no_reference if there is none.
  /// Submitter only.
  Reference naming(support::Buffer const& whole) const {
    Lock guard(mutex_);
    for (Entry const& entry : entries_)
      if (entry.pending != nullptr && !entry.pending->consumers.is_closed())
        for (Use<support::Buffer*> const& use : entry.pending->body.uses)
          if (&support::whole_of(*use.handle) == &whole)
            return reference_to_pending(entry.pending->index);
    return no_reference;
  }

  /// Before the tags of collections come round again. Submitter only.
  void forget_collections() {
    for (auto& pending : pending_) pending->seen = 0;
  }

  /// How many have not ended.
  std::uint32_t open_count() const { return open_.load(std::memory_order_seq_cst); }

  /// Takes back all that have ended and calls forget(pending) for each. Submitter only.
  template <class Forget> void collect(Forget forget) {
    if (ended_.load(std::memory_order_relaxed) == nullptr) return;
    for (R* pending = ended_.exchange(nullptr, std::memory_order_acquire); pending != nullptr;) {
      R* const next = pending->next;
      forget(*pending);
      remove(pending->sequence);
      give_back(*pending);
      pending = next;
    }
  }

  R& operator[](Reference reference) { return *pending_[reference & ~pending_bit]; }

 private:
  struct Entry {
    std::uint64_t sequence;
    R* pending;  // null once it is taken back
  };

  auto find(std::uint64_t sequence) const {
    return std::lower_bound(entries_.begin(), entries_.end(), sequence,
                            [](Entry const& entry, std::uint64_t s) { return entry.sequence < s; });
  }

  void remove(std::uint64_t sequence) {
    Lock guard(mutex_);
    entries_[static_cast<std::size_t>(find(sequence) - entries_.begin())].pending = nullptr;
    if (2 * ++removed_ < entries_.size()) return;
    erase_if(entries_, [](Entry const& entry) { return entry.pending == nullptr; });
    removed_ = 0;
    known_.store(entries_.size(), std::memory_order_release);
  }

  DynamicArray<std::unique_ptr<R>> pending_;
  DynamicArray<R*> free_;
  mutable typename Policy::Mutex mutex_;
  DynamicArray<Entry> entries_;  // ascending
  std::size_t removed_ = 0;
  Atomic<std::size_t> known_{0};
  alignas(apart) Atomic<std::uint32_t> open_{0};
  Atomic<R*> ended_{nullptr};
};

}  // namespace nntile::detail::ring
