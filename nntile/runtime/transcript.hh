#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The calls of a run, with everything that is needed to make them again on any runtime.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/runtime/concept.hh"

namespace nntile {

/// One call. Buffers and tasks are numbered from 0, in the order in which they were made.
struct TranscribedCall {
  enum class Kind : std::uint8_t {
    allocate,
    adopt,  // contents: those of that time
    retire,
    submit,
    read,   // a lock to read
    write,  // any other lock; contents: those at its end
    wait,
    wait_all,
    open_scope,
    close_scope
  };
  Kind kind = Kind::wait_all;
  std::uint32_t buffer = 0;                  // of all that name one
  std::size_t bytes = 0;                     // allocate
  Lifetime lifetime = Lifetime::persistent;  // allocate, open_scope, close_scope
  bool read_only = false;                    // adopt
  std::vector<std::byte> contents{};         // adopt, write
  std::uint32_t task = 0;                    // wait
  Codelet const* codelet = nullptr;          // submit, and what follows
  std::vector<Use<std::uint32_t>> uses{};
  std::vector<std::byte> arguments{};
  Hints hints{};
  std::string tensor{};  // of the label, "" for none
  std::int64_t tile = -1;

  bool operator==(TranscribedCall const&) const = default;
};

/// A run.
struct Transcript {
  std::vector<TranscribedCall> calls;

  bool operator==(Transcript const&) const = default;

  /// Tasks submitted.
  std::size_t tasks() const {
    return static_cast<std::size_t>(std::count_if(
        calls.begin(), calls.end(),
        [](TranscribedCall const& call) { return call.kind == TranscribedCall::Kind::submit; }));
  }
};

/// The part of a run that the results of one task depend on, that task included, in the same
/// order; waits, reads and retirements are left out, and tasks have new numbers. Cost: linear in
/// the operands. Throws ValueError for a task that is not in it.
inline Transcript slice(Transcript const& run, std::size_t task) {
  using CallKind = TranscribedCall::Kind;
  std::size_t const count = run.tasks();
  if (task >= count)
    throw ValueError(concat("slice: task ", task, " of a transcript of ", count, " tasks"));
  std::size_t end = 0;
  for (std::size_t seen = 0; seen <= task; ++end) seen += run.calls[end].kind == CallKind::submit;

  // Backwards: `needed` are the buffers whose contents matter behind the call.
  std::vector<bool> needed, named;
  auto const set = [](std::vector<bool>& flags, std::uint32_t at, bool value) {
    if (flags.size() <= at) flags.resize(at + 1);
    flags[at] = value;
  };
  auto const is = [](std::vector<bool> const& flags, std::uint32_t at) {
    return at < flags.size() && flags[at];
  };
  Transcript part;
  for (std::size_t c = end; c-- > 0;) {
    TranscribedCall const& call = run.calls[c];
    bool keep = false;
    switch (call.kind) {
      case CallKind::submit:
        keep = c + 1 == end;
        for (auto const& use : call.uses) keep |= writes(use.access) && is(needed, use.handle);
        if (!keep) break;
        for (auto const& use : call.uses) set(named, use.handle, true);
        for (auto const& use : call.uses)
          if (use.access == Access::write) set(needed, use.handle, false);
        for (auto const& use : call.uses)
          if (reads(use.access)) set(needed, use.handle, true);
        break;
      case CallKind::write:
        keep = is(needed, call.buffer);
        set(needed, call.buffer, false);
        if (keep) set(named, call.buffer, true);
        break;
      case CallKind::allocate:
      case CallKind::adopt:
        keep = is(named, call.buffer);
        break;
      case CallKind::open_scope:
      case CallKind::close_scope:
        keep = true;
        break;
      default:
        break;
    }
    if (keep) part.calls.push_back(call);
  }
  std::reverse(part.calls.begin(), part.calls.end());
  return part;
}

}  // namespace nntile
