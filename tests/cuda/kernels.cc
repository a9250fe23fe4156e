// SPDX-License-Identifier: BSD-3-Clause
// The table of the kernels of devices: every op in each of its dtypes, found beside the CPU's.
#include "kernels/cuda/lists.hh"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "nntile/core/computation.hh"
#include "nntile/ops/all.hh"
#include "nntile/ops/kernel.hh"
#include "nntile/runtime/cuda.hh"
#include "tests/support/catch.hh"

using namespace nntile;

namespace {

std::vector<ElementTypes> types_of(OpInfo const& op) {
  std::vector<ElementTypes> types(op.types.begin(), op.types.end());
  if (types.empty())
    for (DType const element : op.dtypes) types.push_back({element, element});
  return types;
}

}  // namespace

TEST_CASE("there is one exact kernel of devices for each op and its dtypes", "[cuda][kernels]") {
  std::map<std::string, int> found, fast;
  auto const name = [](char const* op, DType element, DType second) {
    return concat(op, " ", name_of(element), " ", name_of(second));
  };
  for (kernels::KernelList const* const list : kernels::cuda::lists())
    for (int i = 0; i < list->count; ++i) {
      Codelet const& codelet = list->codelets[i];
      CHECK(codelet.cuda != nullptr);
      CHECK(codelet.cpu == nullptr);
      Computation const& computation = *codelet.computation;
      ++(computation.mode == Mode::exact
             ? found
             : fast)[name(computation.name, computation.element, computation.second)];
    }
  for (OpInfo const* const op : all_ops)
    for (ElementTypes const types : types_of(*op)) {
      INFO(op->name << " of " << name_of(types.element) << " and " << name_of(types.second));
      CHECK(found[name(op->name, types.element, types.second)] == 1);
    }
  for (auto const* const each : {&found, &fast})
    CHECK(std::all_of(each->begin(), each->end(), [](auto const& one) { return one.second == 1; }));
  CHECK(fast.size() == 2 * 5);  // attention and its derivative, of what allows a reduced format
}

TEST_CASE("what is found by name has both entries once devices are in use", "[cuda][kernels]") {
  auto const* const before =
      kernels::find("gemm", DType::fp32, DType::fp32, Mode::exact, Isa::best);
  use_cuda_kernels();
  for (OpInfo const* const op : all_ops)
    for (ElementTypes const types : types_of(*op))
      for (Mode const mode : {Mode::exact, Mode::fast}) {
        INFO(op->name << " of " << name_of(types.element) << " and " << name_of(types.second));
        auto const* const codelet =
            kernels::find(op->name, types.element, types.second, mode, Isa::best);
        REQUIRE(codelet != nullptr);
        CHECK(codelet->cpu != nullptr);
        CHECK(codelet->cuda != nullptr);
      }
  auto const* const after = kernels::find("gemm", DType::fp32, DType::fp32, Mode::exact, Isa::best);
  CHECK(after->cpu == before->cpu);
  CHECK(after->workspace == before->workspace);
  CHECK(after->computation == before->computation);
  // Products of fast numerics are the library's, where there is one.
  auto const* const fast = kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, Isa::best);
  CHECK((fast->cuda != after->cuda) == Cuda::fast_products().starts_with("cuBLASLt "));
  // Attention of fast numerics is tensor cores', of dtypes that allow them.
  for (char const* const op : {"attention", "attention_backward"})
    for (DType const dtype : {DType::fp32, DType::bf16, DType::fp32_fast_tf32}) {
      auto const* const one = kernels::find(op, dtype, dtype, Mode::exact, Isa::best);
      auto const* const other = kernels::find(op, dtype, dtype, Mode::fast, Isa::best);
      CHECK((one->cuda != other->cuda) == (dtype != DType::fp32));
      CHECK(one->cpu == other->cpu);
    }
}
