// SPDX-License-Identifier: BSD-3-Clause
// The short form of examples/ranks.py without processes: one hash over ranks, ways to share,
// runtimes and tilings, of steps in micro-batches, in one go or resumed on another mesh.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "nntile/graph/parts.hh"
#include "tests/comm/placed_ranks.hh"
#include "tests/comm/saved_training.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Names = std::vector<std::string>;

/// Whether a way is tried: under sanitizers every other one, so that Serial and Ring have each once
/// in one of the two test cases.
bool tries(std::size_t way) { return !sanitized || way % 2 == 1; }

/// Every axis that a preset shares out has canonical groups.
TinyGpt grouped(int accumulate) {
  TinyGpt sizes;
  sizes.batch = 4;
  sizes.config.vocab = 128;  // groups of blocks of 64
  sizes.clip = 0.1;
  sizes.accumulate = accumulate;
  sizes.numerics.groups = {{"batch", 4}, {"head", 2}, {"hidden", 2}, {"vocab", 2}, {"seq", 2}};
  return sizes;
}

std::vector<std::vector<AxisCut>> const tilings = {
    {{"batch", {1}}, {"head", {1}}},
    {{"batch", {1}}, {"head", {1}}, {"embed", {128}}, {"hidden", {192, 64}}, {"seq", {64}}}};

struct Way {
  char const* name;
  std::vector<MeshAxis> mesh;
  std::vector<ShardRule> rules;
};
std::vector<Way> ways() {
  auto const stages = pipeline({{"wte.*", "wpe.*"}, {"h.0.*", "ln_f.*"}});
  return {
      {"1 rank", {}, {}},
      {"ddp of 2", {{"data", 2}}, ddp()},
      {"ddp of 4", {{"data", 4}}, ddp()},
      {"zero1 of 3", {{"data", 3}}, zero1()},
      {"fsdp of 4", {{"data", 4}}, fsdp()},
      {"tensor 2", {{"tensor", 2}}, tensor_parallel()},
      {"sequence 2", {{"seq", 2}}, sequence_parallel()},
      {"pipeline 2", {{"pipe", 2}}, stages},
      {"tensor 2, zero1 of 2", {{"tensor", 2}, {"data", 2}}, product({tensor_parallel(), zero1()})},
      {"sequence 2, fsdp of 2", {{"seq", 2}, {"data", 2}}, product({sequence_parallel(), fsdp()})}};
}
Layout layout_of(Way const& way, std::size_t tiling) {
  Layout layout{way.mesh, way.rules};
  layout.cuts = tilings[tiling % tilings.size()];
  return layout;
}

#ifdef NNTILE_HAVE_STARPU
using Runtimes = std::tuple<Serial, Ring, StarPU>;
#else
using Runtimes = std::tuple<Serial, Ring>;
#endif

/// What one rank has, with one and with two micro-batches.
std::vector<Names> const& names_of_one() {
  static std::vector<Names> const names = [] {
    Scratch const scratch;
    std::vector<Names> result;
    for (int const micro : {1, 2})
      result.push_back(train_all<Serial>(grouped(micro), {}, scratch / concat("one", micro), 2));
    return result;
  }();
  return names;
}

