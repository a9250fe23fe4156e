// SPDX-License-Identifier: BSD-3-Clause
// Places that a plan or a run cannot have, and what is said of them.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nntile/graph/graph.hh"
#include "nntile/graph/places.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/device.hh"
#include "tests/graph/placed_layer.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/places.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("what cannot be at its place is refused in one line", "[graph][places]") {
  PlacedLayer const of;
  auto const says = [&](PlanOptions options, std::string const& expected) {
    options.tile = 4;
    CHECK(message_of<PlanError>([&] { Plan(of.graph, options); }) == expected);
  };
  says(
      {.place = {{.tensors = "z*", .place = device(0)}}},
      "plan 'layer': place rule 0 (tensors 'z*', role any, place device 0) fits no tensor, or none "
      "that no rule before it fits");
  says({.place = {all_on(0)}, .capacity = {{device(0), 400}}},
       "plan 'layer': tensors that live at device 0 have 512 bytes, and it may hold 400: keep some "
       "elsewhere by PlanOptions::place, the largest is 'y' of 256, or give it more; 576 bytes of "
       "device 0 are enough");
  says({.place = {{.tensors = "h", .place = device(0)}}, .capacity = {{device(0), 128}}},
       "plan 'layer': device 0 has 128 bytes besides the tensors that it keeps, and gemm of 'h', "
       "tile 0, uses 192 at once, a tile of 'w' the most, 64; give it more, smaller tiles, or keep "
       "fewer tensors there; 192 bytes of device 0 are enough");
  says({.place = {{.tensors = "h", .place = device(0)}}, .capacity = {{device(0), 64}}},
       "plan 'layer': device 0 has 64 bytes besides the tensors that it keeps, and gemm of 'h', "
       "tile 0, uses 192 at once, a tile of 'w' the most, 64; give it more, smaller tiles, or keep "
       "fewer tensors there; 192 bytes of device 0 are enough");
  says({.place = {{.tensors = "h", .place = device(0)}, {.tensors = "w", .place = device(0)}},
        .capacity = {{device(0), 192}}},
       "plan 'layer': device 0 has 64 bytes besides the tensors that it keeps, and gemm of 'h', "
       "tile 0, uses 128 at once, a tile of 'x' the most, 64; give it more, smaller tiles, or keep "
       "fewer tensors there; 256 bytes of device 0 are enough");
  says({.place = {all_on(0)}, .capacity = {{device(1), 400}, {device(1), 500}}},
       "plan 'layer': two capacities of device 1, 400 and 500 bytes");
  says({.place = {{.tensors = "h", .place = device(-1)}}},
       "plan 'layer': device -1 in PlanOptions::place; they count from 0");
  Serial serial;
  TensorStore<Serial> store(serial);
  CHECK(message_of<PlanError>(
            [&] { (void)compile(of.graph, store, {.tile = 4, .place = {all_on(0)}}); }) ==
        "compile: plan 'layer' has tensors at device 0: allocate: this runtime has memory on the "
        "host only");
}

TEST_CASE("a place too small is told how much is enough, which fits",
          "[graph][places][single-threaded]") {
  TinyGptGraph const of;
  for (Index const tile : {Index{64}, PlanOptions::automatic}) {
    if (sanitized && tile == PlanOptions::automatic) continue;  // which tries many
    PlanOptions options{.tile = tile};
    options.place = {
        {.role = Role::state}, {.role = Role::parameter}, {.role = Role::input}, all_on(0)};
    options.capacity = {{device(0), 1000}};
    std::string text;
    try {
      Plan(of.graph, options);
    } catch (PlaceFull const& full) {
      text = full.what();
      CHECK(full.place == device(0));
      options.capacity[0].bytes = full.least;
    }
    INFO(text);
    CHECK(contains(text, concat("; ", options.capacity[0].bytes, " bytes of device 0 are enough")));
    CHECK(Plan(of.graph, options).memory({0, device(0)}).total() <= options.capacity[0].bytes);
    --options.capacity[0].bytes;
    CHECK_THROWS_AS(Plan(of.graph, options), PlanError);
  }
}

TEST_CASE("memory that a plan lacks at binding is told with plan and place", "[graph][places]") {
  PlacedLayer const of;
  BasicSerial<testing::EmulatedDevice> runtime(RuntimeOptions{},
                                               testing::EmulatedOptions{.capacity = 600});
  TensorStore<decltype(runtime)> store(runtime);
  CHECK(message_of<OutOfMemory>(
            [&] { (void)compile(of.graph, store, {.tile = 4, .place = {all_on(0)}}); }) ==
        "compile: plan 'layer' needs 768 bytes at device 0: allocate: 64 bytes on device 0, where "
        "576 of 600 bytes are taken; free some, evict to the host, or use smaller tensors; or keep "
        "the plan within what there is by PlanOptions::capacity, or by PlanOptions::place");
  auto step =
      compile(of.graph, store, {.tile = 4, .place = {all_on(0)}, .capacity = {{device(0), 600}}});
  CHECK(runtime.device().memory().peak(0) == 576);
}

