#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: random programs leave the bits, the marks and the errors of one task at a time.

#include "nntile/testing/conformance/draw.hh"
#include "nntile/testing/conformance/trial.hh"

namespace nntile::testing::checks {

inline void run_shape(Trial const& trial, std::uint64_t salt, ProgramShape const& shape,
                      int count) {
  for (int i = 0; i < count; ++i)
    run_program(
        trial,
        draw_program(trial.seed * 1000 + salt * 100000 + static_cast<std::uint64_t>(i), shape));
}

inline void plain_programs(Trial const& trial) {
  run_shape(trial, 1, {.late = 0, .other = 1}, 2 * trial.rounds);
}
inline void programs_with_everything(Trial const& trial) {
  run_shape(trial, 2, {.other = 10, .unwritten = 4}, 2 * trial.rounds);
}
inline void failing_programs(Trial const& trial) {
  run_shape(trial, 3, {.failing = 6, .late = 0, .other = 5}, 2 * trial.rounds);
}
inline void failing_late_programs(Trial const& trial) {
  run_shape(trial, 4, {.failing = 6, .late = 50, .other = 10, .unwritten = 4}, 2 * trial.rounds);
}
inline void narrow_programs(Trial const& trial) {
  run_shape(trial, 5, {.buffers = 3, .steps = 400, .max_operands = 3, .other = 15}, trial.rounds);
}
inline void wide_programs(Trial const& trial) {
  run_shape(trial, 6, {.buffers = 200, .steps = 2000, .max_operands = 4, .failing = 1, .other = 3},
            (trial.rounds + 3) / 4);
}

inline void accumulating_programs(Trial const& trial) {
  run_shape(
      trial, 7,
      {.buffers = 5, .steps = 300, .max_operands = 4, .failing = 3, .late = 15, .accumulating = 60},
      2 * trial.rounds);
}

inline void reordered_programs(Trial const& trial) {
  run_shape(trial, 9,
            {.buffers = 5,
             .steps = 400,
             .max_operands = 3,
             .failing = 3,
             .late = 15,
             .unwritten = 4,
             .reordered = 70},
            2 * trial.rounds);
}

inline std::vector<NamedCheck> random() {
  return {{"random programs leave what one task at a time leaves", plain_programs},
          {"random programs with retirement, locks, waits and late completions leave the same",
           programs_with_everything},
          {"random programs with failures mark, cancel and report the same", failing_programs},
          {"random programs with failures and late completions mark, cancel and report the same",
           failing_late_programs},
          {"random programs on three buffers leave the same", narrow_programs},
          {"random programs on two hundred buffers leave the same", wide_programs},
          {"random programs that mostly accumulate leave the same", accumulating_programs},
          {"random programs that mostly write disjoint bytes, or in no order, leave the same",
           reordered_programs}};
}

}  // namespace nntile::testing::checks
