#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The one way a task's body runs, on every runtime: marks looked at before, floating-point mode,
// entry, marks set after.
//
// clang-format off
// Use by a runtime: the thread that is to execute a task calls run_body(failures, tokens, body,
// task, workspace), the workspace being a block of Workspaces (workspaces.hh).
//   Ran::ended    the task is over, its marks are settled: publish its end.
//   Ran::pending  an asynchronous entry has returned and its token is out. Touch neither body nor
//                 task: `Ended` of `Tokens` will be called with `task`, or was already; there the
//                 runtime calls settle(failures, body, status) and publishes the end.
// clang-format on
// Publishing must happen after (release), and a consumer's body before (acquire): marks rely on it.

#include <cstring>
#include <new>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/common/failures.hh"
#include "nntile/runtime/common/float_environment.hh"
#include "nntile/runtime/common/tokens.hh"

namespace nntile::common {

enum class Ran : bool { pending, ended };

/// Turns the outcome of a body into marks: a failure marks what the task writes, a success clears
/// it.
inline void settle(Failures& failures, TaskBody const& body, Status status) noexcept {
  if (!status.ok()) [[unlikely]]
    failures.fail(body, status.error);
  else if (failures.any_marked()) [[unlikely]]
    failures.succeed(body);
}

inline Ran run_asynchronous(Failures& failures, Tokens& tokens, TaskBody const& body,
                            void* task) noexcept {
  Completion token;
  try {
    token = tokens.open(task, body);
  } catch (std::bad_alloc const&) {
    settle(failures, body, {"no memory for a completion token"});
    return Ran::ended;
  }
  char text[status_text_bytes];
  Status status;
  {
    DefaultFloatEnvironment const environment;
    status = body.codelet->async({body.pointers, body.attributes, text}, token);
  }
  text[status_text_bytes - 1] = 0;
  Tokens::Return const result = tokens.entry_returned(token, status);
  if (!result.ended) return Ran::pending;
  settle(failures, body, result.failed ? Status{result.text} : Status{});
  return Ran::ended;
}

/// Runs one task's body on the calling thread, unless a mark cancels it. The CPU entry is preferred
/// to the asynchronous one; a codelet with neither fails. Cost without failures: one relaxed load,
/// two reads of the floating-point mode. Allocates: only for failures and tokens. Never throws.
inline Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
                    void* workspace) noexcept {
  if (failures.any_marked() && failures.cancel_if_marked(body)) [[unlikely]]
    return Ran::ended;
  if (body.codelet->cpu == nullptr) [[unlikely]] {
    if (body.codelet->async != nullptr) return run_asynchronous(failures, tokens, body, task);
    settle(failures, body, {"the codelet has no entry for a CPU worker"});
    return Ran::ended;
  }
  if (workspace == nullptr && body.codelet->workspace != 0) [[unlikely]] {
    settle(failures, body, {"no memory for a workspace"});
    return Ran::ended;
  }
  char text[status_text_bytes];
  Status status;
  {
    DefaultFloatEnvironment const environment;
    status = body.codelet->cpu({body.pointers, body.attributes, text, workspace});
  }
  text[status_text_bytes - 1] = 0;  // a body may have filled it all
  settle(failures, body, status);
  return Ran::ended;
}

}  // namespace nntile::common
