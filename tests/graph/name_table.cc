// SPDX-License-Identifier: BSD-3-Clause

#include "nntile/graph/name_table.hh"

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "tests/support/catch.hh"

using nntile::NameTable;

TEST_CASE("a table of names finds what was added, and nothing else", "[graph][name_table]") {
  NameTable table;
  CHECK(table.find("x") == nullptr);
  CHECK_FALSE(table.contains("x"));
  table.erase("x");
  CHECK(table.add("x", 7) == 7);
  CHECK(table.add("", 8) == 8);
  ++*table.find("x");
  CHECK(*table.find("x") == 8);
  CHECK(*table.find("") == 8);
  CHECK(table.find("y") == nullptr);
  NameTable const copy = table;
  table.erase("x");
  CHECK_FALSE(table.contains("x"));
  CHECK(copy.contains("x"));
}

TEST_CASE("a name that is given up for another is free", "[graph][name_table]") {
  NameTable table;
  for (std::uint32_t i = 0; i < 8; ++i) table.add(std::to_string(i), i);  // as many as fit
  table.rename("3", "x");
  CHECK_FALSE(table.contains("3"));
  CHECK(*table.find("x") == 3);
  table.add("3", 9);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(*table.find(std::to_string(i)) == (i == 3 ? 9 : i));
}

TEST_CASE("a table of names does as a map does, whatever is added and erased",
          "[graph][name_table]") {
  std::mt19937 random(1);
  NameTable table;
  std::map<std::string, std::uint32_t> map;
  for (std::uint32_t step = 0; step < 20000; ++step) {
    // Few names beside many: the table is filled, emptied and grows.
    std::string const name = std::to_string(random() % (step < 10000 ? 40 : 900));
    if (random() % 2 == 0) {
      table.erase(name);
      map.erase(name);
    } else if (!map.contains(name)) {
      table.add(name, step);
      map.emplace(name, step);
    }
    if (step % 64 != 0) continue;
    std::size_t found = 0;
    for (int n = 0; n < 900; ++n) {
      std::string const each = std::to_string(n);
      std::uint32_t const* const number = table.find(each);
      bool const agrees =
          map.contains(each) ? number != nullptr && *number == map.at(each) : number == nullptr;
      found += agrees;
    }
    REQUIRE(found == 900);
  }
}
