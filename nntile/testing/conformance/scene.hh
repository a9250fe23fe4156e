#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime, some buffers and everything that must outlive them, for checks that drive step by
// step.

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/threads.hh"
#include "nntile/testing/conformance/activity.hh"
#include "nntile/testing/conformance/trial.hh"

namespace nntile::testing {

/// A task whose body is a callable of the check: Status(KernelCall const&).
struct CallNote {
  Status (*call)(void* state, KernelCall const& call);
  void* state;
};

/// A note of a callable, which must outlive the task.
template <class Body> CallNote call_note(Body& body) {
  return {[](void* state, KernelCall const& call) { return (*static_cast<Body*>(state))(call); },
          &body};
}

namespace detail {

inline Status run_call(KernelCall const& call) noexcept {
  ActiveStep const step;
  CallNote note;
  std::memcpy(&note, call.arguments, sizeof note);
  return note.call(note.state, call);
}

/// An asynchronous entry whose start is a callable of the check: Status(KernelCall const&,
/// Completion).
struct StartNote {
  Status (*start)(void* state, KernelCall const& call, Completion token);
  void* state;
};

template <class Body> StartNote start_note(Body& body) {
  return {[](void* state, KernelCall const& call, Completion token) {
            return (*static_cast<Body*>(state))(call, token);
          },
          &body};
}

inline Status run_start(KernelCall const& call, Completion token) noexcept {
  ActiveStep const step;
  StartNote note;
  std::memcpy(&note, call.arguments, sizeof note);
  return note.start(note.state, call, token);
}

template <class T> std::span<std::byte const> bytes_of(T const& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace detail

inline constexpr Codelet call_codelet{"call", detail::run_call, nullptr, nullptr};
inline constexpr Codelet start_codelet{"start", nullptr, nullptr, detail::run_start};

/// A task of start_codelet that ends when it is released; it may start later than that.
class HeldTask {
 public:
  /// Releases it, also where the law is broken. Declare it behind the runtime.
  struct End {
    HeldTask& task;
    ~End() { task.release(); }
  };

  static Status start(void* state, KernelCall const&, Completion given) {
    auto& self = *static_cast<HeldTask*>(state);
    bool ends;
    {
      nntile::detail::Lock const guard(self.mutex_);
      self.token_ = given;
      ends = self.released_;
    }
    if (ends) given.complete();
    return {};
  }
  detail::StartNote note() { return {&HeldTask::start, this}; }
  bool began() const {
    nntile::detail::Lock const guard(mutex_);
    return token_.finish != nullptr;
  }
  void release() {
    Completion given;
    {
      nntile::detail::Lock const guard(mutex_);
      if (std::exchange(released_, true)) return;
      given = token_;
    }
    if (given.finish != nullptr) given.complete();
  }

 private:
  mutable nntile::detail::Mutex mutex_;
  Completion token_;
  bool released_ = false;
};

/// Deviations of a `Scene::task` from a plain task.
struct TaskOptions {
  Finish finish = Finish::returns;
  bool fails = false;
  std::uint8_t pauses = 0;
  std::uint8_t part = 0;
  TaskLabel label{};
};

/// Buffers are numbered from 0. Members are destroyed in the order that lets a broken check end:
/// held tokens are let go, the runtime waits for its tasks, the journal goes last.
class Scene {
 public:
  /// Of at most a thousand tasks a round.
  explicit Scene(Trial const& trial)
      : Scene(trial, 1000 * static_cast<std::size_t>(trial.rounds)) {}
  Scene(Trial const& trial, std::size_t tasks) : journal_(tasks), runtime_(trial.make()) {}

  Subject& runtime() { return *runtime_; }
  Journal& journal() { return journal_; }
  Outside& outside() { return outside_; }
  /// Ends the runtime; what follows may look at what outlives it.
  void destroy() {
    runtime_.reset();
    journal_.require_quiet();
  }

  std::uint32_t allocate(std::uint32_t words = 4, Lifetime lifetime = Lifetime::persistent) {
    return add(words, runtime_->allocate(words * sizeof(std::uint64_t), host, lifetime));
  }
  std::uint32_t adopt(Adopted& memory) {
    return add(static_cast<std::uint32_t>(memory.words.size()),
               runtime_->adopt(memory.bytes(), host, memory.release()));
  }
  std::uint32_t adopt_const(Adopted& memory) {
    return add(static_cast<std::uint32_t>(memory.words.size()),
               runtime_->adopt_read_only(memory.bytes(), host, memory.release()));
  }
  Subject::Handle handle(std::uint32_t buffer) const { return handles_[buffer]; }
  void retire(std::uint32_t buffer) { runtime_->retire(handles_[buffer]); }

  /// Submits a task with guards and journal. Its number in the journal is the count of tasks before
  /// it.
  Event task(std::vector<Use<Binding>> const& operands, TaskOptions const& options = {}) {
    std::uint32_t const number = tasks_++;
    Note note{&journal_,      &outside_,     mix(77, number), number,       0,
              options.finish, options.fails, options.pauses,  options.part, {}};
    note_operands(note, operands, guards_, words_);
    Codelet const& codelet = options.finish == Finish::returns ? mix_codelet : late_mix_codelet;
    return submit(codelet, operands, note.bytes(), options.label);
  }
  std::uint32_t tasks() const { return tasks_; }

  /// Submits a task that calls `body`, which must outlive it.
  template <class Body>
  Event call(std::vector<Use<Binding>> const& operands, Body& body, TaskLabel const& label = {}) {
    CallNote const note = call_note(body);
    return submit(call_codelet, operands, detail::bytes_of(note), label);
  }
  template <class Body> Event start(std::vector<Use<Binding>> const& operands, Body& body) {
    detail::StartNote const note = detail::start_note(body);
    return submit(start_codelet, operands, detail::bytes_of(note));
  }
  Event submit(Codelet const& codelet, std::vector<Use<Binding>> const& operands,
               std::span<std::byte const> arguments, TaskLabel const& label = {}) {
    std::vector<Use<Subject::Handle>> uses;
    for (Use<Binding> const& operand : operands)
      uses.push_back({handles_[operand.handle], operand.access});
    return runtime_->submit({&codelet, uses, arguments, {}, label});
  }

  /// Locks for a moment.
  std::vector<std::uint64_t> words(std::uint32_t buffer) {
    auto const words = words_of(runtime_->lock(handles_[buffer], Access::read));
    std::vector<std::uint64_t> const copy(words.begin(), words.end());
    runtime_->unlock(handles_[buffer]);
    return copy;
  }

 private:
  std::uint32_t add(std::uint32_t words, Subject::Handle handle) {
    words_.push_back(words);
    handles_.push_back(handle);
    guards_.push_back(&journal_.add_guard());
    return static_cast<std::uint32_t>(handles_.size() - 1);
  }

  Journal journal_;
  Outside outside_;
  std::vector<std::uint32_t> words_;
  std::vector<Guard*> guards_;
  std::vector<Subject::Handle> handles_;
  std::uint32_t tasks_ = 0;
  std::unique_ptr<Subject> runtime_;
};

/// The TaskError that `action` must throw.
template <class Action> TaskError task_error_of(Action&& action, std::string const& what) {
  try {
    action();
  } catch (TaskError const& error) {
    return error;
  }
  throw Violation{what + " threw no TaskError"};
}

}  // namespace nntile::testing
