// SPDX-License-Identifier: BSD-3-Clause
// How eager calls are executed: hints, modes and instruction sets of their tasks.
#include "nntile/ops/execution.hh"

#include <cmath>

#include "nntile/ops/add.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/runtime/adaptors/null.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Runtime1 = Record<Serial>;

/// Tasks that were submitted to a runtime, without waits and locks.
template <class R> std::vector<LoggedCall> submitted(R const& runtime) {
  std::vector<LoggedCall> result;
  for (LoggedCall const& call : runtime.log())
    if (call.kind == LoggedCall::Kind::submit) result.push_back(call);
  return result;
}

template <class R> Tile<float, R> filled(R& runtime, char const* name) {
  Tile<float, R> tile(runtime, {8, 8}, name);
  tile.write(std::vector<float>(64, 1));
  return tile;
}

}  // namespace

TEST_CASE("hints of a call on tiles reach its task", "[tile][execution]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 2});
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  Hints const hints{.worker = 1, .priority = 3, .node = 0, .prefetch = false, .offload = true};
  add.async({.hints = hints}, a, a, b).wait();
  REQUIRE(submitted(runtime).size() == 1);
  CHECK(submitted(runtime)[0].hints == hints);
  CHECK(b.read()[0] == 2);
}

TEST_CASE("tiles have no owner where no worker is a CPU's", "[tile][execution]") {
  ExecutionPolicy policy{.placement = Placement::owner_computes};
  PlacedTask task{};
  task.tile = 5;
  CHECK(hints_of(policy, task, 0).worker == -1);
  CHECK(hints_of(policy, task, 2).worker == 1);
  policy.workers = {7};
  CHECK(hints_of(policy, task, 0).worker == 7);
}

TEST_CASE("hints of a call on tensors reach each tile task", "[tile][execution]") {
  Runtime1 runtime;
  Tensor<float, Runtime1> const a(runtime, Tiling({8, 8}, {4, 4}), "a"),
      b(runtime, Tiling({8, 8}, {4, 4}), "b");
  a.write(std::vector<float>(64, 1));
  ExecutionContext const context{.hints = {.priority = 2}};
  gemm.async(context, a, a, b).wait_all();
  CHECK(submitted(runtime).size() == 8);
  for (LoggedCall const& call : submitted(runtime)) CHECK(call.hints == Hints{.priority = 2});
}

