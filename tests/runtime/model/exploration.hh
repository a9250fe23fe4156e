// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a program of a few threads through all its executions that differ in the order of dependent
// operations, or in what they read.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/model/clock.hh"
#include "tests/runtime/model/fiber.hh"
#include "tests/runtime/model/path.hh"

namespace nntile::test::model {

struct Limits {
  int preemptions = -1;  // none below 0
  std::uint64_t executions = ~std::uint64_t{0};
  bool reduced = true;  // by partial orders; the other is for tests of the reduction
};

struct Outcome {
  std::string failure;  // "" if there is none
  std::uint64_t executions = 0;
  std::uint64_t states = 0;   // points at which a thread was chosen for the first time
  std::uint64_t longest = 0;  // operations of the longest execution
  double seconds = 0;
  bool complete = false;
};

/// Explores one program. One at a time: the operations of model/ act on `current`.
class Exploration {
 public:
  static inline Exploration* current = nullptr;

  explicit Exploration(Limits limits) : limits_(limits), path_(limits.preemptions, limits.reduced) {
    current = this;
  }
  Exploration(Exploration const&) = delete;
  Exploration& operator=(Exploration const&) = delete;
  ~Exploration() { current = nullptr; }

  /// Runs the program, which starts and joins threads, along every execution or up to the first
  /// that fails. One that fails is left where it is.
  Outcome explore(std::function<void()> program) {
    auto const start = std::chrono::steady_clock::now();
    do {
      begin(program);
      Fiber::switch_to(caller_, threads_[0]->fiber);
      ++outcome_.executions;
      if (events_.size() > outcome_.longest) outcome_.longest = events_.size();
      outcome_.complete = outcome_.failure.empty() && !path_.advance();
    } while (outcome_.failure.empty() && !outcome_.complete &&
             outcome_.executions < limits_.executions);
    std::chrono::duration<double> const spent = std::chrono::steady_clock::now() - start;
    outcome_.seconds = spent.count();
    outcome_.states = path_.states();
    return outcome_;
  }

  // For the operations of model/.

  /// Whether more than one thread is there: alone, a thread's operations are no events.
  bool concurrent() const { return alive_ > 1; }
  std::size_t self() const { return self_; }
  /// What happens before the thread's next operation.
  Clock& seen() { return threads_[self_]->seen; }
  Stamp now() const { return {static_cast<std::uint32_t>(self_), threads_[self_]->seen.at[self_]}; }
  /// Ends a step of the thread, when what it has done until now was handed to others.
  void tick() { ++threads_[self_]->seen.at[self_]; }
  /// The event at which the thread last yielded its core: since then it sees what was stored
  /// before.
  std::size_t fresh_from() const { return threads_[self_]->fresh_from; }
  std::size_t event() const { return events_.size(); }

  /// Lets others run; returns when this operation is to take place. It does not while `blocked`.
  void begin_operation(std::function<bool()> blocked = nullptr) {
    Thread& me = *threads_[self_];
    if (++alone_for_ > most_alone) give_way();  // a loop may wait for another thread
    me.blocked = std::move(blocked);
    schedule();
  }
  /// One of `count` numbers; each in some execution. Once an operation, between begin and end.
  std::size_t choose(std::size_t count) {
    if (count == 1) return 0;
    return path_.choose(count);
  }
  /// Whether that event of a change is before the thread's operation whatever the order was.
  bool follows(std::size_t event) const {
    auto const& of = events_[event];
    return threads_[self_]->trace.covers(of.thread, of.number);
  }
  /// Notes the operation, with what it did in the end, as an event; finds its races.
  void end_operation(Object* object, Effect effect) {
    Thread& me = *threads_[self_];
    if (object != nullptr) find_races(*object, effect);
    if (object != nullptr)
      me.trace.join(effect == Effect::change ? object->touched : object->changed);
    std::uint32_t const number = ++me.trace.at[self_];
    int const event = static_cast<int>(events_.size());
    events_.push_back({static_cast<std::uint32_t>(self_), number});
    if (events_.size() > most_events) fail("it does not end");
    if (object == nullptr) return;
    if (effect == Effect::change) {
      ++changes_;
      for (auto const& thread : threads_) thread->after &= ~bit(self_);
    }
    object->touched.join(me.trace);
    if (effect == Effect::change) {
      object->changed = object->touched;
      object->last_change = event;
      object->looks.clear();
    } else {
      object->looks.push_back(event);
    }
  }
  /// Orders the thread behind the changes of that object.
  void follow(Object const& object) { threads_[self_]->trace.join(object.changed); }
  /// Adds what the thread has done since its operation to what follows on that object.
  void leave(Object& object) {
    object.touched.join(threads_[self_]->trace);
    object.changed = object.touched;
  }

  /// Lets others run as long as `blocked`.
  void block_while(std::function<bool()> blocked) {
    begin_operation(std::move(blocked));
    end_operation(nullptr, Effect::none);
  }
  /// Lets others run until each that can has changed something or yields as well.
  void yield() {
    if (!concurrent()) return;
    Thread& me = *threads_[self_];
    me.fresh_from = events_.size();
    give_way();
    if (me.yielded_at != changes_) me.yields = 0;
    if (++me.yields > 3) fail("livelock: a thread looks again and again, and nothing changes");
    me.yielded_at = changes_;
    block_while(nullptr);
  }

