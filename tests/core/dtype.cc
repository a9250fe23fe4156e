// SPDX-License-Identifier: BSD-3-Clause
// The 16-bit formats are checked against their definition in double arithmetic, which is exact for
// all of them.
#include "nntile/core/dtype.hh"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/support/catch.hh"

using namespace nntile;

namespace {

/// A binary format of 16 bits, by its numbers of exponent and mantissa bits.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1u) << mantissa_bits; }

  /// Value of a non-negative finite pattern; that of `infinity()` is what the next power of two
  /// would be.
  double value(std::uint32_t pattern) const {
    std::uint32_t const exponent = pattern >> mantissa_bits;
    std::uint32_t const mantissa = pattern & ((1u << mantissa_bits) - 1u);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp(mantissa + (1u << mantissa_bits),
                      static_cast<int>(exponent) - bias() - mantissa_bits);
  }

  /// The pattern nearest to a non-negative value, ties to even, by bisection over all patterns.
  std::uint32_t nearest(double x) const {
    std::uint32_t low = 0, high = infinity();
    if (x >= value(high)) return high;
    while (high - low > 1) {
      std::uint32_t const middle = (low + high) / 2;
      (value(middle) <= x ? low : high) = middle;
    }
    double const below = x - value(low), above = value(high) - x;
    if (below != above) return below < above ? low : high;
    return (low & 1u) == 0 ? low : high;
  }
};
constexpr Format bf16_format{8, 7};
constexpr Format fp16_format{5, 10};

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float from_bits(std::uint32_t pattern) { return std::bit_cast<float>(pattern); }
std::uint32_t nearest_signed(Format const& format, float value) {
  return format.nearest(std::fabs(static_cast<double>(value))) |
         (std::signbit(value) ? 0x8000u : 0u);
}

template <class T> float value_of(std::uint32_t pattern) {
  T element;
  element.bits = static_cast<std::uint16_t>(pattern);
  return element;
}

/// Counts patterns whose value to float differs from the definition.
template <class T> int wrong_values(Format const& format) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
    std::uint32_t const magnitude = pattern & 0x7fffu;
    float const value = value_of<T>(pattern);
    bool right = std::signbit(value) == (pattern >= 0x8000u);
    if (magnitude > format.infinity())
      right = std::isnan(value);
    else if (magnitude == format.infinity())
      right = right && std::isinf(value);
    else
      right = right && std::fabs(static_cast<double>(value)) == format.value(magnitude);
    wrong += right ? 0 : 1;
  }
  return wrong;
}

/// Counts floats around the middle of two neighbours of the format that are not rounded to nearest,
/// ties to even.
template <class T> int wrong_ties(Format const& format) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < format.infinity(); ++pattern) {
    auto const middle = static_cast<float>((format.value(pattern) + format.value(pattern + 1)) / 2);
    for (float const value : {from_bits(bits(middle) - 1), middle, from_bits(bits(middle) + 1)})
      for (float const x : {value, -value}) wrong += T(x).bits == nearest_signed(format, x) ? 0 : 1;
  }
  return wrong;
}

/// The same for floats all over the range, infinities included.
template <class T> int wrong_in_sweep(Format const& format) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern <= 0x7f800000u - 4099u;
       pattern += 4099u)  // a prime: all low bits occur
    for (float const x : {from_bits(pattern), -from_bits(pattern)})
      wrong += T(x).bits == nearest_signed(format, x) ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE("every bf16 pattern has the value of its definition", "[core][dtype]") {
  CHECK(wrong_values<bf16_t>(bf16_format) == 0);
}

TEST_CASE("every fp16 pattern has the value of its definition", "[core][dtype]") {
  CHECK(wrong_values<fp16_t>(fp16_format) == 0);
}

TEST_CASE("floats around every bf16 tie round to nearest even", "[core][dtype]") {
  CHECK(wrong_ties<bf16_t>(bf16_format) == 0);
}

TEST_CASE("floats around every fp16 tie round to nearest even", "[core][dtype]") {
  CHECK(wrong_ties<fp16_t>(fp16_format) == 0);
}

TEST_CASE("a dense sweep of floats rounds to the nearest bf16", "[core][dtype]") {
  CHECK(wrong_in_sweep<bf16_t>(bf16_format) == 0);
}

TEST_CASE("a dense sweep of floats rounds to the nearest fp16", "[core][dtype]") {
  CHECK(wrong_in_sweep<fp16_t>(fp16_format) == 0);
}