TEST_CASE("a plan whose values are not where they are read is refused", "[graph][places]") {
  LogicalGraph graph("doubled");
  Node const x = graph.input({.shape = {4, 6}}, "x");
  Node const w = graph.parameter({.shape = {8, 4}}, "w");
  gemm(w, x).named("h").mark_output();
  add(w, w, w);
  gemm(w, x).named("y").mark_output();
  PlanOptions const options{
      .tile = 0,
      .place = {{.tensors = "h", .place = device(0)}, {.tensors = "y", .place = device(0)}}};
  // copy w, copy x, gemm, add, copy w, gemm.
  auto const says = [&](std::string const& text, auto change) {
    PlanData plan = Plan(graph, options).data();
    REQUIRE(plan.tasks.size() == 6);
    change(plan);
    CHECK(contains(message_of<PlanError>([&] { passes::check(plan); }), text));
  };
  auto const erase = [](PlanData& plan, std::ptrdiff_t task) {
    plan.tasks.erase(plan.tasks.begin() + task);
  };
  auto const use = [](PlanData& plan, std::size_t task, std::size_t number) -> Use<BufferId>& {
    return plan.uses[plan.tasks[task].first_use + number];
  };
  says("the first access of tile 0 of 'w' to slot 0 is read, not write",
       [&](PlanData& plan) { erase(plan, 0); });
  says("gemm ('y', tile 0) reads tile 0 of 'w', which another place has written since",
       [&](PlanData& plan) {
         use(plan, 5, 0) = use(plan, 2, 0);
         erase(plan, 4);
       });
  says("copies something else than one tile",
       [&](PlanData& plan) { std::swap(use(plan, 0, 0), use(plan, 1, 0)); });
  says("runs at rank 0 device 0 and uses tile 0 of 'w' at rank 0 host",
       [&](PlanData& plan) { use(plan, 2, 0) = use(plan, 0, 0); });
  // The optimizer runs on the device, and its states live on the host.
  PlanData step =
      Plan(TinyGptGraph().graph, {.tile = 64, .place = {{.role = Role::state}, all_on(0)}}).data();
  auto last = step.tasks.end();
  while (step.kernels[(--last)->kernel].kind != KernelKind::copy) {
  }
  step.tasks.erase(last);
  CHECK(contains(message_of<PlanError>([&] { passes::check(step); }),
                 " is not at rank 0 host when a run ends"));
}

TEST_CASE("tiles of more bytes than have a number are shared out over no places",
          "[graph][places]") {
  auto const refusal = [](Index bytes, Index capacity) {
    LogicalGraph graph("g");
    Node const x = graph.input({.shape = {bytes / 4}}, "x"), h = scale({.alpha = 2}, x);
    add(add(h, h), x).named("y").mark_output();
    PlanOptions options{.tile = 0, .place = {{.tensors = "h", .place = device(0)}}, .check = true};
    h.named("h");
    options.capacity = {{device(0), capacity}};
    return message_of<PlanError>([&] { Plan(graph, options); });
  };
  Index const bytes = Index{1} << 61;
  for (Index const capacity : {Index{1000}, INT64_MAX})
    CHECK(refusal(bytes, capacity) ==
          "plan 'g': its tiles have more than 2^63 - 1 bytes in all, too many for several places; "
          "make the model smaller, or share it out over more ranks");
  CHECK(refusal(bytes - 64, INT64_MAX) == "(nothing was thrown)");
  CHECK(contains(refusal(bytes - 64, 1000), "bytes of device 0 are enough"));
}

TEMPLATE_TEST_CASE("values in memory of a device are refused with the tensor's name",
                   "[graph][places]", BasicSerial<testing::EmulatedDevice>,
                   Record<BasicSerial<testing::EmulatedDevice>>) {
  PlacedLayer const layer;
  TestType runtime;
  std::size_t const bytes = 32 * sizeof(float);
  auto* const there = static_cast<float*>(runtime.device().allocate(bytes, device(0)));
  std::span<float> const x(there, 24), w(there, 32);
  std::vector<float> const values(32, 1);
  for (bool const adopted : {false, true}) {
    TensorStore<TestType> store(runtime);
    PlanOptions options{.place = {all_on(0)}};
    if (adopted) options.adopted = {"x"}, options.place.clear();
    auto step = compile(layer.graph, store, options);
    auto const refused = [&](auto call) {
      std::string const text = message_of<ValueError>(call);
      INFO(text);
      return contains(text, "memory of device 0");
    };
    CHECK(refused([&] { step.bind_input("x", x); }));
    CHECK(refused([&] { store.template write<float>("w", w); }));
    CHECK(refused([&] { store.template write_tile<float>("w", 0, w); }));
    step.bind_input("x", std::span(values).first(24));
    store.template write<float>("w", values);
    CHECK(refused([&] { store.read(store.at("w"), w); }));
    step.execute();
    CHECK(step.template get_output<float>("y").size() == 48);
  }
  runtime.device().free(there, bytes, device(0));
}
