// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/tiling.hh"

#include <vector>

#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using test::contains;
using test::message_of;

namespace {
std::vector<Index> borders(AxisTiling const& axis) {
  std::vector<Index> result;
  for (Index tile = 0; tile <= axis.count(); ++tile) result.push_back(axis.begin(tile));
  return result;
}
}  // namespace

TEST_CASE("a uniform tiling that divides has equal tiles", "[core][tiling]") {
  CHECK(borders(AxisTiling::uniform(12, 4)) == std::vector<Index>{0, 4, 8, 12});
}

TEST_CASE("a uniform tiling that does not divide has a shorter last tile", "[core][tiling]") {
  auto const axis = AxisTiling::uniform(10, 4);
  CHECK(borders(axis) == std::vector<Index>{0, 4, 8, 10});
  CHECK(axis.count() == 3);
  CHECK(axis.size(2) == 2);
  CHECK(axis.begin(2) == 8);
}

TEST_CASE("a tile larger than the dimension is the whole of it", "[core][tiling]") {
  CHECK(AxisTiling::uniform(3, 100) == AxisTiling::whole(3));
}

TEST_CASE("an empty dimension has one empty tile", "[core][tiling]") {
  auto const axis = AxisTiling::uniform(0, 4);
  CHECK(axis.count() == 1);
  CHECK(axis.size(0) == 0);
  CHECK(axis == AxisTiling::whole(0));
}

TEST_CASE("tiles of given sizes stand in their order", "[core][tiling]") {
  std::vector<Index> const sizes{64, 192};
  CHECK(borders(AxisTiling::sizes(sizes)) == std::vector<Index>{0, 64, 256});
  CHECK(AxisTiling::sizes({64, 192}) == AxisTiling::sizes(sizes));
}

TEST_CASE("an element is in one tile, and what lies outside in the nearest", "[core][tiling]") {
  AxisTiling const tiling = AxisTiling::sizes(std::vector<Index>{3, 1, 4});
  std::vector<Index> tiles;
  for (Index element = -1; element <= 8; ++element) tiles.push_back(tiling.tile_of(element));
  CHECK(tiles == std::vector<Index>{0, 0, 0, 0, 1, 2, 2, 2, 2, 2});
  CHECK((AxisTiling::whole(5).tile_of(4) == 0 && AxisTiling::whole(0).tile_of(0) == 0));
  tiles.clear();
  for (Index const element : {-9, -1, 0, 1, 2, 3, 4, 5, 9})
    tiles.push_back(AxisTiling::uniform(5, 2).tile_of(element));
  CHECK(tiles == std::vector<Index>{0, 0, 0, 0, 1, 1, 2, 2, 2});
}

TEST_CASE("tiles are the same however they were written", "[core][tiling]") {
  auto const sizes = [](std::vector<Index> const& each) { return AxisTiling::sizes(each); };
  CHECK(sizes({4, 4, 2}) == AxisTiling::uniform(10, 4));
  CHECK(sizes({10}) == AxisTiling::whole(10));
  CHECK(AxisTiling() == AxisTiling::whole(1));
  CHECK(sizes({4, 2, 4}) == sizes({4, 2, 4}));
  CHECK(sizes({4, 2, 4}) != sizes({2, 4, 4}));
  CHECK(sizes({4, 2, 4}) != AxisTiling::uniform(10, 4));
  CHECK(borders(sizes({2, 4})) == std::vector<Index>{0, 2, 6});  // the last one is longer
}

TEST_CASE("the largest dimension has borders", "[core][tiling]") {
  auto const axis = AxisTiling::uniform(INT64_MAX, INT64_MAX / 2 + 1);
  CHECK(axis.count() == 2);
  CHECK((axis.begin(2) == INT64_MAX && axis.size(1) == INT64_MAX / 2));
  CHECK(axis.tile_of(INT64_MAX) == 1);
}

TEST_CASE("a tile extent below one throws ShapeError and names it", "[core][tiling]") {
  std::vector<Index> const sizes{4, 0};
  CHECK(contains(message_of<ShapeError>([] { (void)AxisTiling::uniform(8, 0); }), "tile extent 0"));
  CHECK_THROWS_AS(AxisTiling::uniform(8, -3), ShapeError);
  CHECK_THROWS_AS(AxisTiling::sizes(sizes), ShapeError);
  CHECK_THROWS_AS(AxisTiling::sizes({}), ShapeError);
}

