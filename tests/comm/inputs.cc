// SPDX-License-Identifier: BSD-3-Clause
// Inputs across ranks: each hands over the whole or its own part, which is copied in or read in
// place.
#include <atomic>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "nntile/graph/graph.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/run_parts.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/comm/train_part.hh"
#include "tests/support/address_spy.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Runtimes = std::tuple<Serial, Ring>;

constexpr Index rows = 4, batch = 7;

/// z = 2 x for x of shape {4, 7}, "in batch".
struct SpyGraph {
  LogicalGraph graph{"spy"};
  Node x = graph.input({.shape = {rows, batch}, .axes = "in batch"}, "x");
  Node z =
      Call<Spy>{}(x, graph.tensor({.shape = {rows, batch}, .axes = "in batch"}, "z")).mark_output();
};
/// z = x + y, and where x is.
struct SumGraph {
  LogicalGraph graph{"sum"};
  TensorSpec const spec{.shape = {rows, batch}, .axes = "in batch"};
  Node x = graph.input(spec, "x"), y = graph.input(spec, "y");
  Node z = graph.tensor(spec, "z").mark_output();
  SumGraph() { add(x, y, z); }
};

PlanOptions over(int ranks, Storage storage = Storage::adopted) {
  PlanOptions options{.tile = 2, .check = true};
  if (storage == Storage::adopted) options.adopted = {"x"};
  if (storage == Storage::double_buffered) options.double_buffered = {"x"};
  options.mesh = {{"data", ranks}};
  options.rules = {{.axis = "batch", .mesh = "data"}};
  return options;
}

/// Columns [begin, end) of a matrix whose elements are `first` and on.
std::vector<float> columns(float first, Index begin, Index end) {
  std::vector<float> values(static_cast<std::size_t>(rows * (end - begin)));
  std::iota(values.begin(), values.end(), first + static_cast<float>(rows * begin));
  return values;
}
std::vector<float> doubled(std::vector<float> values) {
  for (float& value : values) value *= 2;
  return values;
}

/// Runs body(comm, store, options) on as many ranks, CHECKs that none throws, and gives what they
/// said.
template <class R, class Body> void on_stores(int ranks, LocalOptions const& local, Body body) {
  LocalWorld world(ranks, local);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    R runtime(RuntimeOptions{.workers = runs_alone<R> ? 1 : 2});
    TensorStore<R> store(runtime, link_of(transfers));
    body(comm, store);
    comm.barrier();
  });
  for (std::string const& text : thrown) CHECK(text == "");
}

void require(bool condition, std::string const& text) {
  if (!condition) throw Error(text);
}

/// The columns that this rank holds.
template <class R> std::pair<Index, Index> held(TensorStore<R> const& store, char const* name) {
  TileBox const& box = *store.at(name).held;
  return {box.begin[1], box.begin[1] + box.extent[1]};
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a rank reads an adopted input in the memory of its own part",
                        "[comm][inputs]", Runtimes) {
  int const ranks = GENERATE(1, 2, 3);
  bool const replay = GENERATE(true, false);
  bool const whole = GENERATE(true, false);
  CAPTURE(ranks, replay, whole);
  SpyGraph of;
  std::mutex mutex;
  std::set<void const*> expected;
  (void)Spy::take();
  std::vector<std::vector<float>> memory(static_cast<std::size_t>(5 * ranks));
  on_stores<TestType>(ranks, {}, [&](LocalComm& comm, TensorStore<TestType>& store) {
    Graph<TestType> run(of.graph, compile_part(of.graph, store, over(ranks), {.replay = replay}));
    auto const [begin, end] = held(store, "x");
    for (std::size_t round = 0; round < 5; ++round) {
      auto& values = memory[5 * static_cast<std::size_t>(comm.rank()) + round];
      auto const first = static_cast<float>(100 * round);
      values = whole ? columns(first, 0, batch) : columns(first, begin, end);
      run[of.x] = values;
      run();
      std::vector<float> result(static_cast<std::size_t>(rows * (end - begin)));
      run[of.z].read(std::span(result));
      require(result == doubled(columns(first, begin, end)), "the part is wrong");
      require(store.template gather<float>("z") == doubled(columns(first, 0, batch)), "all is");
      require(store.template gather<float>("x") == columns(first, 0, batch), "the input is");
      std::lock_guard const guard(mutex);
      auto const& stored = store.at("x");
      for (std::size_t tile = 0; tile < stored.tiles.size(); ++tile)
        if (!stored.elsewhere[tile])
          expected.insert(values.data() +
                          rows * (stored.spec.tiling.box(static_cast<Index>(tile)).begin[1] -
                                  (whole ? 0 : begin)));
    }
  });
  CHECK(Spy::take() == expected);
}

