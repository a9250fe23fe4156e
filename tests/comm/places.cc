// SPDX-License-Identifier: BSD-3-Clause
// Ranks of several places each: one rank on the host is the oracle of bits, the plan that of bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "nntile/nn/gpt2.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/placed_ranks.hh"
#include "tests/comm/random_job.hh"
#include "tests/comm/run_parts.hh"
#include "tests/comm/train_part.hh"
#include "tests/graph/scattered.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Two runs of a rank's part, one behind the other or both in flight.
template <class R>
std::vector<PlannedTraffic> run_placed(RandomParts const& parts, PlanOptions const& options,
                                       TensorStore<R>& store) {
  bool const replay = store.link().rank % 2 == 0;
  CompiledGraph<R> step = compile_any(parts.graph(), store, options, {.replay = replay});
  give_values(store);
  if constexpr (requires { store.runtime().moved; })
    store.runtime().moved.clear();
  else
    (void)copied_on(store.runtime());
  if (parts.graph().op_count() % 2 == 0) {
    for (int run = 0; run < 2; ++run) step.execute();
  } else {
    GraphRun<R> const first = step.execute_async(), second = step.execute_async();
    first.wait(), second.wait();
  }
  check_places(store.runtime(), step.plan(), 2);
  return times(traffic(step.plan()), 2);
}

/// Bytes of a place with which every rank has room for little beside what it keeps.
Index least_of_ranks(RandomParts const& parts, PlanOptions const& options, Place const& place) {
  Index most = 0;
  for (int rank = 0; rank < parts.ranks(); ++rank) {
    Plan const plan(parts.graph(), options, rank);
    most = std::max(most, plan.memory({rank, place}).stored + largest_task(plan, place));
  }
  return most;
}
/// Bytes of a place that is full, besides those of tensors that it keeps.
Index room_of(RandomParts const& parts, PlanOptions options, int rank) {
  PlaceCapacity const full = options.capacity[0];
  options.capacity.clear();
  return full.bytes - Plan(parts.graph(), options, rank).memory({rank, full.place}).stored;
}
/// Gives a place that is too small what errors say is enough, until all ranks have room; how often.
int follow_errors(RandomParts const& parts, PlanOptions& options) {
  int followed = 0;
  for (int rank = 0; rank < parts.ranks();) try {
      (void)Plan(parts.graph(), options, rank);
      ++rank;
    } catch (PlaceFull const& error) {
      INFO(error.what());
      REQUIRE(error.place == options.capacity[0].place);
      REQUIRE(error.least > options.capacity[0].bytes);
      CHECK(fault_of_text(error.what(), room_of(parts, options, rank)) == "");
      CHECK(contains(error.what(), concat("; ", error.least, " bytes of ", to_string(error.place),
                                          " are enough")));
      options.capacity[0].bytes = error.least - 1;
      CHECK_THROWS_AS(Plan(parts.graph(), options, rank), PlaceFull);
      options.capacity[0].bytes = error.least;
      CHECK_NOTHROW(Plan(parts.graph(), options, rank));
      ++followed;
      rank = 0;
    }
  return followed;
}

using PlacedRuntimes =
    std::tuple<Places<Serial>, Places<Ring>, Emulated<SerialOn<EmulatedWithDisk>>,
               Emulated<RingOn<EmulatedWithDisk>>>;

}  // namespace

TEST_CASE("ranks with devices train as one rank on the host does", "[comm][places]") {
  std::vector<AxisGroups> const groups = {{"batch", 4}};
  LocalOptions const late{.seed = 3, .most_delay = 5};
  auto const train = [&]<class R>(R*, std::vector<MeshAxis> const& mesh,
                                  std::vector<ShardRule> const& rules,
                                  std::vector<PlaceRule> const& places, bool by_phase,
                                  BatchStorage storage = BatchStorage::copied) {
    return run_parts<R>(mesh, late, [&](TensorStore<R>& store) {
      return train_part(store, mesh, rules, groups, by_phase, storage, places);
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
  for (BatchStorage const storage : {BatchStorage::adopted, BatchStorage::double_buffered})
    CHECK(train(devices, {{"data", 2}}, fsdp(), all, false, storage) ==
          train(static_cast<Serial*>(nullptr), {}, {}, {}, false, storage));
}

// NNTILE_RANDOM_PLACES (30) says how many, NNTILE_RANDOM_SEED (1) from which seed on.
TEMPLATE_LIST_TEST_CASE("random graphs on ranks of random places have the bits of one on the host",
                        "[comm][places]", PlacedRuntimes) {
  std::uint64_t const graphs = setting("NNTILE_RANDOM_PLACES", sanitized ? 8 : 30);
  std::uint64_t seed = setting("NNTILE_RANDOM_SEED", 1), tried = 0, cramped = 0, refused = 0;
  for (; tried < graphs; ++seed) {
    INFO("seed " << seed);
    RandomParts parts(seed, seed % 8 == 0);
    if (parts.is_useless() || !parts.refusal().empty()) continue;
    ++tried;
    PlanOptions options = parts.alone();
    Tiles const one = run_parts<Serial>({}, {}, [&](TensorStore<Serial>& store) {
      return run_random(parts, options, store).traffic;
    });
    options = parts.options();
    bool const on_disk = parts.below(3) == 0;
    std::vector<Place> places{host, device(0), device(0), device(1), disk};
    if (on_disk) places = {host, host, disk};
    scatter(options, parts.graph(), places,
            [&] { return static_cast<std::size_t>(parts.below(1 << 20)); });
    Place const full = on_disk ? host : device(0);
    if (parts.below(3) != 0) {
      options.capacity = {{full, least_of_ranks(parts, options, full) + 64 * parts.below(3)}};
      if (parts.below(3) == 0) options.capacity[0].bytes /= 2;
      ++cramped;
      refused += follow_errors(parts, options) == 0 ? 0u : 1u;
    }
    LocalOptions const local{.seed = seed,
                             .most_delay = parts.below(6),
                             .eager_bytes = parts.below(2) == 0 ? 0u : 4096u};
    CHECK(run_parts<TestType>(options.mesh, local, [&](TensorStore<TestType>& store) {
            return run_placed(parts, options, store);
          }) == one);
  }
  if (std::getenv("NNTILE_RANDOM_PLACES") != nullptr)
    std::printf(
        "random places of ranks: %llu graphs, %llu cramped, %llu of them refused at first\n",
        static_cast<unsigned long long>(tried), static_cast<unsigned long long>(cramped),
        static_cast<unsigned long long>(refused));
  if (graphs >= 30) CHECK((cramped > graphs / 2 && refused > 0));
}
