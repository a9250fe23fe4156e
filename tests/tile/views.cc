// SPDX-License-Identifier: BSD-3-Clause
// Arrays of others, of any strides, in and out of tiles and tensors.
#include "nntile/tile/views.hh"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif

#include "nntile/ops/gelutanh.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// As std::mdspan of layout_stride, which C++20 lacks.
template <class T, std::size_t Rank> struct Mdspan {
  T* data = nullptr;
  std::array<int, Rank> extents{};
  std::array<int, Rank> strides{};
  T* data_handle() const { return data; }
  static constexpr std::size_t rank() { return Rank; }
  int extent(std::size_t d) const { return extents[d]; }
  int stride(std::size_t d) const { return strides[d]; }
};

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

using Matrix = Tensor<float, Serial>;

}  // namespace

TEST_CASE("a row-major array comes in by its index, and out again", "[tile][views]") {
  Serial runtime;
  auto const shape = GENERATE(Shape{3, 2}, Shape{1, 1}, Shape{3, 4}, Shape{2, 3});  // of tiles
  Matrix const tensor(runtime, Tiling({3, 4}, shape));
  std::vector<float> rows = ramp(12), out(12);
  Mdspan<float, 2> const source{rows.data(), {3, 4}, {4, 1}}, target{out.data(), {3, 4}, {4, 1}};
  tensor.write(source);
  CHECK(tensor.read() == std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  tensor.read(target);
  CHECK(out == rows);
}

TEST_CASE("strides leave out what lies between elements", "[tile][views]") {
  Serial runtime;
  auto const shape = GENERATE(Shape{1, 2, 2}, Shape{2, 1, 2}, Shape{2, 2, 1});  // of tiles
  Matrix const tensor(runtime, Tiling({2, 2, 2}, shape));
  std::vector<float> values = ramp(60), out(60, -1);
  tensor.write(Mdspan<float const, 3>{values.data(), {2, 2, 2}, {3, 10, 30}});
  CHECK(tensor.read() == std::vector<float>{0, 3, 10, 13, 30, 33, 40, 43});
  tensor.read(Mdspan<float, 3>{out.data(), {2, 2, 2}, {3, 10, 30}});
  CHECK(std::count(out.begin(), out.end(), -1.0f) == 52);
  CHECK(out[43] == 43);
}

TEST_CASE("a stride of 0 spreads what is written, and is not read into", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {2, 3}, "a");
  std::vector<float> column{5, 6};
  Mdspan<float, 2> const view{column.data(), {2, 3}, {1, 0}};
  tile.write(view);
  CHECK(tile.read() == std::vector<float>{5, 6, 5, 6, 5, 6});
  CHECK(message_of<ValueError>([&] { tile.read(view); }) ==
        "tile 'a': a view to read into whose stride along dimension 1 is 0: its elements are one");
}

TEST_CASE("a view whose elements overlap is not read into", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {3, 2}, "a");
  std::vector<float> const values = ramp(6);
  tile.write(values);
  std::vector<float> out(12, -1);
  auto const view = [&](int s, int t) { return Mdspan<float, 2>{out.data(), {3, 2}, {s, t}}; };
  CHECK(message_of<ValueError>([&] { tile.read(view(1, 1)); }) ==
        "tile 'a': a view to read into whose strides along dimensions 0 and 1, 1 and 1, make two "
        "of its elements one");
  CHECK_THROWS_AS(tile.read(view(2, 4)), ValueError);
  CHECK(out == std::vector<float>(12, -1));
  tile.read(view(2, 3));  // they cross, and do not meet
  CHECK(out == std::vector<float>{0, -1, 1, 3, 2, 4, -1, 5, -1, -1, -1, -1});
  tile.write(view(1, 1));
}

TEST_CASE("views that do not fit are refused in words", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {3, 4}, "a");
  std::vector<float> values = ramp(12);
  auto const message = [&]<std::size_t Rank>(Mdspan<float, Rank> const& view) {
    return message_of<Error>([&] { tile.write(view); });
  };
  CHECK(message(Mdspan<float, 2>{values.data(), {4, 3}, {1, 4}}) ==
        "tile 'a': a view of shape {4, 3} for shape {3, 4}");
  CHECK(message(Mdspan<float, 1>{values.data(), {12}, {1}}) ==
        "tile 'a': a view of shape {12} for shape {3, 4}");
  CHECK(message(Mdspan<float, 2>{nullptr, {3, 4}, {1, 3}}) ==
        "tile 'a': a view of shape {3, 4} whose data is null");
  CHECK(message(Mdspan<float, 2>{values.data() + 9, {3, 4}, {1, -3}}) ==
        "tile 'a': a view whose stride along dimension 1 is -3; copy what is reversed into an "
        "array first");
  CHECK_THROWS_AS(tile.read(Mdspan<float, 2>{nullptr, {3, 4}, {1, 3}}), ValueError);
}

TEST_CASE("a view of more dimensions than a tensor has is refused by the tile's name",
          "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {1}, "small");
  float value = 1;
  Mdspan<float, 9> const deep{&value, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}};
  CHECK(message_of<ShapeError>([&] { tile.write(deep); }) ==
        "tile 'small': a view of 9 dimensions for shape {1}");
}