TEST_CASE("every 16-bit pattern but a signalling NaN survives the way to float and back",
          "[core][dtype]") {
  int bf16_lost = 0, fp16_lost = 0;
  for (std::uint32_t p = 0; p <= 0xffff; ++p) {
    std::uint32_t const bf16_quiet = (p & 0x7fffu) > 0x7f80u ? p | 0x40u : p;
    std::uint32_t const fp16_quiet = (p & 0x7fffu) > 0x7c00u ? p | 0x200u : p;
    bf16_lost += bf16_t(value_of<bf16_t>(p)).bits == bf16_quiet ? 0 : 1;
    fp16_lost += fp16_t(value_of<fp16_t>(p)).bits == fp16_quiet ? 0 : 1;
  }
  CHECK(bf16_lost == 0);
  CHECK(fp16_lost == 0);
}

TEST_CASE("a NaN stays a NaN of its sign, also when its payload is cut off", "[core][dtype]") {
  for (std::uint32_t const pattern : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu}) {
    bf16_t const b(from_bits(pattern));
    fp16_t const h(from_bits(pattern));
    CHECK(std::isnan(static_cast<float>(b)));
    CHECK(std::isnan(static_cast<float>(h)));
    CHECK((b.bits >> 15) == (pattern >> 31));
    CHECK((h.bits >> 15) == (pattern >> 31));
  }
}

TEST_CASE("values beyond the largest finite one round to it or to infinity", "[core][dtype]") {
  CHECK(fp16_t(65519.996f).bits == 0x7bff);
  CHECK(fp16_t(65520.0f).bits == 0x7c00);
  CHECK(fp16_t(-65520.0f).bits == 0xfc00);
  CHECK(bf16_t(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16_t(from_bits(0x7f7f7fffu)).bits == 0x7f7f);
}

TEST_CASE("values too small for fp16 round to a zero of their sign", "[core][dtype]") {
  CHECK(fp16_t(0x1p-25f).bits == 0x0000);  // a tie between 0 and the smallest subnormal
  CHECK(fp16_t(0x1.000002p-25f).bits == 0x0001);
  CHECK(fp16_t(-0x1p-26f).bits == 0x8000);
}

TEST_CASE("conversions are usable in constant expressions", "[core][dtype]") {
  static_assert(bf16_t(1.0f).bits == 0x3f80);
  static_assert(fp16_t(1.0f).bits == 0x3c00);
  static_assert(static_cast<float>(fp16_t(0.1f)) == 0.0999755859375f);
  SUCCEED();
}

TEST_CASE("for_dtype and dtype_of are inverse, sizes follow, and all_dtypes has their order",
          "[core][dtype]") {
  constexpr std::array<std::size_t, dtype_count> sizes{8, 4, 2, 2, 4, 4, 4, 8, 4, 1};
  for (int i = 0; i < dtype_count; ++i) {
    auto const dtype = static_cast<DType>(i);
    CHECK(for_dtype(dtype, [](auto tag) { return dtype_of<typename decltype(tag)::type>; }) ==
          dtype);
    CHECK(size_of(dtype) == sizes[static_cast<std::size_t>(i)]);
    CHECK(all_dtypes[i] == dtype);
  }
}

TEST_CASE("names of dtypes are distinct", "[core][dtype]") {
  for (int i = 0; i < dtype_count; ++i)
    for (int j = 0; j < i; ++j)
      CHECK(name_of(static_cast<DType>(i)) != name_of(static_cast<DType>(j)));
  CHECK(std::string(name_of(DType::boolean)) == "bool");
  CHECK(element_name_of(DType::bf16) == "bf16_t");
  CHECK(element_name_of(DType::int64) == "std::int64_t");
}

TEST_CASE("floats accumulate in fp32, but fp64 and integers in themselves", "[core][dtype]") {
  CHECK(accumulator_of(DType::bf16) == DType::fp32);
  CHECK(accumulator_of(DType::fp32_fast_tf32) == DType::fp32);
  CHECK(accumulator_of(DType::fp64) == DType::fp64);
  CHECK(accumulator_of(DType::int64) == DType::int64);
  static_assert(std::same_as<compute_t<fp16_t>, float> && std::same_as<compute_t<double>, double>);
  static_assert(std::same_as<compute_t<std::int32_t>, std::int32_t>);
}

TEST_CASE("only the types behind DType are elements", "[core][dtype]") {
  static_assert(Element<bf16_t> && Element<bool> && Element<fp32_fast_bf16_t>);
  static_assert(!Element<long double> && !Element<char> && !Element<unsigned> &&
                !Element<float const>);
  SUCCEED();
}
