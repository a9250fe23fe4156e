// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/ring/pto_addresses.hh"

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/catch.hh"

using nntile::detail::pto::AddressMap;
using nntile::detail::pto::Block;
using nntile::detail::pto::Origin;

namespace {

constexpr std::uintptr_t unit = 64;  // spans are of whole units: no gap is taken for rounding
constexpr int units = 40;
constexpr int nothing = -1, over = -2;

Block block(std::uintptr_t begin, std::size_t bytes, Origin origin = Origin::allocated) {
  Block result;
  result.begin = begin;
  result.bytes = bytes;
  result.origin = origin;
  return result;
}

/// What the map should say of each unit: nothing, over, or a block's index.
void check(AddressMap const& map, std::vector<int> const& truth) {
  for (int first = 0; first < units; ++first) {
    int at = first;
    while (at < units && truth[static_cast<std::size_t>(at)] == nothing) ++at;
    auto const begin = unit * static_cast<std::uintptr_t>(first + 1);
    auto const* const range =
        map.overlapping(begin, unit * (units - static_cast<std::size_t>(first)));
    REQUIRE((range == nullptr) == (at == units));
    if (range == nullptr) continue;
    int const expected = truth[static_cast<std::size_t>(at)];
    CHECK(range->block ==
          (expected == over ? AddressMap::ended : static_cast<std::uint32_t>(expected)));
    CHECK(range->begin <= unit * static_cast<std::uintptr_t>(at + 1));
    CHECK(range->end >= unit * static_cast<std::uintptr_t>(at + 2));
    CHECK((at == first ||
           map.overlapping(begin, unit * static_cast<std::size_t>(at - first)) == nullptr));
  }
}
/// The same of the first block behind each unit, whatever has ended before it.
void check_live(AddressMap const& map, std::vector<int> const& truth) {
  for (int first = 0; first < units; ++first) {
    int at = first;
    while (at < units && truth[static_cast<std::size_t>(at)] < 0) ++at;
    auto const begin = unit * static_cast<std::uintptr_t>(first + 1);
    auto const* const range = map.live_in(begin, unit * (units - static_cast<std::size_t>(first)));
    REQUIRE((range == nullptr) == (at == units));
    if (range == nullptr) continue;
    CHECK(range->block == static_cast<std::uint32_t>(truth[static_cast<std::size_t>(at)]));
    CHECK((at == first ||
           map.live_in(begin, unit * static_cast<std::size_t>(at - first)) == nullptr));
  }
}

}  // namespace

TEST_CASE("a map of addresses says what an array of bytes does", "[runtime][pto_addresses]") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    AddressMap map;
    std::vector<int> truth(units, nothing);
    std::vector<AddressMap::Index> live;
    for (int i = 0; i < 150; ++i) {
      if (live.empty() || below(2) == 0) {
        std::size_t const first = below(units),
                          count = 1 + below(units - first < 5 ? units - first : 5);
        bool free = true;
        for (std::size_t u = first; u < first + count; ++u) free = free && truth[u] < 0;
        if (!free) continue;
        live.push_back(map.add(block(unit * (first + 1), unit * count)));
        map.keep();
        for (std::size_t u = first; u < first + count; ++u)
          truth[u] = static_cast<int>(live.back());
      } else {
        std::size_t const which = below(live.size());
        bool const ends = below(3) != 0;
        for (int& u : truth)
          if (u == static_cast<int>(live[which])) u = ends ? over : nothing;
        ends ? map.end(live[which]) : map.remove(live[which]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      check(map, truth);
      check_live(map, truth);
    }
  }
}

TEST_CASE("what has ended side by side is one range", "[runtime][pto_addresses]") {
  AddressMap map;
  std::vector<AddressMap::Index> blocks;
  for (std::uintptr_t i = 0; i < 1000; ++i) blocks.push_back(map.add(block(6400 + 64 * i, 40)));
  auto const far = map.add(block(1000000, 64));
  CHECK(map.ranges() == 1001);
  for (std::size_t i = 0; i < 1000; i += 2) map.end(blocks[i]);
  CHECK(map.ranges() == 1001);
  for (std::size_t i = 1; i < 1000; i += 2) map.end(blocks[i]);
  CHECK(map.ranges() == 2);
  map.end(far);
  CHECK(map.ranges() == 2);
  auto const whole = map.add(block(6400, 64 * 1000));
  CHECK(map.ranges() == 2);
  CHECK(map[whole].bytes == 64000);
}

TEST_CASE("what lies between two variables of the caller's has not ended with them",
          "[runtime][pto_addresses]") {
  for (Origin const first : {Origin::allocated, Origin::adopted, Origin::noticed})
    for (Origin const third : {Origin::adopted, Origin::noticed}) {
      AddressMap map;
      AddressMap::Index const ends[] = {map.add({1000, 8, {}, first}),
                                        map.add({1016, 8, {}, third}),
                                        map.add({1024, 8, {}, first})};
      for (AddressMap::Index const index : ends) map.end(index);
      CHECK(map.overlapping(1008, 8) == nullptr);
      CHECK(map.ranges() == 2);  // the others touch
      map.end(map.add({1040, 8, {}, Origin::allocated}));
      CHECK(map.overlapping(1032, 8) == nullptr);
    }
}

TEST_CASE("buffers that are removed since they were added leave ended what had ended before",
          "[runtime][pto_addresses]") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    AddressMap map;
    std::vector<int> truth(units, nothing);
    for (int round = 0; round < 30; ++round) {
      std::size_t const before = map.ranges();
      std::vector<int> const kept = truth;
      bool const stays = below(3) == 0;
      std::vector<AddressMap::Index> made;
      for (std::size_t i = 0; i < 4; ++i) {
        std::size_t const first = below(units - 8), count = 1 + below(8);
        bool free = true;
        for (std::size_t u = first; u < first + count; ++u) free = free && truth[u] < 0;
        if (!free) continue;
        made.push_back(map.add(block(unit * (first + 1), unit * count)));
        for (std::size_t u = first; u < first + count; ++u)
          truth[u] = static_cast<int>(made.back());
      }
      if (stays) {
        map.keep();
        for (AddressMap::Index const index : made)
          if (below(4) != 0) {
            map.end(index);
            for (int& u : truth)
              if (u == static_cast<int>(index)) u = over;
          }
      } else {
        for (std::size_t i = made.size(); i-- > 0;) map.remove(made[i]);
        truth = kept;
        CHECK(map.ranges() == before);
      }
      check(map, truth);
      check_live(map, truth);
    }
  }
}

TEST_CASE("buffers of one origin are removed while they are listed", "[runtime][pto_addresses]") {
  AddressMap map;
  for (std::uintptr_t i = 0; i < 10; ++i)
    map.add(block(1000 + 100 * i, 50, i % 3 == 0 ? Origin::adopted : Origin::noticed));
  int count = 0;
  map.each(Origin::noticed, [&](AddressMap::Index index) {
    map.remove(index);
    ++count;
  });
  CHECK(count == 6);
  CHECK(map.ranges() == 4);
  CHECK(map.overlapping(1000, 1)->begin == 1000);
  CHECK(map.overlapping(1100, 200) == nullptr);
}
