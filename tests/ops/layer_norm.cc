// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/layer_norm.hh"

#include <sys/mman.h>

#include <cmath>

#include "tests/support/eager_gradient.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

/// x, gamma, beta, y, mean, rstd.
test::OpCase forward_case(Shape const& x) {
  Shape tokens;
  for (std::size_t d = 1; d < x.size(); ++d) tokens.push_back(x[d]);
  auto c = op_case<ops::LayerNorm>({}, {x, Shape{x[0]}, Shape{x[0]}, x, tokens, tokens});
  c.terms = static_cast<double>(x[0]);
  c.scale = 8;
  return c;
}

/// Makes rstd, operand `at`, positive.
auto positive(std::size_t at) {
  return [at](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[at].count(); ++i)
      operands[at].set(i, 1 + std::fabs(operands[at].get(i)));
  };
}

TEST_CASE("layer_norm gives equal bits for every cut at multiples of 64", "[ops][layer_norm]") {
  auto c = forward_case(Shape{256, 6, 3});
  c.canonical = {{{"e", {64, 192}}},
                 {{"e", {128, 64, 64}}, {"i", {1, 5}}, {"i1", {2, 1}}},
                 {{"i", {2, 2, 2}}}};
  c.other = {{{"e", {100, 156}}}};
  test::check_op(c);
}

TEST_CASE("layer_norm takes widths that are no multiple of anything", "[ops][layer_norm]") {
  for (Index const width : {1, 7, 50, 65, 768}) test::check_op(forward_case(Shape{width, 3}));
}

TEST_CASE("layer_norm refuses an eps that could make a root of less than 0", "[ops][layer_norm]") {
  auto const refused = [](double eps) {
    Shape const x{4, 3}, e{4}, i{3};
    return test::message_of<ValueError>(
        [&] { (void)test::axes_of(op_case<ops::LayerNorm>({.eps = eps}, {x, e, e, x, i, i})); });
  };
  CHECK(refused(-1) == "layer_norm: eps of -1; 0 or more, finite, such as 1e-5");
  for (double const eps : {std::nan(""), HUGE_VAL})
    CHECK(test::contains(refused(eps), "layer_norm: eps of "));
  CHECK(refused(0) == "(nothing was thrown)");
}

TEST_CASE("layer_norm subtracts the mean before it squares", "[ops][layer_norm]") {
  auto c = forward_case(Shape{128, 2});
  c.prepare = [](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i)
      operands[0].set(i, 4096 + static_cast<double>(i % 3));
  };
  auto const operands = test::make_operands(c, DType::fp32);
  auto const got = test::run_kernel(c, DType::fp32, operands);
  auto const exact = test::run_reference(c, DType::fp32, operands);
  for (Index i = 0; i < 2; ++i) CHECK(std::fabs(got[5].get(i) / exact[5].get(i) - 1) < 1e-5);
}

TEST_CASE("layer_norm_backward gives equal bits for every cut at multiples of 64",
          "[ops][layer_norm]") {
  for (double const beta : {0.0, 1.0}) {
    Shape const x{256, 5, 2}, tokens{5, 2};
    auto c = op_case<ops::LayerNormBackward>({.beta = beta}, {x, x, Shape{256}, tokens, tokens, x});
    c.prepare = positive(4);
    c.terms = 256;
    c.scale = 8;
    c.canonical = {{{"e", {64, 192}}}, {{"e", {192, 64}}, {"i", {1, 4}}, {"i1", {1, 1}}}};
    test::check_op(c);
  }
}

TEST_CASE("layer_norm_weight_backward may be cut anywhere", "[ops][layer_norm]") {
  for (double const beta : {0.0, 1.0}) {
    Shape const x{70, 11, 2}, tokens{11, 2}, sums{70, 2};
    auto c = op_case<ops::LayerNormWeightBackward>({.beta_dgamma = beta, .beta_dbeta = 1 - beta},
                                                   {x, x, tokens, tokens, sums, sums});
    c.prepare = positive(3);
    c.terms = 11;
    c.scale = 8;
    c.canonical = {{{"s", {4, 7}}}, {{"e", {33, 37}}, {"s", {1, 9, 1}}, {"j", {1, 1}}}};
    test::check_op(c);
  }
}

TEST_CASE("tokens of a group are found in a tile of 2^32 tokens", "[ops][layer_norm]") {
  using Op = ops::LayerNormWeightBackward;
  std::size_t const tokens = std::size_t{1} << 32, bytes = (tokens + 1) * sizeof(bf16_t);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return test::skip("8 GiB of addresses are more than a process has here");
  auto* const dy = static_cast<bf16_t*>(memory);  // [1, tokens, 2]; two pages are touched
  dy[tokens] = bf16_t(3.0f);
  float mean[2] = {}, rstd[2] = {1, 1};
  bf16_t dgamma[2], dbeta[2];
  void* const buffers[] = {dy, dy, mean, rstd, dgamma, dbeta};
  Arguments<Op> given{};
  Op::Args& args = given.args;
  args.e = args.s = 1, args.rest = UINT32_MAX, args.n = 2;
  args.ldx = args.lddy = args.ld_mean = args.ld_rstd = args.ld_dgamma = args.ld_dbeta = 1;
  auto const check = [&](Codelet const& codelet) {
    char text[status_text_bytes];
    CHECK(codelet.cpu({buffers, &given, text}).ok());
    CHECK(static_cast<float>(dbeta[0]) == 0);
    CHECK(static_cast<float>(dbeta[1]) == 3);
    CHECK(static_cast<float>(dgamma[1]) == 9);
  };
  check(*op_info<Op>.reference({DType::bf16, DType::bf16}));
  for (Isa const isa : test::instruction_sets())
    check(*kernels::find(Op::name, DType::bf16, DType::bf16, Mode::exact, isa));
  ::munmap(memory, bytes);
}

TEST_CASE("layer_norm has gradients for x, gamma and beta, with one token axis or more",
          "[ops][layer_norm]") {
  for (Shape const& x : {Shape{5, 3}, Shape{5, 3, 2}, Shape{4, 2, 2, 2}})
    for (std::vector<int> const& wanted : {std::vector<int>{0, 1, 2}, {0}, {2}})
      test::check_gradient<ops::LayerNorm>(forward_case(x), 3, wanted);
}

}  // namespace
