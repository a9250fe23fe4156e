#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Extents of a graph's tensor: numbers, and names that stay open until planning binds them.

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "nntile/core/shape.hh"

namespace nntile {

/// One dimension of a graph's tensor: a number, or a name ("seq"), which is open until planning
/// binds it to a number. Equal names are equal extents, in all of a graph. A name is an identifier
/// of at most 23 characters; throws GraphError for any other.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(std::integral auto extent) : value_(static_cast<Index>(extent)) {}
  template <class Name>
  requires(std::convertible_to<Name const&, std::string_view> && !std::integral<Name>)
  constexpr Dim(Name const& name) : Dim(std::string_view(name), 0) {}

  constexpr bool open() const { return name_[0] != 0; }
  /// The number. Throws GraphError where it is open.
  constexpr operator Index() const {
    if (open()) fail();
    return value_;
  }
  /// The name of an open one, which lives as long as the dimension; empty for a number.
  constexpr std::string_view name() const { return name_; }

  constexpr bool operator==(Dim const&) const = default;
  template <std::integral Number> constexpr bool operator==(Number extent) const {
    return !open() && value_ == static_cast<Index>(extent);
  }

 private:
  constexpr Dim(std::string_view name, int) {
    auto const letter = [](char c) {
      return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    bool fits = !name.empty() && name.size() < sizeof name_ && letter(name[0]);
    for (char const c : name) fits &= letter(c) || (c >= '0' && c <= '9');
    if (!fits)
      throw GraphError(concat("dimension: '", name.substr(0, 64), "' is no name; one has 1 to ",
                              sizeof name_ - 1,
                              " letters, digits and '_', and begins with no digit, as \"seq\""));
    for (std::size_t i = 0; i < name.size(); ++i) name_[i] = name[i];
  }
  [[noreturn]] void fail() const {
    throw GraphError(concat("dimension '", name(), "' is open, and has no number before planning ",
                            "binds it: PlanOptions::dims = {{\"", name(), "\", 512}}"));
  }

  Index value_ = 0;
  char name_[24] = {};  // in place, so that names need no table that outlives graphs
};

/// "512", or the name.
inline std::string to_string(Dim const& dim) {
  return dim.open() ? std::string(dim.name()) : concat(static_cast<Index>(dim));
}

/// Shape of a graph's tensor, inner to outer: {512, "seq", "batch"}.
class Dims : public inplace_vector<Dim, max_rank> {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<Dim> dims) {
    if (dims.size() > max_rank) detail::fail_rank(dims);
    for (Dim const& dim : dims) push_back(dim);
  }
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
