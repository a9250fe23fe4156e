#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Extents of a graph's tensor: numbers, and names that stay open until planning binds them.

#include <atomic>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include "nntile/core/shape.hh"

namespace nntile {

namespace detail {

/// A name of dimensions, kept from its first use to the program's end.
struct DimName {
  std::string text;
  Index number = 0;
  DimName const* next = nullptr;
};

/// The names so far, the latest first. Entries are added and never removed, so that readers need
/// no lock.
inline std::atomic<DimName const*> dim_names{nullptr};

/// The number of a name. Throws GraphError where it is no identifier.
inline Index number_of_dim(std::string_view name) {
  auto const letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  bool fits = !name.empty() && letter(name[0]);
  for (char const c : name) fits &= letter(c) || (c >= '0' && c <= '9');
  if (!fits)
    throw GraphError(concat("dimension: '", name, "' is no name; one has letters, digits and '_', ",
                            "and begins with no digit, as \"seq\""));
  DimName* added = nullptr;
  for (DimName const* first = dim_names.load(std::memory_order_acquire);;) {
    for (DimName const* at = first; at != nullptr; at = at->next)
      if (at->text == name) {
        delete added;
        return at->number;
      }
    if (added == nullptr) added = new DimName{std::string(name), 0, nullptr};
    added->number = first == nullptr ? 0 : first->number + 1;
    added->next = first;
    if (dim_names.compare_exchange_strong(first, added, std::memory_order_acq_rel))
      return added->number;
  }
}

inline std::string const& name_of_dim(Index number) {
  DimName const* at = dim_names.load(std::memory_order_acquire);
  while (at->number != number) at = at->next;
  return at->text;
}

}  // namespace detail

/// One dimension of a graph's tensor: a number, or a name ("seq"), which is open until planning
/// binds it to a number. Equal names are equal extents, in all of a graph. A name is an identifier;
/// throws GraphError for any other.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(std::integral auto extent) : value_(static_cast<Index>(extent)) {
    if (open()) throw ShapeError(concat("dimension: negative extent ", value_));
  }
  template <class Name>
  requires(std::convertible_to<Name const&, std::string_view> && !std::integral<Name>)
  Dim(Name const& name) : value_(first_name + detail::number_of_dim(name)) {}

  constexpr bool open() const { return value_ < first_name + (Index{1} << 62); }
  /// The number. Throws GraphError where it is open.
  constexpr operator Index() const {
    if (open()) fail();
    return value_;
  }
  /// The name of an open one.
  std::string const& name() const { return detail::name_of_dim(value_ - first_name); }

  constexpr bool operator==(Dim const&) const = default;
  template <std::integral Number> constexpr bool operator==(Number extent) const {
    return value_ == static_cast<Index>(extent);
  }

 private:
  [[noreturn]] void fail() const {
    throw GraphError(concat("dimension '", name(), "' is open, and has no number before planning ",
                            "binds it: PlanOptions::dims = {{\"", name(), "\", 512}}"));
  }

  static constexpr Index first_name = INT64_MIN;  // names are the lowest numbers
  Index value_ = 0;
};

/// "512", or the name.
inline std::string to_string(Dim const& dim) {
  return dim.open() ? dim.name() : concat(static_cast<Index>(dim));
}

/// Shape of a graph's tensor, inner to outer: {512, "seq", "batch"}.
class Dims : public inplace_vector<Dim, max_rank> {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<Dim> dims) : inplace_vector(dims) {}
  constexpr Dims(Shape const& shape) {
    for (Index const extent : shape) push_back(extent);
  }

  constexpr bool open() const {
    for (Dim const& dim : *this)
      if (dim.open()) return true;
    return false;
  }
  /// The numbers. Throws GraphError where one is open.
  constexpr operator Shape() const {
    Shape shape;
    for (Dim const& dim : *this) shape.push_back(dim);
    return shape;
  }
  constexpr bool operator==(Dims const&) const = default;
  constexpr bool operator==(Shape const& shape) const { return *this == Dims(shape); }
};

/// "{512, seq}".
inline std::string to_string(Dims const& dims) {
  std::string text = "{";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + to_string(dims[i]);
  return text + "}";
}

/// The number of a named dimension.
struct BoundDim {
  std::string name;
  Index extent = 0;
};

}  // namespace nntile
