// SPDX-License-Identifier: BSD-3-Clause
// Planning allocates no more than it should, for each task.
#include "nntile/graph/compile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Allocated {
  std::size_t tasks = 0;
  double bytes = 0, calls = 0;  // for each of them
};

/// What planning takes of a GPT-2 training step of `layers` blocks, 256 wide, that of bench/plan.
Allocated planning(Index layers) {
  LogicalGraph graph("step");
  nn::Gpt2 const model(
      graph, {.vocab = 256, .positions = 256, .width = 256, .layers = layers, .heads = 4});
  nn::LanguageModelStep const step(model, {.seq = 256, .batch = 8});
  AllocationCount const count;
  Plan const plan(graph, {.tile = 64, .check = false});
  double const bytes = static_cast<double>(count.bytes()),
               calls = static_cast<double>(count.calls());
  auto const tasks = static_cast<double>(plan.tasks().size());
  return {plan.tasks().size(), bytes / tasks, calls / tasks};
}

}  // namespace

TEST_CASE("planning allocates at most 1.1 times what it did before plans said where, a task",
          "[graph][planning_bytes]") {
  if (!allocations_are_counted()) return skip("a sanitizer owns malloc");
  Allocated const one = planning(1), four = planning(4);
  CHECK(one.tasks > 27'000);
  CHECK(one.tasks < 29'000);
  // At commit d83bff3: 16,665,199 bytes by 30,470 calls for 27,981 tasks, and 63,983,124 by 103,606
  // for 99,081.
  CHECK(one.bytes <= 1.1 * 16'665'199 / 27'981);
  CHECK(four.bytes <= 1.1 * 63'983'124 / 99'081);
  CHECK(one.calls <= 1.1 * 30'470 / 27'981);
  CHECK(four.calls <= 1.1 * 103'606 / 99'081);
}
