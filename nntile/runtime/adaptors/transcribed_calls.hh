#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The calls that Transcribe writes down: a list of the driver's and one of each body of a task that
// submits, since bodies run at one time.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/nested.hh"
#include "nntile/runtime/nested_target.hh"
#include "nntile/runtime/transcript.hh"

namespace nntile::detail {

template <class H> class TranscribedBody;

/// A handle of the runtime that is written down, and the number of its buffer there.
template <class H> struct TranscribedHandle {
  H inner;
  std::uint32_t number;
};

/// The names and bodies that all lists of a run share. Any thread.
template <class H> class TranscribedRun {
 public:
  std::uint32_t next_buffer() { return buffers_.fetch_add(1, std::memory_order_relaxed); }
  /// A string that lives as long as the run: a task may fail after the tile that it names has
  /// ended.
  char const* kept(std::string const& name) {
    if (name.empty()) return nullptr;
    Lock const guard(mutex_);
    auto const at = std::lower_bound(names_.begin(), names_.end(), name,
                                     [](auto const& known, auto const& n) { return *known < n; });
    if (at != names_.end() && **at == name) return (*at)->c_str();
    return (*names_.insert(at, std::make_unique<std::string>(name)))->c_str();
  }
  /// Makes a body's list, which lives as long as the run, as what names it may outlive its task.
  template <class... Arguments> TranscribedBody<H>& make_body(Arguments&&... arguments) {
    auto body = std::make_unique<TranscribedBody<H>>(*this, static_cast<Arguments&&>(arguments)...);
    Lock const guard(mutex_);
    return *bodies_.emplace_back(std::move(body));
  }

 private:
  std::atomic<std::uint32_t> buffers_{0};
  Mutex mutex_;
  std::vector<std::unique_ptr<std::string>> names_;  // ascending
  std::vector<std::unique_ptr<TranscribedBody<H>>> bodies_;
};

/// The calls of one thread that went well, and its waits. Buffers have numbers of the run; tasks
/// are numbered within the list. Target is what the calls go to.
template <class H> class TranscribedCalls {
  using Call = TranscribedCall;
  using Kind = Call::Kind;

 public:
  using Handle = TranscribedHandle<H>;

  /// A region that is an operand or was made here, from its first byte on.
  struct Part {
    std::uint32_t number;
    Region region;
  };
  /// A task that submits.
  struct Outer {
    Event event;
    TranscribedBody<H> const* body;
  };

  explicit TranscribedCalls(TranscribedRun<H>& run, std::vector<Part> parts = {})
      : run_(run), parts_(std::move(parts)) {}

  std::vector<Call> const& calls() const { return calls_; }
  /// In the order of their `orchestrate`.
  std::vector<Outer> const& outers() const { return outers_; }

  /// Before a call: what went well is noted, and not made twice for want of memory for that. Throws
  /// std::bad_alloc.
  void make_room() {
    auto const make = [](auto& list) {
      if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
    };
    make(calls_), make(outers_), make(events_), make(locked_), make(parts_);
  }
  /// After `make_room`.
  void note(Call call) { calls_.push_back(static_cast<Call&&>(call)); }
  /// Notes and numbers the buffer that make() makes.
  template <class Make> Handle note_made(Call call, Make make) {
    make_room();
    H const inner = make();
    call.buffer = run_.next_buffer();
    if (call.kind == Kind::region)
      parts_.push_back({call.buffer, normalize({0, call.region.bytes, call.region.steps})});
    Handle const handle{inner, call.buffer};
    note(static_cast<Call&&>(call));
    return handle;
  }
  template <class Target> void retire(Target& target, Handle handle) {
    make_room();
    target.retire(handle.inner);
    note({.kind = Kind::retire, .buffer = handle.number});
  }

  template <class Target> Event submit(Target& target, Task<Handle> const& task) {
    Call call = submission(Kind::submit, task.uses, task.hints, task.label);
    call.codelet = task.codelet;
    call.arguments.assign(task.arguments.begin(), task.arguments.end());
    make_room();
    Event const event = target.submit({task.codelet,
                                       uses_,
                                       task.arguments,
                                       task.hints,
                                       {run_.kept(call.tensor), task.label.tile},
                                       task.cost});
    events_.push_back(event.sequence);
    note(static_cast<Call&&>(call));
    return event;
  }
  /// submit(body, uses, label) does so, with a body that runs that one.
  template <class Submit>
  Event submit_nesting(NestingTask<TranscribedBody<H>> const& task, Submit submit) {
    Call call = submission(Kind::orchestrate, task.uses, task.hints, task.label);
    std::vector<Part> parts;
    for (auto const& use : task.uses)
      if (Region const* const region = part(use.handle.number))
        parts.push_back({use.handle.number, *region});
    std::sort(parts.begin(), parts.end(),
              [](Part const& a, Part const& b) { return a.number < b.number; });
    TranscribedBody<H>& body = run_.make_body(std::move(parts));
    make_room();
    std::span<Use<H> const> const uses = uses_;
    Event const event = submit(body, uses, TaskLabel{run_.kept(call.tensor), task.label.tile});
    events_.push_back(event.sequence);
    outers_.push_back({event, &body});
    note(static_cast<Call&&>(call));
    return event;
  }

  template <class Target> void wait(Target& target, Event event) {
    std::optional<Call> call;
    auto const at = std::lower_bound(events_.begin(), events_.end(), event.sequence);
    if (event.runtime != nullptr && at != events_.end() && *at == event.sequence)
      call = {.kind = Kind::wait, .task = static_cast<std::uint32_t>(at - events_.begin())};
    waiting(call, [&] { target.wait(event); });
  }
  template <class Target> void wait_all(Target& target) {
    waiting(Call{.kind = Kind::wait_all}, [&] { target.wait_all(); });
  }

  template <class Target> std::span<std::byte> lock(Target& target, Handle handle, Access access) {
    make_room();
    auto const bytes = target.lock(handle.inner, access);
    locked_.push_back({handle, access, bytes});
    return bytes;
  }
  template <class Target> void unlock(Target& target, Handle handle) {
    make_room();
    auto const at = std::find_if(locked_.begin(), locked_.end(),
                                 [&](Locked const& l) { return are_same(l.handle, handle); });
    Call call{.kind = Kind::read, .buffer = handle.number};
    if (at != locked_.end()) call = end_of(*at);
    target.unlock(handle.inner);
    if (at != locked_.end()) locked_.erase(at);
    note(static_cast<Call&&>(call));
  }
  /// Notes the locks that are open, which end with the body's task.
  void end_locks() {
    for (Locked const& locked : locked_) note(end_of(locked));
    locked_.clear();
  }

 private:
  struct Locked {
    Handle handle;
    Access access;
    std::span<std::byte> bytes;
  };

  /// Whether both name one buffer: a region has a number for each call that has asked for it, and
  /// where handles do not compare there is none.
  static bool are_same(Handle const& one, Handle const& other) {
    if constexpr (std::equality_comparable<H>)
      return one.inner == other.inner;
    else
      return one.number == other.number;
  }

  /// Sets `uses_` as well.
  Call submission(Kind kind, std::span<Use<Handle> const> uses, Hints const& hints,
                  TaskLabel const& label) {
    Call call{.kind = kind,
              .hints = hints,
              .tensor = label.tensor != nullptr ? label.tensor : "",
              .tile = label.tile};
    uses_.clear();
    for (auto const& use : uses) {
      uses_.push_back({use.handle.inner, use.access});
      call.uses.push_back({use.handle.number, use.access});
    }
    return call;
  }
  template <class Wait> void waiting(std::optional<Call> call, Wait wait) {
    make_room();
    try {
      wait();
    } catch (TaskError const&) {
      if (call) note(*call);
      throw;
    }
    if (call) note(*call);
  }
  Call end_of(Locked const& locked) const {
    bool const changes = writes(locked.access);
    Call call{.kind = changes ? Kind::write : Kind::read, .buffer = locked.handle.number};
    if (!changes) return call;
    Region const* const region = part(locked.handle.number);
    each_run(region != nullptr ? *region : Region{0, locked.bytes.size(), {}},
             [&](std::size_t begin, std::size_t end) {
               auto const run = locked.bytes.subspan(begin, end - begin);
               call.contents.insert(call.contents.end(), run.begin(), run.end());
             });
    return call;
  }
  Region const* part(std::uint32_t number) const {
    auto const at =
        std::lower_bound(parts_.begin(), parts_.end(), number,
                         [](Part const& part, std::uint32_t n) { return part.number < n; });
    return at != parts_.end() && at->number == number ? &at->region : nullptr;
  }

  TranscribedRun<H>& run_;
  std::vector<Call> calls_;
  std::vector<Outer> outers_;
  std::vector<std::uint64_t> events_;  // sequences of the tasks, ascending
  std::vector<Use<H>> uses_;
  std::vector<Locked> locked_;
  std::vector<Part> parts_;  // ascending
};

/// The calls of a runtime, as a body's list sees them.
template <class H> struct TranscribedTarget : support::NestedTarget<H> {
  virtual Event submit_nesting(TranscribedBody<H>& body, NestingTask<TranscribedBody<H>>&& task,
                               std::span<Use<H> const> uses, TaskLabel const& label) = 0;

 protected:
  ~TranscribedTarget() = default;
};

/// Submits a task to a runtime, or to the argument of a body, whose body runs that one.
template <class Target, class H>
Event submit_transcribed(Target& target, TranscribedBody<H>& body,
                         NestingTask<TranscribedBody<H>>&& task, std::span<Use<H> const> uses,
                         TaskLabel const& label) {
  return target.submit_nesting([&body, callable = std::move(task.body)](
                                   auto& nested) mutable -> void { body.run(nested, callable); },
                               uses, task.hints, label);
}

/// The list of a body, and the calls that are noted there.
template <class H> class TranscribedBody : public support::NestedCalls {
 public:
  using Handle = TranscribedHandle<H>;
  using Calls = TranscribedCalls<H>;
  using Outcome = TranscribedCall::Outcome;

  TranscribedBody(TranscribedRun<H>& run, std::vector<typename Calls::Part> parts)
      : calls_(run, std::move(parts)) {}

  Calls const& calls() const { return calls_; }
  /// Its last line. Behind the end of the task.
  TranscribedCall end() const {
    Outcome const outcome = cause_.empty() ? Outcome::ran : Outcome::threw;
    return {.kind = TranscribedCall::Kind::end_body,
            .outcome = ran_ ? outcome : Outcome::none,
            .cause = cause_};
  }

  /// Runs it on the argument of the runtime's body; throws the text of what it throws.
  template <class N> void run(N& nested, NestingBody<TranscribedBody>& body) {
    Over<N> target(nested);
    target_ = &target;
    ran_ = true;
    Nested<TranscribedBody> own(*this, this->begin_body());
    cause_ = body.run(own);
    this->end_body();
    target_ = nullptr;
    calls_.end_locks();
    if (!cause_.empty()) throw Error(cause_);
  }

  // Calls of a Nested:
  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    return calls_.note_made(
        {.kind = TranscribedCall::Kind::allocate, .bytes = bytes, .lifetime = lifetime},
        [&] { return target_->allocate(bytes, place, lifetime); });
  }
  ScopeName open_scope(Lifetime lifetime, CallSite site) {
    calls_.make_room();
    ScopeName const name = target_->open_scope(lifetime, site);
    calls_.note({.kind = TranscribedCall::Kind::open_scope, .lifetime = lifetime});
    return name;
  }
  void close_scope(Lifetime lifetime, ScopeName name) {
    calls_.make_room();
    target_->close_scope(lifetime, name);
    calls_.note({.kind = TranscribedCall::Kind::close_scope, .lifetime = lifetime});
  }
  void retire(Handle handle) { calls_.retire(*target_, handle); }
  Event submit(Task<Handle> const& task) { return calls_.submit(*target_, task); }
  Event submit_nesting(NestingTask<TranscribedBody>&& task) {
    return calls_.submit_nesting(task, [&](auto& body, auto uses, TaskLabel const& label) {
      return target_->submit_nesting(body, std::move(task), uses, label);
    });
  }
  void wait(Event event) { calls_.wait(*target_, event); }
  bool done(Event event) { return target_->done(event); }
  void wait_all() { calls_.wait_all(*target_); }
  std::span<std::byte> lock(Handle handle, Access access) {
    return calls_.lock(*target_, handle, access);
  }
  void unlock(Handle handle) { calls_.unlock(*target_, handle); }

