#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Element types and their exact conversions (round to nearest, ties to even).

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "nntile/core/macros.hh"

namespace nntile {

/// Element type of a tensor. Elements in C++ are double, float, bf16_t, fp16_t, those of the tags
/// (fp32_fast_tf32_t ...), std::int64_t, std::int32_t and bool. The fp32_fast tags store fp32 and
/// allow GEMM in a reduced format in `Numerics::fast`.
enum class DType : std::uint8_t {
  fp64,
  fp32,
  bf16,
  fp16,
  fp32_fast_tf32,
  fp32_fast_fp16,
  fp32_fast_bf16,
  int64,
  int32,
  boolean
};
inline constexpr int dtype_count = 10;

/// Every dtype, in the order of the enumeration: what casts take.
inline constexpr DType all_dtypes[] = {
    DType::fp64,           DType::fp32,           DType::bf16,  DType::fp16,  DType::fp32_fast_tf32,
    DType::fp32_fast_fp16, DType::fp32_fast_bf16, DType::int64, DType::int32, DType::boolean};
static_assert(sizeof all_dtypes == dtype_count * sizeof(DType));

namespace detail {

/// A double as the float whose last bit is odd wherever it is not exact, so that rounding that to
/// 16 bits rounds the double once.
NNTILE_ALWAYS_INLINE constexpr float round_to_odd(double value) {
  auto const nearest = static_cast<float>(value);
  auto const back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  // By the sign of the value: below 2^-150 the float is a zero, and -0 < 0 does not hold.
  std::uint32_t const away = (value < 0 ? back < value : back > value) ? 1 : 0;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - away) | 1u);
}

/// Types from which a 16-bit float can be constructed.
template <class N>
concept Number =
    std::same_as<N, float> || std::same_as<N, double> || (std::integral<N> && sizeof(N) <= 8);

/// Any number as a float that rounds to 16 bits as the number itself does.
template <Number N> NNTILE_ALWAYS_INLINE constexpr float for_narrow(N value) {
  if constexpr (std::same_as<N, float>) {
    return value;
  } else if constexpr (std::floating_point<N> || sizeof(N) < 8) {
    return round_to_odd(value);
  } else {  // the 12 low bits count as one where a double cannot hold them all
    constexpr N limit = N{1} << 52;
    bool large = value >= limit;
    if constexpr (std::signed_integral<N>) large = large || value <= -limit;
    N const sticky = (value & 0xfff) != 0 ? 0x1000 : 0;
    return round_to_odd(static_cast<double>(large ? (value & ~N{0xfff}) | sticky : value));
  }
}

/// fp32 to the upper 16 bits, ties to even; a NaN stays a NaN (its quiet bit is set).
NNTILE_ALWAYS_INLINE constexpr std::uint16_t bf16_from_float(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

NNTILE_ALWAYS_INLINE constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// fp32 to IEEE binary16, subnormals, infinities and NaN included.
NNTILE_ALWAYS_INLINE constexpr std::uint16_t fp16_from_float(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const sign = (bits >> 16) & 0x8000u;
  std::uint32_t const magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)  // NaN: keep the payload's upper bits, quiet
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x33000001u)
    return static_cast<std::uint16_t>(sign);  // 2^-25 and less round to zero
  std::uint32_t const exponent = magnitude >> 23;
  if (exponent >= 113) {  // normal: rebias 127 -> 15
    std::uint32_t const rebiased = magnitude - (112u << 23);
    return static_cast<std::uint16_t>(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13));
  }
  std::uint32_t const mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  std::uint32_t const shift = 126 - exponent;  // 14..24
  std::uint32_t const half = (1u << (shift - 1)) - 1u;
  return static_cast<std::uint16_t>(sign |
                                    ((mantissa + half + ((mantissa >> shift) & 1u)) >> shift));
}

