// SPDX-License-Identifier: BSD-3-Clause
// Rings with capacities of a plan run it, and take no memory from the system after construction.
#include "nntile/graph/ring_capacities.hh"

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/testing/heap_run.hh"
#include "tests/graph/random_graph.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// The plans of a training step and of its first values.
struct Plans {
  TinyGptGraph gpt;
  std::shared_ptr<Plan const> step, init;

  explicit Plans(PlanOptions options) {
    step = std::make_shared<Plan const>(gpt.graph, options);
    LogicalGraph first("init");
    nn::initialize(first, gpt.step, 1);
    PlanOptions around{.tile = options.tile};
    for (PlannedTensor const& tensor : step->tensors())
      if (tensor.storage == Storage::stored)
        around.keep.push_back({tensor.name, tensor.tiling, tensor.storage, tensor.column_unit});
    init = std::make_shared<Plan const>(first, around);
  }
};

/// A step bound to a ring, with first values.
struct Bound {
  TensorStore<Ring> store;
  CompiledGraph<Ring> step;

  Bound(Ring& ring, Plans const& plans, BindOptions const& options)
      : store(ring), step(plans.step, store, options) {
    CompiledGraph<Ring>(plans.init, store, options).execute();
    store.write<Index>("positions", plans.gpt.step.position_values());
  }
  void bind(TinyBatch const& batch) {
    step.bind_input("tokens", batch.tokens);
    step.bind_input("labels", batch.labels);
    step.bind_input<float>("lr", {0.01f});
    step.bind_input<std::int64_t>("step", {1});
  }
};

/// y = x, by a task that ends later.
struct CopyLater {
  static constexpr char const* name = "copy_later";
  static constexpr DType dtypes[] = {DType::fp64};
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  struct Attrs {};
  struct Args {
    Index count;
  };
  static constexpr Fields fields{};
  static Codelet const* kernel(ElementTypes types);
  static constexpr Hooks<Attrs> hooks{.kernel = &kernel};
  static constexpr char const* no_gradient = "for tests";

  static Args args(Attrs const&, TileRange const& range) { return {range.extent('i')}; }
  template <Element T> static void reference(Args const& args, Buffers<CopyLater> buffers) {
    std::memcpy(buffers.at<T>(Operand::y), buffers.at<T>(Operand::x),
                static_cast<std::size_t>(args.count) * sizeof(T));
  }
};
Status copy_and_wait(KernelCall const& call, Completion token) noexcept {
  auto const count = static_cast<std::size_t>(*static_cast<Index const*>(call.arguments));
  std::memcpy(call.buffers[1], call.buffers[0], count * sizeof(double));
  token.poll(+[](void*, Completion of) { return of.complete(), true; }, nullptr);
  return {};
}
constexpr Codelet copy_later_codelet{"copy_later", nullptr, nullptr, &copy_and_wait};
Codelet const* CopyLater::kernel(ElementTypes) { return &copy_later_codelet; }
constexpr Call<CopyLater> copy_later{};

/// Gives each tensor of a store a value: of bytes that are zero.
template <class R> void fill(TensorStore<R>& store) {
  for (auto const& stored : store.tensors()) {
    Index const count = element_count(stored->spec.tiling.shape());
    std::vector<std::byte> const zeros(
        static_cast<std::size_t>(byte_count({count}, size_of(stored->spec.dtype))));
    store.write_bytes(*stored, zeros.data());
  }
}

/// Runs a plan so often in flight, three times, and checks that they take no memory.
void run_without_growth(std::shared_ptr<Plan const> const& plan, RingCapacities const& capacities,
                        BindOptions const& options, int workers, std::uint32_t in_flight) {
  Ring ring({.workers = workers}, capacities);
  TensorStore<Ring> store(ring);
  CompiledGraph<Ring> compiled(plan, store, options);
  fill(store);
  AllocationCount const allocations;
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < in_flight; ++i) (void)compiled.execute_async();
    ring.wait_all();
  }
  if (allocations_are_counted()) CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == 0);
}

