#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tile: one contiguous piece of data on a runtime, and ops on single tiles.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/runtime/runtime_ref.hh"
#include "nntile/tile/submit.hh"

namespace nntile {

/// Host access to a tile or buffer: waits for its tasks, and until it ends no task may name the
/// handle. A view for reading gives T const. What it views lives as long as it does, unless the
/// runtime ends: then every use throws LifetimeError.
template <Element T, Runtime R, Access access> class [[nodiscard]] HostView {
 public:
  using Value = std::conditional_t<access == Access::read, T const, T>;

  HostView(R& runtime, typename R::Handle handle)
      : runtime_(runtime), handle_(handle), bytes_(runtime.lock(handle, access)) {}
  HostView(HostView const&) = delete;
  HostView& operator=(HostView const&) = delete;
  ~HostView() { runtime_.unlock(handle_); }

  std::span<Value> span() const {
    (void)runtime_.get("view");
    return {reinterpret_cast<Value*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  /// Looks each time whether the runtime lives: loops take the span.
  Value& operator[](std::size_t i) const { return span()[i]; }

 private:
  RuntimeRef<R> runtime_;
  typename R::Handle handle_;
  std::span<std::byte> bytes_;
};

/// Owns one buffer of a runtime: column-major, contiguous, 64-byte aligned. Move-only; its end, on
/// any thread, retires the buffer, which is reclaimed after its last task, and after the end of an
/// open view. Unwritten until something writes it. Used after it was moved from, or after its
/// runtime has ended, it throws LifetimeError.
template <Element T, Runtime R> class Tile {
 public:
  /// Throws OutOfMemory.
  Tile(R& runtime, Shape const& shape, std::string name = "tile")
      : Tile(runtime, shape, false, std::move(name)) {
    auto const bytes = static_cast<std::size_t>(byte_count(shape, sizeof(T)));
    handle_ = runtime.allocate(bytes, host, Lifetime::persistent);
  }
  /// Names the caller's memory without copying. With `release` the memory lives until that is
  /// called, and nothing here waits. Without one it lives as long as the tile, whose end waits for
  /// the tile's tasks. Throws ShapeError when sizes differ. Blocks: the destructor, as said.
  Tile(R& runtime, Shape const& shape, std::span<T> memory, Release release = {},
       std::string name = "tile")
      : Tile(runtime, shape, release.call == nullptr, std::move(name)) {
    check(memory.size(), " elements of memory");
    handle_ = runtime.adopt(std::as_writable_bytes(memory), host, release);
  }
  /// The same for memory that is only read: it may overlap other such memory, and what would write
  /// the tile throws ValueError.
  template <std::same_as<T const> Value, std::size_t count>
  requires ReadOnlyRuntime<R>
  Tile(R& runtime, Shape const& shape, std::span<Value, count> memory, Release release = {},
       std::string name = "tile")
      : Tile(runtime, shape, release.call == nullptr, std::move(name)) {
    check(memory.size(), " elements of memory");
    handle_ = runtime.adopt(std::as_bytes(memory), host, release);
  }
  Tile(Tile&& other) noexcept = default;
  Tile& operator=(Tile&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(handle_, other.handle_);
    std::swap(tiling_, other.tiling_);
    std::swap(name_, other.name_);
    std::swap(waits_, other.waits_);
    return *this;
  }
  ~Tile() {
    if (!handle_) return;
    waits_ ? runtime_.wait_and_retire(*handle_) : runtime_.retire(*handle_);
  }

  R& runtime() const { return runtime_.get("tile", name_.get()); }
  typename R::Handle handle() const {
    (void)runtime();
    return *handle_;
  }
  Shape shape() const {
    (void)runtime();
    return tiling_->shape();
  }
  std::string const& name() const {
    (void)runtime();
    return *name_;
  }

  /// Waits for the tile's tasks and gives access to its elements: lock<Access::read>() to elements
  /// that are const.
  template <Access access> HostView<T, R, access> lock() const { return {runtime(), *handle_}; }
  void lock(Access) const = delete;  // lock<Access::read>(): what may be written is in the type
  /// Copies in, after waiting for the tile's tasks. Throws ShapeError when sizes differ.
  void write(std::span<T const> values) const {
    (void)runtime();
    check(values.size(), " values");
    auto const view = lock<Access::write>();
    std::copy(values.begin(), values.end(), view.span().begin());
  }
  /// Copies out, after waiting for the tile's tasks.
  std::vector<T> read() const {
    auto const view = lock<Access::read>();
    auto const elements = view.span();
    return {elements.begin(), elements.end()};
  }

  TiledOperand<R> operand() const {
    return {&runtime(), dtype_of<T>, tiling_.get(), &*handle_, name_->c_str()};
  }

 private:
  Tile(R& runtime, Shape const& shape, bool waits, std::string&& name)
      : runtime_(runtime),
        tiling_(std::make_unique<Tiling>(shape)),
        name_(std::make_unique<std::string>(std::move(name))),
        waits_(waits) {}

  void check(std::size_t count, char const* what) const {
    if (static_cast<Index>(count) != element_count(tiling_->shape()))
      throw ShapeError(
          concat("tile '", *name_, "': ", count, what, " for shape ", to_string(tiling_->shape())));
  }

  RuntimeRef<R> runtime_;
  std::optional<typename R::Handle> handle_;  // none where a constructor throws
  std::unique_ptr<Tiling> tiling_;
  std::unique_ptr<std::string> name_;
  bool waits_;
};

namespace detail {

template <class X, class R> inline constexpr bool is_tile_on = false;
template <Element T, Runtime R> inline constexpr bool is_tile_on<Tile<T, R>, R> = true;

}  // namespace detail

/// A tile, of any element type, on runtimes of type R.
template <class X, class R>
concept TileOn = detail::is_tile_on<X, R>;

/// Submits an op on tiles, which is one task.
template <OpStruct Op, Element T, Runtime R, TileOn<R>... Tiles>
TaskHandle<R> apply_async(Op, typename Op::Attrs const& attrs, Tile<T, R> const& first,
                          Tiles const&... rest) {
  TiledOperand<R> const operands[] = {first.operand(), rest.operand()...};
  Event task;
  submit_op<R>(op_info<Op>, &attrs, operands, [&](Event event) { task = event; });
  return {first.runtime(), task};
}

/// Runs an op on tiles and waits for it alone.
template <OpStruct Op, Element T, Runtime R, TileOn<R>... Tiles>
void apply(Op op, typename Op::Attrs const& attrs, Tile<T, R> const& first, Tiles const&... rest) {
  apply_async(op, attrs, first, rest...).wait();
}

}  // namespace nntile
