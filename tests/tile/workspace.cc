// SPDX-License-Identifier: BSD-3-Clause
// Kernels and the memory that they are lent: small stacks, and runtimes that lend none.
#include "kernels/cuda/lists.hh"
#include "nntile/core/computation.hh"
#include "nntile/graph/compile.hh"
#include "nntile/nntile.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/cramped.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Runs tasks, and says nothing of workspaces.
class Lends : public Record<Serial> {
 public:
  void workspace_bytes() const = delete;
};
/// Lends less than products need.
class LendsLittle : public Record<Serial> {
 public:
  std::size_t workspace_bytes() const { return 4096; }
};
static_assert(Runtime<Lends> && !LendingRuntime<Lends> && LendingRuntime<LendsLittle>);

template <class R> float product(R& runtime, Index size) {
  Tile<float, R> a(runtime, {size, size}, "a"), y(runtime, {size, size}, "y");
  a.write(std::vector<float>(static_cast<std::size_t>(size * size), 1.0f));
  gemm(a, a, y);
  return y.read()[0];
}

/// What a device's library brings: an entry beside each that the CPU has.
Status on_device(KernelCall const&, void*) noexcept { return {}; }
constexpr Computation finish{"gemm_finish"};
constexpr Codelet device_codelets[] = {
    {"gemm", nullptr, on_device, nullptr, 0,
     &computation_of<ops::Gemm, DType::fp32, DType::fp32, Mode::exact>},
    {"gemm_finish", nullptr, on_device, nullptr, 0, &finish}};
constexpr kernels::KernelList device_list{device_codelets, 2};
constexpr kernels::KernelList const* device_lists[] = {&device_list};

}  // namespace

TEST_CASE("a product runs inside submit on a thread of 512 KiB of stack", "[tile][workspace]") {
  float result = 0;
  call_on_stack_of(512 << 10, [&] {
    Serial runtime;
    result = product(runtime, 512);
  });
  CHECK(result == 512.0f);
}

TEST_CASE("a product runs on an executor's threads of 64 KiB of stack", "[tile][workspace]") {
  Engine<SmallStackExecutor> runtime;
  CHECK(product(runtime, 300) == 300.0f);
}

TEMPLATE_TEST_CASE("a product that fills its blocks stays within the workspace that it states",
                   "[tile][workspace]", double, float, bf16_t) {
  Cramped runtime;
  // Transposed, and columns half a page apart: both operands are packed.
  Tile<TestType, Cramped> a(runtime, {512, 220}, "a"), b(runtime, {512, 520}, "b");
  Tile<TestType, Cramped> y(runtime, {220, 520}, "y");
  a.write(std::vector<TestType>(512 * 220, TestType(0.5f)));
  b.write(std::vector<TestType>(512 * 520, TestType(1.0f)));
  gemm({.trans_a = true}, a, b, y);
  CHECK(y.read() == std::vector<TestType>(220 * 520, TestType(256.0f)));
}

TEMPLATE_TEST_CASE("a call on a runtime that lends too little is refused in words",
                   "[tile][workspace]", Lends, LendsLittle) {
  TestType runtime;
  std::string const text = message_of<ValueError>([&] { product(runtime, 8); });
  CHECK(contains(text, "gemm: its kernel for fp32 needs 745472 bytes of workspace"));
  CHECK(contains(text, concat("lends ", lent_workspace_bytes(runtime), ";")));
  CHECK(contains(text, "workspace_bytes()"));
}

TEST_CASE("kernels that need no workspace run where none is lent", "[tile][workspace]") {
  Lends runtime;
  Tile<float, Lends> x(runtime, {8}, "x"), y(runtime, {8}, "y");
  x.write(std::vector<float>(8, 2.0f));
  scale({.alpha = 3}, x, y);
  CHECK(y.read()[7] == 6.0f);
}

TEMPLATE_TEST_CASE("a graph is refused when it is bound to a runtime that lends too little",
                   "[tile][workspace]", Lends, LendsLittle) {
  TestType runtime;
  TensorStore<TestType> store(runtime);
  LogicalGraph graph;
  Node const a = graph.input({.shape = {8, 8}}, "a");
  gemm(a, a).mark_output();
  std::string const text = message_of<ValueError>([&] { compile(graph, store); });
  CHECK(contains(text, "gemm: its kernel for fp32 needs"));
}

TEST_CASE("a kernel that is called without a workspace says so", "[tile][workspace]") {
  for (char const* const name : {"gemm", "attention", "attention_backward"}) {
    Codelet const* const kernel =
        kernels::find(name, DType::bf16, DType::bf16, Mode::exact, Isa::best);
    REQUIRE(kernel != nullptr);
    CHECK(kernel->workspace <= max_workspace_bytes);
    alignas(16) std::byte const args[max_args_bytes]{};
    Status const status = kernel->cpu({nullptr, args, nullptr});
    REQUIRE_FALSE(status.ok());
    CHECK(contains(status.error, "KernelCall::workspace"));
  }
}

TEST_CASE("a vendor's product finishes without memory, whatever a device's library has joined",
          "[tile][workspace]") {
  if (!allocations_are_counted()) return skip("allocations are not counted here");
  Codelet const* const fast =
      kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, Isa::best);
  kernels::join_device_kernels(device_lists);  // for good, and known to no runtime here
  using Operand = ops::Gemm::Operand;
  float bias = 3, c = 2;
  void* const buffers[] = {nullptr, nullptr, &bias, &c};
  Arguments<ops::Gemm> given{{}, {Operand::a, Operand::b, Operand::bias, Operand::c}};
  given.args.m = given.args.n = given.args.batch = given.args.ldc = 1;  // and k = 0
  alignas(64) static std::byte workspace[max_workspace_bytes];          // of an exact product
  AllocationCount const count;
  for (bool const finishing : {false, true}) {
    given.args.finishing = finishing;
    CHECK(fast->cpu({buffers, &given, nullptr, workspace}).ok());
  }
  CHECK(count.calls() == 0);
  CHECK(c == 6);
}
