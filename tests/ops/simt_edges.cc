// SPDX-License-Identifier: BSD-3-Clause
// Zeros, subnormals, ties, what is out of range, infinities and NaNs: device code on the emulator
// against the CPU's kernels, bit for bit.
#define NNTILE_SIMT "tests/support/simt/simt.hh"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/simt/bits.hh"
#include "tests/support/simt/values.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// An array whose elements have these patterns.
template <class Word> void set_patterns(Array& array, std::vector<Word> const& patterns) {
  REQUIRE(array.bytes.size() == patterns.size() * sizeof(Word));
  std::memcpy(array.bytes.data(), patterns.data(), array.bytes.size());
}

/// CHECKs casts of these patterns of a dtype to every other; how many dtypes there are. Their
/// number is odd, so that some are left beside runs of elements.
template <class Word> int check_casts(DType from, std::vector<Word> patterns) {
  if (patterns.size() % 2 == 0) patterns.push_back(patterns.front());
  auto const n = static_cast<Index>(patterns.size());
  OpCase c = op_case<ops::Cast>({}, {{n}, {n}});
  c.second = from;
  c.prepare = [&](std::vector<Array>& x) { set_patterns(x[0], patterns); };
  return check_bits(c);
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  return all;
}

/// Each number of a 16-bit format and each tie between it and the next, as doubles, both signs.
template <class T> std::vector<double> numbers_and_ties(std::size_t step) {
  std::vector<double> result;
  for (std::size_t bits = 0; bits < 0x8000; bits += step) {
    T low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    double const a = static_cast<float>(low), b = static_cast<float>(high);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    for (double const x : {a, a + (b - a) / 2, -a, -a - (b - a) / 2}) result.push_back(x);
  }
  return result;
}

/// Where types end and roundings tie, of either sign; the next numbers of T on both sides with
/// them.
template <class T> std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> result{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
  auto const add = [&](double value) {
    T const x = static_cast<T>(value);
    if (!std::isfinite(x)) return;
    T const below = std::nextafter(x, -Limits::infinity());
    T const above = std::nextafter(x, Limits::infinity());
    for (T const each : {x, below, above}) result.push_back(each), result.push_back(-each);
  };
  add(0);
  add(1);
  add(1.5);
  // The least subnormal and normal number and the last one of each type, the ties beside them, and
  // what rounds twice: a tie of the narrow type but for a bit that one of fp32 would lose.
  for (double const least : {0x1p-24, 0x1p-14, 0x1p-133, 0x1p-126, 0x1p-149, 0x1p-1022, 0x1p-1074})
    for (double const factor : {0.5, 1.0, 1.5}) add(least * factor);
  for (double const last : {65504.0, 65520.0, 0x1.fep127, 0x1.ffp127, 0x1.fffffep127,
                            0x1.ffffffp127, Limits::max() * 1.0})
    add(last);
  for (double const place : {0x1p-8, 0x1p-11, 0x1p-24})
    for (double const of : {1.0, 3.0})
      for (double const rest : {0.0, 0x1p-30, 0x1p-50}) {
        add(1 + of * place + rest);
        add(1 + of * place - rest);
      }
  for (double const whole : {0x1p31, 0x1p63, 0x1p24, 255.5}) add(whole);
  return result;
}

/// The same of a dtype of an array, as doubles.
std::vector<double> edges_of(DType dtype) {
  std::vector<double> result;
  if (dtype == DType::fp64)
    result = edges<double>();
  else
    for (float const x : edges<float>()) result.push_back(x);
  if (dtype == DType::fp16)
    for (double const x : {0x1p-24, 0x1p-15, 0x1.ff8p-15, 65504.0, 65488.0})
      result.push_back(x), result.push_back(-x);
  if (dtype == DType::bf16)
    for (double const x : {0x1p-133, 0x1.fcp-127, 0x1.fep127, 0x1.fcp127})
      result.push_back(x), result.push_back(-x);
  return result;
}

/// Elements of all operands so that each edge of one meets each of every other in turn.
void set_edges(std::vector<Array>& x) {
  Index turn = 1;
  for (Array& each : x) {
    if (!is_float(each.dtype)) continue;
    std::vector<double> const values = edges_of(each.dtype);
    auto const count = static_cast<Index>(values.size());
    for (Index i = 0; i < each.count(); ++i)
      each.set(i, values[static_cast<std::size_t>((i / turn + i % turn * 7) % count)]);
    turn = turn == 1 ? 64 : turn + 3;
  }
}

template <class T> bool same_bits(T a, T b) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return (a != a && b != b) || std::bit_cast<Word>(a) == std::bit_cast<Word>(b);
}

