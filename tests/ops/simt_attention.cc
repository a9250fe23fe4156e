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
  if (c.shapes[0][2] < 100) CHECK(difference(c, got, run(c, dtype, operands, cuts)) == "");
}

/// Whether tasks of tensor cores leave the bits of the exact kernels, by no product.
bool is_exact(OpCase const& c, DType dtype, Cuts const& cuts = {}, std::uint64_t seed = 1) {
  auto const operands = make_operands(c, dtype);
  simt::set_seed(seed);
  auto const exact = run(c, dtype, operands, cuts);
  TensorCores const cores;
  simt::set_seed(seed);
  std::uint64_t const before = simt::counts().products;
  auto const got = run(c, dtype, operands, cuts);
  return difference(c, got, exact).empty() && simt::counts().products == before;
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
        check(causal
                  ? backward_case(s, {.causal = true, .scale = 0.1, .beta_dk = 1, .beta_dv = 0.5})
                  : backward_case(s, {.beta_dq = -0.5}),
              dtype);
      }
}

TEST_CASE("attention by tensor cores goes on from a maximum that rises, and from one that stays",
          "[ops][simt_attention]") {
  for (Index const d : {64, 128})
    for (double const growth :
         {0.02, 0.4})  // powers of one block to the next: below 2^8, and above
      for (DType const dtype : {DType::bf16, DType::fp16}) {
        OpCase c = forward_case({d, 1, 70, 300}, {.scale = 1});
        c.prepare = [=](std::vector<Array>& x) {
          for (Index e = 0; e < element_count(x[0].shape); ++e)
            x[0].set(e, e % d == 0 ? 1 : x[0].get(e) / 64);
          for (Index j = 0; j < 300; ++j)
            x[1].set(j * d, std::round(growth * static_cast<double>(j)));
        };
        check(c, dtype);
      }
}

TEST_CASE("tiles of queries and heads are work for tensor cores, parts of a chain are not",
          "[ops][simt_attention]") {
  Sizes const s{64, 3, 70, 70, {2}};
  Cuts const cuts{{"i", {30, 40}}, {"h", {1, 2}}, {"b", {1, 1}}};
  check(forward_case(s, {.causal = true}), DType::bf16, cuts);
  // One tile of keys, but tiles of queries: parts of dk and dv.
  check(backward_case(s, {}), DType::bf16, {{"h", {1, 2}}, {"b", {1, 1}}});
  for (Cuts const& parts : {Cuts{{"j", {64, 6}}, {"i", {64, 6}}}, Cuts{{"j", {64, 6}}}})
    for (OpCase const& c : {forward_case(s, {}), backward_case(s, {})})
      CHECK(is_exact(c, DType::bf16, parts));
  CHECK(is_exact(backward_case(s, {}), DType::bf16, {{"i", {64, 6}}}));
}

TEST_CASE("attention that tensor cores have no kernel for is the exact kernel's",
          "[ops][simt_attention]") {
  for (Index const d : {32, 65, 256}) {
    CHECK(is_exact(forward_case({d, 1, 9, 9}, {}), DType::fp16));
    CHECK(is_exact(backward_case({d, 1, 9, 9}, {}), DType::fp16));
  }
  Sizes const s{64, 1, 9, 9};
  for (OpCase const& c : {forward_case(s, {.scale = -1}), backward_case(s, {.scale = -1}),
                          forward_case({64, 1, 9, 0}, {}), backward_case({64, 1, 9, 0}, {})})
    CHECK(is_exact(c, DType::bf16));
  for (OpCase const& c : {forward_case(s, {}), backward_case(s, {})}) {
    CHECK(is_exact(c, DType::fp32));
    CHECK(is_exact(c, DType::fp64));
    simt::set_most_shared(32 << 10);
    CHECK(is_exact(c, DType::fp32_fast_tf32));
    simt::set_most_shared(227 << 10);
    CHECK(!is_exact(c, DType::fp32_fast_tf32));
  }
}