/// x through a chain of ops, two of which end later, each tile alone.
struct LateTasks {
  LogicalGraph graph{"chain"};
  std::shared_ptr<Plan const> plan;
  std::vector<OpInfo const*> ops;

  LateTasks() {
    auto const node = [&](char const* name) {
      return graph.tensor({.shape = {12}, .dtype = DType::fp64}, name);
    };
    Node const x = graph.input({.shape = {12}, .dtype = DType::fp64}, "x");
    Node const a = node("a"), b = node("b"), y = node("y");
    copy_later(x, a);
    scale({.alpha = 2}, a, b);
    copy_later(b, y);
    y.mark_output();
    plan = std::make_shared<Plan const>(graph, PlanOptions{.tile = 2});
    for (OpInfo const* const op : graph.ops()) ops.push_back(op);
  }
};

}  // namespace

TEST_CASE("a ring with capacities of its plans trains a GPT-2 and takes no memory",
          "[graph][ring_capacities]") {
  BindOptions const options{.replay = GENERATE(true, false)};
  bool const by_phase = GENERATE(false, true);
  Plans const plans({.tile = 64, .double_buffered = {"tokens"}, .by_phase = by_phase});
  RingCapacities const capacities = together(ring_capacities<Ring>(*plans.step, options),
                                             ring_capacities<Ring>(*plans.init, options));
  Ring ring({.workers = GENERATE(1, 2)}, capacities);
  Bound run(ring, plans, options);
  TinyBatch const batches[] = {tiny_batch(plans.gpt.sizes, 1), tiny_batch(plans.gpt.sizes, 2)};
  AllocationCount const allocations;
  for (int i = 0; i < 3; ++i) {
    run.bind(batches[i % 2]);
    run.step.execute();
  }
  if (allocations_are_counted()) CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == 0);
  CHECK(run.step.get_output<float>("loss")[0] > 0);
}

TEST_CASE("rings with capacities of random plans take no memory", "[graph][ring_capacities]") {
  int runs = 0;
  for (std::uint64_t seed = 1; seed <= (sanitized ? 10u : 60u); ++seed) {
    RandomGraph random(seed);
    (void)mark_gradients(random);
    INFO("seed " << seed << "\n" << random.listing());
    PlanOptions const planning{.tile = static_cast<Index>(seed % 3)};
    std::shared_ptr<Plan const> plan;
    try {
      plan = std::make_shared<Plan const>(random.graph, planning);
    } catch (PlanError const&) {  // attention, for one, takes no sliced heads
      continue;
    }
    BindOptions const options{.replay = seed % 4 != 0, .trace = seed % 5 == 0};
    auto const in_flight = static_cast<std::uint32_t>(1 + seed % 7 % 3);
    run_without_growth(plan, ring_capacities<Ring>(*plan, options, in_flight), options,
                       1 + static_cast<int>(seed % 2), in_flight);
    ++runs;
  }
  CHECK(runs >= (sanitized ? 5 : 40));
}

TEST_CASE("tasks that end later are among the capacities", "[graph][ring_capacities]") {
  LateTasks const chain;
  bool const replay = GENERATE(true, false);
  auto const in_flight = GENERATE(1u, 3u);
  BindOptions const options{.replay = replay, .ops = chain.ops};
  RingCapacities const capacities = ring_capacities<Ring>(*chain.plan, options, in_flight);
  CHECK((replay ? capacities.program.prepared : capacities.tokens / in_flight) == 12);
  run_without_growth(chain.plan, capacities, options, 2, in_flight);
}

