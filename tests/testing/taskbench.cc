// SPDX-License-Identifier: BSD-3-Clause
// The task bench: its patterns, what its tasks notice, and METG.
#include <sys/resource.h>

#include <algorithm>
#include <set>
#include <utility>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/bench.hh"
#include "tests/runtime/forked.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"
#include "tests/testing/broken_replay.hh"

namespace {

using namespace nntile;
using namespace nntile::testing;
using test::BrokenReplay;
using test::Defect;

using Points = std::vector<int>;

Points inputs(Pattern pattern, int width, int step, int point) {
  Dependences const dependences(pattern, width, step + 1);
  auto const found = dependences.inputs(step, point);
  return Points(found.begin(), found.end());
}

/// Runs a grid three times; what the first wrong run says, or "".
template <class Runner, class R> std::string complaint(R& runtime, Pattern pattern) {
  Grid grid(pattern, 8, 24);
  Runner runner(runtime, grid);
  try {
    for (int run = 0; run < 3; ++run) {
      grid.begin(run);
      runner.prepare();
      runner.run();
      grid.verify();
    }
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}
std::string complaint(Defect defect, Pattern pattern) {
  BrokenReplay runtime(defect);
  return complaint<GridOn<BrokenReplay>>(runtime, pattern);
}

/// Tasks with the accesses that a runtime lost: all read.
class Lossy : public BrokenReplay {
 public:
  Lossy() : BrokenReplay(Defect::none) {}
  Event submit(Task<Handle> const& task) {
    std::vector<Use<Handle>> uses(task.uses.begin(), task.uses.end());
    for (auto& use : uses) use.access = Access::read;
    Task<Handle> changed = task;
    changed.uses = uses;
    return BrokenReplay::submit(changed);
  }
};

bool contains(std::string const& text, char const* piece) {
  return text.find(piece) != std::string::npos;
}

}  // namespace

TEST_CASE("each pattern reads the points that Task Bench names", "[testing][taskbench]") {
  CHECK(inputs(Pattern::trivial, 8, 3, 2).empty());
  CHECK(inputs(Pattern::chain, 8, 3, 2) == Points{2});
  CHECK(inputs(Pattern::stencil_1d, 8, 3, 0) == Points{0, 1});
  CHECK(inputs(Pattern::stencil_1d, 8, 3, 7) == Points{6, 7});
  CHECK(inputs(Pattern::stencil_1d, 8, 3, 4) == Points{3, 4, 5});
  CHECK(inputs(Pattern::fft, 8, 1, 2) == Points{1, 2, 3});
  CHECK(inputs(Pattern::fft, 8, 2, 2) == Points{0, 2, 4});
  CHECK(inputs(Pattern::fft, 8, 3, 2) == Points{2, 6});
  CHECK(inputs(Pattern::fft, 8, 4, 2) == Points{1, 2, 3});
  CHECK(inputs(Pattern::tree, 8, 2, 3) == Points{1});
  CHECK(inputs(Pattern::tree, 8, 9, 7) == Points{3});
  CHECK(inputs(Pattern::nearest, 8, 3, 4) == Points{2, 3, 4, 5, 6});
  CHECK(inputs(Pattern::nearest, 8, 3, 0) == Points{0, 1, 2});
  CHECK(inputs(Pattern::spread, 64, 3, 1) == Points{1, 13, 26, 39, 52});
  CHECK(inputs(Pattern::spread, 64, 4, 1) == Points{1, 14, 27, 40, 53});
  CHECK(inputs(Pattern::all_to_all, 4, 3, 2) == Points{0, 1, 2, 3});
  int drawn = 0;
  for (int step = 1; step < 4; ++step)
    for (int point = 2; point < 62; ++point) {
      Points const of = inputs(Pattern::random_nearest, 64, step, point);
      CHECK(std::count(of.begin(), of.end(), point) == 1);
      drawn += static_cast<int>(of.size()) - 1;
    }
  CHECK(drawn > 180 * 4 / 5);  // of 720 candidates a quarter
  CHECK(drawn < 180 * 6 / 5);
}

TEST_CASE("no task of step 0 has an input, and a tree begins with one task",
          "[testing][taskbench]") {
  for (std::string_view const name : pattern_names)
    for (int point = 0; point < 8; ++point) {
      Dependences const dependences(pattern_of(name), 8, 4);
      CHECK(dependences.inputs(0, 0).empty());
    }
  Dependences const tree(Pattern::tree, 6, 5);
  CHECK(tree.points(0) == 1);
  CHECK(tree.points(2) == 4);
  CHECK(tree.points(3) == 6);
  CHECK(tree.tasks() == 1 + 2 + 4 + 6 + 6);
}

TEST_CASE("the edges that are given order every two tasks of a cell", "[testing][taskbench]") {
  // Oracle: one reader's list and one writer a cell, as LAW.md orders them.
  for (std::string_view const name : pattern_names) {
    int const width = 6, steps = 17;
    Dependences const dependences(pattern_of(name), width, steps);
    if (!dependences.ordered()) continue;
    std::vector<std::vector<std::pair<int, int>>> readers(2 * width), writer(2 * width);
    std::set<std::pair<std::pair<int, int>, std::pair<int, int>>> given, back;
    for (int step = 0; step < steps; ++step) {
      for (int point = 0; point < dependences.points(step); ++point) {
        std::set<std::pair<int, int>> expected, found;
        auto const cell = static_cast<std::size_t>(step % 2 * width + point);
        for (std::uint32_t const input : dependences.inputs(step, point)) {
          auto const from = static_cast<std::size_t>((step + 1) % 2 * width) + input;
          expected.insert(writer[from].begin(), writer[from].end());
          readers[from].push_back({step, point});
        }
        auto const& before = readers[cell].empty() ? writer[cell] : readers[cell];
        expected.insert(before.begin(), before.end());
        readers[cell].clear();
        writer[cell] = {{step, point}};
        dependences.for_each_before(step, point, [&](GridTask task) {
          std::pair<int, int> const from{task.step, task.point};
          found.insert(from);
          given.insert({from, {step, point}});
        });
        INFO(name << " " << step << " " << point);
        CHECK(found == expected);
        CHECK(dependences.count_before(step, point) == static_cast<int>(found.size()));
        dependences.for_each_after(step, point, [&](GridTask task) {
          back.insert({{step, point}, {task.step, task.point}});
        });
      }
    }
    CHECK(given == back);
  }
}

TEST_CASE("a runtime that keeps the law passes every pattern", "[testing][taskbench]") {
  for (std::string_view const name : pattern_names) {
    Pattern const pattern = pattern_of(name);
    INFO(name);
    Serial serial;
    Ring ring({.workers = 2});
    BrokenReplay worst(Defect::none);
    CHECK(complaint<GridOn<Serial>>(serial, pattern) == "");
    CHECK(complaint<GridOn<Ring>>(ring, pattern) == "");
    CHECK(complaint<GridReplayedOn<Ring>>(ring, pattern) == "");
    CHECK(complaint<GridOn<BrokenReplay>>(worst, pattern) == "");
    CHECK(complaint<GridReplayedOn<BrokenReplay>>(worst, pattern) == "");
  }
}

TEST_CASE("tasks notice an order that was lost", "[testing][taskbench]") {
  for (std::string_view const name : pattern_names) {
    Pattern const pattern = pattern_of(name);
    if (pattern == Pattern::trivial) continue;
    INFO(name);
    Lossy lossy;
    CHECK(contains(complaint<GridOn<Lossy>>(lossy, pattern), "inputs were wrong"));
    CHECK(contains(complaint(Defect::skips_read_after_write, pattern), "inputs were wrong"));
  }
  // Elsewhere a task reads from all that read the cell which it overwrites.
  for (Pattern const pattern : {Pattern::spread, Pattern::random_nearest}) {
    INFO(name_of(pattern));
    CHECK(contains(complaint(Defect::drops_write_after_read, pattern), "inputs were wrong"));
  }
}

TEST_CASE("a wrong order is told with task, input and what was there", "[testing][taskbench]") {
  Grid grid(Pattern::stencil_1d, 3, 3);
  grid.begin(0);
  for (int const step : {0, 2, 1})
    for (int point = 0; point < 3; ++point) grid.execute(step, point);
  CHECK_THROWS_WITH(grid.verify(),
                    "taskbench: stencil_1d: task 0 of step 2 read what an earlier run left where "
                    "point 0 of step 1 should be; 14 inputs were wrong");
}

TEST_CASE("an input of the run before is a wrong one, and so is a neighbour's",
          "[testing][taskbench]") {
  Grid grid(Pattern::chain, 2, 2);
  auto const run = [&](int first, int second, std::size_t shift) {
    grid.begin(0);
    for (int const step : {first, second})
      for (int point = 0; point < 2; ++point) {
        auto const at = static_cast<std::size_t>(point);
        auto const row = static_cast<std::size_t>(2 * step);
        auto const cells = grid.cells();
        grid.execute(
            step, point, [&](std::size_t) -> Cell const& { return cells[(at + shift) % 2]; },
            &cells[row + at]);
      }
    grid.verify();
  };
  CHECK_NOTHROW(run(0, 1, 0));
  CHECK_THROWS_WITH(run(1, 0, 0), Catch::Contains("read what an earlier run left"));
  CHECK_THROWS_WITH(run(0, 1, 1),
                    Catch::Contains("task 0 of step 1 read point 1 of step 0 where point 0"));
}

TEST_CASE("a task that never runs, or twice, is noticed", "[testing][taskbench]") {
  for (Pattern const pattern : {Pattern::trivial, Pattern::tree}) {
    CHECK(contains(complaint(Defect::drops_tasks, pattern), "0 tasks ran where"));
    BrokenReplay replaying(Defect::replays_first_task_only);
    CHECK(contains(complaint<GridReplayedOn<BrokenReplay>>(replaying, pattern), "1 tasks ran"));
  }
  for (int const width : {2, 3}) {  // of three, the one between the others
    Grid grid(Pattern::trivial, width, 1);
    grid.begin(0);
    for (int i = 0; i < width; ++i) grid.execute(0, 1);
    CHECK_THROWS_WITH(grid.verify(), concat("taskbench: trivial: ", width, " tasks ran where ",
                                            width, " were submitted, some twice and some never"));
  }
}

TEST_CASE("metg of a constant cost a task is exact wherever the points lie",
          "[testing][taskbench]") {
  double const cost = 150;
  for (double const step : {1.3, 2.0, 7.0}) {
    std::vector<EfficiencyPoint> points{{cost, 0}};
    for (double kernel = 11; kernel < 5000; kernel *= step)
      points.insert(points.begin(), {kernel + cost, kernel / (kernel + cost)});
    CHECK_THAT(*metg(points), Catch::Matchers::WithinRel(2 * cost, 1e-9));
    CHECK_THAT(*metg(points, 0.8), Catch::Matchers::WithinRel(5 * cost, 1e-9));
  }
}

TEST_CASE("metg is the smallest size that is effective", "[testing][taskbench]") {
  CHECK(*metg({{100, 0}, {200, 0.6}, {400, 0.4}, {800, 0.9}}) < 200);
  CHECK(*metg({{100, 0.5}, {200, 0.9}}) == 100);
  CHECK(*metg({{100, 0.7}}) == 100);
  CHECK_FALSE(metg({{100, 0.1}, {200, 0.49}}).has_value());
  CHECK_FALSE(metg({}).has_value());
}

TEST_CASE("a sweep begins with empty tasks and goes on to kernels that pay",
          "[testing][taskbench]") {
  Serial serial;
  Grid grid(Pattern::fft, 8, 50);
  GridOn<Serial> runner(serial, grid);
  Sweep const done = sweep(runner, grid, 1, iteration_ns(1), {.kernels = {1, 4}, .largest = 64});
  REQUIRE(done.points.size() >= 3);
  CHECK(done.ns_per_task > 0);
  CHECK(done.points[0].efficiency == 0);
  CHECK(done.points[0].task_ns == done.ns_per_task);
  CHECK(done.points[2].efficiency > 0);
}

TEST_CASE("a sweep without time has empty tasks alone", "[testing][taskbench]") {
  Serial serial;
  Grid grid(Pattern::chain, 2, 4);
  GridOn<Serial> runner(serial, grid);
  CHECK(sweep(runner, grid, 1, 1, {.seconds = 0}).points.size() == 1);
}

TEST_CASE("a sweep of kernels that cannot be is refused", "[testing][taskbench]") {
  Serial serial;
  Grid grid(Pattern::chain, 2, 4);
  GridOn<Serial> runner(serial, grid);
  double const none = std::nan("");
  for (double const kernel : {-1.0, none, HUGE_VAL})
    CHECK_THROWS_WITH(sweep(runner, grid, 1, 1, {.kernels = {1, kernel}}),
                      Catch::Contains("taskbench: a kernel of "));
  for (double const iteration : {0.0, -1.0, none, HUGE_VAL})
    CHECK_THROWS_AS(sweep(runner, grid, 1, iteration), ValueError);
  CHECK_THROWS_WITH(sweep(runner, grid, 0, 1),
                    "taskbench: iterations of 1 ns on 0 workers; above 0, and 1 or more");
}

TEST_CASE("a runtime of one's own is measured in one call, or refused for its order",
          "[testing][taskbench]") {
  PatternBenchOptions const small{.width = 4,
                                  .steps = 40,
                                  .rounds = 2,
                                  .patterns = {Pattern::chain, Pattern::fft},
                                  .sweep = {.kernels = {1, 64}}};
  Serial serial;
  std::vector<std::string> cases;
  for (BenchRecord const& record : bench_patterns(serial, "serial", small)) {
    CHECK(record.bench == "taskbench");
    CHECK(record.value > 0);
    CHECK(record.runs <= 2);
    if (record.metric == "ns_per_task") cases.push_back(record.case_name);
  }
  CHECK(cases == std::vector<std::string>{"chain", "fft", "geomean"});
  BrokenReplay broken(Defect::skips_read_after_write);
  CHECK_THROWS_AS(bench_patterns(broken, "broken", small), Error);
}

TEST_CASE("a grid that cannot be is refused", "[testing][taskbench]") {
  CHECK_THROWS_WITH(
      Grid(Pattern::fft, 0, 5),
      "taskbench: a grid of width 0 and 5 steps; width is 1 to 4,096, and there is a step");
  CHECK_THROWS_AS(Grid(Pattern::fft, 5000, 5), ValueError);
  CHECK_THROWS_AS(Grid(Pattern::fft, 8, 0), ValueError);
  CHECK_THROWS_WITH(pattern_of("ftt"), "taskbench: no pattern 'ftt'");
}

TEST_CASE("kernels on no thread are refused", "[testing][taskbench]") {
  CHECK_THROWS_WITH(
      iteration_ns(0),
      "taskbench: kernels on 0 threads; a runtime with 1 CPU worker or more is measured");
  CHECK_THROWS_AS(iteration_ns(-1), ValueError);
}

TEST_CASE("kernels on more threads than the system has are an error", "[testing][taskbench]") {
  if (test::sanitized) return test::skip("a sanitizer needs more address space than is left");
  auto const refused = [] {
    rlimit const limit{rlim_t{1} << 30, rlim_t{1} << 30};
    (void)setrlimit(RLIMIT_AS, &limit);
    try {
      (void)iteration_ns(1000);
    } catch (Error const&) {
      return 0;
    } catch (...) {
    }
    return 1;
  };
  CHECK(test::in_child(refused) == 0);
}
