#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous tasks and replays: they complete after their body has returned.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "nntile/core/threads.hh"
#include "nntile/runtime/common/buffer.hh"
#include "nntile/runtime/ring/datum.hh"
#include "nntile/runtime/ring/flight.hh"
#include "nntile/runtime/ring/slot.hh"

namespace nntile::detail::ring {

/// Stands in the datums for an asynchronous task or a replay, so that its slot need not wait for
/// its end: consumers hang from here, and the record alone holds its buffers.
template <class Policy> struct Record : Outstanding<Policy> {
  Record() { this->is_record = true; }

  EdgeList<Policy> consumers;
  std::uint32_t index = 0;
  std::uint32_t seen = 0;  // the last collection of producers that met it
  std::uint64_t sequence = 0;
  common::TaskBody body;  // body.uses are its buffers, in `uses` or elsewhere
  std::vector<Use<common::Buffer*>> uses;
  std::vector<void*> pointers;
  std::vector<std::byte> attributes;
  Record* next = nullptr;  // in the stack of ended records
};

/// The records of one ring. The submitter takes and recycles; any thread may end one or ask.
template <class Policy> class Records {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  using R = Record<Policy>;

  /// A record for a task that is about to be submitted. Throws std::bad_alloc.
  R& take() {
    {
      Lock guard(mutex_);
      if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 64);
    }
    if (free_.empty()) {
      free_.reserve(records_.size() + 1);
      records_.push_back(std::make_unique<R>());
      records_.back()->index = static_cast<std::uint32_t>(records_.size() - 1);
      free_.push_back(records_.back().get());
    }
    R& record = *free_.back();
    free_.pop_back();
    return record;
  }
  void give_back(R& record) { free_.push_back(&record); }

  /// Opens it under a sequence above all before.
  void open(R& record, std::uint64_t sequence) {
    record.sequence = sequence;
    record.seen = 0;
    record.consumers.open();
    Lock guard(mutex_);
    entries_.push_back({sequence, &record});
    open_.fetch_add(1, std::memory_order_seq_cst);
    known_.store(entries_.size(), std::memory_order_release);
  }

  /// Closes its list, which the caller walks before it calls `ended`.
  static std::uint32_t close(R& record) { return record.consumers.close(); }

  /// Hands it to the submitter, which may recycle it at once.
  void ended(R& record) {
    R* first = ended_.load(std::memory_order_relaxed);
    do record.next = first;
    while (!ended_.compare_exchange_weak(first, &record, std::memory_order_release,
                                         std::memory_order_relaxed));
    open_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Whether that sequence has an open record. Any thread.
  bool is_open(std::uint64_t sequence) const {
    if (known_.load(std::memory_order_acquire) == 0) return false;
    Lock guard(mutex_);
    auto const at = find(sequence);
    return at != entries_.end() && at->sequence == sequence && at->record != nullptr &&
           !at->record->consumers.is_closed();
  }

  /// The record of that sequence, the oldest open one, the newest; no_reference if there is none.
  Reference reference_of(std::uint64_t sequence) const {
    Lock guard(mutex_);
    auto const at = find(sequence);
    bool const open = at != entries_.end() && at->sequence == sequence && at->record != nullptr;
    return open ? reference_to_record(at->record->index) : no_reference;
  }
  Reference oldest() const {
    Lock guard(mutex_);
    for (Entry const& entry : entries_)
      if (entry.record != nullptr && !entry.record->consumers.is_closed())
        return reference_to_record(entry.record->index);
    return no_reference;
  }
  Reference newest() const {
    Lock guard(mutex_);
    for (auto at = entries_.rbegin(); at != entries_.rend(); ++at)
      if (at->record != nullptr && !at->record->consumers.is_closed())
        return reference_to_record(at->record->index);
    return no_reference;
  }

  /// Records whose end is not known yet.
  std::uint32_t open_count() const { return open_.load(std::memory_order_seq_cst); }

  /// Takes back all ended records and calls forget(record) for each. Submitter only.
  template <class Forget> void collect(Forget forget) {
    if (ended_.load(std::memory_order_relaxed) == nullptr) return;
    for (R* record = ended_.exchange(nullptr, std::memory_order_acquire); record != nullptr;) {
      R* const next = record->next;
      forget(*record);
      remove(record->sequence);
      give_back(*record);
      record = next;
    }
  }

  R& operator[](Reference reference) { return *records_[reference & ~record_bit]; }

 private:
  struct Entry {
    std::uint64_t sequence;
    R* record;  // null once it is taken back
  };

  auto find(std::uint64_t sequence) const {
    return std::lower_bound(entries_.begin(), entries_.end(), sequence,
                            [](Entry const& entry, std::uint64_t s) { return entry.sequence < s; });
  }

  void remove(std::uint64_t sequence) {
    Lock guard(mutex_);
    entries_[static_cast<std::size_t>(find(sequence) - entries_.begin())].record = nullptr;
    if (2 * ++removed_ < entries_.size()) return;
    std::erase_if(entries_, [](Entry const& entry) { return entry.record == nullptr; });
    removed_ = 0;
    known_.store(entries_.size(), std::memory_order_release);
  }

  std::vector<std::unique_ptr<R>> records_;
  std::vector<R*> free_;
  mutable detail::Mutex mutex_;
  std::vector<Entry> entries_;  // ascending
  std::size_t removed_ = 0;
  Atomic<std::size_t> known_{0};
  alignas(apart) Atomic<std::uint32_t> open_{0};
  Atomic<R*> ended_{nullptr};
};

}  // namespace nntile::detail::ring
