#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Task slots, and the edge lists that live in the consumers' slots.

#include <cstddef>
#include <cstdint>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// Incoming edges of one slot. A task with more producers waits for join tasks.
inline constexpr std::uint32_t edges_per_slot = 8;

/// One incoming edge: its slot and its place there.
constexpr std::uint32_t edge_of(std::uint32_t slot, std::uint32_t place) {
  return slot << 3 | place;
}
static_assert(edges_per_slot == 8);

/// Consumers of one producer: a list through the consumers' own `next` links that can be closed
/// once.
///
/// Law: only the submitter pushes, so that the list needs no protection against reuse; the thread
/// that completes the producer closes it, and owns the links from then on.
template <class Policy> struct EdgeList {
  static constexpr std::uint32_t none = 0xffffffffu;
  static constexpr std::uint32_t closed = 0xfffffffeu;

  typename Policy::template Atomic<std::uint32_t> head{closed};

  /// Makes the list empty and open. The producer must not be reachable yet, but by threads that
  /// only ask whether it is closed.
  void open(std::memory_order order = std::memory_order_relaxed) { head.store(none, order); }

  /// Adds an edge whose link is `next`; false if the producer has completed.
  bool push(std::uint32_t edge, typename Policy::template Plain<std::uint32_t>& next) {
    std::uint32_t first = head.load(std::memory_order_acquire);
    do {
      if (first == closed) return false;
      next = first;
    } while (!head.compare_exchange_weak(first, edge, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
    return true;
  }

  /// Ends the list and returns its first edge. Sequentially consistent, because a driver that
  /// sleeps until the producer completes announces that before it looks here (parking.hh).
  std::uint32_t close() { return head.exchange(closed, std::memory_order_seq_cst); }
  /// The same for the submitter, the one thread that pushes here: others only ask.
  std::uint32_t close_own() {
    std::uint32_t const first = head.load(std::memory_order_relaxed);
    head.store(closed, std::memory_order_release);
    return first;
  }
  bool is_closed() const { return head.load(std::memory_order_seq_cst) == closed; }
};

/// Kinds of slots. A join runs nothing: it stands for the producers of one that has too many. One
/// that accumulates is `claiming` until it holds its claims, then `claimed`.
enum class SlotKind : std::uint8_t { task, pending, join, claiming, claimed };

/// The part of a slot that other tasks' workers touch.
template <class Policy> struct alignas(64) HotSlot {
  template <class T> using Plain = typename Policy::template Plain<T>;
  EdgeList<Policy> consumers;
  /// Producers to wait for. The submitter stores their number before it links the first one, those
  /// that turn out to have ended included: so no other thread can start the task before all are
  /// there.
  typename Policy::template Atomic<std::uint32_t> awaited{0};
  /// id + 1 once the task is finished; before, that of an earlier round.
  typename Policy::template Atomic<std::uint32_t> done{0};
  Plain<std::uint32_t> id = 0;  // low half of the ticket
  /// The task's number outside the ring. Atomic, because any thread may look for an event.
  typename Policy::template Atomic<std::uint64_t> sequence{0};
  Plain<std::uint32_t> next[edges_per_slot] = {};
  Plain<SlotKind> kind = SlotKind::task;
  Plain<std::uint8_t> level = 0;
  Plain<std::int16_t> worker = -1;
  Plain<std::uint8_t> operands = 0;          // if not spilled
  Plain<std::uint8_t> argument_bytes = 0;    // if not spilled, padded
  Plain<bool> spilled = false;               // the payload does not fit into the slot
  Plain<SlotKind> runs_as = SlotKind::task;  // with its claims: a task or a pending one
};
static_assert(sizeof(HotSlot<RingPolicy>) == 64);

/// The part of a slot that only the submitter and the worker that runs the task touch. The layout
/// of `payload` is in payload.hh.
struct alignas(128) ColdSlot {
  void const* work = nullptr;  // Codelet const*, or the Pending* of a pending task
  char const* tensor = nullptr;
  std::byte payload[112];
};
static_assert(sizeof(ColdSlot) == 128 && offsetof(ColdSlot, payload) == 16);

}  // namespace nntile::detail::ring
