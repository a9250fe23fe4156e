// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/nan.hh"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/catch.hh"

namespace {

using namespace nntile;

/// How many of the 2^16 patterns of a format are not compared by the bits that they should.
template <class T> int wrong_words() {
  int wrong = 0;
  for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
    T value;
    value.bits = static_cast<std::uint16_t>(pattern);
    unsigned const expected =
        std::isnan(static_cast<float>(value)) ? T(std::nanf("")).bits : pattern;
    wrong += comparable_bits(value) == expected ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("every NaN of a 16-bit format is compared as one, and nothing else is", "[core][nan]") {
  CHECK(wrong_words<bf16_t>() == 0);
  CHECK(wrong_words<fp16_t>() == 0);
}

TEST_CASE("NaNs of fp32 and fp64 are compared as one whatever their sign and payload",
          "[core][nan]") {
  CHECK(comparable_bits(std::bit_cast<float>(0xff800001u)) == 0x7fc00000u);
  CHECK(comparable_bits(std::bit_cast<float>(0x7fffffffu)) == 0x7fc00000u);
  CHECK(comparable_bits(std::bit_cast<float>(0xff800000u)) == 0xff800000u);
  CHECK(comparable_bits(-0.0f) == 0x80000000u);
  CHECK(comparable_bits(std::bit_cast<double>(0xfff0000000000001u)) == 0x7ff8000000000000u);
  CHECK(comparable_bits(-std::numeric_limits<double>::infinity()) == 0xfff0000000000000u);
}

TEST_CASE("integers have no NaN", "[core][nan]") {
  CHECK(comparable_bits(std::int32_t{0x7fc00001}) == 0x7fc00001u);
  std::vector<std::int64_t> values{-1, 0x7ff8000000000001};
  auto const before = values;
  unify_nans(DType::int64, std::as_writable_bytes(std::span(values)));
  CHECK(values == before);
}

TEST_CASE("unifying NaNs leaves other elements as they are", "[core][nan]") {
  std::vector<float> values{1, std::bit_cast<float>(0xffc01234u), -0.0f, INFINITY};
  unify_nans(DType::fp32_fast_bf16, std::as_writable_bytes(std::span(values)));
  CHECK(std::bit_cast<std::uint32_t>(values[1]) == 0x7fc00000u);
  CHECK(values[0] == 1);
  CHECK(std::signbit(values[2]));
  CHECK(values[3] == INFINITY);
}
