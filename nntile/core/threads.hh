#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Threads, locks, sleeping and a clock, straight from POSIX: <thread>, <mutex>,
// <condition_variable> and <chrono> would cost every inclusion of the library a tenth of a second.

#include <pthread.h>
#include <sched.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace nntile::detail {

/// Nanoseconds of a clock that only goes forward.
inline std::int64_t monotonic_ns() noexcept {
  timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Yields the core to another thread.
inline void yield_core() noexcept { (void)sched_yield(); }

/// Sleeps for the given time, or until a signal comes.
inline void sleep_ns(std::int64_t nanoseconds) noexcept {
  timespec const time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  (void)nanosleep(&time, nullptr);
}

/// The calling thread, as std::thread::id prints it. Never 0.
inline std::uintptr_t this_thread() noexcept {
#if defined(__GLIBC__) && defined(__x86_64__)
  // Equals pthread_self there, without a call.
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#else
  return std::bit_cast<std::uintptr_t>(pthread_self());  // a number or a pointer
#endif
}

/// The calling process. Cost: a system call.
inline pid_t this_process() noexcept { return getpid(); }

/// Pages of zeros that a child process finds to be zeros again after a fork, so that it costs
/// nothing to ask whether there was one; null where the system has none.
inline void* map_zeroed_by_fork([[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_WIPEONFORK)
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  if (madvise(pages, bytes, MADV_WIPEONFORK) == 0) return pages;
  (void)munmap(pages, bytes);
#endif
  return nullptr;
}
inline void unmap([[maybe_unused]] void* pages, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  (void)munmap(pages, bytes);
#endif
}

/// Orders the memory accesses of all threads of the process: each has a full barrier somewhere in
/// the time of this call, so that they themselves need none. False where the system does not.
/// Cost: 1 us; some ms the first time.
inline bool barrier_on_all_threads() noexcept {
#if defined(__linux__)
  auto const ask = [](int command) { return syscall(__NR_membarrier, command, 0) == 0; };
  return ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
#else
  return false;
#endif
}

/// Whether `barrier_on_all_threads` is to be had. Cost: 0.3 us.
inline bool has_barrier_on_all_threads() noexcept {
#if defined(__linux__)
  long const commands = syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
#else
  return false;
#endif
}

/// As std::mutex.
class Mutex {
 public:
  Mutex() = default;
  Mutex(Mutex const&) = delete;
  Mutex& operator=(Mutex const&) = delete;
  ~Mutex() { (void)pthread_mutex_destroy(&mutex_); }
  void lock() noexcept { (void)pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { (void)pthread_mutex_unlock(&mutex_); }

 private:
  friend class Condition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Holds a mutex while it lives, but between `unlock` and `lock`.
template <class M = Mutex> class [[nodiscard]] Lock {
 public:
  explicit Lock(M& mutex) : mutex_(mutex) { mutex.lock(); }
  Lock(Lock const&) = delete;
  Lock& operator=(Lock const&) = delete;
  ~Lock() {
    if (held_) mutex_.unlock();
  }
  void lock() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() {
    held_ = false;
    mutex_.unlock();
  }
  M& mutex() { return mutex_; }

 private:
  M& mutex_;
  bool held_ = true;
};

/// As std::condition_variable; time limits are in nanoseconds from now.
class Condition {
 public:
  Condition() noexcept {
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&condition_, &attributes);
    (void)pthread_condattr_destroy(&attributes);
  }
  Condition(Condition const&) = delete;
  Condition& operator=(Condition const&) = delete;
  ~Condition() { (void)pthread_cond_destroy(&condition_); }

  void notify_one() noexcept { (void)pthread_cond_signal(&condition_); }
  void notify_all() noexcept { (void)pthread_cond_broadcast(&condition_); }
  /// May return without a notification.
  void wait(Lock<Mutex>& lock) noexcept {
    (void)pthread_cond_wait(&condition_, &lock.mutex().mutex_);
  }
  template <class Ready> void wait(Lock<Mutex>& lock, Ready ready) {
    while (!ready()) wait(lock);
  }
  /// Waits until ready() or a time limit; returns the last ready().
  template <class Ready> bool wait_for(Lock<Mutex>& lock, std::int64_t nanoseconds, Ready ready) {
    std::int64_t const end = monotonic_ns() + nanoseconds;
    timespec const time{end / 1'000'000'000, end % 1'000'000'000};
    while (!ready())
      if (pthread_cond_timedwait(&condition_, &lock.mutex().mutex_, &time) != 0) return ready();
    return true;
  }

 private:
  pthread_cond_t condition_;
};

/// One thread, or none. Join it before it dies.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&& other) noexcept
      : thread_(other.thread_), runs_(std::exchange(other.runs_, false)) {}
  Thread& operator=(Thread&& other) = delete;

  /// Runs a copy of the body on a thread of its own; false if the system gives no other thread.
  /// The body does not throw. Throws std::bad_alloc.
  template <class Body> bool start(Body body) {
    auto* const copy = new Body(std::move(body));
    auto const run = [](void* argument) -> void* {
      auto* const passed = static_cast<Body*>(argument);
      Body its = std::move(*passed);  // onto its stack: no line that other threads write
      delete passed;
      its();
      return nullptr;
    };
    runs_ = pthread_create(&thread_, nullptr, run, copy) == 0;
    if (!runs_) delete copy;
    return runs_;
  }
  void join() noexcept {
    if (std::exchange(runs_, false)) (void)pthread_join(thread_, nullptr);
  }

 private:
  pthread_t thread_{};
  bool runs_ = false;
};

}  // namespace nntile::detail
