// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/shape.hh"

#include <cstdint>

#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using test::contains;
using test::message_of;

TEST_CASE("the elements of a shape are the product of its extents", "[core][shape]") {
  CHECK(element_count({3, 4, 5}) == 60);
  CHECK(element_count({7}) == 7);
}

TEST_CASE("an empty shape is a scalar of one element", "[core][shape]") {
  CHECK(element_count({}) == 1);
}

TEST_CASE("an extent of zero leaves no element", "[core][shape]") {
  CHECK(element_count({0}) == 0);
  CHECK(element_count({5, 0, 7}) == 0);
}

TEST_CASE("a negative extent throws ShapeError and names it", "[core][shape]") {
  CHECK_THROWS_AS(element_count({3, -1}), ShapeError);
  CHECK(contains(message_of([] { (void)element_count({3, -1}); }), "-1"));
}

TEST_CASE("a count that does not fit into 63 bits throws ShapeError", "[core][shape]") {
  CHECK(element_count({INT64_MAX}) == INT64_MAX);
  CHECK_THROWS_AS(element_count({INT64_MAX, 2}), ShapeError);
  CHECK_THROWS_AS(element_count({Index{1} << 32, Index{1} << 31}), ShapeError);
}

TEST_CASE("a count beyond 63 bits is refused wherever an extent of zero is", "[core][shape]") {
  Index const large = Index{1} << 40;
  for (Shape const& shape :
       {Shape{0, large, large}, Shape{large, 0, large}, Shape{large, large, 0}})
    CHECK(message_of<ShapeError>([&] { (void)element_count(shape); }) ==
          "shape: more than 2^63 - 1 elements");
  CHECK(element_count({0, INT64_MAX}) == 0);
  CHECK(element_count({INT64_MAX, 0}) == 0);
}

TEST_CASE("a shape prints its extents in braces", "[core][shape]") {
  CHECK(to_string(Shape{}) == "{}");
  CHECK(to_string(Shape{3}) == "{3}");
  CHECK(to_string(Shape{3, 4}) == "{3, 4}");
}

TEST_CASE("a shape holds eight extents and refuses a ninth", "[core][shape]") {
  Shape shape(max_rank, 1);
  CHECK(shape.size() == max_rank);
  CHECK_THROWS_AS(shape.push_back(1), ShapeError);
}

TEST_CASE("a shape written with nine extents is named with the limit", "[core][shape]") {
  CHECK(message_of<ShapeError>([] { (void)Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}; }) ==
        "shape {1, 2, 3, 4, 5, 6, 7, 8, 9}: 9 dimensions; a tensor has at most 8");
}
