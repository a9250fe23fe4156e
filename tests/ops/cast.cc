// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/cast.hh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>

#include "nntile/ops/kernel.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;

template <class To, class From>
std::vector<To> cast_all(std::vector<From> const& x, Isa isa = Isa::best) {
  Codelet const* const kernel =
      kernels::find("cast", dtype_of<To>, dtype_of<From>, Mode::exact, isa);
  REQUIRE(kernel != nullptr);
  std::vector<To> y(x.size());
  ops::Cast::Args const args{static_cast<Index>(x.size()), {}};
  void* const buffers[] = {const_cast<From*>(x.data()), y.data()};
  CHECK(kernel->cpu({buffers, &args, nullptr}).ok());
  return y;
}

/// A binary format, by its numbers of exponent and mantissa bits.
struct Format {
  int exponent_bits, mantissa_bits;
  int least() const {
    return 2 - (1 << (exponent_bits - 1));
  }  // exponent of the least normal number
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
};
constexpr Format fp32_format{8, 23}, bf16_format{8, 7}, fp16_format{5, 10};
template <class T>
constexpr Format format_of = sizeof(T) == 4            ? fp32_format
                             : std::same_as<T, bf16_t> ? bf16_format
                                                       : fp16_format;

/// The pattern nearest to (-1)^negative mantissa 2^exponent, ties to even, by integers alone.
std::uint32_t nearest(Format f, bool negative, std::uint64_t mantissa, int exponent) {
  std::uint32_t const sign = negative ? f.sign() : 0;
  if (mantissa == 0) return sign;
  int const top = 63 - std::countl_zero(mantissa) + exponent;
  int const grain = std::max(top, f.least()) - f.mantissa_bits;  // exponent of the last place
  int const shift = grain - exponent;
  std::uint64_t kept = shift > 63 ? 0 : shift > 0 ? mantissa >> shift : mantissa << -shift;
  if (shift > 0 && shift <= 64) {
    std::uint64_t const tie = std::uint64_t{1} << (shift - 1), rest = mantissa & (tie | (tie - 1));
    if (rest > tie || (rest == tie && kept % 2 == 1)) ++kept;
  }
  int const above = grain + f.mantissa_bits - f.least();
  std::uint64_t const pattern = (static_cast<std::uint64_t>(above) << f.mantissa_bits) + kept;
  return sign | static_cast<std::uint32_t>(std::min<std::uint64_t>(pattern, f.infinity()));
}
std::uint32_t nearest(Format f, double x) {
  auto const bits = std::bit_cast<std::uint64_t>(x);
  auto const exponent = static_cast<int>(bits >> 52 & 0x7ff);
  std::uint64_t const mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  bool const negative = bits >> 63 != 0;
  if (exponent == 0x7ff) return (negative ? f.sign() : 0) | f.infinity();
  if (exponent == 0) return nearest(f, negative, mantissa, -1074);
  return nearest(f, negative, mantissa | std::uint64_t{1} << 52, exponent - 1075);
}
std::uint32_t nearest(Format f, std::int64_t x) {
  auto const word = static_cast<std::uint64_t>(x);
  return nearest(f, x < 0, x < 0 ? ~word + 1 : word, 0);
}

template <class T> std::uint32_t pattern_of(T value) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return value.bits;
}

/// Casts x on every instruction set; how many results are not the nearest.
template <class To, class From> int wrong_casts(std::vector<From> const& x) {
  int wrong = 0;
  for (Isa const isa : test::instruction_sets()) {
    auto const y = cast_all<To>(x, isa);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (pattern_of(y[i]) != nearest(format_of<To>, x[i]) && wrong++ < 5)
        UNSCOPED_INFO(name_of(isa) << ": " << x[i] << " became " << static_cast<float>(y[i]));
  }
  return wrong;
}

/// Each number of a 16-bit format and each tie between neighbours, with what is next to it in fp64.
template <class T> std::vector<double> around_patterns() {
  std::vector<double> result;
  auto const value = [](std::uint32_t pattern) {
    T element;
    element.bits = static_cast<std::uint16_t>(pattern);
    return static_cast<double>(static_cast<float>(element));
  };
  std::uint32_t const last = format_of<T>.infinity() - 1;
  for (std::uint32_t pattern = 0; pattern <= last; ++pattern) {
    double const above = pattern < last ? value(pattern + 1) : 2 * value(last) - value(last - 1);
    for (double const x : {value(pattern), value(pattern) + (above - value(pattern)) / 2})
      for (double const near : {std::nextafter(x, -1e300), x, std::nextafter(x, 1e300)})
        for (double const signed_x : {near, -near}) result.push_back(signed_x);
  }
  return result;
}

}  // namespace

TEST_CASE("every dtype is cast to every other", "[ops][cast]") {
  for (Isa const isa : test::instruction_sets())
    for (int to = 0; to < dtype_count; ++to)
      for (int from = 0; from < dtype_count; ++from) {
        INFO(name_of(static_cast<DType>(from)) << " to " << name_of(static_cast<DType>(to)));
        CHECK(kernels::find("cast", static_cast<DType>(to), static_cast<DType>(from), Mode::exact,
                            isa) != nullptr);
      }
}