TEST_CASE("a refused view leaves the tile as it was", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {2}, "a");
  CHECK_THROWS_AS(tile.write(Mdspan<float, 1>{nullptr, {2}, {1}}), ValueError);
  CHECK_THROWS_AS(tile.read(), LifetimeError);  // still unwritten
}

TEST_CASE("an empty view and a scalar are views", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const none(runtime, {0, 3}), one(runtime, {});
  none.write(Mdspan<float, 2>{nullptr, {0, 3}, {1, 0}});
  CHECK(none.read().empty());
  float value = 7, out = 0;
  one.write(Mdspan<float, 0>{&value, {}, {}});
  one.read(Mdspan<float, 0>{&out, {}, {}});
  CHECK(out == 7);
}

TEST_CASE("a locked tile is a view", "[tile][views]") {
  Serial runtime;
  Matrix const tensor(runtime, Tiling({3, 4}, {2, 2}));
  tensor.write(ramp(12));
  auto const lock = tensor.lock<Access::read>(2);  // rows 0 and 1, columns 2 and 3
  auto const view = strided(lock, tensor.tiling().box(2).extent);
  STATIC_REQUIRE(SpanView<decltype(view)>);
  STATIC_REQUIRE(std::is_same_v<decltype(view(0, 1)), float const&>);
  CHECK((view.rank() == 2 && view.extent(0) == 2 && view.stride(1) == 2));
  CHECK((view(0, 0) == 6 && view(1, 0) == 7 && view(0, 1) == 9 && view(1, 1) == 10));
  CHECK(message_of<ShapeError>([&] { (void)strided(lock, {3, 2}); }) ==
        "view: 4 elements for shape {3, 2}");
}

TEST_CASE("what is written through the view of a lock is the tile's", "[tile][views]") {
  Serial runtime;
  Tile<double, Serial> const tile(runtime, {2, 2});
  {
    auto const lock = tile.lock<Access::write>();
    auto const view = strided(lock, {2, 2});
    for (Index i = 0; i < 2; ++i)
      for (Index j = 0; j < 2; ++j) view(i, j) = static_cast<double>(10 * i + j);
  }
  CHECK(tile.read() == std::vector<double>{0, 10, 1, 11});
}

#if __has_include(<Eigen/Core>)

namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class M> M numbered(Index rows, Index cols) {
  M result(rows, cols);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) result(i, j) = static_cast<float>(10 * i + j);
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("a matrix of Eigen's comes in, and out again", "[tile][views]", Eigen::MatrixXf,
                   Rows, Eigen::ArrayXXf) {
  Serial runtime;
  Matrix const tensor(runtime, Tiling({5, 3}, {2, 2}), "a");
  auto const source = numbered<TestType>(5, 3);
  tensor.write(source);
  CHECK(tensor.read()[7] == 21);  // row 2 of column 1
  TestType out(5, 3);
  tensor.read(out);
  CHECK((out.array() == source.array()).all());
  CHECK(message_of<ShapeError>([&] { tensor.write(numbered<TestType>(3, 5)); }) ==
        "tensor 'a': a view of shape {3, 5} for shape {5, 3}");
}

TEST_CASE("blocks, maps and vectors of Eigen's have their strides", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {2, 2}), row(runtime, {3}), column(runtime, {4});
  auto all = numbered<Eigen::MatrixXf>(4, 3);
  tile.write(all.block(1, 1, 2, 2));
  CHECK(tile.read() == std::vector<float>{11, 21, 12, 22});
  row.write(all.row(2));
  CHECK(row.read() == std::vector<float>{20, 21, 22});
  column.write(all.col(1));
  CHECK(column.read() == std::vector<float>{1, 11, 21, 31});
  column.write(Eigen::VectorXf(Eigen::VectorXf::Constant(4, 2.5f)));
  CHECK(column.read() == std::vector<float>(4, 2.5f));
  row.read(all.row(0));
  tile.read(all.bottomRightCorner(2, 2));
  CHECK((all(0, 1) == 21 && all(2, 1) == 11 && all(3, 2) == 22));
  Eigen::Map<Rows const, 0, Eigen::OuterStride<>> const padded(all.data(), 2, 2,
                                                               Eigen::OuterStride<>(6));
  tile.write(padded);
  CHECK(tile.read() == std::vector<float>{all(0, 0), all(2, 1), all(1, 0), all(3, 1)});
}

TEST_CASE("Eigen maps a locked tile", "[tile][views]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, {2, 3});
  tile.write(ramp(6));
  auto const lock = tile.lock<Access::read>();
  auto const view = strided(lock, tile.shape());
  Eigen::Map<Eigen::MatrixXf const> const map(view.data_handle(), view.extent(0), view.extent(1));
  CHECK((map.rowwise().sum() == Eigen::Vector2f(6, 9)));
}

#else

TEST_CASE("matrices of Eigen's come in and out", "[tile][views]") {
  skip("no Eigen 3 (Debian: libeigen3-dev)");
}

#endif
