// SPDX-License-Identifier: BSD-3-Clause
// Regions, against arrays with a flag a byte.
#include "nntile/core/region.hh"

#include <random>

#include "tests/core/regions.hh"
#include "tests/support/catch.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// Taken literally, by the formula.
Bytes bytes_by_formula(Region const& region) {
  Bytes bytes;
  bytes.set(0);
  for (auto const& step : region.steps) {
    Bytes repeated;
    for (std::size_t i = 0; i < step.count; ++i) repeated |= bytes << (i * step.stride);
    bytes = repeated;
  }
  Bytes run;
  for (std::size_t b = 0; b < region.bytes; ++b) run |= bytes << b;
  return run << region.offset;
}

}  // namespace

TEST_CASE("a normalized region has the same bytes", "[core][region]") {
  std::minstd_rand random(1);
  for (int i = 0; i < 3'000; ++i) {
    Region const region = draw(random), normal = normalize(region);
    CHECK(bytes_by_formula(region) == bytes_by_formula(normal));
    CHECK(bytes_of(region) == bytes_by_formula(region));
    CHECK(bytes_of(normal) == bytes_by_formula(normal));
    CHECK(normalize(normal) == normal);
  }
  CHECK(normalize({8, 16, {{4, 16}, {1, 3}, {2, 64}}}) == Region{8, 128, {}});
  CHECK(normalize({8, 4, {{2, 64}, {4, 16}}}) == Region{8, 4, {{8, 16}}});
}

TEST_CASE("overlap is exact, and what covers has all bytes", "[core][region]") {
  std::minstd_rand random(2);
  int meets = 0, parts = 0, found = 0;
  for (int i = 0; i < 20'000; ++i) {
    Region const a = normalize(draw(random)), b = normalize(draw(random));
    Bytes const in_a = bytes_of(a), in_b = bytes_of(b);
    bool const expected = (in_a & in_b).any();
    REQUIRE(overlap(a, b) == expected);
    REQUIRE(overlap(b, a) == expected);
    meets += expected;
    bool const all = b.bytes != 0 && (in_b & ~in_a).none();
    if (b.bytes == 0) continue;
    parts += all;
    bool const covered = covers(a, b);
    found += covered;
    if (covered) REQUIRE(all);
    REQUIRE(covers(b, b));
  }
  CHECK(meets > 2'000);
  CHECK(parts > 300);
  CHECK(found > parts * 9 / 10);
}

TEST_CASE("parts of one matrix are told apart exactly", "[core][region]") {
  // Columns of 1,000 doubles of a matrix of leading dimension 4,096.
  auto const tile = [](std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
    return normalize({8 * (row + 4096 * column), 8 * rows, {{columns, 8 * 4096}}});
  };
  CHECK_FALSE(overlap(tile(0, 0, 1000, 4000), tile(1000, 0, 1000, 4000)));
  CHECK(overlap(tile(0, 0, 1000, 4000), tile(999, 3999, 1000, 1)));
  CHECK_FALSE(overlap(tile(0, 0, 1000, 4000), tile(0, 4000, 1000, 4000)));
  CHECK(covers(tile(0, 0, 4096, 4000), tile(1, 2, 3, 4)));
  CHECK_FALSE(covers(tile(0, 0, 4095, 4000), tile(4095, 2, 1, 4)));
  // Every second and every third column meet, and never where they are shifted apart.
  Region const even = normalize({0, 8, {{100, 16}}}), odd = normalize({8, 8, {{100, 16}}});
  CHECK_FALSE(overlap(even, odd));
  CHECK(overlap(even, normalize({8, 8, {{60, 24}}})));
  CHECK_FALSE(overlap(normalize({0, 8, {}}), normalize({0, 0, {}})));
}

TEST_CASE("a region beyond any size is a ValueError", "[core][region]") {
  CHECK_THROWS_AS(normalize({0, 8, {{std::size_t{1} << 40, std::size_t{1} << 40}}}), ValueError);
  CHECK_THROWS_AS(normalize({0, std::size_t{1} << 63, {}}), ValueError);
  CHECK(span_of({0, 8, {{3, 100}, {0, 7}}}) == 0);
}
