// SPDX-License-Identifier: BSD-3-Clause
// Sets of bytes, against arrays with a flag a byte.
#include "nntile/runtime/support/byte_set.hh"

#include <random>

#include "tests/core/regions.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;
using support::ByteSet;

TEST_CASE("a set of bytes loses the regions that are taken out", "[runtime][byte_set]") {
  std::minstd_rand random(3);
  for (int i = 0; i < 300; ++i) {
    Region const first = normalize(draw(random));
    ByteSet set(first);
    Bytes bytes = bytes_of(first);
    for (int j = 0; j < 12; ++j) {
      Region const region = normalize(draw(random));
      REQUIRE(set.meets(region) == (bytes & bytes_of(region)).any());
      REQUIRE(set.empty() == bytes.none());
      set.subtract(region);
      bytes &= ~bytes_of(region);
    }
  }
}
