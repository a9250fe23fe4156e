// SPDX-License-Identifier: BSD-3-Clause
// Operands that an op of the user's accumulates into: updates where Numerics is exact, and tasks
// that may commute where it is fast.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/nntile.hh"
#include "nntile/runtime/adaptors/forward.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y += sum_k x, in whole numbers: any order has the same bits.
struct Tally {
  static constexpr char const* name = "tally";
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i k"}, {"y", "i", Access::accumulate}};
  static constexpr std::span<DType const> dtypes{float_dtypes};
  struct Attrs {
    bool fresh = false;
  };
  static constexpr Fields fields{field<&Attrs::fresh>("fresh")};
  static constexpr Hooks<Attrs> hooks{
      .overwrites = [](Attrs const& attrs, OperandIndex) { return attrs.fresh; }};
  static constexpr char const* no_gradient = "no test asks for it";
  struct Args {
    Index m, k;
    bool fresh;
  };
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('i'), range.extent('k'), attrs.fresh && range.first(Operand::y)};
  }
  template <class T> static void reference(Args const& args, Buffers<Tally> const& buffers) {
    T const* const x = buffers.template at<T>(Operand::x);
    T* const y = buffers.template at<T>(Operand::y);
    for (Index i = 0; i < args.m; ++i) {
      if (args.fresh) y[i] = T(0);
      for (Index k = 0; k < args.k; ++k) y[i] = static_cast<T>(y[i] + x[i + args.m * k]);
    }
  }
};
constexpr Call<Tally> tally;

/// Notes how tasks of "tally" access their result.
template <class R> class Noting : public Forward<R> {
 public:
  using Forward<R>::Forward;
  Event submit(Task<typename R::Handle> const& task) {
    if (task.codelet->name == std::string_view("tally")) seen.push_back(task.uses[1].access);
    return Forward<R>::submit(task);
  }
  std::vector<Access> seen;
};

constexpr Index rows = 8, columns = 24;

std::vector<double> terms() {
  std::vector<double> x(rows * columns);
  std::iota(x.begin(), x.end(), 1.0);
  return x;
}
/// `times` such sums, and what was there.
std::vector<double> sums(double before, double times) {
  std::vector<double> y(rows, before);
  std::vector<double> const x = terms();
  for (std::size_t e = 0; e < x.size(); ++e) y[e % rows] += times * x[e];
  return y;
}

/// Two tallies of what a fill leaves, on tiles of 4: 2 chains of 6 tasks each.
struct Program {
  explicit Program(Mode mode) : graph("tallies", {.mode = mode}) {
    Node const x = graph.input({.shape = {rows, columns}, .dtype = DType::fp64}, "x");
    Node const y = graph.tensor({.shape = {rows}, .dtype = DType::fp64}, "y");
    ops::fill({.value = 1}, y);
    tally(x, y);
    tally(x, y).mark_output();
  }
  LogicalGraph graph;
};

/// y += x of two tiles, whose tasks may run in any order; the first one waits for the gate.
template <class R> struct Gated {
  explicit Gated(PlanOptions const& options) {
    Node const x = graph.input({.shape = {4, 8}, .dtype = DType::fp64}, "x");
    tally(x, graph.state({.shape = {4}, .dtype = DType::fp64}, "y"));
    step.emplace(compile(graph, store, options, {.replay = false}));
    bind();
    store.template write<double>("y", std::vector<double>(4));
    Use<typename R::Handle> const first[] = {{store.at("x").tiles[0], Access::update}};
    Gate* const argument = &gate;
    (void)runtime.submit({&wait_codelet, first, std::as_bytes(std::span(&argument, 1)), {}, {}});
  }
  void bind() { step->bind_input("x", std::vector<double>(32, 1)); }
  /// Whether wait() returns behind the opening of the gate.
  template <class Wait> bool waits(Wait wait) {
    std::atomic<bool> opened = false;
    std::thread opener([&] {
      while (!gate.open) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      opened = true;
      gate.token.complete();
    });
    wait();
    bool const behind = opened;
    opener.join();
    return behind;
  }

  LogicalGraph graph{"tally", {.mode = Mode::fast}};
  Gate gate;
  R runtime{RuntimeOptions{.workers = 2}};
  TensorStore<R> store{runtime};
  std::optional<CompiledGraph<R>> step;
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("an eager op accumulates in fast mode, and updates in exact mode",
                        "[graph][accumulate]", AllRuntimes) {
  using R = Noting<TestType>;
  for (Mode const mode : {Mode::exact, Mode::fast}) {
    R runtime(RuntimeOptions{.workers = most_workers<TestType>});
    Tensor<double, R> const x(runtime, Tiling({rows, columns}, {4, 4}), "x"),
        y(runtime, Tiling({rows}, {4}), "y");
    x.write(terms());
    y.write(std::vector<double>(rows, 3));
    ExecutionContext const context{.mode = mode};
    tally.async(context, x, y).wait_all();
    CHECK(runtime.seen ==
          std::vector<Access>(12, mode == Mode::fast ? Access::accumulate : Access::update));
    CHECK(y.read() == sums(3, 1));
    runtime.seen.clear();
    tally.async(context, {.fresh = true}, x, y).wait_all();  // the first of a chain writes
    CHECK(std::count(runtime.seen.begin(), runtime.seen.end(), Access::write) == 2);
    CHECK(y.read() == sums(0, 1));
  }
}

TEMPLATE_LIST_TEST_CASE("a planned op accumulates in fast mode, and updates in exact mode",
                        "[graph][accumulate]", AllRuntimes) {
  using R = Noting<TestType>;
  for (Mode const mode : {Mode::exact, Mode::fast})
    for (bool const replay : {false, true}) {
      R runtime(RuntimeOptions{.workers = most_workers<TestType>});
      TensorStore<R> store(runtime);
      Program program(mode);
      auto compiled = compile(program.graph, store, {.tile = 4}, {.replay = replay});
      std::size_t tasks = 0;
      for (PlannedTask const& task : compiled.plan().tasks())
        if (compiled.plan().kernels()[task.kernel].name == "tally") {
          ++tasks;
          CHECK(compiled.plan().uses(task)[1].access ==
                (mode == Mode::fast ? Access::accumulate : Access::update));
        }
      CHECK(tasks == 24);
      compiled.bind_input("x", terms());
      compiled.execute();
      CHECK(compiled.template get_output<double>("y") == sums(1, 2));
      for (Access const access : runtime.seen)
        CHECK(access == (mode == Mode::fast ? Access::accumulate : Access::update));
    }
}

TEMPLATE_TEST_CASE("a run ends with all of its tasks that accumulate", "[graph][accumulate]",
                   Threads, Ring) {
  Gated<TestType> of({.tile = 4});
  auto const run = of.step->execute_async();
  CHECK(of.waits([&] { run.wait(); }));
  CHECK(of.store.template read<double>("y") == std::vector<double>(4, 8));
}

TEMPLATE_TEST_CASE("a graph waits for what accumulates in the run before the last one",
                   "[graph][accumulate]", Threads, Ring) {
  Gated<TestType> of({.tile = 4, .double_buffered = {"x"}});
  (void)of.step->execute_async();
  of.bind();
  of.step->execute();
  CHECK(of.waits([&] { of.step.reset(); }));
  CHECK(of.store.template read<double>("y") == std::vector<double>(4, 16));
}
