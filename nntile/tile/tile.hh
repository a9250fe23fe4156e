#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tile: one contiguous piece of data on a runtime, and ops on single tiles.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "nntile/tile/submit.hh"

namespace nntile {

/// Host access to a tile or buffer: waits for its tasks, and until it ends no task may name the
/// handle.
template <Element T, Runtime R> class HostView {
 public:
  HostView(R& runtime, typename R::Handle handle, Access access)
      : runtime_(&runtime), handle_(handle), bytes_(runtime.lock(handle, access)) {}
  HostView(HostView const&) = delete;
  HostView& operator=(HostView const&) = delete;
  ~HostView() { runtime_->unlock(handle_); }

  std::span<T> span() const {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  T& operator[](std::size_t i) const { return span()[i]; }

 private:
  R* runtime_;
  typename R::Handle handle_;
  std::span<std::byte> bytes_;
};

/// Owns one buffer of a runtime: column-major, contiguous, 64-byte aligned. Move-only; its end
/// retires the buffer, which is reclaimed after its last task. Unwritten until something writes it.
template <Element T, Runtime R> class Tile {
 public:
  /// Throws OutOfMemory.
  Tile(R& runtime, Shape const& shape, std::string name = "tile")
      : runtime_(&runtime),
        tiling_(std::make_unique<Tiling>(shape)),
        name_(std::make_unique<std::string>(std::move(name))) {
    auto const bytes = static_cast<std::size_t>(element_count(shape)) * sizeof(T);
    handle_ = runtime.allocate(bytes, host, Lifetime::persistent);
  }
  /// Names the caller's memory without copying; it must live until `release` is called (by default,
  /// until the tile's tasks are done). Throws ShapeError when sizes differ.
  Tile(R& runtime, Shape const& shape, std::span<T> memory, Release release = {},
       std::string name = "tile")
      : runtime_(&runtime),
        tiling_(std::make_unique<Tiling>(shape)),
        name_(std::make_unique<std::string>(std::move(name))) {
    if (static_cast<Index>(memory.size()) != element_count(shape))
      throw ShapeError(concat("tile '", *name_, "': shape ", to_string(shape), " has ",
                              element_count(shape), " elements, but the memory has ",
                              memory.size()));
    handle_ = runtime.adopt(std::as_writable_bytes(memory), host, release);
  }
  Tile(Tile&& other) noexcept
      : runtime_(std::exchange(other.runtime_, nullptr)),
        handle_(other.handle_),
        tiling_(std::move(other.tiling_)),
        name_(std::move(other.name_)) {}
  Tile& operator=(Tile&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(handle_, other.handle_);
    std::swap(tiling_, other.tiling_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~Tile() {
    if (runtime_ != nullptr) runtime_->retire(handle_);
  }

  R& runtime() const { return *runtime_; }
  typename R::Handle handle() const { return handle_; }
  Shape shape() const { return tiling_->shape(); }
  std::string const& name() const { return *name_; }

  /// Waits for the tile's tasks and gives access to its elements.
  HostView<T, R> lock(Access access) const { return {*runtime_, handle_, access}; }
  /// Copies in, after waiting for the tile's tasks. Throws ShapeError when sizes differ.
  void write(std::span<T const> values) const {
    check(values.size());
    auto const view = lock(Access::write);
    std::copy(values.begin(), values.end(), view.span().begin());
  }
  /// Copies out, after waiting for the tile's tasks.
  std::vector<T> read() const {
    auto const view = lock(Access::read);
    return {view.span().begin(), view.span().end()};
  }

  TiledOperand<R> operand() const {
    return {runtime_, dtype_of<T>, tiling_.get(), &handle_, name_->c_str()};
  }

 private:
  void check(std::size_t count) const {
    if (static_cast<Index>(count) != element_count(shape()))
      throw ShapeError(
          concat("tile '", *name_, "': ", count, " values for shape ", to_string(shape())));
  }

  R* runtime_;
  typename R::Handle handle_;
  std::unique_ptr<Tiling> tiling_;
  std::unique_ptr<std::string> name_;
};

/// Submits an op on tiles, which is one task.
template <OpStruct Op, Element T, Runtime R, class... Tiles>
TaskHandle<R> apply_async(Op, typename Op::Attrs const& attrs, Tile<T, R> const& first,
                          Tiles const&... rest) {
  TiledOperand<R> const operands[] = {first.operand(), rest.operand()...};
  Event task;
  submit_op<R>(op_info<Op>, &attrs, operands, [&](Event event) { task = event; });
  return {first.runtime(), task};
}

/// Runs an op on tiles and waits for it alone.
template <OpStruct Op, Element T, Runtime R, class... Tiles>
void apply(Op op, typename Op::Attrs const& attrs, Tile<T, R> const& first, Tiles const&... rest) {
  apply_async(op, attrs, first, rest...).wait();
}

}  // namespace nntile
