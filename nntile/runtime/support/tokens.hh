#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Completion tokens: asynchronous tasks, which end after their entry has returned.
//
// Use by a runtime: it holds one `Tokens`, made with a function to call when an asynchronous
// task has ended, and hands it to `run_body` (run_body.hh), which opens tokens. At every blocking
// place the driving thread calls poll(true); one idle worker calls poll(false) while polls() != 0.
// A runtime that sleeps with polls() != 0 naps instead (wake.hh); a thread that runs one body after
// the other calls poll where due() says so, since peers wait for what polls post. No verdict of
// deadlock while outstanding() != 0; waiting_for() says what is waited for. A poll counts as a
// task: it may ask `done`, register polls and complete tokens, but not drive; what it throws fails
// its task. Declare it after the members that the function touches, or call quiesce() before they
// die: threads of the user's may still be inside `finish`.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "nntile/core/codelet.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/wake.hh"

namespace nntile::support {

/// The open tokens of one runtime. Every member may be called from any thread, but poll(true).
class Tokens {
 public:
  /// Called once for each task that ends after its entry returned, on the thread that ends it. The
  /// status' text lives as long as the call. Marks are the callee's to settle (`settle` in
  /// run_body.hh).
  using Ended = void (*)(void* runtime, void* task, Status status) noexcept;

  /// `wake`, if any, is notified when a poll was registered, so that its sleepers go on to nap;
  /// `thread`, if any, tracks the thread that runs a poll.
  Tokens(void* runtime, Ended ended, Wake* wake = nullptr, DrivingThread* thread = nullptr) noexcept
      : runtime_(runtime), ended_(ended), wake_(wake), thread_(thread) {}
  Tokens(Tokens const&) = delete;
  Tokens& operator=(Tokens const&) = delete;
  ~Tokens() {
    if (thread_ == nullptr || !thread_->in_child()) quiesce();
  }

  /// Opens a token for a task whose entry is about to be called. Throws std::bad_alloc.
  Completion open(void* task, TaskBody const& body) {
    detail::Lock guard(mutex_);
    if (free_.empty()) {
      records_.emplace_back();
      if (free_.capacity() < records_.size())
        free_.reserve(2 * records_.size());  // closing never allocates
      free_.push_back(static_cast<std::uint32_t>(records_.size() - 1));
    }
    std::uint32_t const index = free_.back();
    free_.pop_back();
    Record& record = records_[index];
    record.task = task;
    record.name = {body.codelet, body.label, body.sequence};
    record.state = State::in_entry;
    record.failed = false;
    record.polls = 0;
    outstanding_.fetch_add(1, std::memory_order_seq_cst);
    return {this, id_of(index, record.generation), &finish, &add_poll};
  }

  /// The outcome of the return of an asynchronous entry.
  struct Return {
    bool ended;  // false: `Ended` will be called, or was, and the task must not be touched any more
    bool failed;  // with `text` as the cause
    char text[status_text_bytes];
  };
  /// Notes that the entry has returned. The token is void afterwards if the task has ended.
  Return entry_returned(Completion const& token, Status status) noexcept {
    detail::Lock guard(mutex_);
    std::uint32_t const index = index_of(token.id);
    Record& record = records_[index];
    Return result{true, !status.ok() || record.failed, {}};
    if (status.ok() && record.state == State::in_entry) {
      record.state = State::pending;
      result.ended = false;
      return result;
    }
    if (!status.ok())
      copy_text(result.text, status.error);
    else if (record.failed)
      copy_text(result.text, record.text);
    close(index);
    return result;
  }

