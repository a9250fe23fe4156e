// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/heaps.hh"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/testing/heap_run.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Tasks that each use the buffers of a list; buffer b has bytes[b].
PlanData plan_of(std::vector<std::vector<BufferId>> const& tasks, std::vector<Index> const& bytes) {
  PlanData data;
  data.name = "by hand";
  for (std::uint32_t b = 0; b < bytes.size(); ++b) {
    data.tensors.emplace_back().first_buffer = b;
    data.buffers.push_back({.tensor = b, .bytes = bytes[b]});
  }
  for (std::uint32_t t = 0; t < tasks.size(); ++t) {
    PlannedTask& task = data.tasks.emplace_back();
    task.node = t;
    task.first_use = static_cast<std::uint32_t>(data.uses.size());
    task.use_count = static_cast<std::uint8_t>(tasks[t].size());
    for (BufferId const b : tasks[t]) data.uses.push_back({b, Access::update});
  }
  return data;
}

/// Whether a heap of that capacity has room for all buffers of a lifetime in turn, each allocated
/// for its first task and retired behind its last, where one of `offset` bytes was before them.
bool fits(std::vector<std::vector<BufferId>> const& tasks, std::vector<Index> const& bytes,
          Lifetime lifetime, std::size_t capacity, std::size_t offset) {
  RingCapacities capacities;
  capacities.step = capacities.scope = capacities.scratch = {capacity, OnFull::fail};
  Ring ring({.workers = 1}, capacities);
  auto const open = scope(ring, lifetime);
  DataHandle before = ring.allocate(offset, host, lifetime);
  std::vector<DataHandle> handles(bytes.size());
  std::vector<std::size_t> left(bytes.size());
  for (auto const& uses : tasks)
    for (BufferId const b : uses) ++left[b];
  try {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      for (BufferId const b : tasks[t])
        if (handles[b] == DataHandle{})
          handles[b] = ring.allocate(static_cast<std::size_t>(bytes[b]), host, lifetime);
      if (t == 0) ring.retire(before);
      for (BufferId const b : tasks[t])
        if (--left[b] == 0) ring.retire(handles[b]);
    }
  } catch (OutOfMemory const&) {
    return false;
  }
  return true;
}

/// Forward and backward pass of a small GPT-2.
struct Gpt {
  LogicalGraph graph{"gpt"};
  nn::Gpt2 model;
  nn::LanguageModelStep step;
  explicit Gpt(Index layers)
      : model(graph, {.vocab = 96, .positions = 32, .width = 64, .layers = layers, .heads = 2}),
        step(model,
             {.seq = 32, .batch = 2, .purpose = nn::LanguageModelOptions::Purpose::gradients}) {}
};

