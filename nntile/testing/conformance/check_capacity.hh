#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: large, many, and none at all.

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/check_basics.hh"
#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void arguments_behind_a_token(Trial const& trial) {
  arguments_behind(trial, Finish::outside);
}

inline void many_operands(Trial const& trial) {
  Script script(trial.seed, max_operands, 3);
  for (int i = 0; i < 4 * trial.rounds; ++i) {
    std::vector<Use<Binding>> operands;
    for (std::uint32_t b = 0; b < max_operands; ++b) {
      std::uint32_t const kind = (b * 7 + static_cast<std::uint32_t>(i)) % 4;
      operands.push_back({b, i == 0 && b % 2 == 0 ? write
                             : kind == 0          ? write
                             : kind == 1          ? update
                                                  : read});
    }
    script.task(operands, static_cast<std::uint8_t>(i % 2 == 0 ? nap : 0))
        .task({{static_cast<std::uint32_t>(i) % 40, update}});
  }
  script.run(trial);
}

/// The first task sleeps while the others are submitted behind it, until the runtime lets no more
/// in.
inline void back_pressure(Trial const& trial) {
  std::size_t const count = 80000;
  auto sleep = [](KernelCall const& call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    *static_cast<std::uint64_t*>(call.buffers[0]) = 1;
    return Status{};
  };
  Scene scene(trial, count);
  std::vector<std::uint32_t> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(scene.allocate(1));
  scene.call({{buffers[0], write}}, sleep);
  Random random(trial.seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t const target = buffers[i % 16];
    if (i < 16)
      scene.task({{buffers[0], read}, {target, i == 0 ? update : write}});
    else
      scene.task({{target, update}, {buffers[random.below(16)], read}});
  }
  scene.runtime().wait_all();
  for (std::size_t i = 0; i < count; ++i)
    require(scene.journal().times_run(i) == 1,
            concat("task ", i, " ran ", scene.journal().times_run(i), " times"));
  scene.journal().require_quiet();
}

inline void many_buffers(Trial const& trial) {
  std::size_t const count = 2000 * static_cast<std::size_t>(trial.rounds);
  Scene scene(trial, count + 1);
  std::uint32_t previous = scene.allocate(8);
  scene.task({{previous, write}});
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t const next = scene.allocate(8);
    scene.task({{previous, read}, {next, write}});
    scene.retire(previous);
    previous = next;
  }
  require(scene.words(previous).size() == 8, "a lock gave another size");
  scene.destroy();
}

inline std::vector<NamedCheck> capacity() {
  return {{"arguments are copied whole where a task waits for a token", arguments_behind_a_token},
          {"a task may have 40 operands", many_operands},
          {"eighty thousand tasks pass any window", back_pressure, true},
          {"thousands of buffers come and go", many_buffers}};
}

}  // namespace nntile::testing::checks
