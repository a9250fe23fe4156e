// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/inplace_vector.hh"

#include <numeric>
#include <string>

#include "tests/support/catch.hh"

using namespace nntile;

TEST_CASE("an inplace_vector keeps values in order of push_back", "[core][inplace_vector]") {
  inplace_vector<int, 4> values;
  CHECK(values.empty());
  values.push_back(3);
  values.push_back(5);
  CHECK(values.size() == 2);
  CHECK(values[0] == 3);
  CHECK(values.back() == 5);
}

TEST_CASE("an inplace_vector refuses a value beyond its capacity and keeps the others",
          "[core][inplace_vector]") {
  inplace_vector<int, 2> values{1, 2};
  CHECK_THROWS_AS(values.push_back(3), ShapeError);
  CHECK(values == inplace_vector<int, 2>{1, 2});
  CHECK_THROWS_AS((inplace_vector<int, 2>{1, 2, 3}), ShapeError);
}

TEST_CASE("pop_back and clear shorten an inplace_vector", "[core][inplace_vector]") {
  inplace_vector<int, 4> values{1, 2, 3};
  values.pop_back();
  CHECK(values == inplace_vector<int, 4>{1, 2});
  values.clear();
  CHECK(values.empty());
}

TEST_CASE("inplace_vectors compare by their values and not by what was popped",
          "[core][inplace_vector]") {
  inplace_vector<int, 4> values{1, 2, 3};
  values.pop_back();
  CHECK(values == inplace_vector<int, 4>{1, 2});
  CHECK_FALSE(values == inplace_vector<int, 4>{1, 2, 3});
  CHECK_FALSE(values == inplace_vector<int, 4>{1, 7});
}

TEST_CASE("an inplace_vector of equal values has them all", "[core][inplace_vector]") {
  inplace_vector<long, 8> const values(5, 7L);
  CHECK(values.size() == 5);
  CHECK(std::accumulate(values.begin(), values.end(), 0L) == 35);
}

TEST_CASE("an inplace_vector is a constant expression and trivially copied",
          "[core][inplace_vector]") {
  constexpr inplace_vector<int, 3> values{4, 5};
  static_assert(values.size() == 2 && values[1] == 5);
  static_assert(std::is_trivially_copyable_v<inplace_vector<int, 3>>);
  SUCCEED();
}
