#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tracks the thread that drives a runtime, and the threads inside its tasks. State is per object,
// never thread-local.
//
// Threads may drive one after the other without announcing it: a driving call identifies its
// thread. A driving call stores that its thread is inside, then loads whether that thread may still
// take the quick path; a taker first closes the quick path, then loads whether the driver is
// inside. One of the two sees the other, if each has a full barrier between its store and its load.
// The driver has none: the taker, which comes once, makes the system issue one on every thread
// (membarrier). Where the system cannot, there is no quick path, and each call takes a lock.
//
// A child process has a copy of the runtime, but none of its threads: what the driver is known by
// lies in memory that a fork makes zero, so that there no call finds the quick way.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/heap_array.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/link.hh"

namespace nntile::support {

/// Tells driver, tasks and other threads apart. The driver is the thread that entered last, outside
/// of a task.
///
/// Use by a runtime: every member that drives begins with
///   auto const inside = thread_.enter("submit");
/// `done`, which other threads may call, uses enter_as_driver(); a thread that runs a body holds an
/// InTask around it. Cost on the driving thread: 10 instructions. A thread that takes over from
/// another: 1 us.
class alignas(64) DrivingThread {
  /// A thread that has driven, for as long as the runtime lives: a thread that was interrupted
  /// before it noted its call may write there at any time.
  struct Seat {
    std::uintptr_t thread = 0;
    std::atomic<std::uintptr_t> key{0};        // `thread`, but 0 while it runs a body
    std::atomic<char const*> inside{nullptr};  // the call that the thread is inside of
    Seat* next = nullptr;
    bool mapped = false;  // in pages of its own
  };

 public:
  /// Lives while its thread is inside a driving call; such calls nest. An empty one stands for
  /// none.
  class [[nodiscard]] Inside {
   public:
    Inside() = default;
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;
    ~Inside() {
      if (seat_ != nullptr) seat_->inside.store(outer_, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return seat_ != nullptr; }

   private:
    friend class DrivingThread;
    Inside(Seat* seat, char const* outer) noexcept : seat_(seat), outer_(outer) {}
    Seat* seat_ = nullptr;
    char const* outer_ = nullptr;
  };

  /// `bodies`: how many threads run bodies at one time; 0 if the driver alone does, and then a
  /// child process may go on with it. The driver is noted in `note` as well. `quick` false: as if
  /// the system had no membarrier. Throws std::bad_alloc.
  explicit DrivingThread(int bodies = 0, std::atomic<std::uintptr_t>* note = nullptr,
                         bool quick = true)
      : slots_(bodies == 0 ? 0 : std::bit_ceil(2 * static_cast<std::size_t>(bodies) + 2)),
        process_(bodies == 0 ? 0 : detail::this_process()),
        has_quick_way_(quick && detail::has_barrier_on_all_threads()),
        note_(note) {
    if (slots_ != 0) in_tasks_ = HeapArray<Slot>(slots_);
    first_ = make_seat(detail::this_thread());
    become_driver(*first_);
    let_in_quickly(*first_);
  }
  DrivingThread(DrivingThread const&) = delete;
  DrivingThread& operator=(DrivingThread const&) = delete;
  ~DrivingThread() {
    if (in_child()) return;  // the seats may have become zeros, and say neither what follows
    for (Seat* next; first_ != nullptr; first_ = next) {
      next = first_->next;
      if (first_->mapped)
        detail::unmap(first_, sizeof(Seat));
      else
        delete first_;
    }
  }

  /// Whether this process is a child of the one that the runtime's threads are in. Any thread may
  /// ask. Cost: a system call.
  bool in_child() const noexcept { return process_ != 0 && process_ != detail::this_process(); }
  /// Throws LifetimeError, naming the call, if it is.
  void check_process(char const* call) const {
    if (in_child())
      throw LifetimeError(concat(call,
                                 ": called in a process that was forked after the runtime "
                                 "was made: its threads are in the parent alone; make a "
                                 "runtime in the child, or one without threads before"));
  }

