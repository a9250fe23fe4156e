#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Claims: tasks that accumulate into one buffer are not ordered, but exclude each other.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

/// A waiting task, as claims name it: 2 or more, and what it is for its runtime.
using ClaimWaiter = std::uintptr_t;
inline constexpr ClaimWaiter no_waiter = 0;

/// The right to accumulate into one buffer, held by one task at a time, with a queue of tasks that
/// wait for it.
///
/// Law: a task that is ready takes its claims in the ascending order of their buffers, and runs
/// when it holds all. Where one is held it is queued and left alone: it belongs to the holder, who
/// hands the claim over when it ends, to the task that has waited for longest. No thread waits, and
/// since claims are ordered, the holder of the last one held can always go on.
template <class Policy> class Claim {
 public:
  /// True if it is the caller's now. Else `waiter` is queued, after set_next(waiter before it, or
  /// no_waiter), and is no longer the caller's.
  template <class SetNext> bool take(ClaimWaiter waiter, SetNext set_next) {
    ClaimWaiter word = word_.load(std::memory_order_relaxed);
    for (;;) {
      if (word == available) {
        if (word_.compare_exchange_weak(word, held, std::memory_order_acquire,
                                        std::memory_order_relaxed))
          return true;
        continue;
      }
      set_next(word == held ? no_waiter : word);
      if (word_.compare_exchange_weak(word, waiter, std::memory_order_release,
                                      std::memory_order_relaxed))
        return false;
    }
  }

  /// By the holder: hands it over and returns the task that holds it now; no_waiter if it is
  /// available again. `next` reads and set_next(waiter, next) writes the links of waiters.
  template <class Next, class SetNext> ClaimWaiter release(Next next, SetNext set_next) {
    ClaimWaiter oldest = oldest_;
    if (oldest == no_waiter) {
      ClaimWaiter word = held;
      if (word_.compare_exchange_strong(word, available, std::memory_order_release))
        return no_waiter;
      ClaimWaiter newest = word_.exchange(held, std::memory_order_acquire);
      while (newest != no_waiter) {  // turns the list round
        ClaimWaiter const before = next(newest);
        set_next(newest, oldest);
        oldest = newest;
        newest = before;
      }
    }
    oldest_ = next(oldest);
    return oldest;
  }

 private:
  static constexpr ClaimWaiter available = 0;
  static constexpr ClaimWaiter held = 1;

  /// `available`, `held`, or held with the newest of those that have come since the last exchange.
  typename Policy::template Atomic<ClaimWaiter> word_{available};
  typename Policy::template Plain<ClaimWaiter> oldest_ = no_waiter;  // the holder's
};

/// The policy of claims whose runtime has none.
struct StandardAtomics {
  template <class T> using Atomic = std::atomic<T>;
  template <class T> using Plain = T;
};

/// Of the buffers that a task accumulates into the first, by index, from `index` on; null if there
/// is none.
inline Buffer* next_claimed(std::span<Use<Buffer*> const> uses, std::uint32_t index) noexcept {
  Buffer* first = nullptr;
  for (Use<Buffer*> const& use : uses)
    if (use.access == Access::accumulate && use.handle->index >= index &&
        (first == nullptr || use.handle->index < first->index))
      first = use.handle;
  return first;
}

/// The claims of one runtime, made when a task first accumulates into a buffer's record, and kept
/// with it. `Waiters` is what a runtime knows of waiting tasks:
///   name(task)                    the name of a task
///   uses(name)                    its operands
///   next(name), set_next(name, w) the link in a queue
///   from(name), set_from(name, i) the least index of a buffer whose claim it has still to take
template <class Policy> class Claims {
 public:
  /// Before such a task is published; the submitter. Throws std::bad_alloc.
  void prepare(std::span<Use<Buffer*> const> uses) {
    for (Use<Buffer*> const& use : uses) {
      if (use.access != Access::accumulate || use.handle->claim != nullptr) continue;
      if (given_ == reserved_) {
        claims_.push_back(std::make_unique<Claim<Policy>>());
        use.handle->claim = claims_.back().get();
      } else {
        use.handle->claim = &first_[given_++];
      }
    }
  }
  /// Makes those of the first `count` records that need one, before any does. Throws
  /// std::bad_alloc.
  void reserve(std::uint32_t count) {
    first_ = std::make_unique<Claim<Policy>[]>(count);
    reserved_ = count;
  }
  /// Times that memory was taken later. The submitter.
  std::uint64_t growths() const { return claims_.size(); }

  /// Takes the claims that the task lacks; true if it holds all. Else it is queued, and the
  /// thread that releases the claim goes on with it.
  template <class Waiters> static bool take(Waiters const& waiters, ClaimWaiter task) {
    std::span<Use<Buffer*> const> const uses = waiters.uses(task);
    while (Buffer* const buffer = next_claimed(uses, waiters.from(task))) {
      waiters.set_from(task, buffer->index + 1);  // before it can be handed over
      auto const set_next = [&](ClaimWaiter next) { waiters.set_next(task, next); };
      if (!of(*buffer).take(task, set_next)) return false;
    }
    return true;
  }

  /// Releases all claims of a task that ends; calls ready(task) for each that holds all of its own
  /// then.
  template <class Waiters, class Ready>
  static void release(Waiters const& waiters, std::span<Use<Buffer*> const> uses, Ready ready) {
    auto const next = [&](ClaimWaiter task) { return waiters.next(task); };
    auto const set_next = [&](ClaimWaiter task, ClaimWaiter link) { waiters.set_next(task, link); };
    std::uint32_t from = 0;
    while (Buffer* const buffer = next_claimed(uses, from)) {
      from = buffer->index + 1;
      ClaimWaiter const task = of(*buffer).release(next, set_next);
      if (task != no_waiter && take(waiters, task)) ready(task);
    }
  }

 private:
  static Claim<Policy>& of(Buffer const& buffer) {
    return *static_cast<Claim<Policy>*>(buffer.claim);
  }

  std::unique_ptr<Claim<Policy>[]> first_;
  std::uint32_t reserved_ = 0;
  std::uint32_t given_ = 0;
  DynamicArray<std::unique_ptr<Claim<Policy>>> claims_;
};

}  // namespace nntile::support
