// SPDX-License-Identifier: BSD-3-Clause
// Random graphs whose tensors live at random places: the bits of the host, on a runtime that checks
// who touches what, on emulated devices and with a disk. NNTILE_RANDOM_PLACES says how many run on
// devices, and how many with a disk, NNTILE_RANDOM_SEED (1) from which seed on.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <vector>

#include "tests/graph/random_graph.hh"
#include "tests/graph/scattered.hh"
#include "tests/support/catch.hh"
#include "tests/support/copied.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/differences.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/message.hh"
#include "tests/support/places.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A graph with gradients, and the loss and gradients that the host alone has; none where it cannot
/// be planned.
struct OnHost {
  explicit OnHost(std::uint64_t of)
      : seed(of),
        random(seed),
        values(mark_gradients(random)),
        options{.tile = static_cast<Index>(seed % 3)} {
    try {
      EvaluationOn<Serial> evaluation(random.graph, random.loss, seed, options);
      expected = results(evaluation);
    } catch (PlanError const&) {  // attention, for one, takes no sliced heads
    }
  }
  template <class Evaluation> std::vector<double> results(Evaluation& evaluation) const {
    std::vector<double> result{evaluation.loss()};
    for (int run = 0; run < 2; ++run)
      for (Node const& node : values)
        for (double const value : evaluation.read(node)) result.push_back(value);
    return result;
  }
  /// Gives each tensor one of these places. For every second seed one of them has room for little
  /// beside what it keeps. Returns the plan without that.
  Plan scatter(std::vector<Place> const& places, Place const& cramped = device(0)) {
    std::mt19937 draw(static_cast<unsigned>(seed));
    test::scatter(options, random.graph, places, draw);
    Plan roomy(random.graph, options);
    room = largest_task(roomy, cramped);
    if (seed % 2 != 0) return roomy;
    room += 64 * static_cast<Index>(draw() % 2);
    options.capacity = {{cramped, roomy.memory({0, cramped}).stored + room}};
    return roomy;
  }

  std::uint64_t seed;
  RandomGraph random;
  std::vector<Node> values;
  PlanOptions options;
  Index room = 0;  // of the place that has little, besides what it keeps
  std::optional<std::vector<double>> expected;
};

}  // namespace

TEST_CASE("random graphs have the same bits wherever their tensors live",
          "[graph][random_places][single-threaded]") {
  int compared = 0, cramped = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    OnHost of(seed);
    INFO("seed " << seed << "\n" << of.random.listing());
    if (!of.expected) continue;
    Plan const roomy = of.scatter({host, device(0), device(0), device(1), disk});
    try {
      EvaluationOn<Places<Serial>> evaluation(of.random.graph, of.random.loss, seed, of.options);
      CHECK(of.results(evaluation) == of.expected);
      ++compared;
      cramped += static_cast<int>(seed % 2 == 0 && !(evaluation.plan() == roomy));
    } catch (PlaceFull const& error) {  // one task needs as much
      CHECK(contains(error.what(), "at once"));
      CHECK(fault_of_text(error.what(), of.room) == "");
      ++refused;
    }
  }
  INFO(compared << " graphs, " << cramped << " of them cramped, " << refused << " refused");
  CHECK(compared >= 80);
  CHECK(cramped >= 10);
  CHECK(refused <= 15);
}

/// Most graphs could be planned, some with little memory, and values moved.
void check_counts(char const* name, std::uint64_t graphs, std::uint64_t compared,
                  std::uint64_t cramped, std::int64_t copies) {
  if (std::getenv("NNTILE_RANDOM_PLACES") != nullptr)
    std::printf("%s: %llu graphs, %llu cramped, %lld copies\n", name,
                static_cast<unsigned long long>(compared), static_cast<unsigned long long>(cramped),
                static_cast<long long>(copies));
  CHECK(compared >= graphs * 2 / 3);
  if (graphs >= 36) CHECK(cramped >= graphs / 18);
  CHECK(copies >= static_cast<std::int64_t>(graphs));
}

