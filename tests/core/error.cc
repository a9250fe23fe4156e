// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/error.hh"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/support/catch.hh"

using namespace nntile;

TEST_CASE("concat joins text, characters and numbers", "[core][error]") {
  CHECK(concat() == "");
  CHECK(concat("k=", 512, " ('", std::string("h1"), "')") == "k=512 ('h1')");
  CHECK(concat('a', std::string_view("bc"), 'd') == "abcd");
}

TEST_CASE("concat writes the extremes of every integer", "[core][error]") {
  CHECK(concat(INT64_MIN) == "-9223372036854775808");
  CHECK(concat(UINT64_MAX) == "18446744073709551615");
  CHECK(concat(static_cast<short>(-7)) == "-7");
}

TEST_CASE("concat writes six digits of a double", "[core][error]") {
  CHECK(concat(0.5) == "0.5");
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(concat(nan, ' ', -nan, ' ', -std::numeric_limits<double>::infinity()) == "nan nan -inf");
  CHECK(concat(1.0 / 3.0) == "0.333333");
  CHECK(concat(1e300) == "1e+300");
  CHECK(concat(std::numeric_limits<double>::infinity()) == "inf");
}

TEMPLATE_TEST_CASE("every error of the library is an Error and keeps its text", "[core][error]",
                   ShapeError, TypeError, GraphError, PlanError, LifetimeError, OutOfMemory,
                   FormatError, CommError, ValueError) {
  try {
    throw TestType("gemm: a[k]=512");
  } catch (Error const& error) {
    CHECK(std::string(error.what()) == "gemm: a[k]=512");
  }
  CHECK_THROWS_AS(throw TestType("x"), std::runtime_error);
}

TEST_CASE("a TaskError has the task and whether it was cancelled", "[core][error]") {
  TaskError const error("gelu failed", 12, true);
  CHECK(error.sequence() == 12);
  CHECK(error.cancelled());
  CHECK(std::string(error.what()) == "gelu failed");
}