/// CHECKs what kernels compute of each pair of edges against the processor's own instructions.
template <class T, class Oracle> void check_values(Oracle oracle) {
  std::vector<std::array<T, 2>> pairs;
  for (T const a : edges<T>())
    for (T const b : edges<T>()) pairs.push_back({a, b});
  auto const got = values_on_device(pairs);
  static constexpr char const* names[] = {"max", "min", "divide",   "sqrt",
                                          "fma", "abs", "copysign", "subtract"};
  int wrong = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const [a, b] = pairs[i];
    Values<T> const want = oracle(a, b);
    for (std::size_t f = 0; f < want.size(); ++f)
      if (!same_bits(got[i][f], want[f]) && wrong++ < 5)
        UNSCOPED_INFO(names[f] << " of " << a << " and " << b << ": " << got[i][f] << ", expected "
                               << want[f]);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every value of 16 bits is cast on the device as on the CPU", "[ops][simt_edges]") {
  if (!comparable()) return;
  CHECK(check_casts(DType::bf16, all_patterns()) > 5);
  CHECK(check_casts(DType::fp16, all_patterns()) > 5);
}

TEST_CASE("numbers, ties and neighbours of 16 bits are rounded on the device as on the CPU",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  std::vector<std::uint32_t> single;
  std::vector<std::uint64_t> twice;
  auto const add_near = [&](std::vector<double> const& values) {
    for (double const x : values) {
      for (float const toward : {-INFINITY, 0.0f, INFINITY}) {
        auto const near = static_cast<float>(x);
        single.push_back(
            std::bit_cast<std::uint32_t>(toward == 0 ? near : std::nextafter(near, toward)));
        twice.push_back(std::bit_cast<std::uint64_t>(
            toward == 0 ? x : std::nextafter(x, static_cast<double>(toward))));
      }
    }
  };
  add_near(numbers_and_ties<bf16_t>(11));
  add_near(numbers_and_ties<fp16_t>(11));
  CHECK(check_casts(DType::fp32, single) > 5);
  CHECK(check_casts(DType::fp64, twice) > 5);
}

TEST_CASE("ends of every type are cast on the device as on the CPU", "[ops][simt_edges]") {
  if (!comparable()) return;
  std::vector<std::uint32_t> single;
  std::vector<std::uint64_t> twice;
  for (float const x : edges<float>()) single.push_back(std::bit_cast<std::uint32_t>(x));
  for (double const x : edges<double>()) {
    twice.push_back(std::bit_cast<std::uint64_t>(x));
    single.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(x)));
  }
  for (std::uint32_t const payload : {1u, 0x1fffu, 0x2000u, 0x400000u, 0x7fffffu})  // NaNs
    for (std::uint32_t const sign : {0u, 0x80000000u}) {
      single.push_back(sign | 0x7f800000u | payload);
      twice.push_back(std::uint64_t{sign} << 32 | 0x7ffull << 52 | payload);
      twice.push_back(std::uint64_t{sign} << 32 | 0x7ffull << 52 | std::uint64_t{payload} << 29);
    }
  CHECK(check_casts(DType::fp32, single) > 5);
  CHECK(check_casts(DType::fp64, twice) > 5);
}

TEST_CASE("integers at the ends of their types are cast on the device as on the CPU",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  std::vector<std::int64_t> x{0, std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::int64_t>::max()};
  for (int shift = 0; shift < 40; ++shift)  // ties of each float type, and what is beside them
    for (std::int64_t const off : {-1, 0, 1})
      for (std::int64_t const mantissa : {0x101, 0x103, 0x801, 0x803, 0x2000001, 0x2000003})
        if (mantissa < std::int64_t{1} << (62 - shift))
          for (std::int64_t const sign : {1, -1}) x.push_back(sign * ((mantissa << shift) + off));
  CHECK(check_casts(DType::int64, x) > 5);
  std::vector<std::int32_t> narrow{0, 1, -1, std::numeric_limits<std::int32_t>::min(),
                                   std::numeric_limits<std::int32_t>::max()};
  for (std::int64_t const each : x) narrow.push_back(static_cast<std::int32_t>(each));
  CHECK(check_casts(DType::int32, narrow) > 5);
  CHECK(check_casts(DType::boolean, std::vector<std::uint8_t>{0, 1, 1, 0, 1, 0, 1, 1, 1}) > 5);
}

