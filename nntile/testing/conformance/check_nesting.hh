#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: tasks that submit tasks, where the runtime models NestingRuntime.

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/testing/conformance/check_thread.hh"
#include "nntile/testing/conformance/nested_program.hh"
#include "nntile/testing/conformance/scene.hh"
#include "nntile/testing/conformance/trial.hh"

namespace nntile::testing::checks {

using SubjectHandle = Subject::Handle;
using SubjectNest = Nested<Subject::Calls>;

inline std::unique_ptr<Subject> make_nesting(Trial const& trial) {
  auto subject = trial.make();
  if (!subject->nests()) throw LeftOut{"tasks of the runtime do not nest"};
  return subject;
}
template <class Body>
Event nest(Subject& subject, Body body, std::vector<Use<SubjectHandle>> const& uses) {
  return subject.submit_nesting(std::move(body), uses);
}

/// first word = 3 * first word + value, which is the argument.
inline constexpr Codelet triple_codelet{
    "triple",
    +[](KernelCall const& call) noexcept -> Status {
      auto& word = *static_cast<std::uint64_t*>(call.buffers[0]);
      word = 3 * word + *static_cast<std::uint64_t const*>(call.arguments);
      return {};
    },
    nullptr, nullptr};
inline constexpr Codelet broken_codelet{
    "broken", +[](KernelCall const&) noexcept -> Status { return {failure_text}; }, nullptr,
    nullptr};
inline constexpr Codelet zero_codelet{"zero",
                                      +[](KernelCall const& call) noexcept -> Status {
                                        *static_cast<std::uint64_t*>(call.buffers[0]) = 0;
                                        return {};
                                      },
                                      nullptr, nullptr};

/// Its first operand's word, in the second.
inline constexpr Codelet copy_word_codelet{
    "copy_word",
    +[](KernelCall const& call) noexcept -> Status {
      *static_cast<std::uint64_t*>(call.buffers[1]) =
          *static_cast<std::uint64_t const*>(call.buffers[0]);
      return {};
    },
    nullptr, nullptr};

template <class Submitter>
Event submit_word(Submitter& submitter, Codelet const& codelet, SubjectHandle handle, Access access,
                  std::uint64_t value = 0) {
  Use<SubjectHandle> const uses[] = {{handle, access}};
  return submitter.submit({&codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}});
}
template <class Submitter> std::uint64_t word_of(Submitter& submitter, SubjectHandle handle) {
  std::span<std::byte const> const bytes = submitter.lock(handle, Access::read);
  std::uint64_t word = 0;
  bool const whole = bytes.size() == sizeof word;
  if (whole) std::memcpy(&word, bytes.data(), sizeof word);
  submitter.unlock(handle);
  if (!whole) throw Error(concat("a lock of ", sizeof word, " bytes gave ", bytes.size()));
  return word;
}
inline SubjectHandle allocate_word(Subject& subject) {
  SubjectHandle const handle = subject.allocate(sizeof(std::uint64_t), host, Lifetime::persistent);
  submit_word(subject, zero_codelet, handle, write);
  return handle;
}

template <class Submitter>
Event submit_held(Submitter& submitter, HeldTask& held, SubjectHandle handle, Access access) {
  detail::StartNote const note = held.note();
  Use<SubjectHandle> const uses[] = {{handle, access}};
  return submitter.submit({&start_codelet, uses, detail::bytes_of(note), {}, {}});
}

inline void outer_task_ends_last(Trial const& trial) {
  HeldTask inner;
  auto const runtime = make_nesting(trial);
  HeldTask::End const end{inner};
  SubjectHandle const handle = allocate_word(*runtime);
  Event const outer = nest(*runtime,
                           [&, handle](SubjectNest& nested) {
                             submit_held(nested, inner, handle, update);
                             submit_word(nested, triple_codelet, handle, update, 2);
                           },
                           {{handle, update}});
  submit_word(*runtime, triple_codelet, handle, update, 5);
  for (int i = 0; i < 100; i += inner.began())
    require(!runtime->done(outer), "a task was done before a task that it had submitted");
  inner.release();
  runtime->wait(outer);
  require(word_of(*runtime, handle) == 2 * 3 + 5, "tasks ran in a wrong order");
  runtime->wait_all();
}

