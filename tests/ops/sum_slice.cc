// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/sum_slice.hh"

#include "tests/support/eager_gradient.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::op_case;

TEST_CASE("sum_slice along dimension 0 sums blocks of 64, cut at any of their borders",
          "[ops][sum_slice]") {
  for (double const beta : {0.0, 1.0, 0.5}) {
    auto c = op_case<ops::SumSlice>({.axis = 0, .alpha = 0.5, .beta = beta},
                                    {Shape{256 + 13, 5, 3}, Shape{5, 3}});
    c.terms = 269;
    c.scale = 8;  // sums of random signs cancel
    c.whole_numbers = true;
    c.canonical = {{{"k", {64, 192, 13}}}, {{"k", {128, 141}}, {"j", {1, 4}}, {"j1", {2, 1}}}};
    c.other = {{{"k", {100, 169}}}};
    test::check_op(c);
  }
}

TEST_CASE("sum_slice along another dimension may be cut anywhere", "[ops][sum_slice]") {
  for (double const beta : {0.0, 1.0}) {
    auto c = op_case<ops::SumSlice>({.axis = 1, .alpha = -2, .beta = beta},
                                    {Shape{70, 31, 2}, Shape{70, 2}});
    c.terms = 31;
    c.scale = 4;
    c.whole_numbers = true;
    c.canonical = {{{"k", {1, 30}}}, {{"k", {7, 20, 4}}, {"i", {3, 67}}, {"j", {1, 1}}}};
    test::check_op(c);
  }
}

TEST_CASE("sum_slice takes one column, one term, and more columns than it holds at once",
          "[ops][sum_slice]") {
  for (Shape const& shape : {Shape{1, 9}, Shape{5, 1}, Shape{2500, 6}}) {
    auto c = op_case<ops::SumSlice>({.axis = 1}, {shape, Shape{shape[0]}});
    c.terms = 9;
    c.scale = 4;
    c.whole_numbers = true;
    test::check_op(c);
  }
}

TEST_CASE("broadcast_slice repeats a slice along an axis", "[ops][sum_slice]") {
  for (int const axis : {0, 1, 2})
    for (double const beta : {0.0, 1.0, -1.0}) {
      Shape const z{33, 20, 3};
      Shape s;
      for (std::size_t d = 0; d < 3; ++d)
        if (d != static_cast<std::size_t>(axis)) s.push_back(z[d]);
      auto c = op_case<ops::BroadcastSlice>({.axis = axis, .alpha = 3, .beta = beta}, {s, z});
      c.scale = 2;
      c.whole_numbers = true;
      c.canonical = {{{"k", {1, z[static_cast<std::size_t>(axis)] - 1}}}};
      test::check_op(c);
    }
}

TEST_CASE("sum_slice and broadcast_slice are each other's gradient", "[ops][sum_slice]") {
  for (int const axis : {0, 1, 2}) {
    Shape const z{4, 3, 2};
    Shape s;
    for (std::size_t d = 0; d < 3; ++d)
      if (d != static_cast<std::size_t>(axis)) s.push_back(z[d]);
    test::check_gradient<ops::SumSlice>(
        op_case<ops::SumSlice>({.axis = axis, .alpha = 1.5}, {z, s}), 1, {0});
    test::check_gradient<ops::BroadcastSlice>(
        op_case<ops::BroadcastSlice>({.axis = axis, .alpha = -2}, {s, z}), 1, {0});
  }
}

TEST_CASE("sum_slice names the operand whose extent does not fit", "[ops][sum_slice]") {
  auto c = op_case<ops::SumSlice>({.axis = 1}, {Shape{4, 3, 2}, Shape{4, 3}});
  CHECK_THROWS_WITH(test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32)),
                    "sum_slice: x[j]=2 ('x') but y[j]=3 ('y')");
}

}  // namespace
