// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/tile/elements.hh"

#include <span>

#include "tests/support/catch.hh"

using namespace nntile;

TEMPLATE_TEST_CASE("elements of each type are an array, and become a vector", "[tile][elements]",
                   float, bool) {
  detail::Elements<TestType> elements(3);
  std::span<TestType> const array(elements);
  array[1] = TestType(1);
  std::vector<TestType> const values = detail::vector_of(std::move(elements));
  CHECK(values == std::vector<TestType>{TestType(0), TestType(1), TestType(0)});
}