TEST_CASE("inner borders tell whether a step fits", "[core][tiling]") {
  CHECK(AxisTiling::uniform(100, 32).multiple_of(32));  // the end of the dimension does not count
  CHECK(AxisTiling::uniform(100, 32).multiple_of(16));
  CHECK_FALSE(AxisTiling::uniform(100, 24).multiple_of(16));
  CHECK_FALSE(AxisTiling::uniform(48, 24).multiple_of(16));
  CHECK(AxisTiling::whole(7).multiple_of(64));
}

TEST_CASE("tiles are numbered with dimension 0 fastest", "[core][tiling]") {
  Tiling const tiling({10, 6}, {4, 3});
  CHECK(tiling.grid() == Shape{3, 2});
  CHECK(tiling.tile_count() == 6);
  CHECK(tiling.position(1) == Shape{1, 0});
  CHECK(tiling.position(3) == Shape{0, 1});
  for (Index tile = 0; tile < tiling.tile_count(); ++tile)
    CHECK(tiling.number(tiling.position(tile)) == tile);
}

TEST_CASE("the boxes of all tiles cover each element once", "[core][tiling]") {
  Tiling const tiling({10, 7}, {4, 3});
  std::vector<int> covered(70);
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    auto const [begin, extent] = tiling.box(tile);
    for (Index j = 0; j < extent[1]; ++j)
      for (Index i = 0; i < extent[0]; ++i)
        ++covered[static_cast<std::size_t>(begin[0] + i + 10 * (begin[1] + j))];
  }
  CHECK(covered == std::vector<int>(70, 1));
}

TEST_CASE("a scalar is one tile of one element", "[core][tiling]") {
  Tiling const tiling{Shape{}};
  CHECK(tiling.tile_count() == 1);
  CHECK(element_count(tiling.box(0).extent) == 1);
  CHECK(tiling.shape() == Shape{});
}

TEST_CASE("a tiling of another rank than its shape throws ShapeError", "[core][tiling]") {
  std::string const text = message_of<ShapeError>([] { (void)Tiling({10, 7}, {4}); });
  CHECK(contains(text, "{10, 7}"));
  CHECK(contains(text, "{4}"));
}

TEST_CASE("a tiling of more than eight dimensions throws ShapeError", "[core][tiling]") {
  CHECK_THROWS_AS(Tiling(std::vector<AxisTiling>(9)), ShapeError);
}

TEST_CASE("a tile larger than the extent is one tile, however large both are", "[core][tiling]") {
  CHECK(AxisTiling::uniform(5, INT64_MAX) == AxisTiling::whole(5));
  CHECK(AxisTiling::uniform(INT64_MAX, INT64_MAX) == AxisTiling::whole(INT64_MAX));
  auto const two = AxisTiling::uniform(INT64_MAX, INT64_MAX / 2 + 1);
  CHECK(two.count() == 2);
  CHECK(two.size(1) == INT64_MAX / 2);
}

TEST_CASE("more tiles than a plan can number throw ShapeError with the least tile that would do",
          "[core][tiling]") {
  Index const extent = Index{1} << 40;
  CHECK(message_of<ShapeError>([&] { (void)AxisTiling::uniform(extent, 64); }) ==
        "tiling: 1099511627776 elements in tiles of 64 make 17179869184 tiles where 4294967294 are "
        "possible: tiles of 257 elements or more would do");
  CHECK((extent + 256) / 257 <= AxisTiling::most);
  CHECK((extent + 255) / 256 > AxisTiling::most);
}

TEST_CASE("sizes of tiles whose sum does not fit throw ShapeError", "[core][tiling]") {
  std::vector<Index> const sizes{INT64_MAX - 4, 4, 1};
  CHECK(AxisTiling::sizes(std::span(sizes).first(2)).extent() == INT64_MAX);
  CHECK(message_of<ShapeError>([&] { (void)AxisTiling::sizes(sizes); }) ==
        "tiling: tiles of 9223372036854775807 and 1 elements are more than 2^63 - 1");
}

TEST_CASE("tilings are equal where all their borders are", "[core][tiling]") {
  CHECK(AxisTiling::whole(8) == AxisTiling::uniform(8, 8));
  CHECK_FALSE(AxisTiling::whole(8) == AxisTiling::whole(9));
  CHECK(AxisTiling::uniform(8, 4) == AxisTiling::sizes(std::vector<Index>{4, 4}));
  CHECK_FALSE(AxisTiling::uniform(8, 4) == AxisTiling::sizes(std::vector<Index>{3, 5}));
  CHECK_FALSE(AxisTiling::uniform(8, 4) == AxisTiling::whole(8));
}
