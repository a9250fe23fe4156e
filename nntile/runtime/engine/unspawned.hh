#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Jobs that an executor had no memory for: the threads that would have spawned them run them.

#include <concepts>
#include <cstdint>

#include "nntile/core/threads.hh"
#include "nntile/runtime/engine/task_node.hh"

namespace nntile::detail::engine {

/// The threads that run such jobs. Law: each thread runs them one behind the other, not one inside
/// of another, which a chain of tasks would be: its stack holds one of them.
class Unspawned {
 public:
  Unspawned() = default;
  Unspawned(Unspawned const&) = delete;
  Unspawned& operator=(Unspawned const&) = delete;

  /// Has run(&node) called, on this thread or on another of these.
  void run(support::TaskNode& node, void (*run_node)(void*) noexcept) noexcept {
    {
      Lock const hold(mutex_);
      node.next_free = nodes_;
      nodes_ = &node;
    }
    run_all([&] {
      support::TaskNode* const next = take();
      if (next != nullptr) run_node(next);
      return next != nullptr;
    });
  }
  /// Has job() called once more, likewise; it is alike in all calls.
  template <std::invocable NextJob> void run(NextJob job) noexcept {
    {
      Lock const hold(mutex_);
      ++jobs_;
    }
    run_all([&] {
      bool const more = take_job();
      if (more) job();
      return more;
    });
  }

 private:
  struct Runner {
    std::uintptr_t thread;
    Runner* next;
  };

  /// Calls run_one() until that returns false, unless this thread is inside such a call already:
  /// then that one goes on with it.
  template <std::predicate RunOne> void run_all(RunOne run_one) noexcept {
    Runner self{this_thread(), nullptr};
    {
      Lock const hold(mutex_);
      for (Runner const* one = runners_; one != nullptr; one = one->next)
        if (one->thread == self.thread) return;
      self.next = runners_;
      runners_ = &self;
    }
    while (run_one()) {
    }
    Lock const hold(mutex_);
    Runner** at = &runners_;
    while (*at != &self) at = &(*at)->next;
    *at = self.next;
  }
  support::TaskNode* take() noexcept {
    Lock const hold(mutex_);
    support::TaskNode* const node = nodes_;
    if (node != nullptr) nodes_ = node->next_free;
    return node;
  }
  bool take_job() noexcept {
    Lock const hold(mutex_);
    bool const any = jobs_ != 0;
    if (any) --jobs_;
    return any;
  }

  Mutex mutex_;
  Runner* runners_ = nullptr;
  support::TaskNode* nodes_ = nullptr;
  std::uint64_t jobs_ = 0;
};

}  // namespace nntile::detail::engine
