// SPDX-License-Identifier: BSD-3-Clause
// Comparisons say what differs, and by how much.
#include "nntile/testing/compare.hh"

#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "tests/support/catch.hh"
#include "tests/support/message.hh"

namespace {

using namespace nntile;
using testing::bit_difference;
using testing::distance;
using testing::error_beyond;
using testing::ulp_distance;

template <class T> std::span<T const> span_of(std::vector<T> const& values) { return values; }

/// Has what a tensor is compared by.
struct Sample {
  Shape extents;
  std::vector<float> values;
  Shape shape() const { return extents; }
  std::vector<float> read() const { return values; }
};

}  // namespace

TEST_CASE("equal bits have no difference", "[testing][compare]") {
  std::vector<float> const values{1.0f, -0.0f, NAN};
  CHECK(bit_difference(span_of(values), span_of(values)).empty());
  CHECK(bit_difference<float>({}, {}).empty());
}

TEST_CASE("a difference names element, values, bits and count", "[testing][compare]") {
  std::vector<float> const seen{0, 0, 0, 0.5f, 0, 7}, expected{0, 0, 0, 0.25f, 0, 0};
  CHECK(bit_difference(span_of(seen), span_of(expected), {2, 3}) ==
        "element {1, 1} is 0.5 (bits 3f000000) where 0.25 (bits 3e800000) is expected; 2 of 6 "
        "differ");
}

TEST_CASE("zeros of different signs differ in bits and not in ulps", "[testing][compare]") {
  std::vector<double> const plus{0.0}, minus{-0.0};
  CHECK_FALSE(bit_difference(span_of(plus), span_of(minus)).empty());
  CHECK(ulp_distance(0.0, -0.0) == 0);
}

TEST_CASE("a difference in size is reported", "[testing][compare]") {
  std::vector<std::int64_t> const three{1, 2, 3}, two{1, 2};
  CHECK(bit_difference(span_of(three), span_of(two)) == "3 elements where 2 are expected");
}

TEST_CASE("ulps count the values between", "[testing][compare]") {
  CHECK(ulp_distance(1.0f, std::nextafter(1.0f, 2.0f)) == 1);
  CHECK(ulp_distance(std::nextafter(0.0f, -1.0f), std::nextafter(0.0f, 1.0f)) == 2);
  CHECK(ulp_distance(bf16_t(1.0f), bf16_t(2.0f)) == 128);
  CHECK(ulp_distance(fp16_t(1.0f), fp16_t(2.0f)) == 1024);
  CHECK(ulp_distance(-std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::infinity()) == 0xffe0000000000000u);
}

TEST_CASE("NaN is equal to NaN alone", "[testing][compare]") {
  CHECK(ulp_distance(NAN, NAN) == 0);
  CHECK(ulp_distance(NAN, 1.0f) == UINT64_MAX);
  std::vector<float> const seen{NAN};
  std::vector<double> const nan{NAN}, one{1.0};
  CHECK(distance(span_of(seen), span_of(nan)).relative == 0);
  CHECK(std::isinf(distance(span_of(seen), span_of(one)).relative));
}

TEST_CASE("NaNs differ neither by sign nor by payload, and from every number",
          "[testing][compare]") {
  std::vector<float> const one{NAN}, other{std::bit_cast<float>(0xff812345u)}, number{1};
  CHECK(bit_difference(span_of(one), span_of(other)).empty());
  CHECK_FALSE(bit_difference(span_of(one), span_of(number)).empty());
}

TEST_CASE("errors are relative to the expected value or the floor", "[testing][compare]") {
  std::vector<float> const seen{2.5f, 0.125f};
  std::vector<double> const expected{2.0, 0.0};
  auto const found = distance(span_of(seen), span_of(expected), 0.25);
  CHECK(found.absolute == 0.5);
  CHECK(found.relative == 0.5);
  CHECK(found.worst == 1);
}

TEST_CASE("a floor that would hide every error is refused", "[testing][compare]") {
  std::vector<float> const seen{2.5f};
  std::vector<double> const expected{2.0};
  for (double const floor : {HUGE_VAL, std::nan(""), -1.0})
    CHECK(test::contains(test::message_of<ValueError>([&] {
                           error_beyond(1e-6, span_of(seen), span_of(expected), {}, floor);
                         }),
                         "distance: a floor of "));
  CHECK_FALSE(error_beyond(1e-6, span_of(seen), span_of(expected), {}, 0).empty());
}

TEST_CASE("an infinity is as good as the same infinity only", "[testing][compare]") {
  std::vector<float> const seen{INFINITY};
  std::vector<double> const same{INFINITY}, other{-INFINITY}, finite{1e30};
  CHECK(distance(span_of(seen), span_of(same)).relative == 0);
  CHECK(std::isinf(distance(span_of(seen), span_of(other)).relative));
  CHECK(std::isinf(distance(span_of(seen), span_of(finite)).relative));
  std::vector<double> const beyond{1e39}, beyond_other{-1e39};  // infinite in fp32
  CHECK(distance(span_of(seen), span_of(beyond)).relative == 0);
  CHECK(std::isinf(distance(span_of(seen), span_of(beyond_other)).relative));
}

TEST_CASE("an error beyond the tolerance names the worst element", "[testing][compare]") {
  std::vector<float> const seen{1.0f, 1.5f};
  std::vector<double> const expected{1.0, 1.0};
  CHECK(error_beyond(0.5, span_of(seen), span_of(expected)).empty());
  CHECK(error_beyond(1e-6, span_of(seen), span_of(expected), {1, 2}) ==
        "element {0, 1} is 1.5 where 1 is expected: relative error 0.5 (4194304 ulp at most), "
        "allowed 1e-06");
}

TEST_CASE("tensors are compared by shape, then by bits", "[testing][compare]") {
  Sample const a{{2}, {1, 2}}, b{{1, 2}, {1, 2}}, c{{2}, {1, 3}};
  CHECK(bit_difference(a, a).empty());
  CHECK(bit_difference(a, b) == "shape {2} where {1, 2} is expected");
  CHECK(bit_difference(a, c).find("element {1} is 2") == 0);
}