TEST_CASE("a call's groups are chains of their own, on a tile as on tensors", "[tile][execution]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 2});
  using R = Record<Ring>;
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 / static_cast<float>(3 + i);
  std::vector<float> expected(64);  // ((0+1)+(2+3)) of chains of two terms
  for (std::size_t j = 0; j < 8; ++j)
    for (std::size_t i = 0; i < 8; ++i) {
      float sums[4] = {};
      for (std::size_t k = 0; k < 8; ++k)
        sums[k / 2] = std::fma(values[i + 8 * k], values[k + 8 * j], sums[k / 2]);
      expected[i + 8 * j] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  ExecutionContext const context{.groups = {{"k", 4}}};
  Tile<float, R> const a(runtime, {8, 8}, "a"), b(runtime, {8, 8}, "b");
  a.write(values);
  gemm.async(context, a, a, b).wait();  // for all of its tasks
  // A task sums a pair of short groups, one the pairs.
  CHECK(submitted(runtime).size() == 2 + 1);
  CHECK(b.read() == expected);
  Tensor<float, R> const x(runtime, Tiling({8, 8}, {3, 3}), "x"),
      y(runtime, Tiling({8, 8}, {3, 3}), "y");
  x.write(values);
  gemm.async(context, x, x, y).wait_all();
  CHECK(y.read() == expected);
  CHECK(message_of<ValueError>([&] { gemm.async({.groups = {{"q", 2}}}, a, a, b).wait(); }) ==
        "gemm: groups of an axis 'q', which it does not have; it has m, k, n");
  CHECK(message_of<ValueError>([&] { gemm.async({.groups = {{"k", 9}}}, a, a, b).wait(); }) ==
        "gemm: axis 'k' of 8 elements has 9 canonical groups; at most 8 would do");
}

TEST_CASE("a context stands before attributes, which stand before operands", "[tile][execution]") {
  Runtime1 runtime;
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  add.async({.hints = {.priority = 1}}, {.alpha = 3, .beta = 2}, a, a, b).wait();
  CHECK(b.read()[0] == 5);
  add.async({}, a, a, b).wait();  // attributes
  add.async({}, {.alpha = 3}, a, a, b).wait();
  CHECK(b.read()[0] == 4);
  add.async(ExecutionContext{}, a, a, b).wait();
  add.async({.alpha = 2}, a, a, b).wait();
  CHECK(b.read()[0] == 3);
  CHECK(submitted(runtime)[0].hints == Hints{.priority = 1});
  CHECK(submitted(runtime)[4].hints == Hints{});
}

TEST_CASE("a call runs the kernel of its mode and instruction set", "[tile][execution]") {
  Runtime1 runtime;
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  for (Mode const mode : {Mode::exact, Mode::fast})
    for (Isa const isa : {Isa::best, Isa::plain, Isa::v2, Isa::v3, Isa::v4}) {
      if (!kernels::available(isa)) continue;
      runtime.clear();
      gemm.async({.mode = mode, .isa = isa}, a, a, b).wait();
      Isa const named = isa == Isa::best ? kernels::best() : isa;
      CHECK(submitted(runtime).at(0).codelet ==
            kernels::find("gemm", DType::fp32, DType::fp32, mode, named));
      CHECK(b.read()[0] == 8);
    }
}

TEST_CASE("an instruction set that is not there is refused before anything runs",
          "[tile][execution]") {
  Runtime1 runtime;
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  int refused = 0;
  for (Isa const isa : {Isa::plain, Isa::v2, Isa::v3, Isa::v4}) {
    if (kernels::available(isa)) continue;
    ++refused;
    std::string const text =
        message_of<ValueError>([&] { add.async({.isa = isa}, a, a, b).wait(); });
    CHECK(text == concat("add: this ",
                         kernels::built(isa) ? "CPU lacks " : "build has no kernels for ",
                         name_of(isa), "; the best here is ", name_of(kernels::best())));
  }
  CHECK(refused > 0);  // no machine has both `plain` and the others
  CHECK(submitted(runtime).empty());
}

TEST_CASE("a mode that there is not is refused before anything runs", "[tile][execution]") {
  Runtime1 runtime;
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  CHECK(message_of<ValueError>([&] {
          add.async({.mode = static_cast<Mode>(2)}, a, a, b).wait();
        }) == "add: ExecutionContext::mode is 2; exact (0) or fast (1)");
  CHECK(submitted(runtime).empty());
}

TEST_CASE("a worker or memory that is not there is refused with their number",
          "[tile][execution]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 2});
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  auto const message = [&](Hints const& hints) {
    return message_of<ValueError>([&] { add.async({.hints = hints}, a, a, b).wait(); });
  };
  CHECK(message({.worker = 2}) ==
        "add: worker 2 is not one of the runtime's 2; they count from 0, and -1 is any");
  CHECK(contains(message({.worker = -2}), "worker -2 is not one"));
  CHECK(message({.node = 1}) ==
        "add: memory node 1 is not one of the runtime's 1; 0 is the host's, and -1 is any");
  CHECK(message({.device = -9}) == "add: device -9; they count from 0, and -1 is any");
  CHECK(submitted(runtime).empty());
}

TEST_CASE("a call names a kind of workers, and the ring refuses one that it has none of",
          "[tile][execution]") {
  Ring runtime(RuntimeOptions{.workers = 2}, {}, {.cube = 1});
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  auto const call = [&](int worker) { add.async({.hints = {.worker = worker}}, a, a, b).wait(); };
  for (WorkerKind const kind : {WorkerKind::cpu, WorkerKind::cube}) {
    call(any_of(kind));
    CHECK(b.read() == std::vector<float>(64, 2));
  }
  CHECK(contains(message_of<ValueError>([&] { call(any_of(WorkerKind::vector)); }),
                 "workers of kind vector"));
  CHECK(contains(message_of<ValueError>([&] { call(any_of(WorkerKind::vector) - 1); }),
                 "is not one of the runtime's 2"));
}

TEST_CASE("a device that the runtime lacks is no fault of a hint", "[tile][execution]") {
  Runtime1 runtime;
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  CHECK_NOTHROW(add.async({.hints = {.device = 3}}, a, a, b).wait());
}

TEST_CASE("a policy gives each tile task the worker of its owner", "[tile][execution]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 3});
  Tensor<float, Record<Ring>> const a(runtime, Tiling({8, 8}, {4, 4}), "a"),
      b(runtime, Tiling({8, 8}, {4, 4}), "b");
  a.write(std::vector<float>(64, 1));
  auto const workers = [&](ExecutionContext const& context) {
    runtime.clear();
    add.async(context, a, a, b).wait_all();
    std::vector<int> result;
    for (LoggedCall const& call : submitted(runtime)) {
      CHECK(call.tensor == "b");
      result.push_back(call.hints.worker);
    }
    return result;
  };
  ExecutionPolicy policy{.placement = Placement::owner_computes};
  CHECK(workers({.policy = policy}) == std::vector{0, 1, 2, 0});
  policy.workers = {2, 1};
  CHECK(workers({.policy = policy}) == std::vector{2, 1, 2, 1});
  CHECK(workers({.hints = {.worker = 0}, .policy = policy}) == std::vector(4, 0));
  policy.rules = {{.op = "gemm", .hints = {.worker = 0}},
                  {.tensor = "b", .tile = 3, .hints = {.worker = 0}}};
  CHECK(workers({.policy = policy}) == std::vector{2, 1, 2, 0});
}

TEST_CASE("affinity runs a task where the largest of its tiles is owned", "[tile][execution]") {
  Runtime1 runtime;
  // Tiles of y are small; each product reads a large tile of a, and a smaller one of b.
  Tensor<float, Runtime1> const a(runtime, Tiling({4, 64}, {4, 16}), "a"),
      b(runtime, Tiling({64, 2}, {16, 2}), "b"), y(runtime, Tiling({4, 2}, {4, 2}), "y");
  a.write(std::vector<float>(256, 1)), b.write(std::vector<float>(128, 1));
  runtime.clear();
  ExecutionPolicy const policy{.placement = Placement::affinity, .workers = {0}, .nodes = {0}};
  gemm.async({.policy = policy}, a, b, y).wait_all();
  CHECK(submitted(runtime).size() == 4);
  for (LoggedCall const& call : submitted(runtime))
    CHECK(call.hints == Hints{.worker = 0, .node = 0});
}

TEST_CASE("a policy that cannot be kept is refused before anything runs", "[tile][execution]") {
  Runtime1 runtime;
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  auto const message = [&](ExecutionPolicy const& policy) {
    return message_of<ValueError>([&] { add.async({.policy = policy}, a, a, b).wait(); });
  };
  CHECK(message({.placement = Placement::owner_computes, .workers = {0, 1}}) ==
        "add: worker 1 is not one of the runtime's 1; they count from 0, and -1 is any");
  CHECK(contains(message({.rules = {{.hints = {.node = 3}}}}), "add: memory node 3 is not one"));
  CHECK(message({.workers = {0}}) ==
        "add: the execution policy names workers or nodes, which own tiles under owner_computes "
        "and affinity; its placement is automatic");
  CHECK(contains(message({.placement = Placement::rules}), "places tasks by rules, and has none"));
  CHECK(submitted(runtime).empty());
}

TEST_CASE("tiles without owners are refused", "[tile][execution]") {
  Null runtime(RuntimeOptions{.workers = 0});  // as a runtime of devices alone
  auto const a = filled(runtime, "a"), b = filled(runtime, "b");
  CHECK(message_of<ValueError>([&] {
          add.async({.policy = {.placement = Placement::owner_computes}}, a, a, b).wait();
        }) ==
        "add: the execution policy has CPU workers own tiles, and the runtime has 0; name the "
        "workers");
  CHECK_NOTHROW(add.async({}, a, a, b).wait());
}
