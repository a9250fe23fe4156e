// SPDX-License-Identifier: BSD-3-Clause
// Entries of a codelet: bound once with a plan, picked by the worker that runs a task.
#include <memory>

#include "nntile/core/computation.hh"
#include "nntile/core/copy.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/scale.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
#include "nntile/testing/device.hh"
#include "tests/support/catch.hh"
#include "tests/support/emulated_device.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using OnDevice = Engine<EmulatedDevice>;

/// z = 2 * 3x, in tiles of four.
struct Sixfold {
  LogicalGraph graph{"sixfold"};
  Sixfold() {
    Node const x = graph.input({.shape = {12}, .axes = "n"}, "x");
    twice(scale({.alpha = 3}, x), graph.tensor({.shape = {12}}, "z")).mark_output();
  }
};

template <class R> std::vector<float> run(std::shared_ptr<Plan const> plan, R& runtime) {
  Twice::runs_on_cpu = Twice::runs_on_device = 0;
  OpInfo const* const ops[] = {&op_info<Twice>};
  TensorStore<R> store(runtime);
  CompiledGraph<R> step(std::move(plan), store, {.ops = ops});
  step.template bind_input<float>("x", std::vector<float>(12, 1));
  step.execute();
  auto const z = step.template get_output<float>("z");
  return {z.begin(), z.end()};
}

std::vector<float> const sixes(12, 6);

}  // namespace

TEST_CASE("one plan runs CPU entries on a CPU and device entries on a device", "[graph][device]") {
  auto const plan = std::make_shared<Plan const>(Sixfold().graph, PlanOptions{.tile = 4});
  Serial serial;
  CHECK(run(plan, serial) == sixes);
  CHECK(Twice::runs_on_cpu == 3);
  CHECK(Twice::runs_on_device == 0);
  for (int const workers : {1, 3}) {
    OnDevice device(RuntimeOptions{.workers = workers});
    CHECK(run(plan, device) == sixes);
    CHECK(Twice::runs_on_cpu == 0);
    CHECK(Twice::runs_on_device == 3);
  }
}

TEST_CASE("a worker without a device runs the CPU entry of the same task", "[graph][device]") {
  auto const plan = std::make_shared<Plan const>(Sixfold().graph, PlanOptions{.tile = 4});
  EmulatedDevice::without_device = true;
  OnDevice device(RuntimeOptions{.workers = 2});
  CHECK(run(plan, device) == sixes);
  EmulatedDevice::without_device = false;
  CHECK(Twice::runs_on_cpu == 3);
  CHECK(Twice::runs_on_device == 0);
}

TEST_CASE("a traced run leaves tasks on the device", "[graph][device]") {
  Sixfold const of;
  OnDevice device(RuntimeOptions{.workers = 2});
  TensorStore<OnDevice> store(device);
  auto step = compile(of.graph, store, {.tile = 4}, {.trace = true});
  step.bind_input<float>("x", std::vector<float>(12, 1));
  Twice::runs_on_device = 0;
  step.execute();
  CHECK(Twice::runs_on_device == 3);
}

TEST_CASE("a traced run notes tasks of the host that have an entry for devices",
          "[graph][device]") {
  Sixfold const of;
  BasicSerial<testing::EmulatedDevice> runtime;
  TensorStore store(runtime);
  auto step = compile(of.graph, store, {.tile = 4}, {.trace = true});
  step.bind_input<float>("x", std::vector<float>(12, 1));
  step.execute();
  CHECK(step.times().size() == 6);
  for (TaskTime const& time : step.times()) CHECK(time.end != 0);
}