TEST_CASE("attention of operands that are not aligned is the exact kernel's",
          "[ops][simt_attention]") {
  struct alignas(16) Aligned {
    bf16_t values[4 * 64 + 1];
  };
  Aligned operands{};
  float statistics[2] = {};
  simt::set_seed(1);
  Codelet const& codelet = kernels::cuda::attention_fast_kernels.codelets[0];
  REQUIRE(codelet.computation->element == DType::bf16);
  ops::AttentionArgs args{};
  args.d = 64, args.h = 1, args.i = 1, args.j = 1, args.b = 1, args.scale = 1;
  Arguments<ops::Attention> given{args, {}};
  using Operand = ops::Attention::Operand;
  for (Operand const o :
       {Operand::q, Operand::k, Operand::v, Operand::out, Operand::max, Operand::sum})
    given.operands.add(o);
  char text[status_text_bytes] = {};
  for (int const shifted : {-1, 0, 3}) {
    void* list[6] = {};
    for (int o = 0; o < 4; ++o) list[o] = operands.values + 64 * o;
    if (shifted >= 0) list[shifted] = static_cast<bf16_t*>(list[shifted]) + 1;
    list[4] = statistics, list[5] = statistics + 1;
    std::uint64_t const before = simt::counts().products;
    Status const status = codelet.cuda({list, &given, text}, nullptr);
    INFO((status.ok() ? "" : status.error));
    CHECK(status.ok());
    CHECK((simt::counts().products > before) == (shifted < 0));
    CHECK(statistics[1] == 1);
  }
}

TEST_CASE("a derivative that is lent no workspace is the exact kernel's", "[ops][simt_attention]") {
  alignas(16) bf16_t rows[10][64] = {};
  alignas(16) float statistics[2][4] = {{0}, {1}};
  simt::set_seed(1);
  kernels::KernelList const list = kernels::cuda::attention_fast_kernels;
  Codelet const* codelet = list.codelets;
  while (codelet->computation->op != type_number<ops::AttentionBackward>) ++codelet;
  REQUIRE(codelet->computation->element == DType::bf16);
  std::vector<float> block(codelet->device_workspace / sizeof(float));
  ops::AttentionArgs args{};
  args.d = 64, args.h = 1, args.i = 1, args.j = 1, args.b = 1, args.diagonal = 1, args.scale = 1;
  Arguments<ops::AttentionBackward> given{args, {}};
  void* operands[10];
  for (std::size_t o = 0; o < 10; ++o) {
    given.operands.add(OperandIndex(o));
    operands[o] = o == 4 || o == 5 ? static_cast<void*>(statistics[o - 4]) : rows[o];
  }
  char text[status_text_bytes] = {};
  for (bool const lent : {true, false}) {
    void* const workspace = lent ? block.data() : nullptr;
    std::uint64_t const before = simt::counts().products;
    Status const status = codelet->cuda({operands, &given, text, workspace}, nullptr);
    INFO((status.ok() ? "" : status.error));
    CHECK(status.ok());
    CHECK((simt::counts().products > before) == lent);
  }
}

TEST_CASE("attention by tensor cores keeps NaN and infinity to the rows that have them",
          "[ops][simt_attention]") {
  OpCase const c = forward_case({64, 1, 80, 100}, {});
  for (DType const dtype : {DType::bf16, DType::fp32_fast_tf32})
    for (double const value : {std::nan(""), HUGE_VAL}) {
      auto operands = make_operands(c, dtype);
      operands[0].set(64 * 7 + 3, value);
      TensorCores const cores;
      auto const got = run(c, dtype, operands);
      for (Index i = 0; i < 80; ++i) {
        CHECK(std::isnan(got[3].get(64 * i + 9)) == (i == 7));
        CHECK(std::isnan(got[4].get(i)) == (i == 7));
        CHECK(std::isnan(got[5].get(i)) == (i == 7));
      }
    }
}

TEST_CASE("the derivative's numbers of more heads than a workspace holds go through it in turn",
          "[ops][simt_attention][.long]") {
  check(backward_case({64, 4097, 1, 2}, {}), DType::bf16);
}
