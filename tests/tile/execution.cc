// SPDX-License-Identifier: BSD-3-Clause
// How eager calls are executed: hints, modes and instruction sets of their tasks.
#include "nntile/ops/execution.hh"

#include "nntile/ops/add.hh"
#include "nntile/ops/gemm.hh"
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
    CHECK(text == concat("add: kernels for ", name_of(isa),
                         " are not in this build or this CPU lacks it; the best here is ",
                         name_of(kernels::best())));
  }
  CHECK(refused > 0);  // no machine has both `plain` and the others
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
  CHECK(submitted(runtime).empty());
}