TEMPLATE_LIST_TEST_CASE("random graphs on 1, 2 and 4 emulated devices have the bits of the host",
                        "[graph][random_places]", DeviceRuntimes) {
  std::uint64_t const graphs = setting("NNTILE_RANDOM_PLACES", sanitized ? 12 : 60);
  std::uint64_t const first = setting("NNTILE_RANDOM_SEED", 1);
  std::uint64_t compared = 0, cramped = 0;
  std::int64_t copies = 0;
  for (std::uint64_t seed = first; seed < first + graphs; ++seed) {
    OnHost of(seed);
    int const devices = 1 << (seed % 3);
    INFO("seed " << seed << ", " << devices << " devices\n" << of.random.listing());
    if (!of.expected) continue;
    std::vector<Place> places{host};
    for (int i = 0; i < devices; ++i) places.insert(places.end(), 2, device(i));
    Plan const roomy = of.scatter(places);
    try {
      (void)Plan(of.random.graph, of.options);
    } catch (PlaceFull const& error) {  // one task needs as much
      CHECK(contains(error.what(), "at once"));
      CHECK(fault_of_text(error.what(), of.room) == "");
      of.options.capacity.clear();
    }
    testing::EmulatedOptions const emulated{
        .devices = devices, .seed = seed % 4 == 1 ? seed : 0, .longest_delay_ns = 20'000};
    EvaluationOn<TestType> evaluation(of.random.graph, of.random.loss, seed, of.options,
                                      RuntimeOptions{.workers = 1}, emulated);
    CHECK(of.results(evaluation) == of.expected);
    Plan const& plan = evaluation.plan();
    auto& device_of = evaluation.runtime().device();
    (void)device_of.copies().take();
    evaluation.execute();
    Copied const copied = copied_on(evaluation.runtime());
    CHECK(copied == copied_by(plan));
    for (auto const& [way, count] : copied) copies += count.first;
    for (int i = 0; i < devices; ++i)
      CHECK(device_of.memory().peak(i) ==
            static_cast<std::size_t>(plan.memory({0, device(i)}).total()));
    ++compared;
    cramped += !(plan == roomy);
  }
  check_counts("random places", graphs, compared, cramped, copies);
}

TEMPLATE_LIST_TEST_CASE("random graphs with memory on the disk have the bits of the host",
                        "[graph][random_places]", DiskRuntimes) {
  std::uint64_t const graphs = setting("NNTILE_RANDOM_PLACES", sanitized ? 12 : 60);
  std::uint64_t const first = setting("NNTILE_RANDOM_SEED", 1);
  std::uint64_t compared = 0, cramped = 0;
  std::int64_t copies = 0;
  for (std::uint64_t seed = first; seed < first + graphs; ++seed) {
    OnHost of(seed);
    bool const alone = seed % 4 >= 2;  // the host and the disk
    INFO("seed " << seed << (alone ? "" : ", a device") << "\n" << of.random.listing());
    if (!of.expected) continue;
    Plan const roomy = alone ? of.scatter({host, host, disk}, host)
                             : of.scatter({host, device(0), device(0), disk});
    try {
      (void)Plan(of.random.graph, of.options);
    } catch (PlaceFull const& error) {  // one task needs as much
      CHECK(contains(error.what(), "at once"));
      CHECK(fault_of_text(error.what(), of.room) == "");
      of.options.capacity.clear();
    }
    testing::EmulatedOptions const emulated{.seed = seed % 4 == 1 ? seed : 0,
                                            .longest_delay_ns = 20'000};
    EvaluationOn<TestType> evaluation(of.random.graph, of.random.loss, seed, of.options,
                                      RuntimeOptions{.workers = 1},
                                      DiskOptions{.capacity = std::size_t{1} << 26}, emulated);
    CHECK(of.results(evaluation) == of.expected);
    Plan const& plan = evaluation.plan();
    (void)copied_on(evaluation.runtime());
    evaluation.execute();
    Copied const copied = copied_on(evaluation.runtime());
    CHECK(copied == copied_by(plan));
    for (auto const& [way, count] : copied)
      if (contains(way, "disk")) copies += count.first;
    CHECK(evaluation.runtime().device().disk_use().peak ==
          static_cast<std::size_t>(plan.memory({0, disk}).total()));
    ++compared;
    cramped += !(plan == roomy);
  }
  check_counts("random disks", graphs, compared, cramped, copies);
}