/// Between two tasks that accumulate, and hold the buffer, one that submits and accumulates too.
inline void nests_accumulate_in_order(Trial const& trial) {
  HeldTask before, inside, behind;
  std::atomic<bool> began{false};
  auto const runtime = make_nesting(trial);
  HeldTask::End const ends[] = {{before}, {inside}, {behind}};
  SubjectHandle const handle = allocate_word(*runtime);
  Event const first = submit_held(*runtime, before, handle, accumulate);
  Event const outer = nest(*runtime,
                           [&, handle](SubjectNest& nested) {
                             began = true;
                             submit_held(nested, inside, handle, accumulate);
                           },
                           {{handle, accumulate}});
  Event const last = submit_held(*runtime, behind, handle, accumulate);
  auto const look = [&](Event event) {
    for (int i = 0; i < 100; ++i) {
      (void)runtime->done(event);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  };
  auto const begun = [&](HeldTask const& task, Event event) {
    while (!task.began()) require(!runtime->done(event), "a task whose token is out is done");
  };
  begun(before, first);
  look(outer);
  bool const outer_waits = !began;
  before.release();
  begun(inside, outer);
  look(last);
  bool const last_waits = !behind.began();
  inside.release();
  begun(behind, last);
  behind.release();
  runtime->wait_all();
  require(outer_waits, "a task that submits began amid one that accumulates into the same buffer");
  require(last_waits, "a task accumulated into a buffer amid one that submits and does so too");
}

/// Adds up a tree of tasks, each of which waits for its own.
struct AddUp {
  int depth;
  SubjectHandle result;
  void operator()(SubjectNest& nested) const {
    std::uint64_t sum = 1;
    if (depth > 0)
      for (int i = 0; i < 2; ++i) {
        SubjectHandle const part = nested.allocate(sizeof(std::uint64_t));
        Use<SubjectHandle> const uses[] = {{part, write}};
        nested.wait(nested.submit_nesting(AddUp{depth - 1, part}, uses));
        sum += word_of(nested, part);
        nested.retire(part);
      }
    submit_word(nested, zero_codelet, result, write);
    submit_word(nested, triple_codelet, result, update, sum);
  }
};
inline void bodies_wait(Trial const& trial) {
  auto const runtime = make_nesting(trial);
  SubjectHandle const handle = allocate_word(*runtime);
  nest(*runtime, AddUp{7, handle}, {{handle, write}});
  require(word_of(*runtime, handle) == 255, "a tree of tasks has not been added up");
  runtime->wait_all();
}

inline void undeclared_is_refused(Trial const& trial) {
  std::string problem;
  auto const runtime = make_nesting(trial);
  SubjectHandle const declared = allocate_word(*runtime), other = allocate_word(*runtime);
  Event const tries = nest(
      *runtime,
      [&, declared, other](SubjectNest& nested) {
        try {
          require_throws<LifetimeError>([&] { submit_word(nested, triple_codelet, other, update); },
                                        "a task on a buffer that its outer task did not declare");
          require_throws<ValueError>([&] { submit_word(nested, triple_codelet, declared, update); },
                                     "an update of a buffer that was declared to be read");
          require_throws<LifetimeError>([&] { nested.retire(declared); },
                                        "retiring what an outer task declared");
          SubjectHandle const gone = nested.allocate(8);
          nested.retire(gone);
          require_throws<LifetimeError>([&] { submit_word(nested, zero_codelet, gone, write); },
                                        "a task on a retired buffer of its body");
          SubjectHandle const fresh = nested.allocate(8);
          require_throws<LifetimeError>([&] { submit_word(nested, triple_codelet, fresh, update); },
                                        "an update of a buffer that nothing has written");
        } catch (Violation const& violation) {
          problem = violation.text;
        }
      },
      {{declared, read}});
  runtime->wait(tries);
  require(problem.empty(), problem);
  Event const fails =
      nest(*runtime,
           [other](SubjectNest& nested) { submit_word(nested, triple_codelet, other, update); },
           {{declared, update}});
  require_throws<TaskError>([&] { runtime->wait(fails); }, "waiting for a task whose body threw");
  require_throws<TaskError>([&] { runtime->lock(declared, read); },
                            "locking what a task whose body threw had declared to update");
  require_throws<TaskError>([&] { runtime->wait_all(); }, "wait_all behind a failure");
  submit_word(*runtime, zero_codelet, declared, write);
  require(word_of(*runtime, declared) == 0, "a buffer could not be written anew");
}

/// Runs a body that may throw a Violation, and throws it again.
template <class Body>
void nest_checked(Subject& runtime, Body body, std::vector<Use<SubjectHandle>> const& uses) {
  std::string problem;
  nest(
      runtime,
      [&](SubjectNest& nested) {
        try {
          body(nested);
        } catch (Violation const& violation) {
          problem = violation.text;
        }
      },
      uses);
  runtime.wait_all();
  require(problem.empty(), problem);
}
inline SubjectHandle allocate_written(SubjectNest& nested, Lifetime lifetime, std::uint64_t word) {
  SubjectHandle const handle = nested.allocate(sizeof word, host, lifetime);
  submit_word(nested, zero_codelet, handle, write);
  submit_word(nested, triple_codelet, handle, update, word);
  return handle;
}

inline void bodies_have_scopes(Trial const& trial) {
  auto const runtime = make_nesting(trial);
  SubjectHandle const declared = allocate_word(*runtime);
  if (runtime->has_scopes())
    for (Lifetime const lifetime : {Lifetime::step, Lifetime::scratch})
      runtime->open_scope(lifetime);
  nest_checked(
      *runtime,
      [&](SubjectNest& nested) {
        for (Lifetime const lifetime : scoped_lifetimes)
          require_throws<LifetimeError>(
              [&] { nested.allocate(8, host, lifetime); },
              "allocating in a body that has opened no scope of that lifetime");
        SubjectHandle const kept = allocate_written(nested, Lifetime::persistent, 1);
        nested.open_scope(Lifetime::step);
        SubjectHandle const outer = allocate_written(nested, Lifetime::step, 2);
        nested.open_scope(Lifetime::scratch);
        nested.open_scope(Lifetime::step);
        SubjectHandle const scratch = allocate_written(nested, Lifetime::scratch, 3);
        SubjectHandle const inner = allocate_written(nested, Lifetime::step, 4);
        Use<SubjectHandle> const uses[] = {{inner, update}};
        nested.submit_nesting(
            [inner](SubjectNest& deeper) {
              submit_word(deeper, triple_codelet, inner, update, 5);
              deeper.open_scope(Lifetime::step);  // ends with its task
              (void)allocate_written(deeper, Lifetime::step, 6);
            },
            uses);
        Use<SubjectHandle> const both[] = {{inner, read}, {declared, write}};
        nested.submit({&copy_word_codelet, both, {}, {}, {}});
        nested.close_scope(Lifetime::step);
        require_throws<LifetimeError>([&] { submit_word(nested, triple_codelet, inner, update); },
                                      "a task on a buffer of a body whose scope has closed");
        require(word_of(nested, outer) == 2, "a buffer of an outer scope ended with the inner one");
        nested.retire(scratch);
        nested.close_scope(Lifetime::scratch);
        nested.close_scope(Lifetime::step);
        require_throws<LifetimeError>([&] { nested.allocate(8, host, Lifetime::step); },
                                      "allocating in a body after its last scope closed");
        require(word_of(nested, kept) == 1, "what is persistent to a body ended with a scope");
      },
      {{declared, write}});
  require(word_of(*runtime, declared) == 4 * 3 + 5, "a task found something else in its buffer");
  runtime->wait_all();
}

inline void scopes_of_bodies_nest(Trial const& trial) {
  auto const runtime = make_nesting(trial);
  SubjectHandle const declared = allocate_word(*runtime);
  nest_checked(
      *runtime,
      [&](SubjectNest& nested) {
        require_throws<LifetimeError>([&] { nested.close_scope(Lifetime::step); },
                                      "closing a scope that is not open in the body");
        require_throws<LifetimeError>([&] { nested.open_scope(Lifetime::persistent); },
                                      "opening a scope of persistent buffers in a body");
        require_throws<ValueError>([&] { nested.allocate(8, {Place::Kind::device, 0}); },
                                   "allocating on a device in a body");
        ScopeName const first = nested.open_scope(Lifetime::step);
        SubjectHandle const own = allocate_written(nested, Lifetime::step, 7);
        (void)nested.lock(own, read);
        require_throws<LifetimeError>([&] { nested.close_scope(Lifetime::step); },
                                      "closing a scope of a body while a buffer of it is locked");
        nested.unlock(own);
        ScopeName const second = nested.open_scope(Lifetime::step);
        require_throws<LifetimeError>([&] { nested.close_scope(Lifetime::step, first); },
                                      "closing a scope of a body before one that is inside it");
        nested.close_scope(Lifetime::step, second);
        require_throws<LifetimeError>([&] { nested.close_scope(Lifetime::step, second); },
                                      "closing a scope of a body twice");
        Use<SubjectHandle> const uses[] = {{own, update}};
        nested.wait(nested.submit_nesting(
            [own](SubjectNest& deeper) {
              try {
                deeper.close_scope(Lifetime::step);
              } catch (LifetimeError const&) {
                submit_word(deeper, triple_codelet, own, update, 1);
              }
            },
            uses));
        require(word_of(nested, own) == 7 * 3 + 1, "a body has closed a scope of another");
        nested.close_scope(Lifetime::step, first);
      },
      {{declared, update}});
}

inline void closing_in_a_body_does_not_wait(Trial const& trial) {
  HeldTask inner;
  std::atomic<bool> closed{false};
  auto const runtime = make_nesting(trial);
  HeldTask::End const end{inner};
  SubjectHandle const declared = allocate_word(*runtime);
  Event const outer = nest(*runtime,
                           [&, declared](SubjectNest& nested) {
                             nested.open_scope(Lifetime::scratch);
                             SubjectHandle const own =
                                 allocate_written(nested, Lifetime::scratch, 9);
                             submit_held(nested, inner, own, update);
                             Use<SubjectHandle> const both[] = {{own, read}, {declared, write}};
                             nested.submit({&copy_word_codelet, both, {}, {}, {}});
                             nested.close_scope(Lifetime::scratch);
                             nested.open_scope(Lifetime::scratch);
                             (void)allocate_written(nested, Lifetime::scratch, 11);
                             closed = true;
                           },
                           {{declared, write}});
  while (!inner.began()) require(!runtime->done(outer), "a task was done before one inside it");
  // 15 s, and more where threads are slow: less than a watchdog takes, which would not name the
  // law.
  for (int i = 0; i < 1500 && !closed; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  bool const in_time = closed;
  inner.release();
  runtime->wait(outer);
  require(in_time, "closing a scope in a body waited for a token");
  require(word_of(*runtime, declared) == 9, "a buffer went before its last task");
  runtime->wait_all();
}

inline void failures_come_out(Trial const& trial) {
  std::atomic<int> ran{0};
  auto const runtime = make_nesting(trial);
  SubjectHandle const a = allocate_word(*runtime), b = allocate_word(*runtime);
  auto const breaks = [&, a, b](SubjectNest& nested) {
    submit_word(nested, broken_codelet, a, write);
    Use<SubjectHandle> const uses[] = {{a, read}};
    nested.submit_nesting([&](SubjectNest&) { ++ran; }, uses);
    submit_word(nested, triple_codelet, b, update, 1);
  };
  Event const silent = nest(*runtime, breaks, {{a, update}, {b, update}});
  require_throws<TaskError>([&] { runtime->wait(silent); }, "waiting for a task whose task failed");
  require_throws<TaskError>([&] { runtime->lock(b, read); },
                            "locking what a task whose task failed had declared to update");
  require_throws<TaskError>([&] { runtime->wait_all(); }, "wait_all behind a failure");
  submit_word(*runtime, zero_codelet, a, write);
  submit_word(*runtime, zero_codelet, b, write);
  Event const reported = nest(*runtime,
                              [breaks](SubjectNest& nested) {
                                breaks(nested);
                                try {
                                  nested.wait_all();
                                } catch (TaskError const&) {
                                }
                              },
                              {{a, update}, {b, update}});
  runtime->wait(reported);
  require(word_of(*runtime, b) == 1, "an output that was computed is not there");
  require_throws<TaskError>([&] { runtime->lock(a, read); },
                            "locking what a reported failure had marked");
  runtime->wait_all();
  require(ran == 0, "a task ran although a task before it, inside the same, had failed");
}

inline void nests_end_with_bodies(Trial const& trial) {
  std::optional<SubjectNest> kept;
  std::string problem;
  auto const runtime = make_nesting(trial);
  SubjectHandle const handle = allocate_word(*runtime);
  nest(*runtime,
       [&](SubjectNest& nested) {
         kept = nested;
         auto const submit = [&] { submit_word(nested, triple_codelet, handle, update); };
         try {
           CheckThread([&] {
             require_throws<LifetimeError>(submit,
                                           "a submission from another thread than the body's");
           }).join();
         } catch (Violation const& violation) {
           problem = violation.text;
         }
       },
       {{handle, update}});
  runtime->wait_all();
  require(problem.empty(), problem);
}

/// Nests itself so often, and waits nowhere.
struct Descend {
  int levels;
  SubjectHandle result;
  void operator()(SubjectNest& nested) const {
    Use<SubjectHandle> const uses[] = {{result, update}};
    if (levels > 0)
      nested.submit_nesting(Descend{levels - 1, result}, uses);
    else
      submit_word(nested, triple_codelet, result, update, 7);
  }
};
inline void recursion_is_deep(Trial const& trial) {
  auto const runtime = make_nesting(trial);
  SubjectHandle const handle = allocate_word(*runtime);
  nest(*runtime, Descend{1000, handle}, {{handle, update}});
  require(word_of(*runtime, handle) == 7, "the innermost of a thousand tasks has not run");
  runtime->wait_all();
}

inline void nested_programs(Trial const& trial) {
  for (int i = 0; i < 10 * trial.rounds; ++i)
    run_nested_program(trial.seed * 1000 + static_cast<std::uint64_t>(i),
                       [&] { return make_nesting(trial); });
}

inline std::vector<NamedCheck> nesting() {
  return {
      {"a task that submits ends behind the last of its tasks", outer_task_ends_last},
      {"tasks that submit never commute with others", nests_accumulate_in_order},
      {"a body may wait for its tasks, at any number of workers", bodies_wait},
      {"a body may name what its task declared, and what it allocates", undeclared_is_refused},
      {"scopes of a body are its own, and end what it allocated in them", bodies_have_scopes},
      {"scopes of a body nest, and no other body closes them", scopes_of_bodies_nest},
      {"closing a scope in a body does not wait", closing_in_a_body_does_not_wait},
      {"a task whose tasks failed fails, unless that was reported to its body", failures_come_out},
      {"a body's calls are for its thread", nests_end_with_bodies},
      {"tasks may submit a thousand levels deep", recursion_is_deep},
      {"random programs whose tasks submit leave what one task at a time leaves", nested_programs}};
}

}  // namespace nntile::testing::checks
