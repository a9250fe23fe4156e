#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: tasks that touch the same buffers run in submission order.

#include <algorithm>
#include <vector>

#include "nntile/testing/conformance/trial.hh"

namespace nntile::testing::checks {

/// A chain through buffers that are written once each: nothing but readers and their writers.
inline void read_after_write(Trial const& trial) {
  std::uint32_t const length = 30 * static_cast<std::uint32_t>(trial.rounds);
  Script script(trial.seed, length + 1);
  script.task({{0, write}}, nap);
  for (std::uint32_t b = 1; b <= length; ++b)
    script.task({{b - 1, read}, {b, write}}, static_cast<std::uint8_t>(b % 3 == 0 ? nap : 0));
  script.run(trial);
}

/// Four readers; the first holds up one of the others, each in its turn. They keep what they read.
inline void write_after_read(Trial const& trial) {
  Script script(trial.seed, 8);
  script.task({{0, write}});
  for (std::uint32_t i = 0; i < 10 * static_cast<std::uint32_t>(trial.rounds); ++i) {
    script.task({{0, read}, {7, update}});
    for (std::uint32_t reader = 0; reader < 3; ++reader) {
      std::uint32_t const result = 2 * reader + 1;
      if (reader == i % 3)
        script.task({{0, read}, {7, read}, {result, update}}, nap);
      else
        script.task({{0, read}, {result, update}});
    }
    script.task({{0, write}});
  }
  script.run(trial);
}

inline void write_after_write(Trial const& trial) {
  Script script(trial.seed, 4);
  for (int i = 0; i < 10 * trial.rounds; ++i)
    script.task({{0, write}}, nap).task({{0, write}}).task({{0, read}, {1, update}});
  script.run(trial);
}

inline void chain(Trial const& trial) {
  Script script(trial.seed, 2);
  for (int i = 0; i < 300 * trial.rounds; ++i) script.task({{1, update}});
  script.run(trial);
}

inline void repeated_operand(Trial const& trial) {
  Script script(trial.seed, 4);
  for (int i = 0; i < 5 * trial.rounds; ++i)
    script.task({{1, read}, {1, read}, {3, update}}, nap)
        .task({{1, read}, {1, update}})
        .task({{1, update}, {1, read}, {3, read}})
        .task({{1, write}, {1, read}})
        .task({{1, read}, {1, write}})
        .task({{1, write}, {1, write}}, 1)
        .task({{1, update}, {1, update}, {1, update}})
        .task({{1, write_disjoint}, {1, read}})
        .task({{1, unordered}, {1, update}, {1, unordered}})
        .task({{1, write_disjoint}, {1, unordered}})
        .task({{1, read}, {1, unordered}, {3, update}});
  script.run(trial);
}

inline void fan_out(Trial const& trial) {
  std::uint32_t const width = 100;
  auto const rounds = static_cast<std::uint32_t>(trial.rounds);
  Script script(trial.seed, width + rounds);
  for (std::uint32_t source = width; source < width + rounds; ++source) {
    script.task({{source, write}}, nap);
    for (std::uint32_t b = 0; b < width; ++b)
      script.task({{source, read}, {b, write}}, static_cast<std::uint8_t>(b % 3));
  }
  script.run(trial);
}

inline void fan_in(Trial const& trial) {
  std::uint32_t const width = max_operands - 1;
  Script script(trial.seed, width + 3);
  for (int i = 0; i < trial.rounds; ++i) {
    std::vector<Use<Binding>> all;
    for (std::uint32_t b = 0; b < width; ++b) {
      script.task({{b, write}}, static_cast<std::uint8_t>(b == 7 ? nap : b % 3));
      all.push_back({b, read});
    }
    for (std::uint32_t const target : {width, width + 1, width + 2}) {
      all.push_back({target, write});
      script.task(all);
      all.pop_back();
      std::rotate(all.begin(), all.begin() + 13, all.end());
    }
  }
  script.run(trial);
}

inline void many_readers_then_a_writer(Trial const& trial) {
  std::uint32_t const width = 400;  // more readers than any list of fixed length holds
  Script script(trial.seed, width + 2);
  for (int i = 0; i < trial.rounds; ++i) {
    script.task({{0, write}});
    for (std::uint32_t b = 1; b <= width; ++b)
      script.task({{0, read}, {b, write}}, static_cast<std::uint8_t>(b % 97 == 0 ? nap : 0));
    script.task({{0, write}});
  }
  script.run(trial);
}

inline void all_pairs(Trial const& trial) {
  Access const accesses[] = {read, write, update, accumulate, write_disjoint, unordered};
  Script script(trial.seed, 4, 20);
  for (Access const first : accesses)
    for (Access const second : accesses)
      for (Access const third : accesses)
        script.task({{1, first}, {3, update}}, 3)
            .task({{1, second}}, 1)
            .task({{1, third}})
            .task({{1, read}, {3, update}});
  script.run(trial);
}

inline void commuting_tasks_exclude_each_other(Trial const& trial) {
  Script script(trial.seed, 4, 200);
  for (int i = 0; i < 10 * trial.rounds; ++i) {
    script.task({{1, update}}, static_cast<std::uint8_t>(i % 3));
    for (int again = 0; again < 4; ++again)
      script.task({{1, accumulate}}, static_cast<std::uint8_t>(again % 3));
  }
  script.task({{1, read}, {3, update}});
  script.run(trial);
}

/// Groups of more tasks than any list of fixed length holds.
inline void disjoint_writers_keep_their_place(Trial const& trial) {
  Script script(trial.seed, 6, 40);
  script.task({{0, write}});
  for (int i = 0; i < 4 * trial.rounds; ++i) {
    for (std::uint32_t part = 0; part < disjoint_parts; ++part)
      script.task({{0, write_disjoint}, {3, read}}, static_cast<std::uint8_t>(part == 2 ? nap : 1));
    script.task({{0, read}, {1, update}}, nap).task({{0, read}, {5, update}});
    for (std::uint32_t part = 0; part < disjoint_parts; ++part)
      script.task({{0, write_disjoint}, {1, write_disjoint}});
    script.task({{0, accumulate}}, nap)
        .task({{0, write_disjoint}})
        .task({{0, write_disjoint}}, nap)
        .task({{0, update}}, nap);
  }
  script.run(trial);
}

/// Checks that the order by the other operands still holds.
inline void unordered_accesses(Trial const& trial) {
  Script script(trial.seed, 6, 40);
  script.task({{0, write}});
  for (int i = 0; i < 5 * trial.rounds; ++i)
    script.task({{0, update}}, nap)
        .task({{0, unordered}, {1, update}})
        .task({{0, unordered}, {1, read}}, nap)
        .task({{3, unordered}, {1, update}})
        .task({{3, update}, {0, write}});
  script.run(trial);
}

inline void a_submission_only_reads(Trial const& trial) {
  Script script(trial.seed, 8);
  for (int i = 0; i < 20 * trial.rounds; ++i)
    script.task({{1, read}, {3, read}, {5, read}}, static_cast<std::uint8_t>(i % 4));
  script.task({{1, update}, {3, update}, {5, update}});
  script.run(trial);
}

inline constexpr Finish late_finishes[] = {Finish::early, Finish::outside, Finish::polled,
                                           Finish::polled_here};

inline void late_tasks_are_tasks(Trial const& trial) {
  Script script(trial.seed, 4, 32);
  for (int i = 0; i < 2 * trial.rounds; ++i)
    for (Finish const finish : late_finishes)
      script.late({{1, update}}, finish, static_cast<std::uint8_t>(i % 2 == 0 ? nap : 1))
          .task({{1, read}, {0, write}})
          .late({{0, read}, {1, write}}, finish)
          .late({{1, write_disjoint}, {3, unordered}}, finish, 1)
          .late({{1, write_disjoint}}, finish)
          .task({{1, read}, {3, update}})
          .task({{0, write}});
  script.run(trial);
}

inline std::vector<NamedCheck> order() {
  return {
      {"a long chain of updates runs in order", chain},
      {"a reader sees the writer before it", read_after_write},
      {"a writer leaves the readers before it their data", write_after_read},
      {"of two writers the later one is the last", write_after_write},
      {"accumulating tasks exclude each other and all count", commuting_tasks_exclude_each_other},
      {"tasks that write disjoint bytes keep their order with all others",
       disjoint_writers_keep_their_place},
      {"an unordered access adds nothing to the order of the others", unordered_accesses},
      {"tasks that only read are legal", a_submission_only_reads},
      {"a task may name a buffer more than once", repeated_operand},
      {"many tasks read what one wrote", fan_out},
      {"a task waits for all of its 39 inputs", fan_in},
      {"a writer waits for all of hundreds of readers", many_readers_then_a_writer},
      {"every pair of accesses keeps its order", all_pairs},
      {"an asynchronous task keeps its place in the order", late_tasks_are_tasks}};
}

}  // namespace nntile::testing::checks
