// SPDX-License-Identifier: BSD-3-Clause
// add_slice and add_fiber.
#include "nntile/ops/add_slice.hh"

#include "nntile/ops/add_fiber.hh"
#include "tests/support/eager_gradient.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::op_case;

Shape without(Shape const& shape, int axis) {
  Shape rest;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (d != static_cast<std::size_t>(axis)) rest.push_back(shape[d]);
  return rest;
}

TEST_CASE("add_slice adds a slice to every index of an axis", "[ops][add_slice]") {
  Shape const x{35, 9, 4};
  for (int const axis : {0, 1, 2}) {
    auto c = op_case<ops::AddSlice>({.axis = axis, .alpha = -0.5}, {x, without(x, axis), x});
    c.scale = 2;
    c.whole_numbers = true;
    c.canonical = {{{"k", {1, x[static_cast<std::size_t>(axis)] - 1}},
                    {axis == 0 ? "j" : "i", {5, axis == 0 ? 4 : 30}}}};
    test::check_op(c);
  }
}

TEST_CASE("add_fiber adds a fiber along an axis", "[ops][add_fiber]") {
  Shape const x{35, 9, 4};
  for (int const axis : {0, 1, 2}) {
    Index const k = x[static_cast<std::size_t>(axis)];
    auto c = op_case<ops::AddFiber>({.axis = axis, .alpha = 2}, {x, Shape{k}, x});
    c.scale = 2;
    c.whole_numbers = true;
    c.canonical = {{{"k", {1, k - 1}}, {axis == 0 ? "j" : "i", {5, axis == 0 ? 4 : 30}}}};
    test::check_op(c);
  }
}

TEST_CASE("add_slice and add_fiber take one column and one row", "[ops][add_slice]") {
  for (Shape const& x : {Shape{1, 40}, Shape{40, 1}})
    for (int const axis : {0, 1}) {
      test::check_op(op_case<ops::AddSlice>({.axis = axis}, {x, without(x, axis), x}));
      test::check_op(
          op_case<ops::AddFiber>({.axis = axis}, {x, Shape{x[static_cast<std::size_t>(axis)]}, x}));
    }
}

TEST_CASE("add_slice and add_fiber have gradients", "[ops][add_slice]") {
  Shape const x{3, 4, 2};
  for (int const axis : {0, 1, 2}) {
    auto slice = op_case<ops::AddSlice>({.axis = axis, .alpha = 1.5}, {x, without(x, axis), x});
    test::check_gradient<ops::AddSlice>(slice, 2, {0, 1});
    auto fiber = op_case<ops::AddFiber>({.axis = axis, .alpha = 1.5},
                                        {x, Shape{x[static_cast<std::size_t>(axis)]}, x});
    test::check_gradient<ops::AddFiber>(fiber, 2, {0, 1});
  }
  test::check_gradient<ops::AddFiber>(op_case<ops::AddFiber>({}, {Shape{5}, Shape{5}, Shape{5}}), 2,
                                      {0, 1});
}

}  // namespace
