#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Values of a caller's, in arrays, vectors or spans, and their binding to an input.

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "nntile/core/dtype.hh"
#include "nntile/graph/store.hh"

namespace nntile::detail {

/// Elements next to each other, of type T, or of any where T is void.
template <class Values, class T = void>
concept ArrayOf = requires(std::remove_reference_t<Values> const& values) {
  std::span(values);
  requires Element<std::remove_const_t<typename decltype(std::span(values))::element_type>>;
  requires std::is_void_v<T> ||
               std::same_as<std::remove_const_t<typename decltype(std::span(values))::element_type>,
                            T>;
};

/// Whether the elements outlive the expression: of a span, or of a variable.
template <class Values>
inline constexpr bool is_lasting = std::is_lvalue_reference_v<Values> ||
                                   std::ranges::enable_borrowed_range<std::remove_cvref_t<Values>>;

/// Whether an integer type, or bool, has a number: no fraction, sign or digit of it is lost.
template <std::integral T, class Number> bool holds(Number value) {
  if constexpr (std::floating_point<Number>) {
    // A power of two, exact in any format. Comparisons with NaN are false.
    Number const bound =
        2 * static_cast<Number>(std::uint64_t{1} << (std::numeric_limits<T>::digits - 1));
    bool const inside = value < bound && (std::signed_integral<T> ? value >= -bound : value >= 0);
    return inside && static_cast<Number>(static_cast<T>(value)) == value;
  } else {
    auto const element = static_cast<T>(value);
    bool const negative = std::signed_integral<Number> && value < Number{};
    return static_cast<Number>(element) == value &&
           negative == (std::signed_integral<T> && element < T{});
  }
}
/// A number for an error message, bool and characters as integers.
template <class Number> auto for_text(Number value) {
  if constexpr (std::floating_point<Number>)
    return static_cast<double>(value);
  else
    return +value;
}

/// Binds values to an input; their elements are const unless they are a span of others.
template <class R, class Stored, class Values>
void bind_values(TensorStore<R>& store, Stored& stored, Values const& values, bool lasting,
                 Release release = {}) {
  std::span const given(values);
  if (!lasting && stored.storage == Storage::adopted)
    throw LifetimeError(concat("bind_input: '", stored.spec.name, "' is adopted, and these values ",
                               "end before a run could read them; give a variable or a span that ",
                               "lives, or leave the input out of PlanOptions::adopted"));
  store.bind(stored, std::span<typename decltype(given)::element_type>(given), release);
}

}  // namespace nntile::detail
