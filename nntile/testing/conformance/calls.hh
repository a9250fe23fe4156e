#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The call and the runtime that each thread of the battery is in, for a watchdog to read.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "nntile/core/error.hh"

namespace nntile::testing {

class CallLog;

/// The logs of all runtimes that live, and the number of calls that have returned: while it grows,
/// nothing hangs.
class CallLogs {
 public:
  CallLogs() = default;
  CallLogs(CallLogs const&) = delete;
  std::uint64_t returned() const { return returned_.load(std::memory_order_relaxed); }
  /// "in wait_all() after submit() of task 12": the calls that have not returned, else the last
  /// one.
  std::string where() const;

 private:
  friend class CallLog;
  std::atomic<std::uint64_t> returned_{0};
  mutable std::mutex mutex_;
  std::vector<CallLog const*> logs_;
};

/// The calls of one runtime under test. Cost of a call: three atomic operations.
class CallLog {
 public:
  explicit CallLog(CallLogs& logs) : logs_(logs) {
    std::lock_guard const hold(logs_.mutex_);
    logs_.logs_.push_back(this);
  }
  CallLog(CallLog const&) = delete;
  ~CallLog() {
    std::lock_guard const hold(logs_.mutex_);
    std::erase(logs_.logs_, this);
  }

  /// Lives while a thread is inside the call of that name. Of more than `slots` threads at a time
  /// the others are not noted.
  class Call {
   public:
    Call(CallLog& log, char const* name) : log_(log), name_(name) {
      for (auto& slot : log.inside_) {
        char const* empty = nullptr;
        if (!slot.compare_exchange_strong(empty, name, std::memory_order_relaxed)) continue;
        slot_ = &slot;
        break;
      }
    }
    Call(Call const&) = delete;
    ~Call() {
      log_.asks_.store(!advances_, std::memory_order_relaxed);
      if (advances_) log_.last_.store(name_, std::memory_order_relaxed);
      if (slot_ != nullptr) slot_->store(nullptr, std::memory_order_relaxed);
      if (advances_) log_.logs_.returned_.fetch_add(1, std::memory_order_relaxed);
    }
    /// A call that got nothing done, such as `done` that says no, counts as none: a loop around it
    /// may hang.
    void got_nothing_done() { advances_ = false; }

   private:
    CallLog& log_;
    char const* name_;
    std::atomic<char const*>* slot_ = nullptr;
    bool advances_ = true;
  };

  void submitted() { tasks_.fetch_add(1, std::memory_order_relaxed); }
  /// From here on the calls belong to that step of that program.
  void at(std::uint64_t program, std::size_t step) {
    program_.store(program, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
  }

  bool is_inside() const {
    return std::any_of(std::begin(inside_), std::end(inside_),
                       [](auto const& slot) { return slot.load(std::memory_order_relaxed); });
  }
  std::string where() const {
    std::string text;
    for (auto const& slot : inside_)
      if (char const* const name = slot.load(std::memory_order_relaxed))
        text += concat(text.empty() ? "in " : " and ", name);
    if (asks_.load(std::memory_order_relaxed) && (text.empty() || text == "in done()"))
      text = "asking done() again and again";
    if (text.empty()) text = "outside of the runtime";
    if (char const* const last = last_.load(std::memory_order_relaxed))
      text += concat(" after ", last, submitted_by(last) ? " of task " : ", tasks submitted: ",
                     tasks_.load(std::memory_order_relaxed));
    std::size_t const step = step_.load(std::memory_order_relaxed);
    if (step != no_step)
      text += concat(" [program ", program_.load(std::memory_order_relaxed), ", step ", step, "]");
    return text;
  }

  static constexpr char submit_name[] = "submit()";

 private:
  static constexpr std::size_t slots = 8;
  static constexpr std::size_t no_step = ~std::size_t{0};
  static bool submitted_by(char const* call) { return call == submit_name; }

  CallLogs& logs_;
  std::atomic<char const*> inside_[slots]{};
  std::atomic<char const*> last_{nullptr};
  std::atomic<bool> asks_{false};  // the latest call was `done`, which said no
  std::atomic<std::uint64_t> tasks_{0};
  std::atomic<std::uint64_t> program_{0};
  std::atomic<std::size_t> step_{no_step};
};

inline std::string CallLogs::where() const {
  std::lock_guard const hold(mutex_);
  std::string text;
  for (CallLog const* const log : logs_)
    if (log->is_inside()) text += concat(text.empty() ? "" : "; another runtime ", log->where());
  if (!text.empty()) return text;
  return logs_.empty() ? "outside of the runtime" : logs_.back()->where();
}

}  // namespace nntile::testing