TEST_CASE("an eager call picks the entry of its device", "[graph][device]") {
  Twice::runs_on_cpu = Twice::runs_on_device = 0;
  OnDevice device(RuntimeOptions{.workers = 2});
  Tensor<float, OnDevice> const x(device, Tiling({10}, {4})), z(device, Tiling({10}, {4}));
  x.write(std::vector<float>(10, 1));
  twice(x, z);
  CHECK(z.read() == std::vector<float>(10, 2));
  CHECK(Twice::runs_on_device == 3);
  Tensor<double, OnDevice> const u(device, Tiling({10}, {4})), w(device, Tiling({10}, {4}));
  u.write(std::vector<double>(10, 1));
  twice(u, w);
  CHECK(w.read() == std::vector<double>(10, 2));
  CHECK(Twice::runs_on_device == 3);
  CHECK(Twice::runs_on_cpu == 3);
}

TEST_CASE("what a device says at the end of a stream fails the task", "[graph][device]") {
  OnDevice device(RuntimeOptions{.workers = 2});
  Tensor<float, OnDevice> const x(device, Tiling({4}, {4})), z(device, Tiling({4}, {4}));
  x.write(std::vector<float>(4, 1));
  EmulatedDevice::broken = true;
  CHECK(contains(message_of<TaskError>([&] { twice(x, z); }), "the device is lost"));
  EmulatedDevice::broken = false;
  CHECK_THROWS_AS(z.read(), TaskError);
  twice(x, z);
  CHECK(z.read() == std::vector<float>(4, 2));
}

namespace {

/// Serial that keeps the cost of each submitted task.
class Priced : public Serial {
 public:
  Event submit(Task<DataHandle> const& task) {
    costs.push_back(task.cost);
    return Serial::submit(task);
  }
  std::vector<Cost> costs;
};
class PricedAndReading : public Priced {
 public:
  static constexpr bool reads_costs = true;
};

}  // namespace

TEST_CASE("a planned task states its cost", "[graph][device]") {
  Sixfold const of;
  Priced runtime;
  TensorStore<Priced> store(runtime);
  auto step = compile(of.graph, store, {.tile = 4}, {.replay = false});
  step.bind_input<float>("x", std::vector<float>(12, 1));
  step.execute();
  CHECK(runtime.costs == std::vector<Cost>(6, {0, 2 * 4 * sizeof(float)}));
}

TEMPLATE_TEST_CASE("an eager task states its cost where the runtime reads it", "[graph][device]",
                   Priced, PricedAndReading) {
  TestType runtime;
  Tensor<float, TestType> const x(runtime, Tiling({10}, {8})), z(runtime, Tiling({10}, {8}));
  x.write(std::vector<float>(10, 1));
  twice(x, z);
  std::vector<Cost> wanted(2);
  if (CostedRuntime<TestType>) wanted = {{0, 64}, {0, 16}};
  CHECK(runtime.costs == wanted);
}

namespace {

/// Devices with a kernel of fp32 alone.
struct Sparing : testing::EmulatedDevice {
  bool runs(Codelet const& codelet) const noexcept {
    return &codelet == &copy_codelet ||
           (codelet.computation != nullptr && codelet.computation->element == DType::fp32 &&
            codelet.cpu != nullptr);
  }
};

}  // namespace

TEST_CASE("an op that a device has no code for is refused when it is bound", "[graph][device]") {
  auto const bind = [](DType dtype) {
    LogicalGraph graph("scaled");
    Node const x = graph.input({.shape = {12}, .dtype = dtype}, "x");
    scale({.alpha = 3}, x).named("z").mark_output();
    BasicSerial<Sparing> runtime;
    TensorStore<BasicSerial<Sparing>> store(runtime);
    (void)compile(graph, store, {.tile = 4, .place = {{.tensors = "x"}, {.place = device(0)}}});
  };
  CHECK_NOTHROW(bind(DType::fp32));
  CHECK(message_of<TypeError>([&] { bind(DType::fp64); }) ==
        "compile: plan 'scaled': scale of 'z' for fp64 is to run at device 0, which has no code "
        "for it; give its codelet an entry for devices, or keep what it writes on the host "
        "(PlanOptions::place)");
}