  /// Makes the calling thread the driver, inside `call` while the result lives. Throws
  /// LifetimeError, naming the call, when the thread is inside a task, when another one is inside a
  /// call of its own, and in a child process; std::bad_alloc for a thread that is new here.
  Inside enter(char const* call) {
    Seat* const seat = quick_.load(std::memory_order_acquire);
    if (seat->key.load(std::memory_order_relaxed) == detail::this_thread()) [[likely]] {
      char const* const outer = seat->inside.load(std::memory_order_relaxed);
      seat->inside.store(call, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // see the head of this file
      if (quick_.load(std::memory_order_relaxed) == seat) [[likely]]
        return {seat, outer};
      seat->inside.store(outer, std::memory_order_release);
    }
    return enter_slowly(call);
  }
  /// Returns work(), a pointer, called inside `call`; null, without it, where to enter takes more
  /// than a look, or inside another call: the caller then calls `enter`. Nothing here is out of
  /// line, and nothing is kept across `work`, which does not call, throw, or settle what other
  /// threads have dropped.
  template <class Work>
  [[gnu::always_inline]] auto quickly(char const* call, Work work) noexcept -> decltype(work()) {
    Seat* const seat = quick_.load(std::memory_order_acquire);
    if (seat->key.load(std::memory_order_relaxed) != detail::this_thread() ||
        seat->inside.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      return nullptr;
    seat->inside.store(call, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    decltype(work()) result{nullptr};
    if (quick_.load(std::memory_order_relaxed) == seat) [[likely]]
      result = work();
    seat->inside.store(nullptr, std::memory_order_release);
    return result;
  }

  /// For `done`, which any thread may call: empty unless the calling thread is the driver, outside
  /// of tasks. A taker waits for its end.
  Inside enter_as_driver() noexcept {
    Seat* const seat = quick_.load(std::memory_order_acquire);
    if (seat->key.load(std::memory_order_relaxed) == detail::this_thread()) [[likely]] {
      char const* const outer = seat->inside.load(std::memory_order_relaxed);
      if (outer == nullptr) seat->inside.store(done, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (quick_.load(std::memory_order_relaxed) == seat) [[likely]]
        return {seat, outer};
      seat->inside.store(outer, std::memory_order_release);
    }
    if (has_quick_way_) return {};
    detail::Lock guard(mutex_);
    Seat* const driver = driver_.load(std::memory_order_relaxed);
    if (driver->key.load(std::memory_order_relaxed) != detail::this_thread()) return {};
    char const* const outer = driver->inside.load(std::memory_order_relaxed);
    if (outer == nullptr) driver->inside.store(done, std::memory_order_relaxed);
    return {driver, outer};
  }

  /// For the destructor of the runtime: empty where `enter` throws.
  Inside enter_to_destroy() noexcept {
    try {
      return enter("its destructor");
    } catch (...) {
      return {};
    }
  }

  /// Whether the calling thread is the driver and outside of tasks. Any thread may ask.
  bool here() const noexcept {
    Seat const* const driver = driver_.load(std::memory_order_acquire);
    return driver->key.load(std::memory_order_relaxed) == detail::this_thread();
  }
  /// The call that the driver, which asks, is inside of.
  char const* call() const noexcept {
    char const* const call =
        driver_.load(std::memory_order_relaxed)->inside.load(std::memory_order_relaxed);
    return call != nullptr ? call : "";
  }
  /// Whether the calling thread is the driver, inside of a task or not. Any thread may ask.
  bool is_driver() const noexcept {
    return driver_.load(std::memory_order_acquire)->thread == detail::this_thread();
  }

  /// Lives while the calling thread runs a body.
  class InTask {
   public:
    explicit InTask(DrivingThread& thread) noexcept {
      Seat* const driver = thread.driver_.load(std::memory_order_acquire);
      if (driver->thread != detail::this_thread()) {
        word_ = thread.claim();
        return;
      }
      word_ = &driver->key;
      outer_ = word_->load(std::memory_order_relaxed);
      word_->store(0, std::memory_order_relaxed);
    }
    ~InTask() {
      if (word_ != nullptr) word_->store(outer_, std::memory_order_relaxed);
    }
    InTask(InTask const&) = delete;
    InTask& operator=(InTask const&) = delete;

   private:
    std::atomic<std::uintptr_t>* word_ = nullptr;  // the driver's key, or a slot, or none
    std::uintptr_t outer_ = 0;                     // its value before
  };

 private:
  struct alignas(64) Slot {
    std::atomic<std::uintptr_t> thread{0};
  };

  static constexpr char done[] = "done";

  /// Enters under the lock, by which takers exclude each other, and all threads where there is no
  /// quick path.
  Inside enter_slowly(char const* call) {
    check_process(call);  // before the lock, which a thread of the parent may hold
    std::uintptr_t const me = detail::this_thread();
    detail::Lock guard(mutex_);
    for (;;) {
      Seat* const driver = driver_.load(std::memory_order_relaxed);
      bool const mine = driver->thread == me;
      if (mine ? driver->key.load(std::memory_order_relaxed) != me : in_task(me))
        throw LifetimeError(
            concat(call,
                   ": called inside a task (or a poll, or the release of adopted memory), where "
                   "no runtime is to be called; where it nests, tasks submit through what the "
                   "body of an orchestrate task is given (runtime/nested.hh)"));
      Seat& seat = mine ? *driver : seat_of(me);
      if (mine || take_over(*driver, me, call)) {
        char const* const outer = seat.inside.load(std::memory_order_relaxed);
        seat.inside.store(call, std::memory_order_relaxed);
        if (!mine) become_driver(seat);
        let_in_quickly(seat);
        return {&seat, outer};
      }
      guard.unlock();
      detail::yield_core();
      guard.lock();
    }
  }

  /// True when the driver is outside, and will find the quick way closed. Otherwise the quick way
  /// is open again: false when the driver is inside `done`; throws when it is inside another call.
  bool take_over(Seat& driver, std::uintptr_t me, char const* call) {
    quick_.store(&nobody_, std::memory_order_seq_cst);
    bool const ordered = !has_quick_way_ || detail::barrier_on_all_threads();
    char const* const other_call = driver.inside.load(std::memory_order_acquire);
    if (ordered && other_call == nullptr) return true;
    let_in_quickly(driver);
    if (other_call == done) return false;
    throw DrivenElsewhere(
        concat(call, ": called by thread ", me, " while thread ", driver.thread, " is inside ",
               other_call != nullptr ? other_call : "an unknown call",
               ": one thread drives a runtime at a time; let the other's call return before (join, "
               "or lock a mutex around both), or give each thread a runtime of its own"));
  }

  void become_driver(Seat& seat) noexcept {
    driver_.store(&seat, std::memory_order_release);
    if (note_ != nullptr) note_->store(seat.thread, std::memory_order_relaxed);
  }
  void let_in_quickly(Seat& seat) noexcept {
    if (has_quick_way_) quick_.store(&seat, std::memory_order_release);
  }

  /// The seat of a thread, made if it is new here.
  Seat& seat_of(std::uintptr_t thread) {
    Seat* seat = first_;
    while (seat->thread != thread && seat->next != nullptr) seat = seat->next;
    if (seat->thread == thread) return *seat;
    return *(seat->next = make_seat(thread));
  }
  Seat* make_seat(std::uintptr_t thread) {
    void* const pages = process_ == 0 ? nullptr : detail::map_zeroed_by_fork(sizeof(Seat));
    Seat* const seat = pages != nullptr ? new (pages) Seat : new Seat;
    seat->mapped = pages != nullptr;
    seat->thread = thread;
    seat->key.store(thread, std::memory_order_relaxed);
    return seat;
  }

  bool in_task(std::uintptr_t thread) const noexcept {
    for (std::size_t i = 0; i < slots_; ++i)
      if (in_tasks_[i].thread.load(std::memory_order_relaxed) == thread) return true;
    return false;
  }

  /// Writes the calling thread into a slot, at its own one if that is free; null when more threads
  /// run bodies than said, or where a body around this one has done so: bodies that wait nest deep.
  std::atomic<std::uintptr_t>* claim() noexcept {
    std::uintptr_t const me = detail::this_thread();
    std::size_t const first = (me >> 6) * 0x9e3779b97f4a7c15u >> 32;
    for (std::size_t i = 0; i < slots_; ++i) {
      auto& slot = in_tasks_[(first + i) & (slots_ - 1)].thread;
      std::uintptr_t thread = slot.load(std::memory_order_relaxed);
      if (thread == me) return nullptr;
      if (thread == 0 && slot.compare_exchange_strong(thread, me, std::memory_order_relaxed))
        return &slot;
    }
    return nullptr;
  }

  std::atomic<Seat*> quick_{&nobody_};  // the seat that may enter without the lock
  std::atomic<Seat*> driver_{nullptr};  // changes under the lock, while the old one is outside
  Seat* first_ = nullptr;               // of the thread that made the runtime
  Seat nobody_;
  std::size_t const slots_;
  pid_t const process_;  // 0 if it does not matter
  HeapArray<Slot> in_tasks_;
  bool const has_quick_way_;
  std::atomic<std::uintptr_t>* const note_;
  detail::Mutex mutex_;
};

}  // namespace nntile::support
