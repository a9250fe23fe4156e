// SPDX-License-Identifier: BSD-3-Clause
// Ranks of several places each.
#include <vector>

#include "nntile/nn/gpt2.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/run_parts.hh"
#include "tests/comm/train_part.hh"
#include "tests/support/places.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("ranks with devices train as one rank on the host does", "[comm][places]") {
  std::vector<AxisGroups> const groups = {{"batch", 4}};
  LocalOptions const late{.seed = 3, .most_delay = 5};
  auto const train = [&]<class R>(R*, std::vector<MeshAxis> const& mesh,
                                  std::vector<ShardRule> const& rules,
                                  std::vector<PlaceRule> const& places, bool by_phase) {
    return run_parts<R>(mesh, late, [&](TensorStore<R>& store) {
      return train_part(store, mesh, rules, groups, by_phase, BatchStorage::copied, places);
    });
  };
  Tiles const one = train(static_cast<Serial*>(nullptr), {}, {}, {}, false);
  std::vector<PlaceRule> const all{{.place = device(0)}};
  std::vector<PlaceRule> const states{{.role = Role::state}, {.place = device(0)}};
  Places<Ring>* const devices = nullptr;
  CHECK(train(devices, {{"data", 3}}, zero1(), all, false) == one);
  CHECK(train(devices, {{"data", 2}}, fsdp(), states, true) == one);
  CHECK(train(devices, {{"tensor", 2}, {"data", 2}}, product({tensor_parallel(), ddp()}), states,
              false) == one);
}
