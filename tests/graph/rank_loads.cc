// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/passes/rank_loads.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tests/support/catch.hh"

using namespace nntile;
using passes::MeshShape;
using passes::RankLoads;

TEST_CASE("a mesh outlives the axes that it was made of", "[graph][parts]") {
  std::vector<MeshAxis> axes{{"data", 3}, {"tensor", 2}};
  MeshShape const mesh(axes);
  axes = {{"pipe", 4}, {"data", 5}};
  CHECK(mesh.find("tensor") == 1);
  CHECK(mesh.axis(0).size == 3);
  CHECK(mesh.coordinate(5, 0) == 2);
}

TEST_CASE("equal tiles are dealt out to each rank once, then again", "[graph][parts]") {
  for (int size = 1; size <= 70; ++size) {
    std::vector<MeshAxis> const axes{{"data", size}};
    MeshShape const mesh(axes);
    RankLoads loads(mesh);
    loads.begin(0);
    for (int round = 0; round < 2; ++round) {
      std::set<int> dealt;
      for (int i = 0; i < size; ++i) dealt.insert(loads.deal({}, 0, 100));
      CHECK(static_cast<int>(dealt.size()) == size);
    }
  }
}

TEST_CASE("tiles that are dealt out one after another lie on different nodes", "[graph][parts]") {
  for (int const size : {64, 96, 512, 1000, 1024})
    for (int const node : {4, 8}) {
      std::vector<MeshAxis> const axes{{"data", size}};
      MeshShape const mesh(axes);
      RankLoads loads(mesh);
      loads.begin(0);
      std::vector<int> dealt;
      for (int i = 0; i < size; ++i) dealt.push_back(loads.deal({}, 0, 100));
      // A layer's tiles, a dozen or as many as there are nodes: a node has at most two of them.
      auto const many = static_cast<std::size_t>(std::min(12, size / node));
      for (std::size_t first = 0; first + many <= dealt.size(); ++first) {
        std::map<int, int> of_node;
        for (std::size_t i = first; i < first + many; ++i) ++of_node[dealt[i] / node];
        for (auto const& [number, tiles] : of_node) CHECK(tiles <= 2);
      }
    }
}

TEST_CASE("who has least is dealt to before whose turn it is", "[graph][parts]") {
  std::vector<MeshAxis> const axes{{"data", 5}, {"tensor", 2}};
  MeshShape const mesh(axes);
  RankLoads loads(mesh);
  for (int rank = 0; rank < mesh.ranks(); ++rank) loads.add(rank, rank == 4 ? 1 : 50);
  loads.add({}, 1, 1, 10);  // who has tensor coordinate 1
  loads.begin(0);
  RankBox first;
  first.at[1] = 0;
  std::vector<std::int16_t> dealt;
  for (int i = 0; i < 6; ++i) dealt.push_back(loads.deal(first, 0, 30));
  CHECK(dealt[0] == dealt[1]);  // 1, 31, then 61, and the others have 50
  CHECK(std::set<std::int16_t>(dealt.begin() + 2, dealt.end()).size() == 4);
  CHECK(std::count(dealt.begin(), dealt.end(), dealt[0]) == 2);
}

TEST_CASE("a mesh of several axes deals along one of them as a line does", "[graph][parts]") {
  std::vector<MeshAxis> const one{{"data", 12}}, two{{"data", 12}, {"tensor", 2}};
  MeshShape const line(one), mesh(two);
  RankLoads along(line), across(mesh);
  along.begin(0);
  across.begin(0);
  CHECK(along.deal({}, 0, 100) == 0);
  CHECK(across.deal({}, 0, 100) == 0);
  for (int i = 1; i < 30; ++i) CHECK(along.deal({}, 0, 100) == across.deal({}, 0, 100));
}
