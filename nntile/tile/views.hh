#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Strided arrays of others (Eigen's matrices, mdspan) in and out of tiles and tensors, and locked
// tiles as such. Knows them by their members alone.

#include <concepts>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <utility>

#include "nntile/core/shape.hh"
#include "nntile/tile/owned_tiles.hh"

namespace nntile {

/// A matrix with addressable elements: Eigen::Matrix, Array, Map, Ref, and blocks of them. Strides
/// count elements; where IsRowMajor, the inner one is from column to column.
template <class V>
concept MatrixView = requires(std::remove_reference_t<V>& view) {
  requires std::is_pointer_v<decltype(view.data())>;
  { view.rows() } -> std::convertible_to<Index>;
  { view.cols() } -> std::convertible_to<Index>;
  { view.innerStride() } -> std::convertible_to<Index>;
  { view.outerStride() } -> std::convertible_to<Index>;
  { bool(std::remove_cvref_t<V>::IsRowMajor) } -> std::same_as<bool>;
};

/// An array of any rank whose index is (i, j, ...), as std::mdspan with a strided layout, Kokkos'
/// and others'.
template <class V>
concept SpanView = requires(std::remove_reference_t<V>& view, std::size_t d) {
  requires std::is_pointer_v<decltype(view.data_handle())>;
  { view.rank() } -> std::convertible_to<std::size_t>;
  { view.extent(d) } -> std::convertible_to<Index>;
  { view.stride(d) } -> std::convertible_to<Index>;
};

/// Elements of T at distances of `stride` elements along each dimension; models SpanView. Owns
/// nothing.
template <class T> class StridedView {
 public:
  using element_type = T;

  StridedView(T* data, Shape const& extent, Shape const& stride)
      : data_(data), extent_(extent), stride_(stride) {}

  T* data_handle() const { return data_; }
  std::size_t rank() const { return extent_.size(); }
  Index extent(std::size_t d) const { return extent_[d]; }
  Index stride(std::size_t d) const { return stride_[d]; }
  Shape const& shape() const { return extent_; }
  /// The element at an index in range, which has `rank()` numbers.
  template <std::convertible_to<Index>... Indices> T& operator()(Indices... at) const {
    Shape const index{static_cast<Index>(at)...};
    return *this->at(index);
  }
  T* at(Shape const& index) const {
    Index offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * stride_[d];
    return data_ + offset;
  }

 private:
  T* data_;
  Shape extent_;
  Shape stride_;
};

namespace detail {

/// A view of others as ours. A matrix has as many of its two dimensions as `rank` asks for, where
/// those that are left out have one element.
template <MatrixView V> auto strided(V&& view, std::size_t rank) {
  auto const rows = static_cast<Index>(view.rows()), cols = static_cast<Index>(view.cols());
  auto const inner = static_cast<Index>(view.innerStride()),
             outer = static_cast<Index>(view.outerStride());
  bool const by_row = std::remove_cvref_t<V>::IsRowMajor;
  Shape extent{rows, cols}, stride{by_row ? outer : inner, by_row ? inner : outer};
  if (rank == 1 && cols == 1) extent = {rows}, stride = {stride[0]};
  if (rank == 1 && rows == 1 && cols != 1) extent = {cols}, stride = {stride[1]};
  if (rank == 0 && rows == 1 && cols == 1) extent = {}, stride = {};
  return StridedView(view.data(), extent, stride);
}
template <SpanView V> auto strided(V&& view, std::size_t) {
  Shape extent, stride;
  for (std::size_t d = 0; d < view.rank(); ++d) {
    extent.push_back(static_cast<Index>(view.extent(d)));
    stride.push_back(static_cast<Index>(view.stride(d)));
  }
  return StridedView(view.data_handle(), extent, stride);
}

/// Whether two elements lie at one address: i * s == j * t for 0 < i < m and 0 < j < n.
inline bool overlap(Index m, Index s, Index n, Index t) {
  if (m < 2 || n < 2) return false;
  Index const common = std::gcd(s, t);
  return t / common < m && s / common < n;
}

/// Throws ShapeError where the extents are not those, ValueError where there is no array, or the
/// strides of two dimensions make elements to read into one.
template <class T>
void check_view(StridedView<T> const& view, Shape const& shape, std::string const& who, bool in) {
  if (!(view.shape() == shape))
    throw ShapeError(concat(who, ": a view of shape ", to_string(view.shape()), " for shape ",
                            to_string(shape)));
  if (element_count(shape) == 0) return;
  if (view.data_handle() == nullptr)
    throw ValueError(concat(who, ": a view of shape ", to_string(shape), " whose data is null"));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (view.stride(d) < 0)
      throw ValueError(concat(who, ": a view whose stride along dimension ", d, " is ",
                              view.stride(d), "; copy what is reversed into an array first"));
    if (!in && view.stride(d) == 0 && shape[d] > 1)
      throw ValueError(concat(who, ": a view to read into whose stride along dimension ", d,
                              " is 0: its elements are one"));
  }
  if (in) return;
  for (std::size_t b = 1; b < shape.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (overlap(shape[a], view.stride(a), shape[b], view.stride(b)))
        throw ValueError(concat(who, ": a view to read into whose strides along dimensions ", a,
                                " and ", b, ", ", view.stride(a), " and ", view.stride(b),
                                ", make two of its elements one"));
}

/// Calls run(elements of the view, elements of the tile, count) for each column of a tile.
template <class T, class Run>
void for_each_column(StridedView<T> const& view, TileBox const& box, Run&& run) {
  if (element_count(box.extent) == 0) return;
  std::size_t const rank = box.extent.size();
  Index const length = rank == 0 ? 1 : box.extent[0];
  Shape at = box.begin;
  for (Index in_tile = 0;; in_tile += length) {
    run(view.at(at), in_tile, length);
    std::size_t d = 1;
    while (d < rank && ++at[d] == box.begin[d] + box.extent[d]) at[d] = box.begin[d], ++d;
    if (d >= rank) return;
  }
}

}  // namespace detail

/// Copies a view into tiles of elements T const, or tiles of elements T into a view; tiles(copy)
/// calls copy(elements, box) for each.
template <class V, class T, class Tiles>
requires MatrixView<V> || SpanView<V>
void copy_strided(V& values, Shape const& shape, std::type_identity<T>, std::string const& who,
                  Tiles&& tiles) {
  constexpr bool in = std::is_const_v<T>;
  using Value = typename decltype(detail::strided(values, 0))::element_type;
  if constexpr (!std::same_as<std::remove_const_t<Value>, std::remove_const_t<T>>) {
    static_assert(in && !in, "a view has elements of the type of the tile's: cast them first");
  } else if constexpr (!in && std::is_const_v<Value>) {
    static_assert(in, "read: a view to read into has elements that are not const");
  } else {
    if constexpr (SpanView<V>)
      if (auto const rank = static_cast<std::size_t>(values.rank()); rank > max_rank)
        throw ShapeError(
            concat(who, ": a view of ", rank, " dimensions for shape ", to_string(shape)));
    auto const view = detail::strided(values, shape.size());
    detail::check_view(view, shape, who, in);
    Index const step = shape.empty() ? 1 : view.stride(0);
    tiles([&](auto* tile, TileBox const& box) {
      detail::for_each_column(view, box, [&](Value* outside, Index at, Index count) {
        for (Index i = 0; i < count; ++i)
          if constexpr (in)
            tile[at + i] = outside[i * step];
          else
            outside[i * step] = tile[at + i];
      });
    });
  }
}

/// The elements of a tile that is locked, of that shape, as a view that lasts as long as the lock:
/// Eigen::Map<Eigen::MatrixXf const>(v.data_handle(), v.extent(0), v.extent(1)). Throws ShapeError.
template <Element T, Runtime R, Access access>
StridedView<typename HostView<T, R, access>::Value> strided(HostView<T, R, access> const& lock,
                                                            Shape const& shape) {
  auto const elements = lock.span();
  if (static_cast<Index>(elements.size()) != element_count(shape))
    throw ShapeError(concat("view: ", elements.size(), " elements for shape ", to_string(shape)));
  Shape stride;
  Index next = 1;
  for (Index const extent : shape) {
    stride.push_back(next);
    next *= extent;
  }
  return {elements.data(), shape, stride};
}
template <Element T, Runtime R, Access access>
void strided(HostView<T, R, access> const&&, Shape const&) = delete;  // it would end at once

}  // namespace nntile