TEMPLATE_LIST_TEST_CASE("a part of a copied input is copied in where it belongs", "[comm][inputs]",
                        Runtimes) {
  SpyGraph of;
  for (Storage const storage : {Storage::stored, Storage::double_buffered})
    on_stores<TestType>(4, {}, [&](LocalComm& comm, TensorStore<TestType>& store) {
      PlanOptions options = over(4, storage);
      options.mesh = {{"inner", 2}, {"data", 2}};
      options.rules.push_back({.axis = "in", .mesh = "inner"});
      Graph<TestType> run(of.graph, compile_part(of.graph, store, options));
      TileBox const box = *store.at("x").held;
      std::vector<float> part;
      for (Index column = 0; column < box.extent[1]; ++column)
        for (Index row = 0; row < box.extent[0]; ++row)
          part.push_back(static_cast<float>(box.begin[0] + row + rows * (box.begin[1] + column)));
      run[of.x] = part;
      run();
      std::vector<float> result(part.size());
      run[of.z].read(std::span(result));
      require(result == doubled(part), concat("part of rank ", comm.rank()));
      require(store.template gather<float>("z") == doubled(columns(0, 0, batch)), "all");
    });
}

TEMPLATE_LIST_TEST_CASE("an adopted input goes to ranks that hold none of it", "[comm][inputs]",
                        Runtimes) {
  SumGraph of;
  std::atomic<int> released{0};
  std::vector<float> const x = columns(1, 0, batch), y = columns(1000, 0, batch);
  on_stores<TestType>(
      2, {.seed = 3, .most_delay = 5}, [&](LocalComm& comm, TensorStore<TestType>& store) {
        PlanOptions options{.tile = 2, .adopted = {"x"}, .mesh = {{"data", 2}}};
        options.owners = [](std::string_view tensor, Index) { return tensor == "x" ? 0 : 1; };
        Graph<TestType> run(of.graph, compile_part(of.graph, store, options));
        Release const release{
            [](void* count) noexcept { ++*static_cast<std::atomic<int>*>(count); }, &released};
        bool const here = comm.rank() == 0;
        run[of.x].bind(std::span(x).first(here ? x.size() : 0), release);
        run[of.y] = std::span(y).first(here ? 0 : y.size());
        for (int i = 0; i < 3; ++i) run();
        auto const moved = comm.traffic(1 - comm.rank());
        Index bytes = 0;
        for (PlannedTraffic const& with : traffic(run.plan()))
          bytes += with.bytes_sent + with.bytes_received;
        // All of x, and none of the caller's memory behind a tile.
        require(bytes == rows * batch * 4 &&
                    moved.sent.bytes + moved.received.bytes == 3u * static_cast<std::size_t>(bytes),
                "other bytes moved than were planned");
        std::vector<float> const z = store.template gather<float>("z");
        for (std::size_t i = 0; i < z.size(); ++i) require(z[i] == x[i] + y[i], "z is wrong");
      });
  CHECK(released == 2);
}

TEST_CASE("a training step reads adopted and double-buffered batches as it does copied ones",
          "[comm][inputs]") {
  std::vector<AxisGroups> const groups = {{"batch", 4}};
  LocalOptions const late{.seed = 7, .most_delay = 9, .eager_bytes = 4096};
  auto const train = [&]<class R>(R*, std::vector<MeshAxis> const& mesh,
                                  std::vector<ShardRule> const& rules, BatchStorage storage,
                                  bool by_phase = false) {
    return run_parts<R>(mesh, late, [&](TensorStore<R>& store) {
      return train_part(store, mesh, rules, groups, by_phase, storage);
    });
  };
  Serial* const serial = nullptr;
  Ring* const ring = nullptr;
  Tiles const copied = train(serial, {}, {}, BatchStorage::copied);
  for (BatchStorage const storage : {BatchStorage::adopted, BatchStorage::double_buffered}) {
    Tiles const one = train(serial, {}, {}, storage);
    auto const same = [&](Tiles const& tiles) {
      REQUIRE(tiles.size() == one.size());
      for (auto const& [tile, bytes] : one)
        if (tiles.at(tile) != bytes) FAIL_CHECK(tile << " differs");
    };
    if (storage == BatchStorage::double_buffered) same(copied);
    same(train(serial, {{"data", 3}}, zero1(), storage));
    same(train(ring, {{"data", 2}}, fsdp(), storage));
    same(train(ring, {{"tensor", 2}, {"data", 2}}, product({tensor_parallel(), ddp()}), storage));
    same(train(ring, {{"data", 2}}, fsdp(), storage, true));
  }
}

