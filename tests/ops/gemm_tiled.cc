// SPDX-License-Identifier: BSD-3-Clause
// Matrix products over tiles: groups of axes, batches, every dtype and runtime, gradients.
#include "nntile/ops/gemm.hh"

#include "tests/support/catch.hh"
#include "tests/support/eager_gradient.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::op_case;

/// A product whose sums have `terms` terms of up to 1.
test::OpCase product(ops::Gemm::Attrs const& attrs, std::vector<Shape> shapes, double terms) {
  auto c = op_case<ops::Gemm>(attrs, std::move(shapes));
  c.terms = terms;
  c.scale = 4;
  c.whole_numbers = attrs.activation == Activation::none;
  return c;
}

}  // namespace

TEST_CASE("a tiled product has the bits of the whole one", "[ops][gemm]") {
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      auto c =
          product({.trans_a = trans_a, .trans_b = trans_b, .alpha = 2, .beta = trans_a ? 1.0 : 0.0},
                  {trans_a ? Shape{90, 70} : Shape{70, 90}, trans_b ? Shape{19, 90} : Shape{90, 19},
                   Shape{70, 19}},
                  90);
      c.canonical = {{{"m", {48, 22}}, {"n", {16, 3}}},
                     {{"k", {64, 26}}},
                     {{"m", {1, 69}}, {"n", {7, 12}}, {"k", {1, 19, 70}}}};
      test::check_op(c);
    }
}

TEST_CASE("bias and activation come once, after the last tile of the chain", "[ops][gemm]") {
  auto c = product({.trans_a = true, .bias = true, .activation = Activation::gelu_tanh},
                   {Shape{40, 33}, Shape{40, 17}, Shape{33}, Shape{33, 17}}, 40);
  c.canonical = {{{"m", {16, 17}}, {"k", {8, 32}}}, {{"n", {1, 16}}, {"k", {20, 20}}}};
  test::check_op(c);
}

TEST_CASE("several contracted axes are nested loops, the last one outermost", "[ops][gemm]") {
  auto c =
      product({.trans_a = true, .ndim = 2}, {Shape{6, 5, 12}, Shape{6, 5, 10}, Shape{12, 10}}, 30);
  c.canonical = {
      {{"k1", {2, 3}}}, {{"k0", {4, 2}}}, {{"k0", {4, 2}}, {"k1", {1, 4}}, {"m", {5, 7}}}};
  test::check_op(c);
}

TEST_CASE("batches and groups of rows and columns", "[ops][gemm]") {
  auto c = product({.batch_ndim = 1}, {Shape{6, 4, 7, 3}, Shape{7, 5, 3}, Shape{6, 4, 5, 3}}, 7);
  c.canonical = {{{"b", {1, 2}}, {"m0", {2, 4}}, {"m1", {3, 1}}},
                 {{"k", {3, 4}}, {"n", {1, 4}}, {"b", {2, 1}}}};
  test::check_op(c);
}

TEST_CASE("an activation that there is not is refused", "[ops][gemm]") {
  CHECK(test::message_of<ValueError>([] {
          (void)test::axes_of(op_case<ops::Gemm>({.activation = static_cast<Activation>(2)},
                                                 {Shape{3, 5}, Shape{5, 4}, Shape{3, 4}}));
        }) == "gemm: activation=2; it is none (0) or gelu_tanh (1)");
}

TEST_CASE("products have gradients", "[ops][gemm]") {
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      auto c = product({.trans_a = trans_a, .trans_b = trans_b, .bias = true, .alpha = 0.5},
                       {trans_a ? Shape{5, 3} : Shape{3, 5}, trans_b ? Shape{4, 5} : Shape{5, 4},
                        Shape{3}, Shape{3, 4}},
                       5);
      test::check_gradient<ops::Gemm>(c, 3, {0, 1, 2});
    }
  auto batch = product({.trans_a = true, .ndim = 2, .batch_ndim = 1},
                       {Shape{2, 3, 4, 2}, Shape{2, 3, 5, 2}, Shape{4, 5, 2}}, 6);
  test::check_gradient<ops::Gemm>(batch, 2, {0, 1});
}