TEST_CASE("casts of fp32 to 16 bits agree with core at every length and pattern", "[ops][cast]") {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 40'009) {
    float value;
    auto const word = static_cast<std::uint32_t>(bits);
    std::memcpy(&value, &word, sizeof value);
    x.push_back(value);
  }
  for (Isa const isa : test::instruction_sets()) {
    auto const brain = cast_all<bf16_t>(x, isa);
    auto const half = cast_all<fp16_t>(x, isa);
    for (std::size_t i = 0; i < x.size(); ++i) {
      REQUIRE(brain[i].bits == bf16_t(x[i]).bits);
      REQUIRE(half[i].bits == fp16_t(x[i]).bits);
    }
  }
}

TEST_CASE("fp64 is rounded to 16 bits once, at every number, tie and neighbour", "[ops][cast]") {
  CHECK(wrong_casts<bf16_t>(around_patterns<bf16_t>()) == 0);
  CHECK(wrong_casts<fp16_t>(around_patterns<fp16_t>()) == 0);
}

TEST_CASE("fp64 of every exponent and sign is rounded once", "[ops][cast]") {
  // Below 2^-150 a stop at fp32 is a zero, above its range an infinity.
  std::vector<double> x{0.0, -0.0, -1e-50, INFINITY, -INFINITY};
  for (std::uint64_t exponent = 0; exponent < 0x7ff; ++exponent)
    for (std::uint64_t const mantissa :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 51, ~std::uint64_t{0} >> 12})
      for (std::uint64_t const sign : {0u, 1u})
        x.push_back(std::bit_cast<double>(sign << 63 | exponent << 52 | mantissa));
  CHECK(wrong_casts<bf16_t>(x) == 0);
  CHECK(wrong_casts<fp16_t>(x) == 0);
  CHECK(wrong_casts<float>(x) == 0);
}

TEST_CASE("fp32 is rounded to 16 bits once, at every number, tie and neighbour", "[ops][cast]") {
  auto const floats = [](std::vector<double> const& values) {
    std::vector<float> x;
    for (double const value : values)
      for (float const near : {-INFINITY, INFINITY})
        x.push_back(std::nextafter(static_cast<float>(value), near));
    return x;
  };
  CHECK(wrong_casts<bf16_t>(floats(around_patterns<bf16_t>())) == 0);
  CHECK(wrong_casts<fp16_t>(floats(around_patterns<fp16_t>())) == 0);
}

TEST_CASE("integers are rounded once", "[ops][cast]") {
  std::vector<std::int64_t> x{0, std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::int64_t>::max()};
  for (int shift = 0; shift < 40; ++shift)
    for (std::int64_t const off : {-1, 0, 1})
      for (std::int64_t mantissa : {0x101, 0x103, 0x801, 0x803, 0x2000001, 0x2000003})
        for (std::int64_t const sign : {1, -1})
          if (mantissa < std::int64_t{1} << (62 - shift))
            x.push_back(sign * ((mantissa << shift) + off));
  CHECK(wrong_casts<bf16_t>(x) == 0);
  CHECK(wrong_casts<fp16_t>(x) == 0);
  CHECK(wrong_casts<float>(x) == 0);
}

TEST_CASE("a NaN is cast to a NaN, whatever its sign and payload", "[ops][cast]") {
  std::vector<double> x;
  for (std::uint64_t const payload : {1ull, 1ull << 28, 1ull << 41, 1ull << 51, ~0ull >> 12})
    for (std::uint64_t const sign : {0u, 1u})
      x.push_back(std::bit_cast<double>(sign << 63 | 0x7ffull << 52 | payload));
  for (Isa const isa : test::instruction_sets()) {
    for (auto const y : cast_all<bf16_t>(x, isa)) CHECK(std::isnan(static_cast<float>(y)));
    for (auto const y : cast_all<fp16_t>(x, isa)) CHECK(std::isnan(static_cast<float>(y)));
    for (auto const y : cast_all<float>(x, isa)) CHECK(std::isnan(y));
  }
}

TEST_CASE("16-bit values are made from doubles and integers with one rounding", "[ops][cast]") {
  CHECK(bf16_t(-1e-50).bits == 0x8000);
  CHECK(bf16_t(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(fp16_t(65519.999999).bits == 0x7bff);
  CHECK(bf16_t((std::int64_t{0x101} << 52) + 1).bits == bf16_t(std::int64_t{0x102} << 52).bits);
  CHECK(fp16_t(2049).bits == fp16_t(2048).bits);
}

TEST_CASE("floats are cut towards zero to integers", "[ops][cast]") {
  float const big = 1e30f;
  std::vector<float> const x{1.9f, -1.9f, 0.0f, big, -big, std::numeric_limits<float>::quiet_NaN()};
  auto const lowest = std::numeric_limits<std::int64_t>::min();
  CHECK(cast_all<std::int64_t>(x) == std::vector<std::int64_t>{1, -1, 0, lowest, lowest, lowest});
  auto const truth = cast_all<std::int32_t>(cast_all<std::int64_t>(std::vector<float>{5, -7}));
  CHECK(truth == std::vector<std::int32_t>{5, -7});
}

TEST_CASE("integers that int32 has no room for become its smallest", "[ops][cast]") {
  constexpr std::int64_t least = INT32_MIN, most = INT32_MAX;
  std::vector<std::int64_t> const x{
      5, -7, least, most, least - 1, most + 1, (1ll << 32) + 5, INT64_MIN, INT64_MAX};
  CHECK(cast_all<std::int32_t>(x) == std::vector<std::int32_t>{5, -7, INT32_MIN, INT32_MAX,
                                                               INT32_MIN, INT32_MIN, INT32_MIN,
                                                               INT32_MIN, INT32_MIN});
}