  /// Calls each registered poll once, but those that another thread is calling; true if one of them
  /// ended its task.
  bool poll(bool driver) {
    bool progress = false;
    if (polls_count_.load(std::memory_order_relaxed) == 0) return false;
    detail::Lock lock(mutex_);
    std::uint64_t const newest =
        next_poll_;  // polls that are registered meanwhile wait for the next round
    for (std::uint64_t last = 0;;) {
      Poll* const poll = next_free_poll(last, newest, driver);
      if (poll == nullptr) return progress;
      last = poll->number;
      poll->busy = true;
      Completion const token = poll->token;
      auto const function = poll->function;
      void* const state = poll->state;
      lock.unlock();
      bool const done = call(function, state, token);
      lock.lock();
      progress |= done;
      Poll* const same = &polls_[position_after(last - 1)];  // the vector may have moved
      same->busy = false;
      if (!done && !same->dead) continue;
      if (Record* const record = find(token.id); record != nullptr && !same->dead) --record->polls;
      erase_poll(same);
    }
  }

  /// For a thread between two bodies: whether polls are registered, and it is 50 us since this last
  /// said so to one that may call as many. Cost without polls: one load.
  bool due(bool driver) noexcept {
    if (polls_count_.load(std::memory_order_relaxed) == 0) [[likely]]
      return false;
    std::int64_t const now = detail::monotonic_ns();
    std::int64_t last = last_due_[driver].load(std::memory_order_relaxed);
    return now - last >= 50'000 &&
           last_due_[driver].compare_exchange_strong(last, now, std::memory_order_relaxed);
  }

  /// Tasks that wait for a token.
  std::uint64_t outstanding() const noexcept {
    return outstanding_.load(std::memory_order_seq_cst);
  }
  /// Registered polls.
  std::uint64_t polls() const noexcept { return polls_count_.load(std::memory_order_seq_cst); }

  /// "2 tasks wait to be completed: recv of tensor 'h1', tile 3 (task 12), ..."; names at most
  /// four. "" if none does.
  std::string waiting_for() const {
    detail::Lock guard(mutex_);
    std::string names;
    std::uint64_t count = 0;
    for (Record const& record : records_) {
      if (record.state == State::closed) continue;
      if (++count <= 4)
        names += concat(count == 1 ? "" : ", ",
                        task_name(record.name.codelet, record.name.label, record.name.sequence));
    }
    if (count == 0) return "";
    return concat(count,
                  count == 1 ? " task waits to be completed: " : " tasks wait to be completed: ",
                  names, count > 4 ? ", ..." : "");
  }

  /// Returns when no thread is inside the completion of a task any more.
  void quiesce() noexcept {
    detail::Lock lock(mutex_);
    while (finishing_ != 0) finished_.wait(lock);
  }

 private:
  enum class State : std::uint8_t { closed, in_entry, completed_in_entry, pending };
  struct Name {
    Codelet const* codelet;
    TaskLabel label;
    std::uint64_t sequence;
  };
  struct Record {
    void* task = nullptr;
    Name name{};
    std::uint32_t generation = 1;
    State state = State::closed;
    bool failed = false;
    std::uint64_t first_poll = 0;  // number of its first registered poll
    std::uint32_t polls = 0;       // how many it has
    char text[status_text_bytes]{};
  };
  struct Poll {
    std::uint64_t number;
    Completion token;
    Completion::Poll function;
    void* state;
    bool driver_only;
    bool busy;
    bool dead;  // its task ended while the poll ran
  };

