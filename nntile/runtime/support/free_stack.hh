#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Records that any thread gives back and the driving thread takes again.

#include <atomic>

namespace nntile::support {

/// Holds unused T, linked through their `next_free`. Nothing is popped singly by several threads,
/// so there is no ABA.
template <class T>
requires requires(T& value) { value.next_free = &value; }
class FreeStack {
 public:
  /// Gives one back; any thread.
  void push(T& value) noexcept {
    T* head = returned_.load(std::memory_order_relaxed);
    do value.next_free = head;
    while (!returned_.compare_exchange_weak(head, &value, std::memory_order_release,
                                            std::memory_order_relaxed));
  }
  /// Gives one back on the thread that takes.
  void put_back(T& value) noexcept {
    value.next_free = taken_;
    taken_ = &value;
  }
  /// Takes one, null if there is none; one thread. What the giver did to it is visible.
  T* pop() noexcept {
    if (taken_ == nullptr) [[unlikely]]
      take_returned();
    T* const value = taken_;
    if (value != nullptr) taken_ = value->next_free;
    return value;
  }

 private:
  [[gnu::noinline]] void take_returned() noexcept {
    taken_ = returned_.exchange(nullptr, std::memory_order_acquire);
  }

  T* taken_ = nullptr;
  alignas(64) std::atomic<T*> returned_{nullptr};
};

}  // namespace nntile::support
