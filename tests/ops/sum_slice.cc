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

TEST_CASE("sum_slice divides a mean by the whole axis, however it is cut", "[ops][sum_slice]") {
  for (int const axis : {0, 1}) {
    auto c = op_case<ops::SumSlice>({.axis = axis, .mean = true}, {Shape{128, 128}, Shape{128}});
    c.terms = 128;
    c.whole_numbers = true;
    c.canonical = {{{"k", {64, 64}}}};
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

/// Operand 1, the divisor, is 7.
test::OpCase divided(test::OpCase c) {
  c.prepare = [](std::vector<test::Array>& operands) { operands[1].set(0, 7); };
  return c;
}

TEST_CASE("a divisor that is data gives the bits of the same factor as a constant",
          "[ops][sum_slice]") {
  for (bool const ascending : {false, true}) {
    Shape const x{130, 3}, y{3};
    auto const by_data = divided(op_case<ops::SumSlice>(
        {.axis = 0, .alpha = 1, .ascending = ascending, .divided = true}, {x, {}, y}));
    auto const by_constant =
        op_case<ops::SumSlice>({.axis = 0, .alpha = 1.0 / 7, .ascending = ascending}, {x, y});
    for (DType const dtype : {DType::fp32, DType::fp64, DType::bf16}) {
      auto const operands = test::make_operands(by_data, dtype);
      auto const got = test::run_kernel(by_data, dtype, operands);
      auto const expected = test::run_kernel(by_constant, dtype, {operands[0], operands[2]});
      CHECK(got[2].bytes == expected[1].bytes);
    }
  }
}

TEST_CASE("sums and repeats with a divisor may be cut, and are each other's gradient",
          "[ops][sum_slice]") {
  Shape const z{128 + 13, 5}, s{5};
  auto sum = divided(op_case<ops::SumSlice>({.axis = 0, .beta = 0.5, .divided = true}, {z, {}, s}));
  sum.terms = 141;
  sum.scale = 8;
  sum.canonical = {{{"k", {64, 77}}, {"j", {2, 3}}}};
  test::check_op(sum);
  auto repeat =
      divided(op_case<ops::BroadcastSlice>({.axis = 0, .beta = 0.5, .divided = true}, {s, {}, z}));
  repeat.scale = 2;
  repeat.canonical = {{{"k", {64, 77}}, {"j", {2, 3}}}};
  test::check_op(repeat);
  Shape const small{4, 3};
  test::check_gradient<ops::SumSlice>(
      divided(op_case<ops::SumSlice>({.axis = 0, .alpha = 1.5, .divided = true}, {small, {}, {3}})),
      2, {0});
  test::check_gradient<ops::BroadcastSlice>(
      divided(op_case<ops::BroadcastSlice>({.axis = 0, .divided = true}, {{3}, {}, small})), 2,
      {0});
}

TEST_CASE("sum_slice names the operand whose extent does not fit", "[ops][sum_slice]") {
  auto c = op_case<ops::SumSlice>({.axis = 1}, {Shape{4, 3, 2}, Shape{4, 3}});
  CHECK_THROWS_WITH(test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32)),
                    "sum_slice: x[j]=2 ('x') but y[j]=3 ('y'); the call has axis=1");
}

}  // namespace
