// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/cast.hh"

#include <cmath>
#include <cstring>
#include <limits>

#include "nntile/ops/kernel.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;

template <class To, class From>
std::vector<To> cast_all(std::vector<From> const& x, Isa isa = Isa::best) {
  Codelet const* const kernel = kernels::find("cast", dtype_of<To>, dtype_of<From>, Mode::exact, isa);
  REQUIRE(kernel != nullptr);
  std::vector<To> y(x.size());
  ops::Cast::Args const args{static_cast<Index>(x.size())};
  void* const buffers[] = {const_cast<From*>(x.data()), y.data()};
  CHECK(kernel->cpu({buffers, &args, nullptr}).ok());
  return y;
}

/// The 16-bit number nearest to x, ties to even, found by looking at all of them.
template <class T>
std::uint16_t nearest(long double x) {
  std::uint16_t best = 0;
  long double least = INFINITY;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    T value;
    value.bits = static_cast<std::uint16_t>(bits);
    auto const wide = static_cast<float>(value);
    if (!std::isfinite(wide) || std::signbit(wide) != std::signbit(x)) continue;
    long double const error = std::fabs(static_cast<long double>(wide) - x);
    if (error < least || (error == least && bits % 2 == 0)) least = error, best = static_cast<std::uint16_t>(bits);
  }
  return best;
}

}  // namespace

TEST_CASE("every dtype is cast to every other", "[ops][cast]") {
  for (Isa const isa : test::instruction_sets())
    for (int to = 0; to < dtype_count; ++to)
      for (int from = 0; from < dtype_count; ++from) {
        INFO(name_of(static_cast<DType>(from)) << " to " << name_of(static_cast<DType>(to)));
        CHECK(kernels::find("cast", static_cast<DType>(to), static_cast<DType>(from), Mode::exact, isa) != nullptr);
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

TEST_CASE("fp64 is rounded to 16 bits once", "[ops][cast]") {
  // Just above and below ties, where a stop at fp32 would round to the tie first.
  std::vector<double> x;
  for (double const tie : {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-11, 3 * 0x1p-25, 65519.0})
    for (double const sign : {1.0, -1.0})
      for (double const off : {-0x1p-40, 0.0, 0x1p-40}) x.push_back(sign * tie * (1 + off));
  auto const brain = cast_all<bf16_t>(x);
  auto const half = cast_all<fp16_t>(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    CHECK(brain[i].bits == nearest<bf16_t>(x[i]));
    CHECK(half[i].bits == nearest<fp16_t>(x[i]));
  }
}

TEST_CASE("large integers are rounded to bf16 once", "[ops][cast]") {
  std::vector<std::int64_t> x;
  for (int shift = 20; shift < 62; ++shift)
    for (std::int64_t const off : {-1, 0, 1})
      for (std::int64_t const mantissa : {0x101, 0x103}) x.push_back((mantissa << (shift - 8)) + off);
  auto const got = cast_all<bf16_t>(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    CHECK(got[i].bits == nearest<bf16_t>(static_cast<long double>(x[i])));
  }
}

TEST_CASE("floats are cut towards zero to integers", "[ops][cast]") {
  float const big = 1e30f;
  std::vector<float> const x{1.9f, -1.9f, 0.0f, big, -big, std::numeric_limits<float>::quiet_NaN()};
  auto const lowest = std::numeric_limits<std::int64_t>::min();
  CHECK(cast_all<std::int64_t>(x) == std::vector<std::int64_t>{1, -1, 0, lowest, lowest, lowest});
  auto const truth = cast_all<std::int32_t>(cast_all<std::int64_t>(std::vector<float>{5, -7}));
  CHECK(truth == std::vector<std::int32_t>{5, -7});
}