TEMPLATE_LIST_TEST_CASE("each phase of a part reads what inputs are bound to then",
                        "[comm][inputs]", Runtimes) {
  LogicalGraph graph("phases");
  Node const x = graph.input({.shape = {8}}, "x");
  gelutanh(x).named("y").mark_output();
  graph.set_phase("second");
  scale({.alpha = 2}, x).named("z").mark_output();
  PlanOptions options{.tile = 4, .by_phase = true, .mesh = {{"pipe", 2}}, .check = true};
  options.rules = pipeline({{"x"}, {"y", "z"}});
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    TestType runtime(RuntimeOptions{.workers = 1});
    TensorStore<TestType> store(runtime, link_of(transfers));
    CompiledGraph<TestType> run = compile_part(graph, store, options);
    for (int i = 0; i < 2; ++i) {
      run.bind_input("x", std::vector<float>(8, 1));
      run.execute("forward");
      run.bind_input("x", std::vector<float>(8, 3));
      run.execute("second");
      require(store.template gather<float>("z") == std::vector<float>(8, 6), "stale x");
    }
  });
  CHECK(thrown == std::vector<std::string>(2));
}

TEST_CASE("a report on all parts counts adopted and double-buffered inputs as the parts do",
          "[comm][inputs]") {
  SpyGraph of;
  for (Storage const storage : {Storage::stored, Storage::adopted, Storage::double_buffered})
    for (int const ranks : {1, 2, 3}) {
      auto const reports = report_parts(of.graph, over(ranks, storage));
      for (int rank = 0; rank < ranks; ++rank) {
        Plan const part(of.graph, over(ranks, storage), rank);
        MemoryReport const own = part.memory({rank, host});
        CAPTURE(rank, ranks, name_of(storage));
        CHECK(own == reports[static_cast<std::size_t>(rank)].memory);
        CHECK((own.adopted > 0) == (storage == Storage::adopted));
      }
    }
}

TEST_CASE("values of another size than the whole or the part are refused", "[comm][inputs]") {
  SpyGraph of;
  on_stores<Serial>(2, {}, [&](LocalComm& comm, TensorStore<Serial>& store) {
    Graph<Serial> run(of.graph, compile_part(of.graph, store, over(2)));
    std::vector<float> const few(8);
    std::string const text = message_of<ShapeError>([&] { run[of.x] = few; });
    require(
        text == concat("bind_input: 8 values for 'x' of shape {4, 7}, of which this rank holds ",
                       comm.rank() == 0 ? "{4, 4} from {0, 0}" : "{4, 3} from {0, 4}"),
        text);
    std::vector<float> part(few.size());
    std::string const read = message_of<ShapeError>([&] { run[of.z].read(std::span(part)); });
    require(contains(read, "read: 8 values for 'z' of shape {4, 7}, of which"), read);
  });
  on_stores<Serial>(2, {}, [&](LocalComm&, TensorStore<Serial>& store) {
    PlanOptions options{.tile = 2, .adopted = {"x"}, .mesh = {{"data", 2}}};
    options.owners = [](std::string_view, Index tile) { return static_cast<int>(tile % 2); };
    Graph<Serial> run(of.graph, compile_part(of.graph, store, options));
    std::vector<float> const half(16), whole = columns(1, 0, batch);
    std::string const text = message_of<ShapeError>([&] { run[of.x] = half; });
    require(text == "bind_input: 16 values for 'x' of shape {4, 7}", text);
    run[of.x] = whole;
    run();
    require(store.gather<float>("z") == doubled(whole), "z is wrong");
  });
}

TEST_CASE("parts of one graph at several sizes share a store", "[comm][inputs]") {
  LogicalGraph graph("open");
  TensorSpec const spec{.shape = {rows, "batch"}, .axes = "in batch"};
  Node const x = graph.input(spec, "x");
  Node const z = graph.tensor(spec, "z").mark_output();
  add(x, x, z);
  on_stores<Serial>(2, {}, [&](LocalComm&, TensorStore<Serial>& store) {
    for (Index const size : {4, 64, 6}) {
      PlanOptions options = over(2, Storage::stored);
      options.dims = {{"batch", size}};
      Graph<Serial> run(graph, compile_part(graph, store, options));
      run[x] = columns(1, 0, size);
      run();
      auto const& stored = run.compiled().kept("test", "z");
      std::vector<float> held(static_cast<std::size_t>(element_count(stored.held->extent)));
      run[z].read(std::span(held));
      Index const begin = stored.held->begin[1];
      require(held == doubled(columns(1, begin, begin + stored.held->extent[1])), "other values");
      require(stored.held->extent[1] == size / 2, "another part");
    }
  });
}
