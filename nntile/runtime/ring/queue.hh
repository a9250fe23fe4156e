#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ready tasks that any worker may take, first in, first out.

#include <cstdint>
#include <utility>

#include "nntile/core/heap_array.hh"
#include "nntile/runtime/ring/policy.hh"
#include "nntile/runtime/ring/ready_task.hh"

namespace nntile::detail::ring {

/// A bounded queue for many producers and consumers. Consumers write no cell, so that a producer's
/// line comes back to it unchanged: a cell names the position that wrote it, by its low 24 bits.
///
/// Law: `capacity` is a power of two up to `most`, at least twice the slots of the windows whose
/// tasks are pushed. A task is in one queue at most, and in its window from its push to its end:
/// between the push of one and the end of its pop fewer others than that are pushed. So no cell is
/// overwritten that is still to be read, and `push` always finds room.
template <class Policy> class ReadyQueue {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  static constexpr std::uint32_t most = 1u << 23;

  explicit ReadyQueue(std::uint32_t capacity) : mask_(capacity - 1), cells_(capacity) {
    for (std::uint64_t p = first - capacity; p != first; ++p)
      cells_[p & mask_].store(name_of(p), std::memory_order_relaxed);
  }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(mask_ + 1); }

  void push(ReadyTask task) {
    // The claim is sequentially consistent: see `empty`.
    std::uint64_t const position = tail_.fetch_add(1, std::memory_order_seq_cst);
    cells_[position & mask_].store(name_of(position) | task, std::memory_order_release);
  }

  [[gnu::always_inline]] bool pop(ReadyTask& task) {
    std::uint64_t position = head_.load(std::memory_order_acquire);
    for (;;) {
      std::uint64_t const cell = cells_[position & mask_].load(std::memory_order_acquire);
      std::uint64_t const ahead = cell - name_of(position);  // its low bits are the task
      if (ahead >> slot_task_bits == 0) {
        if (!head_.compare_exchange_weak(position, position + 1, std::memory_order_seq_cst,
                                         std::memory_order_acquire))
          continue;
        task = ahead;
        return true;
      }
      if (static_cast<std::int64_t>(ahead) < 0) return false;  // empty, or amid its push
      position = head_.load(std::memory_order_acquire);        // popped long ago
    }
  }

  /// Takes the next `count` tasks where `enough` are there, not fewer than `count`, else none: a
  /// look at one cell. The tail, which producers write at each push, is left alone.
  bool pop_several(ReadyTask* tasks, std::uint32_t count, std::uint32_t enough) {
    std::uint64_t position = head_.load(std::memory_order_acquire);
    if (!read(position + enough - 1, tasks[0])) return false;
    for (std::uint32_t i = 0; i < count; ++i)
      if (!read(position + i, tasks[i])) return false;  // amid its push, or popped
    return head_.compare_exchange_strong(position, position + count, std::memory_order_seq_cst);
  }

  /// Whether nothing has been claimed by a push and not by a pop. An idle worker that announced
  /// itself before it asks is seen by every push that this does not see.
  bool empty() const {
    std::uint64_t const head = head_.load(std::memory_order_seq_cst);
    return tail_.load(std::memory_order_seq_cst) <= head;
  }

  /// The kind of workers that its tasks are for; -1: any. Set before other threads know the queue.
  int kind = -1;
  /// The queue that this one replaced, to which a late producer may still push.
  ReadyQueue* older = nullptr;

 private:
  static constexpr std::uint64_t first = (1u << 24) - 256;  // so that every run sees names wrap

  /// The task that was pushed there; false where another was, or none yet.
  bool read(std::uint64_t position, ReadyTask& task) const {
    task = cells_[position & mask_].load(std::memory_order_acquire) - name_of(position);
    return task >> slot_task_bits == 0;
  }
  /// The upper bits of the cell of that position.
  static std::uint64_t name_of(std::uint64_t position) { return position << slot_task_bits; }

  std::uint64_t const mask_;
  HeapArray<Atomic<std::uint64_t>> const cells_;
  alignas(apart) Atomic<std::uint64_t> head_{first};
  alignas(apart) Atomic<std::uint64_t> tail_{first};
};

/// The same for the one thread that both gives and takes. `capacity` is a power of two, or 0.
class LoneQueue {
 public:
  /// Moves the tasks to new cells. Throws std::bad_alloc; nothing has changed then.
  void grow(std::uint32_t capacity) {
    HeapArray<ReadyTask> cells(capacity);
    for (std::uint32_t p = head_; p != tail_; ++p) cells[p & (capacity - 1)] = cells_[p & mask_];
    cells_ = std::move(cells);
    mask_ = capacity - 1;
  }
  void push(ReadyTask task) { cells_[tail_++ & mask_] = task; }
  bool pop(ReadyTask& task) {
    if (empty()) return false;
    task = cells_[head_++ & mask_];
    return true;
  }
  bool empty() const { return head_ == tail_; }

 private:
  HeapArray<ReadyTask> cells_;
  std::uint32_t mask_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
};

}  // namespace nntile::detail::ring
