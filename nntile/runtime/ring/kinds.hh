#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Kinds of a ring's workers.

#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/core/hints.hh"

namespace nntile {

/// The numbers of a ring's workers of each kind beside cpu. All run the tasks that name no kind.
/// Workers 0 and up are of kind cpu, the driving thread among them, then come cube and vector. A
/// body may name the kind that its own task named for tasks that it submits, and no other.
struct WorkerKinds {
  int cube = 0;
  int vector = 0;
};

namespace detail::ring {

/// The kind of each worker.
class Kinds {
 public:
  /// Throws ValueError: a negative count, or more than there are workers.
  Kinds(WorkerKinds const& asked, int workers) {
    if (asked.cube < 0 || asked.vector < 0 || asked.cube > workers ||
        asked.vector > workers - asked.cube)
      throw ValueError(concat("ring: ", asked.cube, " workers of kind cube and ", asked.vector,
                              " of kind vector where there are ", workers, " workers"));
    count_[0] = workers - asked.cube - asked.vector;
    count_[1] = asked.cube;
    count_[2] = asked.vector;
  }

  WorkerKind of(std::uint32_t worker) const {
    int kind = 0, first = count_[0];
    while (kind + 1 < worker_kinds && static_cast<int>(worker) >= first) first += count_[++kind];
    return static_cast<WorkerKind>(kind);
  }

  /// Whether there is no other worker of its kind.
  bool is_alone(std::uint32_t worker) const { return count_[static_cast<int>(of(worker))] == 1; }

  /// The number of kinds whose tasks need queues of their own.
  std::uint32_t apart() const {
    std::uint32_t kinds = 0;
    for (int const count : count_) kinds += count != 0;
    return kinds == 1 ? 0 : kinds;
  }

  /// The worker in a task's slot, for any_of(kind): -2 and below, in the order of kinds, or -1
  /// where all are of that kind. Throws ValueError where none is, naming `task`.
  std::int16_t place(int hint, char const* task) const {
    int const kind = any_of(WorkerKind::cpu) - hint;
    int const all = count_[0] + count_[1] + count_[2];
    int const served = kind < worker_kinds ? count_[kind] : 0;
    if (served == 0) fail(kind, task);
    return static_cast<std::int16_t>(served == all ? -1 : -2 - kind);
  }

 private:
  [[noreturn]] void fail(int kind, char const* task) const {
    std::string const name =
        kind < worker_kinds ? name_of(static_cast<WorkerKind>(kind)) : concat("number ", kind);
    throw ValueError(concat("submit: '", task, "' is for workers of kind ", name,
                            ", and the ring has ", count_[0], " of kind cpu, ", count_[1],
                            " of kind cube and ", count_[2],
                            " of kind vector: ask for some (WorkerKinds)"));
  }

  int count_[worker_kinds];
};

}  // namespace detail::ring
}  // namespace nntile