TEST_CASE("priorities and workers that hints name are among the capacities",
          "[graph][ring_capacities]") {
  LogicalGraph graph("g");
  Node x = graph.input({.shape = {12}}, "x");
  for (int i = 0; i < 4; ++i) x = scale({.alpha = 2}, x);
  x.mark_output();
  PlanOptions options{.tile = 4};
  options.policy.placement = Placement::owner_computes;
  options.policy.workers = {0, 1};
  Plan const planned(graph, options);
  PlanData data = planned.data();
  for (std::size_t t = 0; t < data.tasks.size(); ++t)
    data.tasks[t].priority = static_cast<int>(t % 5) - 2;
  auto const plan = std::make_shared<Plan const>(Plan(std::move(data)));
  BindOptions const one_by_one{.replay = false};
  RingCapacities const capacities = ring_capacities<Ring>(*plan, one_by_one);
  CHECK(capacities.priorities == 4);
  CHECK(capacities.named_workers);
  CHECK(ring_capacities<Ring>(*plan).priorities == 0);  // a program has lanes of its own
  run_without_growth(plan, capacities, one_by_one, 2, 1);
}

TEST_CASE("no part of the capacities of a plan is for nothing", "[graph][ring_capacities]") {
  LateTasks const chain;
  bool const replay = GENERATE(true, false);
  BindOptions const options{.replay = replay, .ops = chain.ops};
  RingCapacities const all = ring_capacities<Ring>(*chain.plan, options, 2);
  auto const growths = [&](auto shrink) {
    RingCapacities capacities = all;
    shrink(capacities);
    Ring ring({.workers = 1}, capacities);
    TensorStore<Ring> store(ring);
    CompiledGraph<Ring> compiled(chain.plan, store, options);
    fill(store);
    for (int i = 0; i < 2; ++i) (void)compiled.execute_async();
    ring.wait_all();
    return ring.stats().growths;
  };
  CHECK(growths([](RingCapacities&) {}).sum() == 0);
  CHECK(growths([](RingCapacities& less) { less.buffers = 0; }).buffers > 0);
  if (replay) {
    CHECK(growths([](RingCapacities& less) { less.replays = 1; }).replays > 0);
    CHECK(growths([](RingCapacities& less) { less.program.tasks /= 2; }).replays > 0);
    CHECK(growths([](RingCapacities& less) { less.program.lines -= 1; }).replays > 0);
    CHECK(growths([](RingCapacities& less) { less.program.bindings -= 1; }).replays > 0);
    CHECK(growths([](RingCapacities& less) { less.program.prepared -= 1; }).replays > 0);
    CHECK(growths([](RingCapacities& less) { less.program.operands -= 1; }).replays > 0);
  } else {
    CHECK(growths([](RingCapacities& less) { less.tokens = 1; }).tokens > 0);
    CHECK(growths([](RingCapacities& less) { less.argument_bytes = 0; }).tokens > 0);
  }
}

TEST_CASE("with heaps of a plan, too, its tasks take no memory", "[graph][ring_capacities]") {
  TinyGptGraph const gpt;
  Plan const eager = in_program_order(Plan(gpt.graph, {.tile = 64}));
  HeapPlan const heaps = plan_heaps(eager);
  Ring ring({.workers = 2}, ring_capacities(eager, heaps));
  TensorStore<Ring> store(ring);
  Codelet const nothing{"nothing", +[](KernelCall const&) noexcept -> Status { return {}; },
                        nullptr, nullptr};
  for (int i = 0; i < 2; ++i) testing::run_in_heaps(eager, heaps, store, {}, &nothing);
  RingStats const stats = ring.stats();
  CHECK(stats.growths.sum() == 0);
  CHECK(stats.step.growths + stats.scope.growths + stats.scratch.growths == 0);
}

TEST_CASE("inputs in the caller's memory are among the capacities", "[graph][ring_capacities]") {
  LogicalGraph graph("g");
  scale({.alpha = 2}, graph.input({.shape = {300}}, "x"), graph.tensor({.shape = {300}}, "y"))
      .mark_output();
  auto const plan = std::make_shared<Plan const>(graph, PlanOptions{.tile = 1, .adopted = {"x"}});
  auto const in_flight = GENERATE(1u, 2u);
  Ring ring({.workers = 2}, ring_capacities<Ring>(*plan, {}, in_flight));
  TensorStore<Ring> store(ring);
  CompiledGraph<Ring> compiled(plan, store);
  std::vector<std::vector<float>> values(5, std::vector<float>(300, 1));
  for (std::size_t i = 0; i < 40; ++i) {
    std::vector<float> const& its = values[i % values.size()];
    compiled.bind_input("x", its);
    (void)compiled.execute_async();
    if ((i + 1) % in_flight == 0) ring.wait_all();
  }
  CHECK(ring.stats().growths.sum() == 0);
}

