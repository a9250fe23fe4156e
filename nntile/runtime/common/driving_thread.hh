#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Which thread drives a runtime, and which threads are inside its tasks. No thread-local state:
// each object knows its own.

#include <pthread.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nntile/core/error.hh"

namespace nntile::common {

/// Tells driver, tasks and other threads apart. The thread that called `enter` last, outside of a
/// task, is the driver.
///
/// How a runtime uses it: every member that drives calls enter("submit") first; `done` asks here();
/// whoever runs a body holds an InTask around it. Cost on the driving thread: one load and one
/// comparison.
class DrivingThread {
 public:
  /// `bodies`: how many threads run bodies at one time; 0 if the driver alone does.
  explicit DrivingThread(int bodies = 0)
      : slots_(bodies == 0 ? 0 : std::bit_ceil(2 * static_cast<std::size_t>(bodies) + 2)),
        driver_(self()) {
    if (slots_ != 0) inside_ = std::make_unique<Slot[]>(slots_);
  }

  /// Makes the calling thread the driver. Throws LifetimeError, naming the call, when it is inside
  /// a task.
  void enter(char const* call) {
    std::uintptr_t const me = self();
    bool const known = driver_.load(std::memory_order_relaxed) == me;
    if (known ? depth_ == 0 : !in_slots(me)) [[likely]] {
      if (!known) driver_.store(me, std::memory_order_relaxed);
      return;
    }
    throw LifetimeError(
        concat(call, ": called inside a task, but this runtime does not nest tasks"));
  }

  /// Whether the calling thread is the driver and outside of tasks. Any thread may ask.
  bool here() const noexcept { return is_driver() && depth_ == 0; }
  /// Whether the calling thread is the driver, inside of a task or not. Any thread may ask.
  bool is_driver() const noexcept { return driver_.load(std::memory_order_relaxed) == self(); }

  /// Lives while the calling thread runs a body.
  class InTask {
   public:
    explicit InTask(DrivingThread& thread) noexcept : thread_(thread), driver_(thread.is_driver()) {
      if (driver_)
        ++thread_.depth_;
      else
        slot_ = thread_.claim();
    }
    ~InTask() {
      if (driver_)
        --thread_.depth_;
      else if (slot_ != nullptr)
        slot_->store(0, std::memory_order_relaxed);
    }
    InTask(InTask const&) = delete;
    InTask& operator=(InTask const&) = delete;

   private:
    DrivingThread& thread_;
    bool const driver_;
    std::atomic<std::uintptr_t>* slot_ = nullptr;
  };

 private:
  struct alignas(64) Slot {
    std::atomic<std::uintptr_t> thread{0};
  };

  static std::uintptr_t self() noexcept {
    if constexpr (requires { reinterpret_cast<std::uintptr_t>(pthread_self()); })
      return reinterpret_cast<std::uintptr_t>(pthread_self());
    else
      return static_cast<std::uintptr_t>(pthread_self());
  }

  bool in_slots(std::uintptr_t thread) const noexcept {
    for (std::size_t i = 0; i < slots_; ++i)
      if (inside_[i].thread.load(std::memory_order_relaxed) == thread) return true;
    return false;
  }

  /// Writes the calling thread into a slot, at its own one if that is free; null when more threads
  /// run bodies than said.
  std::atomic<std::uintptr_t>* claim() noexcept {
    std::uintptr_t const me = self();
    std::size_t const first = static_cast<std::size_t>((me >> 6) * 0x9e3779b97f4a7c15u >> 32);
    for (std::size_t i = 0; i < slots_; ++i) {
      auto& slot = inside_[(first + i) & (slots_ - 1)].thread;
      std::uintptr_t empty = 0;
      if (slot.load(std::memory_order_relaxed) == 0 &&
          slot.compare_exchange_strong(empty, me, std::memory_order_relaxed))
        return &slot;
    }
    return nullptr;
  }

  std::size_t slots_;
  std::unique_ptr<Slot[]> inside_;
  std::atomic<std::uintptr_t> driver_;
  int depth_ = 0;  // bodies that the driver is inside of
};

}  // namespace nntile::common
