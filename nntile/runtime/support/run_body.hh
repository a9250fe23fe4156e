#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The one place where a task's body runs, on every runtime: marks looked at before, floating-point
// mode, entry, marks set after.
//
// clang-format off
// Use by a runtime: the thread that is to execute a task calls run_body(failures, tokens, body,
// task, workspace), the workspace being a block of Workspaces (workspaces.hh).
//   Ran::ended    the task is over, its marks are settled: publish its end.
//   Ran::pending  an asynchronous entry has returned and its token is out. Touch neither body nor
//                 task: `Ended` of `Tokens` will be called with `task`, or was already; there the
//                 runtime calls settle(failures, body, status) and publishes the end.
// The worker of a device calls run_on_device(failures, body, stream, finish), which takes the
// device's entry, and publishes the end when the stream has come to it. A runtime that has chosen
// the entry itself, a recorded one, calls run_body(failures, entry, call, make_body).
// clang-format on
// Publishing must happen after (release), and a consumer's body before (acquire): marks rely on it.

#include <concepts>
#include <new>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/float_environment.hh"
#include "nntile/runtime/support/tokens.hh"

namespace nntile::support {

enum class Ran : bool { pending, ended };

/// Turns the outcome of a body into marks: a failure marks what the task writes, a success clears
/// it.
inline void settle(Failures& failures, TaskBody const& body, Status status) noexcept {
  if (!status.ok()) [[unlikely]]
    failures.fail(body, status.error);
  else if (failures.any_marked()) [[unlikely]]
    failures.succeed(body);
}

/// Settles a body that failed or ran among marks; true if it ran well. Out of line, and its
/// callables by value: a success then stores nothing for it.
template <std::invocable MakeBody>
[[gnu::noinline]] bool settle_call(Failures& failures, KernelCall const& call, MakeBody make_body,
                                   Status status) noexcept {
  call.text[status_text_bytes - 1] = 0;  // a body may have filled it all
  settle(failures, make_body(), status);
  return status.ok();
}
template <std::invocable<KernelCall const&> Entry, std::invocable MakeBody>
[[gnu::noinline]] bool run_among_marks(Failures& failures, Entry entry, KernelCall const& call,
                                       MakeBody make_body) noexcept {
  return !failures.cancel_if_marked(make_body()) &&
         settle_call(failures, call, make_body, entry(call));
}

/// Calls entry(call), unless a mark cancels the task, and settles its outcome; true if it ran well.
/// The caller's DefaultFloatEnvironment is in force. make_body() gives the task, and is called for
/// marks and failures only.
///
/// Without marks before the entry a success has none to clear: a mark on what the task writes is
/// set by a task before it, hence visible before it.
template <std::invocable<KernelCall const&> Entry, std::invocable MakeBody>
[[gnu::always_inline]] inline bool run_entry(Failures& failures, Entry entry,
                                             KernelCall const& call, MakeBody make_body) noexcept {
  if (failures.any_marked()) [[unlikely]]
    return run_among_marks(failures, entry, call, make_body);
  Status const status = entry(call);
  if (status.ok()) [[likely]]
    return true;
  return settle_call(failures, call, make_body, status);
}

/// The same, under a DefaultFloatEnvironment of its own. Cost without failures: one relaxed load,
/// two reads of the floating-point mode.
template <std::invocable<KernelCall const&> Entry, std::invocable MakeBody>
bool run_body(Failures& failures, Entry entry, KernelCall const& call,
              MakeBody make_body) noexcept {
  DefaultFloatEnvironment const environment;
  return run_entry(failures, entry, call, make_body);
}

/// Runs one task's device entry, which enqueues on the stream, then finish(stream) -> Status: what
/// the worker does before marks are set, such as to wait for the stream. For codelets with such an
/// entry. Never throws.
template <std::invocable<void*> Finish>
void run_on_device(Failures& failures, TaskBody const& body, void* stream, Finish finish) noexcept {
  char text[status_text_bytes];
  (void)run_body(
      failures,
      [&](KernelCall const& call) {
        Status const status = body.codelet->cuda(call, stream);
        return status.ok() ? finish(stream) : status;
      },
      {body.pointers, body.arguments, text}, [&]() -> TaskBody const& { return body; });
}
/// The same, for a worker that waits for nothing.
inline void run_on_device(Failures& failures, TaskBody const& body, void* stream) noexcept {
  run_on_device(failures, body, stream, [](void*) { return Status{}; });
}

/// Calls entry(call, token) -> Status, which returns before the task has ended. Where it has ended
/// by then, settles it by settle(failures, body, status).
template <class Tokens, class Entry, class Settle>
Ran run_with_token(Failures& failures, Tokens& tokens, TaskBody const& body, void* task, char* text,
                   bool marked, Entry entry, Settle settle) noexcept {
  Completion token;
  try {
    token = tokens.open(task, body);
  } catch (std::bad_alloc const&) {
    settle(failures, body, {"no memory for a completion token"});
    return Ran::ended;
  }
  Status status;
  {
    DefaultFloatEnvironment const environment;
    status = entry(
        {.buffers = body.pointers, .arguments = body.arguments, .text = text, .marked = marked},
        token);
  }
  text[status_text_bytes - 1] = 0;
  typename Tokens::Return const result = tokens.entry_returned(token, status);
  if (!result.ended) return Ran::pending;
  settle(failures, body, result.failed ? Status{result.text} : Status{});
  return Ran::ended;
}

/// Runs one task's entry(call, token) -> Status, which returns before the task has ended, unless a
/// mark cancels the task; `runs_on_marks`: it is called all the same. Never throws.
template <class Tokens, class Entry>
[[gnu::noinline]] Ran run_asynchronous(Failures& failures, Tokens& tokens, TaskBody const& body,
                                       void* task, bool runs_on_marks, Entry entry) noexcept {
  char text[status_text_bytes];
  bool const marked = failures.any_marked() && failures.cancel_if_marked(body, text);
  if (marked && !runs_on_marks) return Ran::ended;
  return run_with_token(failures, tokens, body, task, text, marked, entry, &settle);
}

/// Runs one task's body on the calling thread, unless a mark cancels it. The CPU entry is preferred
/// to the asynchronous one; a codelet with neither fails. Allocates: only for failures and tokens.
/// Never throws.
template <class Tokens>
Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
             void* workspace) noexcept {
  Codelet const& codelet = *body.codelet;
  auto const fail = [&](char const* cause) {
    char text[status_text_bytes];
    (void)run_body(
        failures, [=](KernelCall const&) { return Status{cause}; },
        {body.pointers, body.arguments, text}, [&]() -> TaskBody const& { return body; });
    return Ran::ended;
  };
  if (codelet.cpu == nullptr) [[unlikely]] {
    if (codelet.async != nullptr)
      return run_asynchronous(failures, tokens, body, task, codelet.runs_on_marks, codelet.async);
    return fail("the codelet has no entry for a CPU worker");
  }
  if (workspace == nullptr && codelet.workspace != 0) [[unlikely]]
    return fail("no memory for a workspace");
  char text[status_text_bytes];
  (void)run_body(failures, codelet.cpu, {body.pointers, body.arguments, text, workspace},
                 [&]() -> TaskBody const& { return body; });
  return Ran::ended;
}

}  // namespace nntile::support