TEST_CASE("an instruction set that is none has no capacities", "[graph][ring_capacities]") {
  LateTasks const chain;
  BindOptions const options{.isa = static_cast<Isa>(77), .ops = chain.ops};
  CHECK(message_of<ValueError>([&] {
          (void)ring_capacities<Ring>(*chain.plan, options);
        }).starts_with("ring_capacities: "));
}

TEST_CASE("room for no run at a time is refused", "[graph][ring_capacities]") {
  LateTasks const chain;
  CHECK(message_of<ValueError>([&] {
          (void)ring_capacities<Ring>(*chain.plan, {.ops = chain.ops}, 0);
        }) == "ring_capacities: plan 'chain': room for 0 runs at a time; at least 1");
}

TEST_CASE("more runs in flight than have numbers are refused", "[graph][ring_capacities]") {
  LateTasks const chain;  // twelve tasks end later
  auto const refusal = [](Plan const& plan, BindOptions const& options, std::uint32_t runs) {
    return message_of<ValueError>([&] { (void)ring_capacities<Ring>(plan, options, runs); });
  };
  auto const text = [](std::uint32_t runs, char const* what) {
    return concat("ring_capacities: plan 'chain': ", runs,
                  " runs at a time take more than 2^32 - 1 ", what, "; give fewer");
  };
  BindOptions const one_by_one{.replay = false, .ops = chain.ops};
  std::uint32_t const most = UINT32_MAX / 12;
  CHECK(ring_capacities<Ring>(*chain.plan, one_by_one, most).tokens == most * 12);
  CHECK(refusal(*chain.plan, one_by_one, most + 1) == text(most + 1, "tokens"));
  CHECK(ring_capacities<Ring>(*chain.plan, {.ops = chain.ops}, UINT32_MAX).replays == UINT32_MAX);
  Plan const adopting(chain.graph, {.tile = 12, .adopted = {"x"}});
  CHECK(refusal(adopting, {.ops = chain.ops}, UINT32_MAX - 2) == text(UINT32_MAX - 2, "buffers"));
  PlanData data = chain.plan->data();
  data.phases.push_back({"a", 0, 6});
  data.phases.push_back({"b", 6, static_cast<std::uint32_t>(data.tasks.size())});
  CHECK(refusal(Plan(data), {.ops = chain.ops}, 1u << 31) == text(1u << 31, "replays"));
}

TEST_CASE("tasks of a device are among the capacities", "[graph][ring_capacities]") {
  using R = RingOn<testing::EmulatedDevice>;
  LogicalGraph graph("g");
  Node const h = scale({.alpha = 2}, graph.input({.shape = {12}}, "x"));
  scale({.alpha = 3}, h, graph.tensor({.shape = {12}}, "y")).mark_output();
  auto const plan = std::make_shared<Plan const>(
      graph, PlanOptions{.tile = 4, .place = {{.tensors = "scale*", .place = device(0)}}});
  BindOptions const options{.replay = GENERATE(true, false)};
  RingCapacities const capacities = ring_capacities<R>(*plan, options);
  CHECK((options.replay ? capacities.program.prepared : capacities.tokens) >= 6);
  R ring({.workers = 2}, capacities);
  TensorStore<R> store(ring);
  CompiledGraph<R> compiled(plan, store, options);
  compiled.bind_input("x", std::vector<float>(12, 1));
  compiled.execute();
  CHECK(compiled.get_output<float>("y") == std::vector<float>(12, 6));
  CHECK(ring.stats().growths.sum() == 0);
}
