// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/argmax.hh"

#include <cmath>

#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::op_case;

/// The index of the largest value, over tiles cut as in `cuts`.
double argmax_of(std::vector<double> const& values, test::Cuts const& cuts = {}) {
  auto const n = static_cast<Index>(values.size());
  auto c = op_case<ops::Argmax>({}, {Shape{n}, Shape{}});
  c.prepare = [&](std::vector<test::Array>& operands) {
    for (Index i = 0; i < n; ++i) operands[0].set(i, values[static_cast<std::size_t>(i)]);
  };
  return test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32), {.cuts = cuts})[1]
      .get(0);
}

}  // namespace

TEST_CASE("argmax finds the largest element along any axis", "[ops][argmax]") {
  Shape const x{21, 10, 6};
  for (int const axis : {0, 1, 2}) {
    Shape rest;
    for (int d = 0; d < 3; ++d)
      if (d != axis) rest.push_back(x[static_cast<std::size_t>(d)]);
    auto c = op_case<ops::Argmax>({.axis = axis}, {x, rest});
    Index const v = x[static_cast<std::size_t>(axis)];
    c.canonical = {{{"v", {1, v - 1}}},
                   {{"v", {v - 4, 1, 3}}, {axis == 0 ? "n" : "m", {2, rest[0] - 2}}}};
    c.whole_numbers = true;
    test::check_op(c);
  }
}

TEST_CASE("argmax takes the first of equals, and the first NaN of all", "[ops][argmax]") {
  for (test::Cuts const& cuts : {test::Cuts{}, test::Cuts{{"v", {2, 3}}}}) {
    CHECK(argmax_of({1, 3, 3, 2, 3}, cuts) == 1);
    CHECK(argmax_of({-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, cuts) == 0);
    CHECK(argmax_of({1, INFINITY, NAN, 2, NAN}, cuts) == 2);
    CHECK(argmax_of({NAN, INFINITY, 5, 2, NAN}, cuts) == 0);
    CHECK(argmax_of({1, 2, 0, 7, 3}, cuts) == 3);
  }
}
