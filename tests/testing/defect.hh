#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The laws that a runtime can break: one each.

namespace nntile::test {

enum class Defect {
  none,
  // basics
  allocates_nothing,
  drops_tasks,
  // order
  drops_write_after_read,
  reorders_two_writers,
  skips_read_after_write,
  takes_updates_for_reads,
  runs_accumulates_at_once,
  runs_disjoint_writers_early,
  forgets_disjoint_writers,
  sees_one_operand,
  forgets_repeated_operands,
  remembers_eight_readers,
  // storage
  frees_under_reader,
  frees_under_unordered,
  releases_twice,
  never_releases,
  misaligns,
  copies_adopted_memory,
  refuses_empty_buffers,
  reads_unwritten,
  half_refuses,
  counts_own_write,
  refuses_parts_of_unwritten,
  locks_for_anything,
  lock_does_not_wait,
  ignores_locks,
  closes_outer_scope,
  // lifetimes
  takes_foreign_handles,
  takes_retired_handles,
  locks_retired_handles,
  unlocks_retired_handles,
  replays_retired_handles,
  retires_twice,
  closes_any_scope,
  closes_around_scopes,
  keeps_handles_of_scopes,
  unlocks_anything,
  locks_twice,
  takes_foreign_events,
  tells_of_foreign_events,
  waits_for_invented_events,
  tells_of_invented_events,
  takes_any_place,
  adopts_at_any_place,
  takes_empty_codelets,
  frees_nothing,
  frees_nothing_at_the_end,
  // wake-ups
  loses_a_wakeup,
  // failure
  loses_mark,
  keeps_mark_after_write,
  accumulate_clears_mark,
  disjoint_write_clears_mark,
  unordered_meets_marks,
  unordered_leaves_marks,
  reporting_clears_marks,
  runs_cancelled_tasks,
  reports_youngest_failure,
  counts_no_failures,
  throws_once,
  names_no_task,
  // completion
  forgets_completion_status,
  wait_returns_early,
  done_says_yes,
  ends_at_return,
  abandons_tasks,
  // replay
  replays_at_once,
  replay_leaves_no_readers,
  keeps_first_parameters,
  replays_first_task_only,
  replay_succeeds_always,
  accepts_aliases,
  // the rest
  truncates_arguments,
  accepts_any_workers,
  drops_nested_tasks,
  leaks_rounding_mode,
  lends_no_workspace,
};

}  // namespace nntile::test