NNTILE_ALWAYS_INLINE constexpr float fp16_to_float(std::uint16_t bits) {
  std::uint32_t const sign = (bits & 0x8000u) << 16;
  std::uint32_t const exponent = (bits >> 10) & 0x1fu;
  std::uint32_t const mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Subnormal: mantissa * 2^-24; the leading one is at position p, and the value is exact in fp32.
  auto const p = static_cast<std::uint32_t>(31 - std::countl_zero(mantissa));
  return std::bit_cast<float>(sign | ((p + 103u) << 23) | ((mantissa << (23u - p)) & 0x7fffffu));
}

}  // namespace detail

/// bfloat16 storage; arithmetic happens in fp32. Made from any number with one rounding.
struct bf16_t {
  std::uint16_t bits;
  bf16_t() = default;
  template <detail::Number N>
  NNTILE_ALWAYS_INLINE constexpr explicit bf16_t(N value)
      : bits(detail::bf16_from_float(detail::for_narrow(value))) {}
  NNTILE_ALWAYS_INLINE constexpr operator float() const { return detail::bf16_to_float(bits); }
};

/// IEEE binary16 storage; arithmetic happens in fp32. Made from any number with one rounding.
struct fp16_t {
  std::uint16_t bits;
  fp16_t() = default;
  template <detail::Number N>
  NNTILE_ALWAYS_INLINE constexpr explicit fp16_t(N value)
      : bits(detail::fp16_from_float(detail::for_narrow(value))) {}
  NNTILE_ALWAYS_INLINE constexpr operator float() const { return detail::fp16_to_float(bits); }
};

namespace detail {

/// fp32 storage under a name of its own.
template <DType D> struct tagged_float {
  float value;
  tagged_float() = default;
  NNTILE_ALWAYS_INLINE constexpr explicit tagged_float(float v) : value(v) {}
  NNTILE_ALWAYS_INLINE constexpr operator float() const { return value; }
};

}  // namespace detail

using fp32_fast_tf32_t = detail::tagged_float<DType::fp32_fast_tf32>;
using fp32_fast_fp16_t = detail::tagged_float<DType::fp32_fast_fp16>;
using fp32_fast_bf16_t = detail::tagged_float<DType::fp32_fast_bf16>;

/// Names a C++ type without a value of it: for_dtype(d, [](auto tag) { using T = typename
/// decltype(tag)::type; }).
template <class T> struct type_tag {
  using type = T;
};

/// Calls f with the type_tag of a dtype.
template <class F> constexpr decltype(auto) for_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp64:
      return f(type_tag<double>{});
    case DType::fp32:
      return f(type_tag<float>{});
    case DType::bf16:
      return f(type_tag<bf16_t>{});
    case DType::fp16:
      return f(type_tag<fp16_t>{});
    case DType::fp32_fast_tf32:
      return f(type_tag<fp32_fast_tf32_t>{});
    case DType::fp32_fast_fp16:
      return f(type_tag<fp32_fast_fp16_t>{});
    case DType::fp32_fast_bf16:
      return f(type_tag<fp32_fast_bf16_t>{});
    case DType::int64:
      return f(type_tag<std::int64_t>{});
    case DType::int32:
      return f(type_tag<std::int32_t>{});
    case DType::boolean:
      break;
  }
  return f(type_tag<bool>{});
}

/// The dtype of a C++ element type.
template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::same_as<T, double>)
    return DType::fp64;
  else if constexpr (std::same_as<T, float>)
    return DType::fp32;
  else if constexpr (std::same_as<T, bf16_t>)
    return DType::bf16;
  else if constexpr (std::same_as<T, fp16_t>)
    return DType::fp16;
  else if constexpr (std::same_as<T, fp32_fast_tf32_t>)
    return DType::fp32_fast_tf32;
  else if constexpr (std::same_as<T, fp32_fast_fp16_t>)
    return DType::fp32_fast_fp16;
  else if constexpr (std::same_as<T, fp32_fast_bf16_t>)
    return DType::fp32_fast_bf16;
  else if constexpr (std::same_as<T, std::int64_t>)
    return DType::int64;
  else if constexpr (std::same_as<T, std::int32_t>)
    return DType::int32;
  else if constexpr (std::same_as<T, bool>)
    return DType::boolean;
  else
    static_assert(!sizeof(T*),
                  "nntile has no dtype for this element type; DType lists the ones there are");
}();

