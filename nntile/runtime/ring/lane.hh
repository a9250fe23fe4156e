#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ready tasks of a program in flight that any worker may take.

#include <cstdint>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// Tasks that a worker takes from a lane at once.
inline constexpr std::uint32_t lane_batch = 16;

/// A list that each task of one level enters at most once an epoch (one replay), so that it never
/// wraps and needs no room beyond theirs. Head, tail and entries carry the epoch: a stale worker,
/// which looks when the flight has gone on to another replay, sees a mismatching epoch and takes
/// nothing.
///
/// Law: the memory of the entries outlives every worker; the tails of all lanes of a flight begin
/// an epoch before the first head does. A worker takes from a lane only behind its new head, whose
/// release publishes the new tails of all lanes: so a task that it makes ready enters this epoch in
/// any lane, also in one whose head is not open yet. Behind an old tail the task would be lost.
template <class Policy> class Lane {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  using Entry = Atomic<std::uint64_t>;

  /// Sets the memory of the entries, before the epoch begins.
  void set_entries(Entry* entries) { entries_.store(entries, std::memory_order_release); }
  /// Writes one of the tasks that are ready when the epoch begins.
  void put(std::uint32_t epoch, std::uint32_t position, std::uint32_t task) {
    entries_.load(std::memory_order_relaxed)[position].store(word(epoch, task),
                                                             std::memory_order_release);
  }
  /// Begins the tail of the epoch, behind the `ready` entries that were put. Nothing can be taken
  /// yet.
  void begin(std::uint32_t epoch, std::uint32_t ready) {
    tail_.store(word(epoch, ready), std::memory_order_release);
  }
  /// Begins the head of the epoch: from now on its tasks are taken.
  void open(std::uint32_t epoch) { head_.store(word(epoch, 0), std::memory_order_release); }

  /// Adds a task of the current epoch.
  void push(std::uint32_t task) {
    std::uint64_t const at = tail_.fetch_add(1, std::memory_order_seq_cst);
    entries_.load(std::memory_order_acquire)[low(at)].store(word(high(at), task),
                                                            std::memory_order_release);
  }

  /// Takes up to `most` tasks, but no more than an even share among `takers`; returns how many.
  std::uint32_t pop(std::uint32_t* tasks, std::uint32_t most, std::uint32_t takers) {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      std::uint64_t const tail = tail_.load(std::memory_order_acquire);
      if (high(head) != high(tail) || low(head) >= low(tail)) return 0;
      std::uint32_t const share = (low(tail) - low(head) - 1) / takers + 1;
      std::uint32_t const count = read(head, tasks, share < most ? share : most);
      if (count == 0) return 0;  // its push is not finished
      if (head_.compare_exchange_weak(head, head + count, std::memory_order_seq_cst,
                                      std::memory_order_acquire))
        return count;
    }
  }

  /// Whether nothing waits. An idle worker that announced itself before it asks is seen by every
  /// push that this does not see.
  bool empty() const {
    std::uint64_t const head = head_.load(std::memory_order_seq_cst);
    std::uint64_t const tail = tail_.load(std::memory_order_seq_cst);
    return high(head) != high(tail) || low(head) >= low(tail);
  }

 private:
  static constexpr std::uint64_t word(std::uint32_t epoch, std::uint32_t value) {
    return std::uint64_t{epoch} << 32 | value;
  }
  static constexpr std::uint32_t high(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 32);
  }
  static constexpr std::uint32_t low(std::uint64_t word) {
    return static_cast<std::uint32_t>(word);
  }

  /// Copies entries of this epoch from the head on, up to the first that is not there yet.
  std::uint32_t read(std::uint64_t head, std::uint32_t* tasks, std::uint32_t most) const {
    Entry const* const entries = entries_.load(std::memory_order_acquire) + low(head);
    for (std::uint32_t i = 0; i < most; ++i) {
      std::uint64_t const entry = entries[i].load(std::memory_order_acquire);
      if (high(entry) != high(head)) return i;
      tasks[i] = low(entry);
    }
    return most;
  }

  alignas(apart) Atomic<std::uint64_t> head_{0};
  Atomic<Entry*> entries_{nullptr};
  alignas(apart) Atomic<std::uint64_t> tail_{0};
};

}  // namespace nntile::detail::ring
