// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a whole array and the tiles that they are in.
#include "nntile/core/box.hh"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/catch.hh"

using namespace nntile;

namespace {

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 37 + i / 256);
  return result;
}

/// The tiles of an array, each in storage of its own.
std::vector<std::vector<std::byte>> tiles_of(Tiling const& tiling, std::size_t element_bytes,
                                             Index unit, std::vector<std::byte> const& whole) {
  std::vector<std::vector<std::byte>> tiles;
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    TileBox const box = tiling.box(tile);
    Shape padded = box.extent;
    if (padded.size() != 0) padded[0] = leading_dimension(box.extent, unit);
    tiles.emplace_back(static_cast<std::size_t>(element_count(padded)) * element_bytes);
    copy_to_tile(tiles.back().data(), box, whole.data(), tiling.shape(), element_bytes, unit);
  }
  return tiles;
}

/// CHECKs that pieces put together of tiles are those of the array, and each run once, upwards.
void check_pieces(Tiling const& tiling, std::size_t element_bytes, Index unit, std::size_t piece) {
  auto const whole =
      counted(static_cast<std::size_t>(element_count(tiling.shape())) * element_bytes);
  auto const tiles = tiles_of(tiling, element_bytes, unit, whole);
  std::vector<std::byte> found(whole.size());
  std::size_t taken = 0;
  std::vector<std::uint64_t> next(tiles.size());
  bool upwards = true;
  for (std::size_t at = 0; at < whole.size(); at += piece)
    detail::for_each_run_in(
        tiling, element_bytes, unit, at, std::min(piece, whole.size() - at),
        [&](std::size_t tile, std::uint64_t in_tile, std::uint64_t to, std::uint64_t bytes) {
          upwards = upwards && bytes > 0 && in_tile >= next[tile];
          next[tile] = in_tile + bytes;
          std::copy_n(tiles.at(tile).data() + in_tile, bytes, found.data() + at + to);
          taken += bytes;
        });
  INFO(to_string(tiling.shape()) << " in " << tiles.size() << " tiles, unit " << unit
                                 << ", elements of " << element_bytes << ", pieces of " << piece);
  CHECK(upwards);
  CHECK(taken == whole.size());
  CHECK((found == whole));
}

}  // namespace

TEST_CASE("pieces of an array are put together of runs of its tiles", "[core][box]") {
  check_pieces(Tiling(Shape{}), 4, 1, 3);
  check_pieces(Tiling(Shape{0, 3}), 4, 1, 5);
  check_pieces(Tiling(Shape{7}, Shape{3}), 2, 1, 5);
  std::minstd_rand random(5);
  auto const below = [&](std::size_t end) { return static_cast<Index>(random() % end); };
  for (int trial = 0; trial < 400; ++trial) {
    Shape shape, tile;
    for (Index rank = 1 + below(4); rank > 0; --rank) {
      shape.push_back(1 + below(6));
      tile.push_back(1 + below(static_cast<std::size_t>(shape.back())));
    }
    auto const bytes = static_cast<std::size_t>(1 + below(4));
    auto const all = static_cast<std::size_t>(element_count(shape)) * bytes;
    check_pieces(Tiling(shape, tile), bytes, below(2) == 0 ? 1 : 4,
                 static_cast<std::size_t>(1 + below(all + 5)));
  }
}

TEST_CASE("no piece of an array without bytes has a run", "[core][box]") {
  int runs = 0;
  auto const count = [&](auto...) { ++runs; };
  detail::for_each_run_in(Tiling(Shape{4, 4}, Shape{2, 2}), 4, 1, 16, 0, count);
  detail::for_each_run_in(Tiling(Shape{4, 0}), 4, 1, 0, 0, count);
  CHECK(runs == 0);
}

TEST_CASE("pieces of an array look at each column of a tile a few times in all", "[core][box]") {
  for (Shape const& shape : {Shape{8, 1000}, Shape{8, 1000, 1}, Shape{8, 100, 10, 1, 1},
                             Shape{8, 2, 500}, Shape{8, 500, 2}}) {
    Index looked_at = 0, columns = element_count(shape) / 8;
    TileBox whole{Shape(shape.size(), 0), shape};
    whole.extent[0] = 4;
    std::uint64_t const all = static_cast<std::uint64_t>(columns) * 32, piece = 96;
    for (std::uint64_t at = 0; at < all; at += piece) {
      TileBox box = whole;
      detail::cut_to_bytes(box, shape, 4, 1, at, std::min(piece, all - at));
      looked_at += element_count(box.extent) / 4;
    }
    INFO(to_string(shape));
    CHECK(looked_at >= columns);
    CHECK(looked_at <= 3 * columns);
  }
}
