// SPDX-License-Identifier: BSD-3-Clause
// The short form of examples/ranks.py without processes: one hash over ranks, ways to share,
// runtimes and tilings, of steps in micro-batches, in one go or resumed on another mesh.
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tests/comm/saved_training.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

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
