#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The journal of test tasks' bodies: concurrent users of a buffer, and the tasks that ran.

#include <atomic>
#include <concepts>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/error.hh"

namespace nntile::testing {

/// A broken law, as a sentence. Thrown by checks, caught by the battery.
struct Violation {
  std::string text;
};

inline void require(bool condition, std::string text) {
  if (!condition) throw Violation{std::move(text)};
}
/// The text is made of a violation alone: it takes longer than most conditions.
template <std::invocable Text> void require(bool condition, Text&& text) {
  if (!condition) throw Violation{text()};
}

/// Scrambles 64 bits; neither commutative nor associative, so that any other order of tasks leaves
/// other bits.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + (b ^ (b >> 31));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;  // splitmix64, Steele et al. 2014
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A generator with a state of one word.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed, 0x5eed)) {}
  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15u, 1); }
  /// 0 to below - 1.
  std::uint32_t below(std::size_t below) { return static_cast<std::uint32_t>(bits() % below); }
  bool chance(int percent) { return below(100) < static_cast<std::uint32_t>(percent); }

 private:
  std::uint64_t state_;
};

/// The tasks inside a buffer at this moment. Relaxed atomics, so that it orders nothing and hides
/// no race from a sanitizer.
struct Guard {
  std::atomic<int> readers{0};
  std::atomic<int> writers{0};
  std::atomic<int> disjoint{0};       // those that write disjoint bytes
  std::atomic<bool> released{false};  // its memory is the caller's again
};

/// The records of one trial's tasks. Outlives the runtime.
class Journal {
 public:
  explicit Journal(std::size_t tasks = 0) { expect_tasks(tasks); }

  /// Must come before the first submission.
  void expect_tasks(std::size_t tasks) {
    count_ = tasks;
    ran_ = std::make_unique<std::atomic<int>[]>(tasks);
  }
  Guard& add_guard() { return guards_.emplace_back(); }

  /// The thread that made the journal drives the runtime.
  std::thread::id driver() const { return driver_; }

  void ran(std::size_t task) {
    if (task < count_)
      ran_[task].fetch_add(1, std::memory_order_relaxed);
    else
      complain(concat("a body ran as task ", task, " of ", count_));
  }
  int times_run(std::size_t task) const { return ran_[task].load(std::memory_order_relaxed); }
  std::size_t tasks() const { return count_; }

  /// Keeps the first complaint; from any thread.
  void complain(std::string text) {
    std::lock_guard const hold(mutex_);
    if (complaint_.empty()) complaint_ = std::move(text);
  }
  std::string complaint() const {
    std::lock_guard const hold(mutex_);
    return complaint_;
  }
  /// Keeps a task's state for calls that come after its end; from any thread.
  void keep(std::shared_ptr<void> left) {
    std::lock_guard const hold(mutex_);
    left_.push_back(std::move(left));
  }
  void require_quiet() const {
    std::string const text = complaint();
    require(text.empty(), text);
  }

  void enter(Guard& guard, Access access, std::size_t task) {
    expect_held(guard, task);
    if (access == Access::unordered) return;
    users(guard, access).fetch_add(1, std::memory_order_relaxed);
    int const writers =
        guard.writers.load(std::memory_order_relaxed) - (&users(guard, access) == &guard.writers);
    int const readers = access == Access::read ? 0 : guard.readers.load(std::memory_order_relaxed);
    int const disjoint =
        access == Access::write_disjoint ? 0 : guard.disjoint.load(std::memory_order_relaxed);
    if (writers + readers + disjoint != 0)
      complain(concat("task ", task, " entered to ", name_of(access), " a buffer that ", readers,
                      " readers, ", writers, " writers and ", disjoint,
                      " writers of disjoint bytes were using"));
  }
  void leave(Guard& guard, Access access, std::size_t task) {
    expect_held(guard, task);
    if (access == Access::unordered) return;
    users(guard, access).fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  static std::atomic<int>& users(Guard& guard, Access access) {
    return access == Access::read             ? guard.readers
           : access == Access::write_disjoint ? guard.disjoint
                                              : guard.writers;
  }
  void expect_held(Guard const& guard, std::size_t task) {
    if (guard.released.load(std::memory_order_relaxed))
      complain(concat("task ", task, " used memory that had been released"));
  }

  std::thread::id const driver_ = std::this_thread::get_id();
  std::size_t count_ = 0;
  std::unique_ptr<std::atomic<int>[]> ran_;
  std::deque<Guard> guards_;
  mutable std::mutex mutex_;  // guards what follows
  std::string complaint_;
  std::vector<std::shared_ptr<void>> left_;
};

}  // namespace nntile::testing
