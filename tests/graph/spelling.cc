// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/spelling.hh"
#include "nntile/core/dynamic_array.hh"

#include "tests/support/catch.hh"

using namespace nntile;

TEST_CASE("the distance of two names counts what must be typed", "[graph][spelling]") {
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("Output", "output") == 0);
}

TEST_CASE("the nearest names are proposed, and none that is far", "[graph][spelling]") {
  DynamicArray<std::string_view> const names{"h.0.w", "h.1.w", "h.2.w", "h.3.w", "loss", "x"};
  CHECK(did_you_mean("los", names) == "; did you mean 'loss'?");
  CHECK(did_you_mean("X", names) == "; did you mean 'x'?");
  CHECK(did_you_mean("h.4.w", names) == "; did you mean 'h.0.w' or 'h.1.w' or 'h.2.w'?");
  CHECK(did_you_mean("weight", names) == "");
  CHECK(did_you_mean("", names) == "");
  CHECK(did_you_mean(std::string(201, 'x'), names) == "");
}