/// Its loss and the gradients of all weights.
std::vector<float> results(TensorStore<Ring>& store, Gpt const& gpt) {
  std::vector<float> all = store.read<float>(gpt.step.loss().name());
  for (nn::Parameter const& parameter : gpt.model.parameters().all()) {
    auto const gradient = store.read<float>(gpt.step.gradients().find(parameter.node).name());
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

}  // namespace

TEST_CASE("tiles that live alike share a heap, and others do not hold them up", "[graph][heaps]") {
  // Buffer 0 lives through all tasks, each other one through two.
  std::vector<std::vector<BufferId>> tasks;
  std::vector<Index> bytes{640};
  for (BufferId t = 1; t <= 50; ++t) {
    tasks.push_back({0, t});
    if (t > 1) tasks.back().push_back(t - 1);
    bytes.push_back(64);
  }
  HeapPlan const heaps = plan_heaps(Plan(plan_of(tasks, bytes)), OnFull::fail);
  CHECK(heaps.bytes() == 640 + 2 * 64);
  CHECK(heaps.lifetimes[0] != heaps.lifetimes[1]);
  CHECK(heaps.lifetimes[1] == heaps.lifetimes[50]);
  CHECK(heaps.capacities.records == 2);
}

TEST_CASE("a heap's capacity does wherever its first buffer lies", "[graph][heaps]") {
  // One live range after the other, each beside the next: 64 and 192 bytes in turn.
  std::vector<std::vector<BufferId>> tasks;
  std::vector<Index> bytes;
  for (BufferId t = 0; t < 30; ++t) {
    tasks.push_back({t});
    if (t > 0) tasks.back().push_back(t - 1);
    bytes.push_back(t % 2 == 0 ? 64 : 192);
  }
  HeapPlan const heaps = plan_heaps(Plan(plan_of(tasks, bytes)), OnFull::fail);
  CHECK(heaps.bytes() == 64 + 192);  // each size alone
  CHECK(heaps.lifetimes[0] != heaps.lifetimes[1]);
  Lifetime const lifetime = heaps.lifetimes[0];
  for (std::size_t offset = 0; offset <= 320; offset += 64)
    CHECK(fits(tasks, bytes, lifetime, 384, offset));
  CHECK_FALSE(fits(tasks, bytes, lifetime, 256, 64));

  for (std::size_t b = 0; b < bytes.size(); b += 2) bytes[b] = 128;  // alike: in one heap
  HeapPlan const alike = plan_heaps(Plan(plan_of(tasks, bytes)), OnFull::fail);
  CHECK(alike.bytes() == 128 + 192 + 128);
  for (std::size_t offset = 0; offset <= 320; offset += 64)
    CHECK(fits(tasks, bytes, alike.lifetimes[0], 448, offset));
  CHECK_FALSE(fits(tasks, bytes, alike.lifetimes[0], 320, 64));
}

TEST_CASE("two large buffers are kept from each other and from those that live as long",
          "[graph][heaps]") {
  // Small ones that begin with each task and live for 1, 3 or 6 more, beside large ones of 4 and 2.
  constexpr Index large = 65536;
  std::vector<std::vector<BufferId>> tasks(36);
  std::vector<Index> bytes;
  auto const add_buffer = [&](Index each, std::size_t first, std::size_t last) {
    auto const b = static_cast<BufferId>(bytes.size());
    bytes.push_back(each);
    tasks[first].push_back(b);
    tasks[last].push_back(b);
  };
  for (std::size_t t = 0; t < 30; ++t) {
    if (t == 12) add_buffer(large, 12, 16);
    if (t == 16) add_buffer(large, 16, 18);
    add_buffer(64, t, t + (t % 3 == 0 ? 1 : t % 3 == 1 ? 3 : 6));
  }
  HeapPlan const heaps = plan_heaps(Plan(plan_of(tasks, bytes)), OnFull::fail);
  CHECK(heaps.bytes() >= 2 * large);
  CHECK(heaps.bytes() <= 2 * large + 16 * 64);  // any cut of the lengths takes three
}

TEST_CASE("no room is kept for a gap that is as large as the oldest buffer", "[graph][heaps]") {
  // Pairs that overlap, the larger first, with nothing between them: all live for three tasks.
  std::vector<std::vector<BufferId>> tasks;
  std::vector<Index> bytes;
  for (BufferId b = 0; b < 20; b += 2) {
    for (std::vector<BufferId> const& uses : {std::vector{b}, {b, b + 1}, {b, b + 1}, {b + 1}})
      tasks.push_back(uses);
    bytes.insert(bytes.end(), {960, 576});
  }
  HeapPlan const heaps = plan_heaps(Plan(plan_of(tasks, bytes)), OnFull::fail);
  CHECK(heaps.bytes() == 960 + 576 + 512);
  for (std::size_t offset = 0; offset <= 1088; offset += 64)
    CHECK(fits(tasks, bytes, heaps.lifetimes[0], 2048, offset));
  CHECK_FALSE(fits(tasks, bytes, heaps.lifetimes[0], 1536, 512));
}

TEST_CASE("a plan without an arena needs no heap", "[graph][heaps]") {
  PlanData data = plan_of({{0}}, {64});
  data.tensors[0].storage = Storage::stored;
  HeapPlan const heaps = plan_heaps(Plan(std::move(data)));
  CHECK(heaps.bytes() == 0);
  CHECK(heaps.lifetimes == std::vector<Lifetime>{Lifetime::persistent});
  CHECK_NOTHROW(Ring({.workers = 1}, heaps.capacities));
}

TEST_CASE("a plan of several locations has no heaps", "[graph][heaps]") {
  PlanData data = plan_of({{0}}, {64});
  data.buffers[0].location.rank = 3;
  CHECK(contains(message_of<PlanError>([&] { plan_heaps(Plan(data)); }), "rank 3"));
}

TEST_CASE("a rank's part has heaps on that rank", "[graph][heaps]") {
  PlanData data = plan_of({{0}}, {64});
  data.rank = data.buffers[0].location.rank = 3;
  CHECK(plan_heaps(Plan(data)).bytes() == 64);
}

TEST_CASE("a tensor that is kept elsewhere has no heaps, used or not", "[graph][heaps]") {
  PlanData data = plan_of({{0}}, {64, 64});
  data.tensors[1].storage = Storage::stored;
  data.buffers[1].location.place = device(0);
  CHECK(contains(message_of<PlanError>([&] { plan_heaps(Plan(data)); }), "device 0"));
}

TEST_CASE("the copy of a tile that is kept elsewhere is in a heap", "[graph][heaps]") {
  PlanData data = plan_of({{0}, {0, 1}}, {64, 128});
  data.tensors[0].storage = Storage::stored;
  data.buffers[0].copy = true;
  HeapPlan const heaps = plan_heaps(Plan(std::move(data)));
  CHECK(heaps.bytes() == 64 + 128);
  CHECK(heaps.lifetimes[0] != Lifetime::persistent);
}

TEST_CASE("a plan that copies between places has no program order", "[graph][heaps]") {
  LogicalGraph graph("copies");
  gelutanh(graph.parameter({.shape = {4}}, "w")).named("y").mark_output();
  PlanOptions options{.tile = 0, .place = {{"w", Role::any, device(0)}}};
  CHECK(contains(message_of<PlanError>([&] { (void)in_program_order(Plan(graph, options)); }),
                 "in_program_order: plan 'copies': tile 0 of 'w' has several buffers"));
  options.place[0].tensors = "*";
  CHECK_NOTHROW(passes::check(in_program_order(Plan(graph, options))));
}

TEST_CASE("forward and backward of a GPT-2, op after op, fit into heaps of the planned capacity",
          "[graph][heaps]") {
  Gpt const gpt(3);
  Index const tile = GENERATE(0, 16, 32);
  auto const shared = std::make_shared<Plan const>(gpt.graph, PlanOptions{.tile = tile});
  Plan const eager = in_program_order(*shared);
  HeapPlan const heaps = plan_heaps(eager);
  CHECK(static_cast<double>(heaps.bytes()) <= 1.10 * static_cast<double>(eager.memory().arena));
  CHECK(heaps.bytes() >= eager.memory().arena_lower_bound);

  Ring ring({.workers = GENERATE(1, 2)}, heaps.capacities);
  TensorStore<Ring> store(ring);
  CompiledGraph<Ring> compiled(shared, store);
  LogicalGraph init("init");
  nn::initialize(init, gpt.step, 1);
  compile(init, store, {.tile = tile}).execute();
  store.write<Index>("positions", gpt.step.position_values());
  std::vector<std::int64_t> tokens(64);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(i * 7 % 96);
  compiled.bind_input("tokens", tokens);
  compiled.bind_input("labels", tokens);
  compiled.execute();
  std::vector<float> const expected = results(store, gpt);

  testing::run_in_heaps(eager, heaps, store);
  testing::run_in_heaps(eager, heaps, store);  // what the first has left is no less room
  CHECK(results(store, gpt) == expected);
  RingStats const stats = ring.stats();
  // While tasks are behind, small tiles may fill what a whole one will need.
  std::uint32_t const records =
      tile == 0 ? std::bit_ceil(heaps.capacities.records) : heaps.capacities.records;
  for (auto const& [heap, capacity] : {std::pair{stats.step, heaps.capacities.step},
                                       std::pair{stats.scope, heaps.capacities.scope},
                                       std::pair{stats.scratch, heaps.capacities.scratch}}) {
    CHECK(heap.growths == 0);
    CHECK(heap.capacity == capacity.bytes);
    CHECK(heap.peak <= capacity.bytes);
    CHECK(heap.peak_records <= records);
    CHECK(4 * heap.peak >= 3 * capacity.bytes);  // and little of it is for nothing
  }
}

TEST_CASE("a heap that is a quarter smaller than planned is refused with an error",
          "[graph][heaps]") {
  Gpt const gpt(2);
  Plan const eager = in_program_order(Plan(gpt.graph, {.tile = 32}));
  HeapPlan heaps = plan_heaps(eager);
  heaps.capacities.step.bytes = heaps.capacities.step.bytes / 256 * 192;
  Codelet const nothing{"nothing", +[](KernelCall const&) noexcept -> Status { return {}; },
                        nullptr, nullptr};
  Ring ring({.workers = 2}, heaps.capacities);
  TensorStore<Ring> store(ring);
  CHECK_THROWS_AS(testing::run_in_heaps(eager, heaps, store, {}, &nothing), OutOfMemory);
  CHECK_NOTHROW(ring.wait_all());
}

namespace {

/// A ring that refuses a submission, and counts those since it was last waited for.
struct Refusing : Forward<Ring> {
  using Forward::Forward;
  Event submit(Task<Handle> const& task) {
    if (unwaited == 20) throw OutOfMemory("mine: no room");
    ++unwaited;
    return Forward::submit(task);
  }
  void wait_all() {
    Forward::wait_all();
    unwaited = 0;
  }
  int unwaited = 0;
};

}  // namespace

TEST_CASE("a run in heaps that an exception ends has waited for its tasks, which use its names",
          "[graph][heaps]") {
  Gpt const gpt(1);
  Plan const eager = in_program_order(Plan(gpt.graph, {.tile = 32}));
  HeapPlan const heaps = plan_heaps(eager);
  Codelet const nothing{"nothing", +[](KernelCall const&) noexcept -> Status { return {}; },
                        nullptr, nullptr};
  Refusing ring(RuntimeOptions{.workers = 1}, heaps.capacities);
  TensorStore<Refusing> store(ring);
  CHECK(message_of([&] { testing::run_in_heaps(eager, heaps, store, {}, &nothing); }) ==
        "mine: no room");
  CHECK(ring.unwaited == 0);
}
