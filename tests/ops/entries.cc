// SPDX-License-Identifier: BSD-3-Clause
// Codelets of one computation: for several instruction sets, from several lists, of a user's op.
#include <algorithm>
#include <set>

#include "kernels/join.hh"
#include "nntile/core/computation.hh"
#include "nntile/ops/all.hh"
#include "nntile/ops/kernel.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
#include "tests/support/catch.hh"
#include "tests/support/emulated_device.hh"
#include "tests/support/every_op.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (Isa const isa : {Isa::plain, Isa::v2, Isa::v3, Isa::v4})
    if (kernels::available(isa)) found.push_back(isa);
  return found;
}

Status cpu_entry(KernelCall const&) noexcept { return {}; }
Status other_cpu_entry(KernelCall const&) noexcept { return {}; }
Status device_entry(KernelCall const&, void*) noexcept { return {}; }
Status async_entry(KernelCall const&, Completion) noexcept { return {}; }

}  // namespace

TEST_CASE("all instruction sets have one computation, and entries of their own", "[ops][entries]") {
  std::set<Computation const*> computations;
  std::set<CpuEntry> entries;
  std::size_t codelets = 0;
  for (OpInfo const* const op : all_ops)
    for (DType const element : op->dtypes) {
      DType const second = usual_types(*op, element).second;
      Computation const* common = nullptr;
      for (Isa const isa : isas()) {
        auto const* const found = kernels::find(op->name, element, second, Mode::exact, isa);
        if (found == nullptr) continue;
        INFO(op->name << " of " << name_of(element) << " for " << name_of(isa));
        REQUIRE(found->computation != nullptr);
        Computation const& computation = *found->computation;
        CHECK(std::string_view(computation.name) == op->name);
        CHECK(computation.element == element);
        CHECK(computation.second == second);
        CHECK(computation.mode == Mode::exact);
        if (common == nullptr) CHECK(computations.insert(&computation).second);
        CHECK((common == nullptr || common == &computation));
        common = &computation;
        ++codelets;
        if (element == DType::fp32) CHECK(entries.insert(found->cpu).second);
      }
    }
  CHECK(computations.size() * isas().size() == codelets);
}

TEST_CASE("the library has kernels for what an op lists and for nothing else", "[ops][entries]") {
  for (OpInfo const* const op : all_ops)
    for (int e = 0; e < dtype_count; ++e)
      for (int s = 0; s < dtype_count; ++s) {
        ElementTypes const types{static_cast<DType>(e), static_cast<DType>(s)};
        bool listed = std::count(op->types.begin(), op->types.end(), types) > 0;
        if (op->types.empty())
          listed = e == s && std::count(op->dtypes.begin(), op->dtypes.end(), types.element) > 0;
        INFO(op->name << " of " << name_of(types.element) << " and " << name_of(types.second));
        auto const* const found =
            kernels::find(op->name, types.element, types.second, Mode::exact, Isa::best);
        CHECK((found != nullptr) == listed);
      }
}

TEST_CASE("the same codelet is found each time", "[ops][entries]") {
  auto const* const first = kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, Isa::best);
  CHECK(kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, Isa::best) == first);
}

TEST_CASE("entries of several lists join, each from the first that has one", "[ops][entries]") {
  static constexpr Computation exact{"a"}, fast{"a", DType::fp32, DType::fp32, Mode::fast};
  static constexpr Codelet device{"a", nullptr, device_entry, nullptr, 0, &fast, false, 96},
      vendor{"a", other_cpu_entry, nullptr, nullptr, 0, &fast},
      cpu{"a", cpu_entry, nullptr, nullptr, 64, &exact},
      async{"a", nullptr, nullptr, async_entry, 0, &exact};
  kernels::Joined joined;
  auto const join = [&](std::initializer_list<Codelet const*> parts) {
    return joined.join({parts.begin(), parts.size()});
  };
  CHECK(join({}) == nullptr);
  CHECK(join({&cpu}) == &cpu);
  CHECK(join({&vendor, &cpu}) == &vendor);
  CHECK(join({&cpu, &async}) == &cpu);
  Codelet const* const both = join({&device, &cpu});
  CHECK(both->cuda == device_entry);
  CHECK(both->cpu == cpu_entry);
  CHECK(both->workspace == 64);
  CHECK(both->device_workspace == 96);
  CHECK(both->computation == &fast);
  CHECK(join({&device, &cpu}) == both);
  CHECK(join({&device, &vendor, &cpu})->cpu == other_cpu_entry);
  CHECK(join({&device, &vendor, &cpu})->workspace == 0);
  CHECK(join({&cpu, &device})->computation == &exact);
  CHECK(join({&device, &async})->async == async_entry);
}

TEST_CASE("a user's op has a computation of its own for each dtype", "[ops][entries]") {
  constexpr OpInfo const& op = op_info<Twice>;
  Codelet const* const own = op.kernel({DType::fp32, DType::fp32});
  CHECK(own->cuda == &Twice::on_device);
  CHECK(own->cpu == op.reference({DType::fp32, DType::fp32})->cpu);
  CHECK(op.kernel({DType::fp32, DType::fp32}) == own);
  CHECK(own->computation == op.reference({DType::fp32, DType::fp32})->computation);
  CHECK(own->computation->element == DType::fp32);
  CHECK(op.kernel({DType::fp64, DType::fp64}) == nullptr);
  CHECK(op.reference({DType::fp64, DType::fp64})->computation != own->computation);
  CHECK(std::string_view(own->computation->name) == "twice");
}

TEST_CASE("labels and indices have the same results in either size", "[ops][entries]") {
  std::size_t compared = 0;
  for (OpCase c : every_op()) {
    if (c.op->types.data() != indexed_types.data()) continue;
    INFO(c.op->name);
    ++compared;
    auto const wide = run_kernel(c, DType::fp32, make_operands(c, DType::fp32));
    c.second = DType::int32;
    auto const narrow = run_kernel(c, DType::fp32, make_operands(c, DType::fp32));
    for (std::size_t o = 0; o < wide.size(); ++o)
      if (wide[o].dtype == DType::int64)
        CHECK(narrow[o].dtype == DType::int32);
      else
        CHECK(narrow[o].bytes == wide[o].bytes);
  }
  CHECK(compared != 0);
}

TEST_CASE("an eager call with dtypes that do not fit is refused with those that do",
          "[ops][entries]") {
  Serial runtime;
  Tiling const tiling(Shape{4});
  Tensor<bf16_t, Serial> const p(runtime, tiling, "p");
  Tensor<fp16_t, Serial> const g(runtime, tiling, "g"), m(runtime, tiling, "m"),
      v(runtime, tiling, "v");
  Tensor<float, Serial> const lr(runtime, Tiling(Shape{}), "lr"), x(runtime, tiling, "x");
  Tensor<std::int64_t, Serial> const step(runtime, Tiling(Shape{}), "step");
  CHECK(message_of<TypeError>([&] { adamw_step(p, g, m, v, lr, step); }) ==
        "adamw_step: p ('p') is bf16 and g ('g') is fp16, but with bf16 g must be fp32 or bf16; "
        "insert a cast");
  CHECK(message_of<TypeError>([&] { adamw_step(p, x, m, v, lr, step); }) ==
        "adamw_step: g ('x') is fp32 but m ('m') is fp16; insert a cast");
}
