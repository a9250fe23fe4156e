// SPDX-License-Identifier: BSD-3-Clause
// A plan is data: this file includes neither graphs nor passes, and links.
#include "nntile/graph/plan.hh"

#include "tests/support/catch.hh"

using namespace nntile;

namespace {

/// One task that copies x to y.
PlanData copy_plan() {
  PlanData data;
  data.name = "by hand";
  data.nodes = {0};
  for (std::uint32_t t = 0; t < 2; ++t) {
    PlannedTensor tensor;
    tensor.name = t == 0 ? "x" : "y";
    tensor.tiling = Tiling(Shape{8});
    (t == 0 ? tensor.attributes.external : tensor.attributes.output) = true;
    tensor.storage = Storage::stored;
    tensor.used = true;
    tensor.first_buffer = t;
    tensor.buffer_count = 1;
    data.tensors.push_back(tensor);
  }
  data.buffers = {{.tensor = 0, .bytes = 64}, {.tensor = 1, .bytes = 64}};
  data.kernels = {{.name = "copy"}};
  data.uses = {{0, Access::read}, {1, Access::write}};
  data.tasks.emplace_back();
  data.tasks[0].use_count = 2;
  data.tasks[0].tensor = 1;
  data.memory = {{.stored = 128}};
  return data;
}

}  // namespace

TEST_CASE("a plan made by hand is a value", "[graph][plan_alone]") {
  Plan const plan(copy_plan());
  CHECK(plan == Plan(copy_plan()));
  CHECK(plan.uses(plan.tasks()[0]).size() == 2);
  CHECK(plan.tensor("y") == 1);
  CHECK(plan.memory().total() == 128);
  PlanData other = copy_plan();
  other.tasks[0].location.rank = 1;
  CHECK_FALSE(plan == Plan(other));
}

TEST_CASE("memory is reported by location", "[graph][plan_alone]") {
  PlanData data = copy_plan();
  Location const device{.rank = 1, .place = {Place::Kind::device, 0}};
  data.memory.push_back({.location = device, .stored = 64});
  Plan const plan(std::move(data));
  CHECK(plan.memory().stored == 128);
  CHECK(plan.memory(device).stored == 64);
  CHECK(plan.memory({.rank = 7}).total() == 0);
  CHECK(plan.memories().size() == 2);
  CHECK(to_string(device) == "rank 1 device 0");
}