  std::size_t start(std::function<void()> body) {
    std::size_t const number = count_++;
    if (number == most_threads) fail("more threads than the model has");
    if (threads_.size() <= number) threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_[number];
    thread.reset();
    thread.seen = threads_[self_]->seen;
    thread.trace = threads_[self_]->trace;
    thread.seen.at[number] = 1;
    tick();
    thread.fiber.prepare([this, number, body = std::move(body)] {
      end_operation(nullptr, Effect::none);
      body();
      finish(number);
    });
    ++alive_;
    return number;
  }
  void join(std::size_t thread) {
    block_while([this, thread] { return !threads_[thread]->finished; });
    threads_[self_]->seen.join(threads_[thread]->seen);
    threads_[self_]->trace.join(threads_[thread]->trace);
  }

  /// Ends the exploration: this execution shows a mistake.
  [[noreturn]] void fail(std::string what) {
    outcome_.failure = std::move(what);
    threads_[self_]->fiber.switch_to(caller_);
    __builtin_unreachable();
  }
  void check(bool good, char const* what) {
    if (!good) fail(what);
  }

 private:
  static constexpr std::size_t most_events = 5'000;
  static constexpr std::size_t most_alone = 250;  // operations of one thread in a row

  struct Thread {
    Fiber fiber;
    Clock seen;   // by C++'s happens-before
    Clock trace;  // by the order of dependent operations
    std::function<bool()> blocked;
    bool finished = false;
    Mask after = 0;              // it has yielded to these
    std::size_t yielded_at = 0;  // by the changes so far
    int yields = 0;              // since then
    std::size_t fresh_from = 0;

    void reset() {
      seen = trace = Clock{};
      blocked = nullptr;
      finished = false;
      after = 0;
      yielded_at = fresh_from = 0;
      yields = 0;
    }
  };
  struct Event {
    std::uint32_t thread;
    std::uint32_t number;  // among those of its thread
  };

  void begin(std::function<void()> const& program) {
    path_.restart();
    events_.clear();
    self_ = count_ = alive_ = changes_ = alone_for_ = 0;
    if (threads_.empty()) threads_.push_back(std::make_unique<Thread>());
    threads_[0]->reset();
    threads_[0]->seen.at[0] = 1;
    threads_[0]->fiber.prepare([this, program] {
      program();
      threads_[0]->fiber.switch_to(caller_);
    });
    count_ = alive_ = 1;
  }
  /// Puts the thread behind all that can run.
  void give_way() {
    for (auto const& thread : threads_) thread->after &= ~bit(self_);
    threads_[self_]->after = 0;
    threads_[self_]->after = able() & ~bit(self_);
    alone_for_ = 0;
  }
  void finish(std::size_t number) {
    threads_[number]->finished = true;
    --alive_;
    schedule();
  }

  /// Switches to the thread whose operation is next.
  void schedule() {
    std::size_t const from = self_;
    self_ = path_.next(enabled(), self_);
    Thread& to = *threads_[self_];
    to.after = 0;
    if (self_ == from) return;
    alone_for_ = 0;
    threads_[from]->fiber.switch_to(to.fiber);
  }

  bool could_run(Thread const& thread) const {
    return !thread.finished && !(thread.blocked && thread.blocked());
  }
  /// Threads that are neither blocked nor have yielded to others of these.
  Mask able() const {
    Mask able = 0;
    for (std::size_t t = 0; t < count_; ++t)
      if (could_run(*threads_[t]) && threads_[t]->after == 0) able |= bit(t);
    for (std::size_t t = 0; t < count_; ++t)
      if (could_run(*threads_[t]) && (threads_[t]->after & able) == 0) able |= bit(t);
    return able;
  }
  Mask enabled() {
    Mask const enabled = able();
    if (enabled != 0) return enabled;
    fail("deadlock: every thread waits for another");
  }

  /// Operations of other threads that this one could have preceded.
  void find_races(Object const& object, Effect effect) {
    bool others_looked = false;
    if (effect == Effect::change)
      for (int const look : object.looks) {
        others_looked |= events_[static_cast<std::size_t>(look)].thread != self_;
        race(look);
      }
    if (!others_looked && object.last_change >= 0) race(object.last_change);
  }
  void race(int number) {
    auto const event = static_cast<std::size_t>(number);
    if (events_[event].thread != self_ && !follows(event)) path_.race(event, self_);
  }

  Limits const limits_;
  Outcome outcome_;
  ucontext_t caller_{};
  std::vector<std::unique_ptr<Thread>> threads_;
  Path path_;
  std::vector<Event> events_;  // of this execution, one for each point of the path
  std::size_t count_ = 0;
  std::size_t alive_ = 0;
  std::size_t self_ = 0;
  std::size_t changes_ = 0;
  std::size_t alone_for_ = 0;
};

}  // namespace nntile::test::model
