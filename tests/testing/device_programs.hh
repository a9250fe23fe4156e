// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Random programs of tasks on the host and on devices, and what becomes of them.

#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/core/random.hh"
#include "tests/runtime/codelets.hh"

namespace nntile::test {

/// target = 3 * target + source + value, where the source is another place's by `crosses`: then it
/// is a copy.
struct Step {
  std::size_t source, target;
  bool copies, fails;
  long value;
};
inline constexpr int cells_at_a_place = 4;

inline std::vector<Step> draw_steps(std::uint64_t seed, int places, int failing) {
  std::vector<Step> steps;
  auto const below = [&](int count) {
    return static_cast<int>((seed = mix_bits(seed)) % static_cast<std::uint64_t>(count));
  };
  auto const cells = static_cast<std::size_t>(places * cells_at_a_place);
  for (int i = 0; i < 120; ++i) {
    auto const at = static_cast<std::size_t>(below(places) * cells_at_a_place);
    Step step{at + static_cast<std::size_t>(below(cells_at_a_place)),
              at + static_cast<std::size_t>(below(cells_at_a_place)), below(4) == 0,
              below(100) < failing, below(1000)};
    if (step.copies) step.source = static_cast<std::size_t>(below(static_cast<int>(cells)));
    if (step.source != step.target) steps.push_back(step);
  }
  return steps;
}

inline constexpr Codelet mix_codelet{
    .name = "mix", .cpu = +[](KernelCall const& call) noexcept -> Status {
      cell_of(call, 1) = affine(cell_of(call, 1), 3, cell_of(call, 0) + value_of(call));
      return {};
    }};
/// What became of a program: of each task, whether it failed or was cancelled; the cells' values.
struct Outcome {
  std::vector<int> tasks;
  std::vector<long> values;
  bool operator==(Outcome const&) const = default;
};
inline constexpr int ended = 0, failed = 1, cancelled = 2;
inline constexpr long marked = -7;

/// Cells of place p lie at the p-th of `at`, on the host where there is no memory. The tasks that
/// failed in `like` fail; those of `steps` fail where they say so.
template <class R>
Outcome run_steps(R& runtime, std::vector<Step> const& steps, std::vector<Place> const& at,
                  Outcome const& like = {}) {
  std::vector<DataHandle> cells;
  std::vector<Event> events;
  std::int64_t const bytes = sizeof(long);
  auto const add = [&](Codelet const& codelet, std::vector<Use<DataHandle>> const& uses,
                       auto value) {
    bool const breaks = events.size() < like.tasks.size() && like.tasks[events.size()] == failed;
    events.push_back(runtime.submit(
        {breaks ? &fail_codelet : &codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}}));
  };
  auto const move = [&](DataHandle from, DataHandle to) {
    add(copy_codelet, {{from, Access::read}, {to, Access::write}}, bytes);
  };
  auto const allocate = [&](Place place) {
    try {
      return runtime.allocate(sizeof(long), place);
    } catch (Error const&) {
      return runtime.allocate(sizeof(long));
    }
  };
  for (Place const place : at)
    for (int i = 0; i < cells_at_a_place; ++i) {
      cells.push_back(allocate(place));
      add(put_codelet, {{cells.back(), Access::write}}, 10L * i + 1);
    }
  for (Step const& step : steps)
    if (step.copies)
      move(cells[step.source], cells[step.target]);
    else
      add(step.fails ? fail_codelet : mix_codelet,
          {{cells[step.source], Access::read}, {cells[step.target], Access::update}}, step.value);
  std::vector<DataHandle> results;
  for (DataHandle const handle : cells) {
    results.push_back(runtime.allocate(sizeof(long)));
    move(handle, results.back());
    runtime.retire(handle);
  }
  Outcome outcome;
  for (Event const& event : events) {
    outcome.tasks.push_back(ended);
    try {
      runtime.wait(event);
    } catch (TaskError const& error) {
      outcome.tasks.back() = error.cancelled() ? cancelled : failed;
    }
  }
  for (DataHandle const handle : results) {
    try {
      outcome.values.push_back(read(runtime, handle));
    } catch (TaskError const&) {
      outcome.values.push_back(marked);
    }
  }
  try {
    runtime.wait_all();
  } catch (TaskError const&) {
  }
  return outcome;
}

}  // namespace nntile::test
