#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// OwnedTiles: what Tile and Tensor are, and ops on them.

#include <concepts>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/box.hh"
#include "nntile/tile/elements.hh"
#include "nntile/tile/host_view.hh"
#include "nntile/tile/submit.hh"

namespace nntile {

namespace detail {

/// A name at an address that stays while its owner is moved, since tasks in flight refer to it.
/// The usual one, a literal, allocates nothing.
class StableName {
 public:
  StableName(std::string_view text, char const* usual) : text_(usual) {
    if (text == usual) return;
    own_ = support::NameText(text);
    text_ = own_.c_str();
  }
  StableName(StableName&& other) noexcept
      : own_(std::move(other.own_)), text_(std::exchange(other.text_, nullptr)) {}
  StableName& operator=(StableName&& other) noexcept {
    own_ = std::move(other.own_);
    text_ = std::exchange(other.text_, nullptr);
    return *this;
  }
  /// Null where it was moved from.
  char const* c_str() const { return text_; }
  /// Gives up the memory of the name, for tasks that refer to it after its owner's end.
  support::NameText take() noexcept { return std::move(own_); }

 private:
  support::NameText own_;
  char const* text_;
};

/// The handle of the one tile of a Tile, none where its constructor throws; allocates nothing.
template <class Handle> class OneHandle {
 public:
  void reserve(std::size_t) const {}
  void push_back(Handle const& handle) { handle_ = handle; }
  Handle const* data() const { return handle_ ? &*handle_ : nullptr; }
  Handle const& operator[](std::size_t) const { return *handle_; }
  Handle const* begin() const { return data(); }
  Handle const* end() const { return data() + (handle_ ? 1 : 0); }

 private:
  std::optional<Handle> handle_;
};

}  // namespace detail

/// Owns the buffers of a tensor's tiles on a runtime: cut by a Tiling, or of a Shape and one tile.
/// Move-only; its end, on any thread, retires the buffers, which are reclaimed after their last
/// task, and after the end of an open view. Unwritten until something writes them. Errors of tasks
/// that fail after its end name it, on a LinkedRuntime; on another one these have ended before.
/// Used after it was moved from, or after its runtime has ended, it throws LifetimeError.
template <Element T, Runtime R, class Cut>
requires(std::same_as<Cut, Shape> || std::same_as<Cut, Tiling>)
class OwnedTiles {
 public:
  static constexpr bool is_tile = std::same_as<Cut, Shape>;
  using element_type = T;
  using runtime_type = R;
  using cut_type = Cut;

  R& runtime() const { return runtime_.get(kind, name_.c_str()); }
  Shape shape() const {
    (void)runtime();
    return whole();
  }
  std::string_view name() const {
    (void)runtime();
    return name_.c_str();
  }

  /// Copies a whole column-major array in, tile by tile, waiting for the tasks of these tiles
  /// alone. Throws ShapeError when sizes differ.
  void write(std::span<T const> values) const {
    (void)runtime();
    check(values.size(), " values");
    Shape const array = whole();
    each_tile<Access::write>([&](T* tile, TileBox const& box) {
      copy_to_tile(tile, box, values.data(), array, sizeof(T));
    });
  }
  /// Copies all out as one column-major array, waiting for the tasks of these tiles alone.
  std::vector<T> read() const {
    Shape const array = shape();
    detail::Elements<T> values(static_cast<std::size_t>(element_count(array)));
    each_tile<Access::read>([&](T const* tile, TileBox const& box) {
      copy_from_tile(tile, box, values.data(), array, sizeof(T));
    });
    return detail::vector_of(std::move(values));
  }
  /// The same, in from or out to a matrix of Eigen's, an mdspan, or what has their members, of any
  /// strides: element (i, j) of one is that of the other. Include tile/views.hh. Throws ShapeError,
  /// ValueError (data that is null, strides that are negative).
  template <class View>
  requires(!std::convertible_to<View const&, std::span<T const>>)
  void write(View const& values) const {
    copy_view<Access::write>(values);
  }
  template <class View> void read(View&& values) const { copy_view<Access::read>(values); }

  TiledOperand<R> operand() const {
    R& on = runtime();
    if constexpr (is_tile)
      return {&on, dtype_of<T>, nullptr, handles_.data(), name_.c_str(), &cut_};
    else
      return {&on, dtype_of<T>, &cut_, handles_.data(), name_.c_str()};
  }

 protected:
  static constexpr char const* kind = is_tile ? "tile" : "tensor";

  /// Without buffers yet. `waits`: its end waits for its tasks.
  OwnedTiles(R& runtime, Cut cut, bool waits, std::string_view name)
      : runtime_(runtime), cut_(std::move(cut)), name_(name, kind), waits_(waits) {}
  OwnedTiles(OwnedTiles&&) noexcept = default;
  /// Ends its own tiles as the destructor does.
  OwnedTiles& operator=(OwnedTiles&& other) noexcept {
    OwnedTiles taken(std::move(other));
    std::swap(runtime_, taken.runtime_);
    std::swap(cut_, taken.cut_);
    std::swap(name_, taken.name_);
    std::swap(handles_, taken.handles_);
    std::swap(waits_, taken.waits_);
    return *this;
  }
  ~OwnedTiles() {
    for (auto const& handle : handles_)
      waits_ ? runtime_.wait_and_retire(handle) : runtime_.retire(handle);
    runtime_.keep(name_.take());
  }