#ifdef __SSE2__
TEST_CASE("a device's functions of fp32 are the processor's instructions at every pair of edges",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  check_values<float>([](float a, float b) {
    __m128 const x = _mm_set_ss(a), y = _mm_set_ss(b);
    return Values<float>{_mm_cvtss_f32(_mm_max_ss(x, y)),
                         _mm_cvtss_f32(_mm_min_ss(x, y)),
                         _mm_cvtss_f32(_mm_div_ss(x, y)),
                         _mm_cvtss_f32(_mm_sqrt_ss(x)),
                         std::fma(a, b, a),
                         std::fabs(a),
                         std::copysign(a, b),
                         _mm_cvtss_f32(_mm_sub_ss(x, y))};
  });
}

TEST_CASE("a device's functions of fp64 are the processor's instructions at every pair of edges",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  check_values<double>([](double a, double b) {
    __m128d const x = _mm_set_sd(a), y = _mm_set_sd(b);
    return Values<double>{_mm_cvtsd_f64(_mm_max_sd(x, y)),
                          _mm_cvtsd_f64(_mm_min_sd(x, y)),
                          _mm_cvtsd_f64(_mm_div_sd(x, y)),
                          _mm_cvtsd_f64(_mm_sqrt_sd(x, x)),
                          std::fma(a, b, a),
                          std::fabs(a),
                          std::copysign(a, b),
                          _mm_cvtsd_f64(_mm_sub_sd(x, y))};
  });
}
#endif

TEST_CASE("elementwise ops on the device take every pair of edges as the CPU does",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  Shape const x{64, 150};
  for (double const factor : {1.0, 0.0, -1.0, 0x1p-140, 1e300, HUGE_VAL}) {
    std::vector<OpCase> all{op_case<ops::Add>({.alpha = factor, .beta = 1}, {x, x, x}),
                            op_case<ops::Scale>({.alpha = factor}, {x, x}),
                            op_case<ops::AddFiber>({.axis = 1, .alpha = factor}, {x, {150}, x}),
                            op_case<ops::AddSlice>({.axis = 1, .alpha = factor}, {x, {64}, x}),
                            op_case<ops::Fill>({.value = factor}, {x})};
    if (factor == 1) {
      all.push_back(op_case<ops::Gelutanh>({}, {x, x}));
      all.push_back(op_case<ops::GelutanhBackward>({}, {x, x, x}));
      all.push_back(op_case<ops::Copy>({}, {x, x}));
    }
    for (OpCase& c : all) {
      c.prepare = set_edges;
      CHECK(check_bits(c) > 3);
    }
  }
}

TEST_CASE("rows of edges on the device have the CPU's maxima, sums and quotients",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  for (Index const n : {1, 2, 70}) {
    OpCase const all[] = {op_case<ops::Softmax>({}, {{n, 200}, {n, 200}}),
                          op_case<ops::SoftmaxBackward>({}, {{n, 200}, {n, 200}, {n, 200}}),
                          op_case<ops::SumSlice>({.axis = 0, .beta = 1}, {{n, 200}, {200}}),
                          op_case<ops::SumSlice>({.axis = 1, .beta = 1}, {{200, n}, {200}}),
                          op_case<ops::Argmax>({}, {{n, 200}, {200}}),
                          op_case<ops::SumSquares>({}, {{n, 200}, {200}}),
                          op_case<ops::LayerNorm>({}, {{n, 200}, {n}, {n}, {n, 200}, {200}, {200}}),
                          op_case<ops::Gemm>({.beta = 1}, {{n, 40}, {40, 30}, {n, 30}})};
    for (OpCase c : all) {
      c.prepare = set_edges;
      check_bits(c);
      c.prepare = [](std::vector<Array>& x) {  // zeros alone: the sign of a maximum
        for (Array& each : x)
          if (is_float(each.dtype))
            for (Index i = 0; i < each.count(); ++i) each.set(i, i % 3 == 0 ? 0.0 : -0.0);
      };
      check_bits(c);
    }
  }
}

TEST_CASE("global_norm_add rounds once on the device as on the CPU", "[ops][simt_edges]") {
  if (!comparable()) return;
  OpCase c = op_case<ops::GlobalNormAdd>({.beta = 1 + 0x1p-30}, {{}, {}});
  c.prepare = [](std::vector<Array>& x) { set_all(x[0], -1), set_all(x[1], 1 - 0x1p-30); };
  CHECK(check_bits(c) == 1);
}

TEST_CASE("a step of AdamW on the device divides and takes roots of edges as the CPU does",
          "[ops][simt_edges]") {
  if (!comparable()) return;
  Shape const x{64, 150};
  OpCase c = op_case<ops::AdamwStep>({}, {x, x, x, x, {}, {}});
  for (double const step : {1.0, 1e6}) {
    c.prepare = [=](std::vector<Array>& operands) {
      set_edges(operands);
      operands[4].set(0, 1e-3);
      operands[5].set(0, step);
    };
    CHECK(check_bits(c) > 2);
  }
}