namespace detail {

template <DType dtype> constexpr auto stored_tag() {
  if constexpr (dtype == DType::fp64)
    return type_tag<double>{};
  else if constexpr (dtype == DType::bf16)
    return type_tag<bf16_t>{};
  else if constexpr (dtype == DType::fp16)
    return type_tag<fp16_t>{};
  else if constexpr (dtype == DType::int64)
    return type_tag<std::int64_t>{};
  else if constexpr (dtype == DType::int32)
    return type_tag<std::int32_t>{};
  else if constexpr (dtype == DType::boolean)
    return type_tag<bool>{};
  else
    return type_tag<float>{};
}

}  // namespace detail

/// The C++ type of what is stored: float for the fp32_fast tags, so that what is instantiated for
/// each stored type serves them too.
template <DType dtype> using stored_t = typename decltype(detail::stored_tag<dtype>())::type;

namespace detail {

template <class T, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<T, Others> || ...);

}  // namespace detail

/// A type that can be the element of a tile: one of those behind DType.
template <class T>
concept Element =
    detail::is_one_of<T, double, float, bf16_t, fp16_t, fp32_fast_tf32_t, fp32_fast_fp16_t,
                      fp32_fast_bf16_t, std::int64_t, std::int32_t, bool>;

namespace detail {

template <class T> consteval bool is_required_element() {
  constexpr bool has_dtype = Element<T>;
  static_assert(has_dtype,
                "an element of a tile is double, float, bf16_t, fp16_t, fp32_fast_tf32_t, "
                "fp32_fast_fp16_t, fp32_fast_bf16_t, std::int64_t, std::int32_t or bool");
  return has_dtype;
}

}  // namespace detail

/// An Element; any other type is an error whose first line names what could stand there.
template <class T>
concept RequiredElement = detail::is_required_element<T>();

/// A double rounded to T, once; the fp32_fast tags round as fp32.
template <Element T>
requires(!std::integral<T>)
NNTILE_ALWAYS_INLINE constexpr T rounded_to(double value) {
  if constexpr (sizeof(T) == sizeof(float))
    return T(static_cast<float>(value));
  else
    return T(value);
}

constexpr std::size_t size_of(DType dtype) {
  return for_dtype(dtype, [](auto tag) { return sizeof(typename decltype(tag)::type); });
}

constexpr bool is_float(DType dtype) { return dtype <= DType::fp32_fast_bf16; }

/// The dtype of a sum's accumulator: fp64 for fp64, fp32 for every other float, the type itself
/// otherwise.
constexpr DType accumulator_of(DType dtype) {
  return dtype == DType::fp64 || !is_float(dtype) ? dtype : DType::fp32;
}

/// The type of arithmetic on T: double for double, float for every other float, T otherwise.
template <class T>
using compute_t = std::conditional_t<std::same_as<T, double> || std::integral<T>, T, float>;

/// Whether it is one of them, and not a number that was cast.
constexpr bool is_dtype(DType dtype) { return static_cast<int>(dtype) < dtype_count; }

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[dtype_count] = {
      "fp64",           "fp32",           "bf16",  "fp16",  "fp32_fast_tf32",
      "fp32_fast_fp16", "fp32_fast_bf16", "int64", "int32", "bool"};
  if (!is_dtype(dtype)) return "?";
  return names[static_cast<int>(dtype)];
}

/// The type of its elements in C++.
constexpr std::string_view element_name_of(DType dtype) {
  constexpr std::string_view names[dtype_count] = {"double",           "float",
                                                   "bf16_t",           "fp16_t",
                                                   "fp32_fast_tf32_t", "fp32_fast_fp16_t",
                                                   "fp32_fast_bf16_t", "std::int64_t",
                                                   "std::int32_t",     "bool"};
  if (!is_dtype(dtype)) return "?";
  return names[static_cast<int>(dtype)];
}

}  // namespace nntile