/// Places of tensors, and the one that has room for little.
struct PlaceCase {
  char const* name;
  std::vector<PlaceRule> place;
  Place full = host;  // with nothing on it: no place is full
  bool cramped = false;
};
std::vector<PlaceCase> place_cases() {
  PlaceRule const all{.place = device(0)}, states{.role = Role::state},
      parameters{.role = Role::parameter}, inputs{.role = Role::input};
  return {
      {"host", {}},
      {"device", {all}},
      {"states on the host", {states, all}},
      {"kept on the host, the device full", {states, parameters, inputs, all}, device(0), true},
      {"two devices", {{.tensors = "*h.0.*", .place = device(1)}, states, all}},
      {"states on the disk", {{.role = Role::state, .place = disk}, all}},
      {"the host full", {}, host, true},
      {"the host full, states on the disk", {{.role = Role::state, .place = disk}}, host, true}};
}
/// Gives the full place the least bytes with which all ranks have room, as the errors have it.
void cramp(Layout& layout, TinyGpt const& sizes, PlaceCase const& placement) {
  TinyGptGraph const of(sizes);
  layout.place = placement.place;
  if (!placement.cramped) return;
  layout.capacity = {{placement.full, 64}};
  PlanOptions options = layout.options(sizes);
  for (int rank = 0; rank < ranks_of(layout.mesh);) try {
      if (layout.mesh.empty())
        (void)Plan(of.graph, options);
      else
        (void)Plan(of.graph, options, rank);
      ++rank;
    } catch (PlaceFull const& error) {
      INFO(error.what());
      REQUIRE(error.least > options.capacity[0].bytes);
      options.capacity[0].bytes = error.least;
      rank = 0;
    }
  layout.capacity = options.capacity;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("one hash comes out of every way to share, tiling and micro-batching",
                        "[comm][matrix]", Runtimes) {
  Scratch const scratch;
  std::vector<Names> const& expected = names_of_one();
  REQUIRE(expected[0][0].size() == 16);
  REQUIRE(expected[0] != expected[1]);
  // Ways have one and two micro-batches, and tilings, in turn, other runtimes the other ones.
  std::size_t number = std::is_same_v<TestType, Ring> ? 3 : 2;
  auto const all = ways();
  for (std::size_t w = 0; w < all.size(); ++w) {
    if (!tries(w)) continue;
    std::size_t const micro = number % 2, tiling = number / 2;
    INFO(all[w].name << ", tiling " << tiling % 2 << ", " << micro + 1 << " micro-batches");
    CHECK(train_all<TestType>(grouped(static_cast<int>(micro) + 1), layout_of(all[w], tiling),
                              scratch / concat("run", number++), 2) == expected[micro]);
  }
}

TEST_CASE("steps in micro-batches go on under any mesh, tiling and runtime with the same bits",
          "[comm][matrix]") {
  Scratch const scratch;
  auto const all = ways();
  TinyGpt const sizes = grouped(2);
  Names const whole = train_all<Serial>(sizes, {}, scratch / "whole", 3);
  CHECK(whole != train_all<Serial>(grouped(1), {}, scratch / "other", 3));
  for (std::size_t first = 0; first < all.size(); ++first) {
    if (!tries(first)) continue;
    std::size_t const second = (3 * first + 1) % all.size(), third = (7 * first + 5) % all.size();
    INFO(all[first].name << ", then " << all[second].name << ", then " << all[third].name);
    std::string const folder = scratch / concat("run", first);
    CHECK(train_all<Ring>(sizes, layout_of(all[first], first), folder, 1).size() == 1);
    CHECK(train_all<Serial>(sizes, layout_of(all[second], first + 1), folder, 2).size() == 1);
    CHECK(train_all<Ring>(sizes, layout_of(all[third], first), folder, 3) == whole);
  }
}

// NNTILE_RANDOM_TRAINING (4) says how many runs, NNTILE_RANDOM_SEED (1) from which seed on.
TEST_CASE("random runs go on under any mesh, places, tiling and runtime with the same bits",
          "[comm][matrix]") {
  Scratch const scratch;
  auto const all = ways();
  auto const places = place_cases();
  using Devices = Emulated<RingOn<EmulatedWithDisk>>;
  using Serials = Emulated<SerialOn<EmulatedWithDisk>>;
  std::map<std::string, Names> one;
  std::uint64_t const runs = setting("NNTILE_RANDOM_TRAINING", sanitized ? 1 : 4);
  std::uint64_t const begin = setting("NNTILE_RANDOM_SEED", 1);
  for (std::uint64_t seed = begin; seed < begin + runs; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    auto const below = [&](std::size_t n) { return random() % n; };
    TinyGpt sizes = grouped(1 + static_cast<int>(below(2)));
    if (below(2) == 0) sizes.config.dtype = DType::bf16;
    sizes.clip = below(2) == 0 ? 0.1 : 1;
    if (below(3) == 0) sizes.numerics.groups = {{"batch", 4}};
    std::string const kind = concat(sizes.accumulate, "-", name_of(sizes.config.dtype), "-",
                                    sizes.clip, "-", sizes.numerics.groups.size());
    if (!one.contains(kind)) one[kind] = train_all<Serial>(sizes, {}, scratch / kind, 3);
    Names const& expected = one[kind];
    REQUIRE(expected[0].size() == 16);
    sizes.open = below(2) == 0;
    std::string const folder = scratch / concat("random", seed);
    std::string trail = concat("seed ", seed, ": ", kind, sizes.open ? ", open" : "");
    for (int step = 1; step <= 3; ++step) {
      std::size_t const by_batch[] = {0, 1, 2, 3, 4, 7};  // share no other axis out
      std::size_t const way =
          sizes.numerics.groups.size() == 1 ? by_batch[below(6)] : below(all.size());
      Layout layout = layout_of(all[way], below(2));
      PlaceCase const& placement = places[below(places.size())];
      bool const serial = below(2) == 0;
      trail += concat("; ", all[way].name, ", ", placement.name, serial ? ", serial" : ", ring");
      INFO(trail);
      cramp(layout, sizes, placement);
      Names const names = serial ? train_all<Serials>(sizes, layout, folder, step)
                                 : train_all<Devices>(sizes, layout, folder, step);
      if (step == 3) CHECK(names == expected);
      REQUIRE(names.size() == 1);
    }
    if (std::getenv("NNTILE_RANDOM_TRAINING") != nullptr) std::printf("%s\n", trail.c_str());
  }
}