 private:
  template <class N> class Over final : public TranscribedTarget<H> {
   public:
    explicit Over(N& nested) : nested_(nested) {}
    H allocate(std::size_t bytes, Place place, Lifetime lifetime) override {
      return nested_.allocate(bytes, place, lifetime);
    }
    ScopeName open_scope(Lifetime lifetime, CallSite site) override {
      return nested_.open_scope(lifetime, site);
    }
    void close_scope(Lifetime lifetime, ScopeName name) override {
      nested_.close_scope(lifetime, name);
    }
    void retire(H handle) override { nested_.retire(handle); }
    Event submit(Task<H> const& task) override { return nested_.submit(task); }
    Event submit_nesting(TranscribedBody& body, NestingTask<TranscribedBody>&& task,
                         std::span<Use<H> const> uses, TaskLabel const& label) override {
      return submit_transcribed(nested_, body, std::move(task), uses, label);
    }
    void wait(Event event) override { nested_.wait(event); }
    bool done(Event event) override { return nested_.done(event); }
    void wait_all() override { nested_.wait_all(); }
    std::span<std::byte> lock(H handle, Access access) override {
      return nested_.lock(handle, access);
    }
    void unlock(H handle) override { nested_.unlock(handle); }

   private:
    N& nested_;
  };

  Calls calls_;
  TranscribedTarget<H>* target_ = nullptr;  // while it runs
  bool ran_ = false;
  std::string cause_;
};

/// The run whose driver made these calls, each body's behind its task. Behind the end of all tasks
/// that submit.
template <class H> Transcript joined(TranscribedCalls<H> const& driver) {
  using Kind = TranscribedCall::Kind;
  struct Level {
    TranscribedCalls<H> const* list;
    TranscribedBody<H> const* body;
    std::size_t next = 0, next_outer = 0;
    std::vector<std::uint32_t> tasks{};  // numbers in the run, by those in the list
  };
  Transcript run;
  std::uint32_t tasks = 0;
  std::vector<Level> levels{{&driver, nullptr}};
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.list->calls().size()) {
      if (level.body != nullptr) run.calls.push_back(level.body->end());
      levels.pop_back();
      continue;
    }
    TranscribedCall& call = run.calls.emplace_back(level.list->calls()[level.next++]);
    if (call.is_task()) level.tasks.push_back(tasks++);
    if (call.kind == Kind::wait) call.task = level.tasks[call.task];
    if (call.kind != Kind::orchestrate) continue;
    TranscribedBody<H> const* const body = level.list->outers()[level.next_outer++].body;
    levels.push_back({&body->calls(), body});
  }
  renumber(run);
  return run;
}

}  // namespace nntile::detail
