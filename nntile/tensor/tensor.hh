#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tensor: a grid of tiles on a runtime, and ops on whole tensors.

#include "nntile/core/box.hh"
#include "nntile/tile/tile.hh"

namespace nntile {

/// Owns the tiles of one tensor, cut by any Tiling. Move-only. Ops on tensors submit one task per
/// tile of the op; tensors that share an axis must be cut alike along it. Its end, a move and the
/// runtime's end are as for Tile.
template <Element T, Runtime R> class Tensor {
 public:
  /// Allocates every tile. Throws OutOfMemory.
  Tensor(R& runtime, Tiling tiling, std::string name = "tensor")
      : Tensor(runtime, std::make_unique<Tiling>(std::move(tiling)), std::move(name)) {
    (void)byte_count(tiling_->shape(), sizeof(T));
    handles_.reserve(static_cast<std::size_t>(tiling_->tile_count()));
    for (Index tile = 0; tile < tiling_->tile_count(); ++tile) {
      auto const bytes = static_cast<std::size_t>(byte_count(tiling_->box(tile).extent, sizeof(T)));
      handles_.push_back(runtime.allocate(bytes, host, Lifetime::persistent));
    }
  }
  Tensor(Tensor&& other) noexcept = default;
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(tiling_, other.tiling_);
    std::swap(name_, other.name_);
    std::swap(handles_, other.handles_);
    return *this;
  }
  ~Tensor() {
    for (auto const& handle : handles_) runtime_.retire(handle);
  }

  R& runtime() const { return runtime_.get("tensor", name_.get()); }
  Tiling const& tiling() const {
    (void)runtime();
    return *tiling_;
  }
  Shape shape() const { return tiling().shape(); }
  std::string const& name() const {
    (void)runtime();
    return *name_;
  }
  typename R::Handle handle(Index tile) const {
    (void)runtime();
    return handles_[static_cast<std::size_t>(tile)];
  }

  /// Waits for one tile's tasks and gives access to its elements: lock<Access::read>(tile) to
  /// elements that are const.
  template <Access access> HostView<T, R, access> lock(Index tile) const {
    return {runtime(), handle(tile)};
  }
  void lock(Index, Access) const = delete;  // lock<Access::read>(tile): see Tile

  /// Copies a whole column-major array in, tile by tile, waiting for the tensor's tasks alone.
  /// Throws ShapeError.
  void write(std::span<T const> values) const {
    check(values.size());
    Shape const whole = shape();
    for (Index tile = 0; tile < tiling_->tile_count(); ++tile)
      copy_to_tile(lock<Access::write>(tile).span().data(), tiling_->box(tile), values.data(),
                   whole, sizeof(T));
  }
  /// Copies the tensor out as one column-major array, waiting for its tasks alone.
  std::vector<T> read() const {
    Shape const whole = shape();
    std::vector<T> values(static_cast<std::size_t>(element_count(whole)));
    for (Index tile = 0; tile < tiling_->tile_count(); ++tile)
      copy_from_tile(lock<Access::read>(tile).span().data(), tiling_->box(tile), values.data(),
                     whole, sizeof(T));
    return values;
  }

  TiledOperand<R> operand() const {
    return {&runtime(), dtype_of<T>, tiling_.get(), handles_.data(), name_->c_str()};
  }

 private:
  Tensor(R& runtime, std::unique_ptr<Tiling> tiling, std::string&& name)
      : runtime_(runtime),
        tiling_(std::move(tiling)),
        name_(std::make_unique<std::string>(std::move(name))) {}

  void check(std::size_t count) const {
    if (static_cast<Index>(count) != element_count(shape()))
      throw ShapeError(
          concat("tensor '", *name_, "': ", count, " values for shape ", to_string(shape())));
  }

  RuntimeRef<R> runtime_;
  std::unique_ptr<Tiling> tiling_;
  std::unique_ptr<std::string> name_;
  std::vector<typename R::Handle> handles_;
};

namespace detail {

template <class X, class R> inline constexpr bool is_tensor_on = false;
template <Element T, Runtime R> inline constexpr bool is_tensor_on<Tensor<T, R>, R> = true;

}  // namespace detail

/// A tensor, of any element type, on runtimes of type R.
template <class X, class R>
concept TensorOn = detail::is_tensor_on<X, R>;

/// Submits an op on tensors and returns its tile tasks, to be waited for.
template <OpStruct Op, Element T, Runtime R, TensorOn<R>... Tensors>
TaskGroup<R> apply_async(Op, typename Op::Attrs const& attrs, Tensor<T, R> const& first,
                         Tensors const&... rest) {
  TiledOperand<R> const operands[] = {first.operand(), rest.operand()...};
  TaskGroup<R> group;
  submit_op<R>(op_info<Op>, &attrs, operands,
               [&](Event event) { group.add({first.runtime(), event}); });
  return group;
}

/// Runs an op on tensors and waits for it alone.
template <OpStruct Op, Element T, Runtime R, TensorOn<R>... Tensors>
void apply(Op op, typename Op::Attrs const& attrs, Tensor<T, R> const& first,
           Tensors const&... rest) {
  apply_async(op, attrs, first, rest...).wait_all();
}

}  // namespace nntile
