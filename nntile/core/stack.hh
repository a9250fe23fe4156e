#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The bytes of its stack that a thread has left.

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"

namespace nntile::detail {

/// The stack of one thread at a time, asked of the system when the thread is another: 20 us for a
/// process's first thread, 1 us for others.
class StackOfThread {
 public:
  /// Bytes that the calling thread's stack has, and how many of them are left; all there are where
  /// that is unknown, as on a stack that is not the thread's own.
  struct Left {
    std::size_t left;
    std::size_t all;
  };
  [[gnu::noinline]] Left left() noexcept {
    if (thread_ != this_thread()) ask();
    auto const at = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    if (at - low_ > all_) return {SIZE_MAX, SIZE_MAX};
    return {at - low_, all_};
  }

 private:
  void ask() noexcept {
    thread_ = this_thread();
    low_ = all_ = 0;
#if defined(__GLIBC__)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* low = nullptr;
    if (pthread_attr_getstack(&attributes, &low, &all_) == 0)
      low_ = reinterpret_cast<std::uintptr_t>(low);
    (void)pthread_attr_destroy(&attributes);
#endif
  }

  std::uintptr_t thread_ = 0;
  std::uintptr_t low_ = 0;
  std::size_t all_ = 0;
};

/// Throws OutOfMemory where a task that waits in its body has too little stack for another one on
/// top of it: a quarter, at most 192 KiB, of which 64 KiB are for a kernel.
inline void check_stack(StackOfThread& stack, char const* runtime) {
  auto const [left, all] = stack.left();
  std::size_t const least = all / 4 < 192 * 1024 ? all / 4 : 192 * 1024;
  if (left < least)
    throw OutOfMemory(concat(runtime, ": waits in the bodies of tasks are nested so deep that of ",
                             all, " bytes of stack ", left, " are left, and another body needs ",
                             least,
                             "; let bodies submit a task that combines results instead of waiting "
                             "for them, or raise the limit of the stack (ulimit -s)"));
}

}  // namespace nntile::detail
