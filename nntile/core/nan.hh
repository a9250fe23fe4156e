#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// One NaN a dtype, for hashes and comparisons: that a result is NaN is promised, its sign and
// payload are not, since CPUs and GPUs make and pass on others.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nntile/core/dtype.hh"

namespace nntile {

namespace detail {

template <std::size_t bytes> struct WordOf;
template <> struct WordOf<1> {
  using type = std::uint8_t;
};
template <> struct WordOf<2> {
  using type = std::uint16_t;
};
template <> struct WordOf<4> {
  using type = std::uint32_t;
};
template <> struct WordOf<8> {
  using type = std::uint64_t;
};

/// The pattern of the dtype's infinity: all exponent bits.
template <Element T> constexpr auto infinity_bits() {
  using Word = typename WordOf<sizeof(T)>::type;
  constexpr std::uint64_t bits = sizeof(T) == 8            ? 0x7ff0000000000000u
                                 : sizeof(T) == 4          ? 0x7f800000u
                                 : std::same_as<T, fp16_t> ? 0x7c00u
                                                           : 0x7f80u;
  return static_cast<Word>(bits);
}

}  // namespace detail

/// The bits that a value is compared and hashed by: its own or, for any NaN, those of the positive
/// quiet NaN without payload.
template <Element T> constexpr auto comparable_bits(T const& value) {
  using Word = typename detail::WordOf<sizeof(T)>::type;
  auto const bits = std::bit_cast<Word>(value);
  if constexpr (is_float(dtype_of<T>)) {
    constexpr Word infinity = detail::infinity_bits<T>();
    constexpr auto magnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
    if (static_cast<Word>(bits & magnitude) > infinity)
      return static_cast<Word>(infinity | infinity >> 1);
  }
  return bits;
}

/// Makes each NaN among elements of the dtype the one that comparable_bits names. Bytes of no whole
/// element stay as they are.
inline void unify_nans(DType dtype, std::span<std::byte> elements) noexcept {
  if (!is_float(dtype)) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t at = 0; at + sizeof(T) <= elements.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, elements.data() + at, sizeof value);
      auto const bits = comparable_bits(value);
      std::memcpy(elements.data() + at, &bits, sizeof bits);
    }
  });
}

}  // namespace nntile
