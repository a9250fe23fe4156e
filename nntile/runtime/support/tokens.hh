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
//
// No mutex is taken on the way of a task whose token has no poll: what concerns polls alone is
// guarded by one.

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
#include "nntile/runtime/support/float_environment.hh"
#include "nntile/runtime/support/outstanding.hh"
#include "nntile/runtime/support/wake.hh"

namespace nntile::support {

/// The policy of runtimes that have none; that of a ring is another.
struct TokenPolicy {
  template <class T> using Atomic = std::atomic<T>;
  template <class T> using Plain = T;
  using Mutex = detail::Mutex;
  struct Clock {
    static void yield_core() { detail::yield_core(); }
  };
};

/// The open tokens of one runtime. Every member may be called from any thread, but poll(true).
template <class Policy> class BasicTokens {
  using Records = Outstanding<Policy>;
  using Record = typename Records::Record;

 public:
  /// Called once for each task that ends after its entry returned, on the thread that ends it. The
  /// status' text lives as long as the call. Marks are the callee's to settle (`settle` in
  /// run_body.hh).
  using Ended = void (*)(void* runtime, void* task, Status status) noexcept;

  /// `wake`, if any, is notified when a poll was registered, so that its sleepers go on to nap;
  /// `thread`, if any, tracks the thread that runs a poll.
  BasicTokens(void* runtime, Ended ended, Wake* wake = nullptr,
              DrivingThread* thread = nullptr) noexcept
      : runtime_(runtime), ended_(ended), wake_(wake), thread_(thread) {}
  BasicTokens(BasicTokens const&) = delete;
  BasicTokens& operator=(BasicTokens const&) = delete;
  ~BasicTokens() {
    if (thread_ == nullptr || !thread_->in_child()) quiesce();
  }

  /// Opens a token for a task whose entry is about to be called. Throws std::bad_alloc.
  Completion open(void* task, TaskBody const& body) {
    std::uint64_t const id = records_.open(task, {body.codelet, body.label, body.sequence});
    outstanding_.fetch_add(1, std::memory_order_seq_cst);
    return {this, id, &finish, &add_poll};
  }

  /// The outcome of the return of an asynchronous entry.
  struct Return {
    bool ended;  // false: `Ended` will be called, or was, and the task must not be touched any more
    bool failed;  // with `text` as the cause
    char text[status_text_bytes];
  };
  /// Notes that the entry has returned. The token is void afterwards if the task has ended.
  Return entry_returned(Completion const& token, Status status) noexcept {
    Record& record = records_[token.id];
    if (!status.ok()) {
      record.fail_entry(status.error);
      records_.claim_for_entry(record);
    }
    Return result{records_.leave(record), false, {}};
    if (!result.ended) return result;
    if (char const* const cause = record.failure()) {
      result.failed = true;
      copy_text(result.text, cause);
    }
    give_back(record, token.id);
    return result;
  }

  /// Calls each registered poll once, but those that another thread is calling; true if one of them
  /// ended its task.
  bool poll(bool driver) {
    if (polls_count_.load(std::memory_order_relaxed) == 0) return false;
    DefaultFloatEnvironment const environment;  // a poll is the user's, as a body is
    std::int64_t const begin = detail::monotonic_ns();
    bool const progress = poll_each(driver);
    std::int64_t const end = detail::monotonic_ns();
    auto& last = last_due_[driver];
    if (std::int64_t const rest = 2 * end - begin - poll_interval_ns;
        rest > last.load(std::memory_order_relaxed))
      last.store(rest, std::memory_order_relaxed);
    return progress;
  }

  /// For a thread between two bodies: whether polls are registered, it is 50 us since this last
  /// said so to one that may call as many, and bodies have had as long as the last round of them
  /// took. Cost without polls: one load.
  bool due(bool driver) noexcept {
    if (polls_count_.load(std::memory_order_relaxed) == 0) [[likely]]
      return false;
    std::int64_t const now = detail::monotonic_ns();
    std::int64_t last = last_due_[driver].load(std::memory_order_relaxed);
    return now - last >= poll_interval_ns &&
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
    auto& self = const_cast<BasicTokens&>(*this);  // a name is held while it is read
    std::string names;
    std::uint64_t count = 0;
    std::uint64_t id = 0;
    for (std::uint32_t index = 0; index < records_.count(); ++index) {
      Record* const record = self.records_.hold_any(index, id);
      if (record == nullptr) continue;
      Hold const hold{self, *record, id};
      if (++count <= 4)
        names += concat(count == 1 ? "" : ", ",
                        task_name(record->name.codelet, record->name.label, record->name.sequence));
    }
    if (count == 0) return "";
    return concat(count,
                  count == 1 ? " task waits to be completed: " : " tasks wait to be completed: ",
                  names, count > 4 ? ", ..." : "");
  }

  /// Returns when no thread is inside the completion of a task any more.
  void quiesce() noexcept {
    while (inside_.load(std::memory_order_acquire) != 0) Policy::Clock::yield_core();
  }

  /// Makes room for `count` tokens at a time, and a poll of each, from one thread. Throws
  /// std::bad_alloc.
  void reserve(std::uint32_t count) {
    records_.reserve(count);
    detail::Lock<Mutex> guard(mutex_);
    polls_.reserve(count);
  }
  /// Times that memory was taken for more tokens at a time, or for more polls.
  std::uint32_t growths() const noexcept {
    return records_.chunks() + poll_growths_.load(std::memory_order_relaxed);
  }

 private:
  using Mutex = typename Policy::Mutex;
  static constexpr std::int64_t poll_interval_ns = 50'000;

  struct Poll {
    std::uint64_t number;
    Completion token;
    Completion::Poll function;
    void* state;
    bool driver_only;
    bool busy;
    bool dead;  // its task ended while the poll ran
    bool gone;  // called no more, and taken out with others
  };

  bool poll_each(bool driver) {
    bool progress = false;
    detail::Lock<Mutex> lock(mutex_);
    std::uint64_t const newest =
        next_poll_;  // polls that are registered meanwhile wait for the next round
    for (std::uint64_t last = 0;;) {
      Poll* const poll = next_free_poll(last, newest, driver);
      if (poll == nullptr) return compact(), progress;
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
      if (!same->dead) count_poll(token.id, -1);  // its record is not given back before
      erase_poll(same);
    }
  }

  /// Counts the calling thread as inside the completion of a task, while it lives.
  class Inside {
   public:
    explicit Inside(BasicTokens& self) : count_(self.inside_) {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;
    ~Inside() { count_.fetch_sub(1, std::memory_order_release); }  // the last touch

   private:
    typename Policy::template Atomic<std::uint32_t>& count_;
  };

  /// Lets go of a record, also where its name cannot be read for want of memory.
  struct Hold {
    BasicTokens& self;
    Record& record;
    std::uint64_t id;
    ~Hold() { self.leave(record, id); }
  };

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
    auto& self = *static_cast<BasicTokens*>(owner);
    Inside const inside(self);
    if (Record* const record = self.records_.claim(id); record != nullptr) {
      if (!status.ok()) record->fail(status.error);
      self.leave(*record, id);
    }
  }
  /// Lets go of a record, and ends its task where no other thread is to.
  void leave(Record& record, std::uint64_t id) noexcept {
    if (!records_.leave(record)) return;
    void* const task = record.task;
    char text[status_text_bytes];
    char const* const cause = record.failure();
    if (cause != nullptr) copy_text(text, cause);
    give_back(record, id);
    ended_(runtime_, task, cause != nullptr ? Status{text} : Status{});
  }
  void give_back(Record& record, std::uint64_t id) noexcept {
    if (record.polls.load(std::memory_order_relaxed) != 0) forget_polls(record, id);
    records_.give_back(record, id);
    outstanding_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Registers a poll. One for a void token is dropped. Throws std::bad_alloc.
  static void add_poll(void* owner, std::uint64_t id, Completion::Poll function, void* state,
                       bool driver_only) {
    auto& self = *static_cast<BasicTokens*>(owner);
    Inside const inside(self);  // it may end the task, where another claims the end
    Record* const record = self.records_.hold(id);
    if (record == nullptr) return;
    Hold const hold{self, *record, id};
    detail::Lock<Mutex> guard(self.mutex_);
    if (self.polls_.size() == self.polls_.capacity()) self.compact();
    if (self.polls_.size() == self.polls_.capacity())
      self.poll_growths_.fetch_add(1, std::memory_order_relaxed);
    self.polls_.push_back({self.next_poll_ + 1,
                           {owner, id, &finish, &add_poll},
                           function,
                           state,
                           driver_only,
                           false,
                           false,
                           false});
    self.polls_count_.fetch_add(1, std::memory_order_seq_cst);
    ++self.next_poll_;
    if (record->polls.load(std::memory_order_relaxed) == 0) record->first_poll = self.next_poll_;
    self.count_poll(id, 1);
    if (self.wake_ != nullptr) self.wake_->notify();
  }
  /// Under the mutex.
  void count_poll(std::uint64_t id, int more) noexcept {
    auto& polls = records_[id].polls;
    polls.store(polls.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(more),
                std::memory_order_relaxed);
  }

  [[gnu::noinline]] void forget_polls(Record& record, std::uint64_t id) noexcept {
    detail::Lock<Mutex> guard(mutex_);
    std::uint32_t left = record.polls.load(std::memory_order_relaxed);
    for (auto i = position_after(record.first_poll - 1); left != 0; ++i) {
      while (polls_[i].token.id != id || polls_[i].gone) ++i;
      --left;
      if (polls_[i].busy)
        polls_[i].dead = true;
      else
        erase_poll(&polls_[i]);
    }
    record.polls.store(0, std::memory_order_relaxed);
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
      if (!polls_[i].gone && !polls_[i].busy && (driver || !polls_[i].driver_only))
        return &polls_[i];
    return nullptr;
  }
  /// Notes that it is called no more: to move those behind it takes long where many end.
  void erase_poll(Poll* poll) noexcept {
    poll->gone = true;
    polls_count_.fetch_sub(1, std::memory_order_seq_cst);
  }
  void compact() noexcept {
    if (polls_.size() == polls_count_.load(std::memory_order_relaxed)) return;
    erase_if(polls_, [](Poll const& poll) { return poll.gone; });
  }

  void* runtime_;
  Ended ended_;
  Wake* wake_;
  DrivingThread* thread_;
  std::atomic<std::uint64_t> outstanding_{0};
  std::atomic<std::uint64_t> polls_count_{0};
  std::atomic<std::uint32_t> poll_growths_{0};
  /// Of workers, of the driver: poll_interval_ns before the next time.
  std::atomic<std::int64_t> last_due_[2]{};
  typename Policy::template Atomic<std::uint32_t> inside_{0};  // threads that complete a task
  Records records_;
  Mutex mutex_;  // of polls
  std::uint64_t next_poll_ = 0;
  DynamicArray<Poll> polls_;
};

using Tokens = BasicTokens<TokenPolicy>;

}  // namespace nntile::support
