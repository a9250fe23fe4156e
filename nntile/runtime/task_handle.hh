#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Owning a submitted task: wait for it, or let it go; and groups of such.

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/link.hh"
#include "nntile/runtime/runtime_ref.hh"

namespace nntile {

/// Waits for one task when it dies, unless it was waited for or detached before. Move-only. Law:
/// the destructor never throws; `wait` reports failures, and so does the runtime's `wait_all` in
/// any case. If the runtime ends before it, `wait` throws LifetimeError, once, and the destructor
/// does nothing. `wait` and the destructor drive the runtime; the destructor waits for its turn. It
/// lets the task go where a wait is refused: inside a task, and while the runtime is paused.
template <RequiredRuntime R> class [[nodiscard]] TaskHandle {
 public:
  /// Names no task: it is complete.
  TaskHandle() = default;
  TaskHandle(R& runtime, Event event) : runtime_(runtime), event_(event) {}
  TaskHandle(TaskHandle&& other) noexcept = default;
  /// Waits for the task that it held.
  TaskHandle& operator=(TaskHandle&& other) noexcept {
    if (this == &other) return *this;
    finish();
    runtime_ = std::move(other.runtime_);
    event_ = other.event_;
    return *this;
  }
  ~TaskHandle() { finish(); }

  /// Returns when the task has ended; at once when it was waited for before. Throws TaskError if it
  /// failed or was cancelled. A wait that is refused, with LifetimeError, has not been.
  void wait() {
    if (!runtime_) return;
    try {
      runtime_.get("task").wait(event_);
    } catch (TaskError const&) {
      runtime_ = {};
      throw;
    } catch (LifetimeError const&) {
      if (!runtime_.alive()) runtime_ = {};
      throw;
    }
    runtime_ = {};
  }
  /// Whether the task has ended, well or not. Blocks: no.
  bool is_complete() const { return !runtime_.alive() || runtime_.get("task").done(event_); }
  /// Lets the task run on by itself, and returns its event.
  Event detach() noexcept {
    runtime_ = {};
    return event_;
  }
  Event event() const noexcept { return event_; }
  /// Whether there is still a task to wait for.
  explicit operator bool() const noexcept { return bool(runtime_); }

 private:
  template <RequiredRuntime> friend class TaskGroup;
  /// is_complete for one that waits: as the thread that drives, without which some runtimes run
  /// nothing, unless another is inside a call. Throws LifetimeError inside a task.
  bool completes() const {
    if constexpr (DrivenRuntime<R>) {
      if (!runtime_.alive()) return true;
      try {
        (void)runtime_.get("task").drive("wait_any");  // for a moment: others may call in between
      } catch (support::DrivenElsewhere const&) {
      }
    }
    return is_complete();
  }
  /// Whether a wait for one that is not complete is refused since its runtime stands still.
  bool is_paused() const {
    if constexpr (PausingRuntime<R>)
      return runtime_.get("task").paused();
    else
      return false;
  }
  void finish() noexcept { runtime_.wait(event_); }

  RuntimeRef<R> runtime_;
  Event event_{};
};

/// Tasks to be waited for together. Like its handles, it waits when it dies and never throws then.
template <RequiredRuntime R> class [[nodiscard]] TaskGroup {
 public:
  void add(TaskHandle<R>&& task) {
    if (tasks_.empty()) returned_ = 0;
    tasks_.push_back(std::move(task));
  }

  /// Waits for every task, then empties the group. Throws the TaskError of the first, in order of
  /// `add`, that failed or was cancelled; LifetimeError where a wait is refused, and may be called
  /// again then: what has failed before is thrown in the end.
  void wait_all() {
    for (TaskHandle<R>& task : tasks_) {
      try {
        task.wait();
      } catch (TaskError const&) {
        if (failed_ == nullptr) failed_ = std::current_exception();
      }
    }
    tasks_.clear();
    if (failed_ != nullptr) std::rethrow_exception(std::exchange(failed_, nullptr));
  }

  /// Waits until some task that no call has returned yet is complete, and returns its position in
  /// order of `add`. Throws its TaskError if it failed or was cancelled, and LifetimeError if its
  /// runtime has ended, as if it had returned it; LifetimeError, too, inside a task, and while the
  /// runtimes of all that are left are paused; ValueError when every task was returned before.
  /// Cost: a look at each task behind the first that was not returned.
  std::size_t wait_any() {
    for (int yields = 64;;) {  // then it sleeps: no runtime has a wait for one of many
      bool open = false, paused = true;
      while (returned_ < tasks_.size() && !tasks_[returned_]) ++returned_;
      for (std::size_t i = returned_; i < tasks_.size(); ++i) {
        if (!tasks_[i]) continue;
        open = true;
        if (!tasks_[i].completes()) {
          paused = paused && tasks_[i].is_paused();
          continue;
        }
        tasks_[i].wait();
        return i;
      }
      if (!open)
        throw ValueError(concat("wait_any: none of ", tasks_.size(), " tasks is left to wait for"));
      if (paused) {  // the first one is refused
        tasks_[returned_].wait();
        return returned_;
      }
      if (yields == 0) {
        detail::sleep_ns(50'000);
      } else {
        --yields;
        detail::yield_core();
      }
    }
  }

  /// Lets every task run on by itself, and empties the group.
  void detach_all() noexcept {
    for (TaskHandle<R>& task : tasks_) task.detach();
    tasks_.clear();
  }

  /// Tasks added since the last `wait_all`.
  std::size_t size() const noexcept { return tasks_.size(); }
  bool empty() const noexcept { return tasks_.empty(); }

 private:
  std::vector<TaskHandle<R>> tasks_;
  std::size_t returned_ = 0;   // at the front, by wait_any; any number where tasks_ is empty
  std::exception_ptr failed_;  // the first one that a refused wait_all has met
};

}  // namespace nntile
