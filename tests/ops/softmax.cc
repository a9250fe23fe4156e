// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/softmax.hh"

#include <limits>

#include "tests/support/eager_gradient.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("softmax gives equal bits for every cut at multiples of 64", "[ops][softmax]") {
  auto c = op_case<ops::Softmax>({}, {Shape{256 + 7, 5, 2}, Shape{256 + 7, 5, 2}});
  c.terms = 263;
  c.scale = 4;
  c.canonical = {{{"v", {64, 199}}}, {{"v", {128, 128, 7}}, {"i", {2, 3}}, {"i1", {1, 1}}}};
  c.other = {{{"v", {100, 163}}}};
  test::check_op(c);
}

TEST_CASE("softmax treats -inf as an ordinary masked score, and a column of nothing else as NaN",
          "[ops][softmax]") {
  auto c = op_case<ops::Softmax>({}, {Shape{130, 4}, Shape{130, 4}});
  c.prepare = [](std::vector<Array>& operands) {
    for (Index i = 0; i < 130; ++i) {
      if (i % 3 == 0 || i < 70)
        operands[0].set(i, -infinity);      // column 0: some, a whole tile of 64 among them
      operands[0].set(130 + i, -infinity);  // column 1: all
    }
    operands[0].set(2 * 130 + 5, std::nan(""));  // column 2: a NaN
    operands[0].set(3 * 130 + 5, infinity);      // column 3: +inf
  };
  c.terms = 130;
  c.scale = 4;
  c.canonical = {{{"v", {64, 66}}}};
  test::check_op(c);
  auto const got = test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32));
  CHECK(got[1].get(0) == 0);
  for (Index const i : {1, 2, 3}) CHECK(std::isnan(got[1].get(i * 130 + 1)));
}

TEST_CASE("softmax takes columns of one element and of fewer than a register", "[ops][softmax]") {
  for (Index const v : {1, 3, 63, 64}) {
    auto c = op_case<ops::Softmax>({}, {Shape{v, 3}, Shape{v, 3}});
    c.terms = 64;
    c.scale = 4;
    test::check_op(c);
  }
}

TEST_CASE("softmax_backward gives equal bits for every cut at multiples of 64", "[ops][softmax]") {
  for (double const beta : {0.0, 1.0}) {
    Shape const x{200, 4};
    auto c = op_case<ops::SoftmaxBackward>({.beta = beta}, {x, x, x});
    c.terms = 200;
    c.scale = 4;
    c.canonical = {{{"v", {64, 136}}}, {{"v", {128, 72}}, {"i", {1, 3}}}};
    test::check_op(c);
  }
}

TEST_CASE("softmax has a gradient", "[ops][softmax]") {
  test::check_gradient<ops::Softmax>(op_case<ops::Softmax>({}, {Shape{5, 3}, Shape{5, 3}}), 1, {0});
}

}  // namespace
