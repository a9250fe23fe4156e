// SPDX-License-Identifier: BSD-3-Clause
// Attention by tensor cores on the emulator, against its definition in fp64.
#define NNTILE_SIMT "tests/support/simt/simt.hh"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/kernel.hh"
#include "kernels/cuda/launch.hh"
#include "nntile/ops/attention.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"
#include "tests/support/simt/runtime.hh"

namespace nntile::kernels::cuda {
extern KernelList const attention_fast_kernels;
}

using namespace nntile;
using namespace nntile::test;

namespace {

/// Tasks of attention run by tensor cores while it lives, as in fast numerics.
class TensorCores {
 public:
  TensorCores() {
    kernels::KernelList const list = kernels::cuda::attention_fast_kernels;
    for (int i = 0; i < list.count; ++i) {
      Codelet each = list.codelets[i];
      each.computation = exact(each);
      codelets_.push_back(each);
    }
    run_instead(codelets_);
    simt::set_seed(1);  // aligned
  }
  TensorCores(TensorCores const&) = delete;
  TensorCores& operator=(TensorCores const&) = delete;
  ~TensorCores() { run_instead({}); }

 private:
  static Computation const* exact(Codelet const& codelet) {
    Computation const& of = *codelet.computation;
    return kernels::find(of.name, of.element, of.second, Mode::exact, Isa::best)->computation;
  }
  std::vector<Codelet> codelets_;
};

/// Half a unit in the last place of what is multiplied.
double unit_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11; }
constexpr DType dtypes[] = {DType::bf16, DType::fp16, DType::fp32_fast_tf32, DType::fp32_fast_fp16,
                            DType::fp32_fast_bf16};

struct Sizes {
  Index d, h, queries, keys;
  Shape batch = {};
};

OpCase forward_case(Sizes const& s, ops::AttentionAttrs const& attrs) {
  Shape q{s.d, s.h, s.queries}, k{s.d, s.h, s.keys}, statistics{s.queries, s.h};
  for (Shape* const shape : {&q, &k, &statistics})
    for (Index const extent : s.batch) shape->push_back(extent);
  return op_case<ops::Attention>(attrs, {q, k, k, q, statistics, statistics});
}
OpCase backward_case(Sizes const& s, ops::AttentionAttrs const& attrs) {
  OpCase const forward = forward_case(s, attrs);
  auto const& shapes = forward.shapes;
  OpCase c = op_case<ops::AttentionBackward>(
      attrs, {shapes[0], shapes[1], shapes[1], shapes[0], shapes[4], shapes[4], shapes[0],
              shapes[0], shapes[1], shapes[1]});
  c.prepare = [=](std::vector<Array>& x) {
    auto const done = run_reference(forward, x[0].dtype, {x[0], x[1], x[2], x[3], x[4], x[5]});
    for (std::size_t o = 3; o < 6; ++o) x[o] = done[o].as(x[o].dtype);
  };
  return c;
}

std::vector<Array> run(OpCase const& c, DType dtype, std::vector<Array> const& operands,
                       Cuts const& cuts = {}) {
  return run_kernel(c, dtype, operands, {.cuts = cuts, .runtime = "simt"});
}

/// Within 8 units of the largest result: each factor is rounded once, and errors of terms do not
/// add up to more than a few of the largest.
void check(OpCase c, DType dtype, Cuts const& cuts = {}) {
  c.scale = 2 * unit_of(dtype) * 0x1p24;
  auto const operands = make_operands(c, dtype);
  INFO(c.op->name << " " << name_of(dtype) << " d " << c.shapes[0][0] << " queries "
                  << c.shapes[0][2] << " keys " << c.shapes[1][2]);
  TensorCores const cores;
  std::uint64_t const before = simt::counts().products;
  auto const got = run(c, dtype, operands, cuts);
  CHECK(simt::counts().products > before);
  CHECK(deviation(c, dtype, got, run_reference(c, dtype, operands)) == "");
  CHECK(difference(c, got, run(c, dtype, operands, cuts)) == "");
}

}  // namespace

TEST_CASE("attention by tensor cores is the definition's for heads of 64 and 128, ragged or not",
          "[ops][simt_attention]") {
  for (DType const dtype : dtypes) check(forward_case({64, 1, 1, 1}, {}), dtype);
  for (Sizes const& s : {Sizes{64, 1, 1, 2}, Sizes{64, 2, 33, 129}, Sizes{64, 1, 200, 200, {2}},
                         Sizes{128, 1, 3, 70}, Sizes{128, 2, 140, 150}})
    for (bool const causal : {false, true})
      for (DType const dtype : {DType::bf16, DType::fp16, DType::fp32_fast_tf32}) {
        check(forward_case(s, {.causal = causal}), dtype);
        check(backward_case(s, {.causal = causal, .scale = 0.1, .beta_dk = 1, .beta_dv = 0.5}),
              dtype);
        check(backward_case(s, {.causal = causal, .beta_dq = -0.5}), dtype);
      }
}
