// SPDX-License-Identifier: BSD-3-Clause

#include "nntile/graph/name_list.hh"

#include <string>
#include <vector>

#include "tests/support/catch.hh"

using nntile::NameList;

TEST_CASE("names of a list have the places at which they came", "[graph][name_list]") {
  NameList list("a");
  CHECK(list.place("a") == 0);
  CHECK(list.place("b") == 1);
  CHECK(list.place("") == 2);
  CHECK(list.place("b") == 1);
  CHECK(list.names() == std::vector<std::string>{"a", "b", ""});
}

TEST_CASE("a name that was cut off a list comes anew", "[graph][name_list]") {
  NameList list("a");
  for (char const* const name : {"b", "c", "d"}) list.place(name);
  list.cut(2);
  CHECK(list.place("d") == 2);  // where another name was
  CHECK(list.place("c") == 3);
  CHECK(list.place("b") == 1);
  list.cut(1);
  CHECK(list.place("a") == 0);
  CHECK(list.names() == std::vector<std::string>{"a"});
}