  static std::uint64_t id_of(std::uint32_t index, std::uint32_t generation) noexcept {
    return (static_cast<std::uint64_t>(generation) << 32) | index;
  }
  static std::uint32_t index_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id);
  }

  static void copy_text(char* to, char const* from) noexcept {
    std::size_t const length = strnlen(from, status_text_bytes - 1);
    std::memcpy(to, from, length);
    to[length] = 0;
  }

  /// Calls a poll as if it were a task: a call that drives could be amid another that waits, whose
  /// state it would change. What the poll throws fails its task: this may be any thread.
  bool call(Completion::Poll function, void* state, Completion const& token) noexcept {
    std::optional<DrivingThread::InTask> in_task;
    if (thread_ != nullptr) in_task.emplace(*thread_);
    try {
      return function(state, token);
    } catch (std::exception const& error) {
      finish(this, token.id, {error.what()});
    } catch (...) {
      finish(this, token.id, {"its poll threw what is no std::exception"});
    }
    return true;
  }

  /// Ends the task of a token. A token that is void, or was finished before, is ignored.
  static void finish(void* owner, std::uint64_t id, Status status) noexcept {
    auto& self = *static_cast<Tokens*>(owner);
    char text[status_text_bytes];
    void* task = nullptr;
    {
      detail::Lock guard(self.mutex_);
      Record* const record = self.find(id);
      if (record == nullptr || record->state == State::completed_in_entry) return;
      if (record->state == State::in_entry) {  // the entry's thread will end the task
        record->state = State::completed_in_entry;
        record->failed = !status.ok();
        if (!status.ok()) copy_text(record->text, status.error);
        return;
      }
      if (!status.ok()) copy_text(text, status.error);
      task = record->task;
      self.close(index_of(id));
      ++self.finishing_;
    }
    self.ended_(self.runtime_, task, status.ok() ? Status{} : Status{text});
    detail::Lock guard(self.mutex_);
    if (--self.finishing_ == 0) self.finished_.notify_all();
  }

  /// Registers a poll. One for a void token is dropped. Throws std::bad_alloc.
  static void add_poll(void* owner, std::uint64_t id, Completion::Poll function, void* state,
                       bool driver_only) {
    auto& self = *static_cast<Tokens*>(owner);
    detail::Lock guard(self.mutex_);
    Record* const record = self.find(id);
    if (record == nullptr || record->state == State::completed_in_entry) return;
    self.polls_.push_back({self.next_poll_ + 1,
                           {owner, id, &finish, &add_poll},
                           function,
                           state,
                           driver_only,
                           false,
                           false});
    self.polls_count_.fetch_add(1, std::memory_order_seq_cst);
    ++self.next_poll_;
    if (record->polls++ == 0) record->first_poll = self.next_poll_;
    if (self.wake_ != nullptr) self.wake_->notify();
  }

  Record* find(std::uint64_t id) noexcept {
    if (index_of(id) >= records_.size()) return nullptr;
    Record& record = records_[index_of(id)];
    return record.state != State::closed && id_of(index_of(id), record.generation) == id ? &record
                                                                                         : nullptr;
  }

  void close(std::uint32_t index) noexcept {
    Record& record = records_[index];
    std::uint64_t const id = id_of(index, record.generation);
    for (auto i = position_after(record.first_poll - 1); record.polls != 0; ++i) {
      while (polls_[i].token.id != id) ++i;
      --record.polls;
      if (polls_[i].busy)
        polls_[i].dead = true;
      else
        erase_poll(&polls_[i--]);
    }
    record.state = State::closed;
    ++record.generation;
    free_.push_back(index);
    outstanding_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Position of the first poll with a number above `number`: they ascend.
  std::size_t position_after(std::uint64_t number) const noexcept {
    std::size_t low = 0, high = polls_.size();
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      if (polls_[middle].number <= number)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  /// The first poll after number `last`, up to `newest`, that is not being called.
  Poll* next_free_poll(std::uint64_t last, std::uint64_t newest, bool driver) noexcept {
    for (std::size_t i = position_after(last); i < polls_.size() && polls_[i].number <= newest; ++i)
      if (!polls_[i].busy && (driver || !polls_[i].driver_only)) return &polls_[i];
    return nullptr;
  }
  void erase_poll(Poll* poll) noexcept {
    polls_.erase(polls_.begin() + (poll - polls_.data()));
    polls_count_.fetch_sub(1, std::memory_order_seq_cst);
  }

  void* runtime_;
  Ended ended_;
  Wake* wake_;
  DrivingThread* thread_;
  std::atomic<std::uint64_t> outstanding_{0};
  std::atomic<std::uint64_t> polls_count_{0};
  std::atomic<std::int64_t> last_due_[2]{};  // of workers, of the driver
  mutable detail::Mutex mutex_;
  detail::Condition finished_;
  std::uint64_t finishing_ = 0;
  std::uint64_t next_poll_ = 0;
  DynamicArray<Record> records_;
  DynamicArray<std::uint32_t> free_;
  DynamicArray<Poll> polls_;
};

}  // namespace nntile::support