  void allocate(R& runtime, Lifetime lifetime) {
    (void)byte_count(whole(), sizeof(T));
    if (count() > AxisTiling::most)
      throw ShapeError(concat(kind, " '", name_.c_str(), "': ", count(), " tiles where ",
                              AxisTiling::most, " are possible; use larger tiles"));
    handles_.reserve(static_cast<std::size_t>(count()));
    for (Index tile = 0; tile < count(); ++tile) {
      auto const bytes = static_cast<std::size_t>(byte_count(box(tile).extent, sizeof(T)));
      handles_.push_back(runtime.allocate(bytes, host, lifetime));
    }
  }
  template <class Value> void adopt(R& runtime, std::span<Value> memory, Release release) {
    check(memory.size(), " elements of memory");
    if constexpr (std::is_const_v<Value>)
      handles_.push_back(runtime.adopt(std::as_bytes(memory), host, release));
    else
      handles_.push_back(runtime.adopt(std::as_writable_bytes(memory), host, release));
  }

  Cut const& cut() const {
    (void)runtime();
    return cut_;
  }
  typename R::Handle buffer(Index tile) const {
    (void)runtime();
    return handle_at(tile);
  }
  template <Access access> HostView<T, R, access> view(Index tile) const {
    R& on = runtime();
    try {
      return {on, handle_at(tile)};
    } catch (LifetimeError const& error) {
      throw LifetimeError(concat(kind, " '", name_.c_str(), "': ", error.what()));
    }
  }

 private:
  /// Throws ShapeError where there is no such tile.
  typename R::Handle const& handle_at(Index tile) const {
    if (tile < 0 || tile >= count())
      throw ShapeError(concat(kind, " '", name_.c_str(), "': there is no tile ", tile, ", it has ",
                              count(), " (0 to ", count() - 1, ")"));
    return handles_[static_cast<std::size_t>(tile)];
  }
  /// copy(elements, box) for each tile, locked in turn.
  template <Access access, class Copy> void each_tile(Copy&& copy) const {
    for (Index tile = 0; tile < count(); ++tile) copy(view<access>(tile).span().data(), box(tile));
  }
  /// By what tile/views.hh declares.
  template <Access access, class View> void copy_view(View& values) const {
    (void)runtime();
    std::type_identity<std::conditional_t<access == Access::write, T const, T>> const element;
    auto const tiles = [&](auto&& copy) { each_tile<access>(copy); };
    if constexpr (requires { copy_strided(values, whole(), element, "", tiles); })
      copy_strided(values, whole(), element, concat(kind, " '", name_.c_str(), "'"), tiles);
    else
      static_assert(std::is_void_v<View>,
                    "values are a span of the tile's element type or, with tile/views.hh, a matrix "
                    "as Eigen's or a strided view as mdspan");
  }

  Shape whole() const {
    if constexpr (is_tile)
      return cut_;
    else
      return cut_.shape();
  }
  Index count() const {
    if constexpr (is_tile)
      return 1;
    else
      return cut_.tile_count();
  }
  TileBox box(Index tile) const {
    if constexpr (is_tile)
      return {Shape(cut_.size(), 0), cut_};
    else
      return cut_.box(tile);
  }
  void check(std::size_t count, char const* what) const {
    if (static_cast<Index>(count) != element_count(whole()))
      throw ShapeError(
          concat(kind, " '", name_.c_str(), "': ", count, what, " for shape ", to_string(whole())));
  }

  using Handle = typename R::Handle;

  RuntimeRef<R> runtime_;
  Cut cut_;
  detail::StableName name_;
  std::conditional_t<is_tile, detail::OneHandle<Handle>, std::vector<Handle>> handles_;
  bool waits_;
};

/// A Tile or a Tensor.
template <class X>
concept EagerOperand = requires {
  typename X::cut_type;
  requires std::derived_from<
      X, OwnedTiles<typename X::element_type, typename X::runtime_type, typename X::cut_type>>;
};

/// An operand that may stand beside `First` in a call: of any element type, on the same type of
/// runtime, both tiles or both tensors.
template <class X, class First>
concept OperandBeside = EagerOperand<X> && EagerOperand<First> && X::is_tile == First::is_tile &&
                        std::same_as<typename X::runtime_type, typename First::runtime_type>;

/// Submits an op on tiles, which is one task, or on tensors, which is a task for each tile of it,
/// and returns what to wait for: a TaskHandle, or a TaskGroup. Where it throws, tasks that it has
/// submitted run on by themselves.
template <OpStruct Op, EagerOperand First, OperandBeside<First>... Rest>
auto apply_async(Op, typename Op::Attrs const& attrs, ExecutionContext const& context,
                 First const& first, Rest const&... rest) {
  using R = typename First::runtime_type;
  TiledOperand<R> const operands[] = {first.operand(), rest.operand()...};
  if constexpr (First::is_tile) {
    Event task;
    submit_op<R>(op_info<Op>, &attrs, operands, [&](Event event) { task = event; }, context);
    return TaskHandle<R>(first.runtime(), task);
  } else {
    TaskGroup<R> group;
    try {
      submit_op<R>(
          op_info<Op>, &attrs, operands, [&](Event event) { group.add({first.runtime(), event}); },
          context);
    } catch (...) {
      group.detach_all();  // a submission does not wait, as for a token that its caller has
      throw;
    }
    return group;
  }
}
template <OpStruct Op, EagerOperand First, OperandBeside<First>... Rest>
auto apply_async(Op op, typename Op::Attrs const& attrs, First const& first, Rest const&... rest) {
  return apply_async(op, attrs, ExecutionContext{}, first, rest...);
}

/// Runs an op on tiles, or on tensors, and waits for it alone.
template <OpStruct Op, EagerOperand First, OperandBeside<First>... Rest>
void apply(Op op, typename Op::Attrs const& attrs, First const& first, Rest const&... rest) {
  auto tasks = apply_async(op, attrs, first, rest...);
  if constexpr (First::is_tile)
    tasks.wait();
  else
    tasks.wait_all();
}

}  // namespace nntile
