// SPDX-License-Identifier: BSD-3-Clause
// Random programs of tasks on the host and on devices: values, failures and cancellations are those
// of the same program on the host alone, one task at a time.
#include <cstdint>
#include <vector>

#include "nntile/core/random.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedOptions;

namespace {

/// target = 3 * target + source + value, where the source is another place's by `crosses`: then it
/// is a copy.
struct Step {
  std::size_t source, target;
  bool copies, fails;
  long value;
};
constexpr int cells_at_a_place = 4;

std::vector<Step> draw(std::uint64_t seed, int places, int failing) {
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

constexpr Codelet mix_codelet{.name = "mix", .cpu = +[](KernelCall const& call) noexcept -> Status {
                                cell_of(call, 1) =
                                    affine(cell_of(call, 1), 3, cell_of(call, 0) + value_of(call));
                                return {};
                              }};
constexpr Codelet broken_mix{.name = "broken mix",
                             .cpu = +[](KernelCall const& call) noexcept -> Status {
                               cell_of(call, 1) = -1;
                               return {"it broke"};
                             }};

/// What became of a program: of each task, whether it failed or was cancelled; the cells' values.
struct Outcome {
  std::vector<int> tasks;
  std::vector<long> values;
  bool operator==(Outcome const&) const = default;
};
constexpr long marked = -7;

/// Cells of place p lie at the p-th of `at`.
template <class R>
Outcome run(R& runtime, std::vector<Step> const& steps, std::vector<Place> const& at) {
  std::vector<DataHandle> cells;
  std::int64_t const bytes = sizeof(long);
  auto const move = [&](DataHandle from, DataHandle to) {
    return submit(runtime, copy_codelet, {{from, Access::read}, {to, Access::write}}, bytes);
  };
  for (Place const place : at)
    for (int i = 0; i < cells_at_a_place; ++i) {
      cells.push_back(runtime.allocate(sizeof(long), place));
      submit(runtime, put_codelet, {{cells.back(), Access::write}}, 10L * i + 1);
    }
  std::vector<Event> events;
  for (Step const& step : steps)
    events.push_back(step.copies ? move(cells[step.source], cells[step.target])
                                 : submit(runtime, step.fails ? broken_mix : mix_codelet,
                                          {{cells[step.source], Access::read},
                                           {cells[step.target], Access::update}},
                                          step.value));
  Outcome outcome;
  for (Event const& event : events) {
    outcome.tasks.push_back(0);
    try {
      runtime.wait(event);
    } catch (TaskError const& error) {
      outcome.tasks.back() = error.cancelled() ? 2 : 1;
    }
  }
  for (DataHandle const handle : cells) {
    auto const here = runtime.allocate(sizeof(long));
    move(handle, here);
    try {
      outcome.values.push_back(read(runtime, here));
    } catch (TaskError const&) {
      outcome.values.push_back(marked);
    }
    runtime.retire(handle);
  }
  try {
    runtime.wait_all();
  } catch (TaskError const&) {
  }
  return outcome;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("random programs on devices leave what the host alone leaves",
                        "[testing][device_random]", DeviceRuntimes) {
  for (int const devices : {1, 2, 4})
    for (std::uint64_t seed = 1; seed <= (sanitized ? 4 : 20); ++seed) {
      CAPTURE(devices, seed);
      std::vector<Place> places{host, pinned};
      for (int i = 0; i < devices; ++i) places.push_back(device(i));
      auto const steps = draw(seed, devices + 2, seed % 2 == 0 ? 5 : 0);
      Serial oracle;
      TestType runtime(
          RuntimeOptions{},
          EmulatedOptions{.devices = devices, .seed = seed, .longest_delay_ns = 20'000});
      Outcome const expected = run(oracle, steps, std::vector<Place>(places.size(), host));
      CHECK(run(runtime, steps, places) == expected);
      for (int i = 0; i < devices; ++i) CHECK(runtime.device().memory().used(i) == 0);
    }
}
