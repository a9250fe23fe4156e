#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Hints: where and when a task had best run.

namespace nntile {

/// Kinds of workers, as lanes: a task may be for those of one kind alone.
enum class WorkerKind : unsigned char { cpu, cube, vector };
inline constexpr int worker_kinds = 3;

constexpr char const* name_of(WorkerKind kind) {
  constexpr char const* names[] = {"cpu", "cube", "vector"};
  return names[static_cast<int>(kind)];
}

/// The value of Hints::worker for any worker of that kind, and no other: below all numbers of
/// workers that there may not be.
constexpr int any_of(WorkerKind kind) { return -(1 << 16) - static_cast<int>(kind); }

/// Requests of a task to its runtime, which may ignore them. Of several tasks that are ready the
/// one of larger `priority` goes first, where the runtime has priorities.
struct Hints {
  int worker = -1;  // -1: any; CPU workers first, then those of devices; or any_of(kind)
  int priority = 0;
  int node = -1;         // the memory to run at, -1: any; 0 is the host's, then those of devices
  bool prefetch = true;  // operands may be brought to that memory before the task starts
  bool offload = false;  // operands may leave that memory after it, where room is short
  int device = -1;  // to run on where the runtime has it, and the task an entry for it; -1: any

  bool operator==(Hints const&) const = default;
};

}  // namespace nntile
