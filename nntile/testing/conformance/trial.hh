#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// One check in one configuration of a runtime.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/testing/conformance/run_program.hh"
#include "nntile/testing/conformance/watched.hh"

namespace nntile::testing {

/// Thrown by a check that does not apply to this runtime or configuration.
struct LeftOut {
  std::string reason;
};

/// Arguments of a check.
struct Trial {
  Factory const& factory;
  RuntimeOptions options;
  std::uint64_t seed = 1;
  int rounds = 1;
  bool replays = false;  // the runtime models ReplayingRuntime
  bool scopes = false;   // and ScopedRuntime

  std::unique_ptr<Subject> make() const { return factory(options); }
  int workers() const { return options.workers.value_or(1); }
};

struct NamedCheck {
  char const* name;
  void (*run)(Trial const&);
  /// Takes long, and is run with two workers only.
  bool heavy = false;
};

/// Runs a program on a fresh runtime and compares everything that can be seen with the model.
inline void run_program(Trial const& trial, Program const& program) {
  Journal journal;
  Outside outside;
  ProgramRun run(program, journal, outside);
  {
    auto const subject = trial.make();
    run.run(*subject);
  }
  run.finish();
}

/// Programs written by hand.
class Script {
 public:
  /// Buffers of `words` words; those with odd numbers are adopted, and so are written from the
  /// start.
  explicit Script(std::uint64_t seed, std::size_t buffers, std::uint32_t words = 8) {
    program_.seed = seed;
    program_.words.assign(buffers, words);
  }

  Script& task(std::vector<Use<Binding>> operands, std::uint8_t pauses = 0) {
    Step step;
    step.operands = std::move(operands);
    step.salt = mix(program_.seed, program_.steps.size());
    step.pauses = pauses;
    step.part = static_cast<std::uint8_t>(program_.steps.size() % disjoint_parts);
    return add(step);
  }
  Script& failing(std::vector<Use<Binding>> operands, Finish finish = Finish::returns,
                  std::uint8_t pauses = 0) {
    task(std::move(operands), pauses);
    program_.steps.back().fails = true;
    program_.steps.back().finish = finish;
    return *this;
  }
  Script& late(std::vector<Use<Binding>> operands, Finish finish, std::uint8_t pauses = 0) {
    task(std::move(operands), pauses);
    program_.steps.back().finish = finish;
    return *this;
  }
  /// Adds a recording of the tasks of another script, whose buffers become bindings.
  Script& record(Script const& tasks) {
    program_.recordings.push_back(
        {static_cast<std::uint32_t>(tasks.program_.words.size()), tasks.program_.steps});
    return *this;
  }
  Script& replay(std::vector<std::uint32_t> bindings, std::uint32_t recording = 0,
                 int failing = -1) {
    Step step;
    step.kind = Step::Kind::replay;
    step.recording = recording;
    step.bindings = std::move(bindings);
    step.salt = mix(program_.seed, 3 * program_.steps.size());
    step.failing = failing;
    return add(step);
  }
  Script& renew(std::uint32_t buffer) {
    Step step;
    step.kind = Step::Kind::renew;
    step.buffer = buffer;
    return add(step);
  }
  Script& lock(std::uint32_t buffer, Access access) {
    Step step;
    step.kind = Step::Kind::lock;
    step.buffer = buffer;
    step.access = access;
    step.salt = mix(program_.seed, ~program_.steps.size());
    return add(step);
  }
  /// Waits for the task `back` steps ago.
  Script& wait(std::uint32_t back = 1) {
    Step step;
    step.kind = Step::Kind::wait;
    step.step = static_cast<std::uint32_t>(program_.steps.size()) - back;
    return add(step);
  }
  Script& wait_all() {
    Step step;
    step.kind = Step::Kind::wait_all;
    return add(step);
  }

  Program const& program() const { return program_; }
  void run(Trial const& trial) const { run_program(trial, program_); }

 private:
  Script& add(Step const& step) {
    program_.steps.push_back(step);
    return *this;
  }
  Program program_;
};

inline constexpr Access read = Access::read;
inline constexpr Access write = Access::write;
inline constexpr Access update = Access::update;
inline constexpr Access accumulate = Access::accumulate;
inline constexpr Access write_disjoint = Access::write_disjoint;
inline constexpr Access unordered = Access::unordered;

/// The lifetimes of allocations that belong to a scope.
inline constexpr Lifetime scoped_lifetimes[] = {Lifetime::step, Lifetime::scope, Lifetime::scratch,
                                                Lifetime::staging};
/// Calls check(one, other) with each of them once as either.
template <class Check> void for_each_scoped_pair(Check check) {
  constexpr std::size_t count = std::size(scoped_lifetimes);
  for (std::size_t i = 0; i < count; ++i)
    check(scoped_lifetimes[i], scoped_lifetimes[(i + 2) % count]);
}

/// "a ValueError".
template <class E> constexpr char const* name_of_error() {
  if constexpr (std::is_same_v<E, LifetimeError>) return "a LifetimeError";
  if constexpr (std::is_same_v<E, ValueError>) return "a ValueError";
  if constexpr (std::is_same_v<E, OutOfMemory>) return "an OutOfMemory";
  if constexpr (std::is_same_v<E, TaskError>) return "a TaskError";
  return "an Error";
}

/// Calls `action`, which must throw E; `what` says what was wrong with the call.
template <class E, class Action> void require_throws(Action&& action, std::string const& what) {
  try {
    action();
  } catch (E const&) {
    return;
  } catch (std::exception const& error) {
    throw Violation{concat(what, " threw '", error.what(), "', which is not ", name_of_error<E>())};
  }
  throw Violation{concat(what, " threw nothing where ", name_of_error<E>(), " is due")};
}

}  // namespace nntile::testing
