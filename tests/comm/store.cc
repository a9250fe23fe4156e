// SPDX-License-Identifier: BSD-3-Clause
// A store across ranks: what each holds is written, read and gathered, and hashed as one rank's.
#include "nntile/graph/store.hh"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/graph/exchange.hh"
#include "nntile/io/store.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/comm/train_part.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

/// Rows of a bf16 table at int64 places, added to fp32 values: a tensor of each kind.
struct Rows {
  Rows() : graph("rows") {
    Node const table =
        graph.parameter({.shape = {6, 10}, .dtype = DType::bf16, .axes = "embed vocab"}, "table");
    Node const places =
        graph.state({.shape = {8}, .dtype = DType::int64, .axes = "batch"}, "places");
    Node const values = graph.state({.shape = {6, 8}, .axes = "embed batch"}, "values");
    Node const rows = embedding(places, table);
    add(cast(rows, DType::fp32), values).named("sum").mark_output();
  }
  LogicalGraph graph;
};

std::vector<bf16_t> table_values() {
  std::vector<bf16_t> values;
  for (int i = 0; i < 60; ++i) values.push_back(bf16_t(static_cast<float>(i)));
  return values;
}
std::vector<std::int64_t> const places{3, 1, 4, 1, 5, 9, 2, 6};
std::vector<float> float_values() {
  std::vector<float> values(48);
  std::iota(values.begin(), values.end(), 100.0f);
  return values;
}

using Rules = std::vector<ShardRule>;
/// Held by all; cut along two axes; dealt out.
std::vector<Rules> const layouts{
    {},
    {{.axis = "batch", .mesh = "data"}, {.axis = "embed", .mesh = "data"}},
    {{.role = Role::state, .mesh = "data"}, {.role = Role::parameter, .mesh = "data"}}};

PlanOptions options_for(int ranks, Rules const& rules) {
  PlanOptions options{.tile = 64, .cuts = {{"batch", {3, 2}}, {"embed", {2}}, {"vocab", {4}}}};
  options.mesh = {{"data", ranks}};
  options.rules = rules;
  options.check = true;
  return options;
}

PlanOptions uncut(int ranks) {
  PlanOptions options{.tile = 64};
  options.mesh = {{"data", ranks}};
  return options;
}

/// Calls body(comm, store, step) on ranks that have written what Rows has; what they throw.
template <class R, class Body>
std::vector<std::string> on_stores(int ranks, Rules const& rules, Body body) {
  Rows const rows;
  LocalWorld world(ranks, {.seed = 3, .most_delay = 5});
  return on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    R runtime(RuntimeOptions{.workers = runs_alone<R> ? 1 : 2});
    TensorStore<R> store(runtime, link_of(transfers));
    CompiledGraph<R> step = compile_part(rows.graph, store, options_for(ranks, rules));
    store.template write<bf16_t>("table", table_values());
    store.template write<std::int64_t>("places", places);
    store.template write<float>("values", float_values());
    body(comm, store, step);
    comm.barrier();
  });
}

void require(bool holds, std::string const& what) {
  if (!holds) throw Error(what);
}
bool same(std::vector<bf16_t> const& a, std::vector<bf16_t> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](bf16_t x, bf16_t y) {
    return static_cast<float>(x) == static_cast<float>(y);
  });
}

/// Throws OutOfMemory from record where refuses is set.
struct NoRoom : Forward<Serial> {
  bool refuses = false;
  Program record(std::span<ProgramTask const> tasks, std::uint32_t bindings,
                 std::span<ProgramParameter const> parameters) {
    if (refuses) throw OutOfMemory("no room");
    return Forward<Serial>::record(tasks, bindings, parameters);
  }
};

/// The tile of a column-major array.
template <class T>
std::vector<T> tile_of(StoredSpec const& spec, Index tile, std::vector<T> const& whole) {
  TileBox const box = spec.tiling.box(tile);
  std::vector<T> values(static_cast<std::size_t>(element_count(box.extent)));
  copy_to_tile(values.data(), box, whole.data(), spec.tiling.shape(), sizeof(T));
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("what ranks hold is gathered as it was written", "[comm][store]", Serial, Ring) {
  for (int const ranks : {2, 3})
    for (Rules const& rules : layouts) {
      INFO(ranks << " ranks, " << rules.size() << " rules");
      auto const thrown = on_stores<TestType>(ranks, rules, [&](auto&, auto& store, auto& step) {
        require(same(store.template gather<bf16_t>("table"), table_values()), "table");
        require(store.template gather<std::int64_t>("places") == places, "places");
        require(store.template gather<float>("values") == float_values(), "values");
        auto const run = step.execute_async();
        auto const sum = store.template gather<float>("sum");  // waits for the run
        for (std::size_t i = 0; i < sum.size(); ++i)
          require(sum[i] == float_values()[i] +
                                static_cast<float>(6 * places[i / 6] + static_cast<int>(i % 6)),
                  concat("sum at ", i));
        run.wait();
      });
      CHECK(thrown == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    }
}

TEST_CASE("a rank reads and writes the tiles that it holds", "[comm][store]") {
  for (Rules const& rules : layouts) {
    auto const thrown = on_stores<Ring>(2, rules, [&](LocalComm& comm, auto& store, auto&) {
      auto const& spec = store.at("values").spec;
      auto const changed = [](std::vector<float> values) {
        for (float& value : values) value = -value;
        return values;
      };
      int held = 0;
      for (Index tile = 0; tile < spec.tiling.tile_count(); ++tile) {
        auto const wanted = tile_of(spec, tile, float_values());
        if (store.holds("values", tile)) {
          ++held;
          require(store.template read_tile<float>("values", tile) == wanted, "read_tile");
          store.template write_tile<float>("values", tile, changed(wanted));
        } else {
          std::string const text = message_of<GraphError>(
              [&] { store.template write_tile<float>("values", tile, wanted); });
          require(text.find(concat("write_tile: tile ", tile, " of 'values' is on rank ",
                                   1 - comm.rank(), ", and this is rank ", comm.rank())) == 0,
                  text);
        }
      }
      require(rules.empty() == (held == spec.tiling.tile_count()), "tiles held");
      require(store.template gather<float>("values") == changed(float_values()), "gather");
    });
    CHECK(thrown == std::vector<std::string>(2));
  }
}

TEST_CASE("what is not here is refused with tile and rank", "[comm][store]") {
  std::vector<std::string> said(2);
  auto const thrown =
      on_stores<Serial>(2, layouts[1], [&](LocalComm& comm, auto& store, auto& step) {
        auto const refused = [&]<class E>(E*, auto call) {
          require(message_of<E>(call) != "(nothing was thrown)", "refused");
        };
        said[static_cast<std::size_t>(comm.rank())] =
            message_of<GraphError>([&] { (void)store.template read<float>("values"); });
        refused(static_cast<GraphError*>(nullptr),
                [&] { (void)step.template get_output<float>("sum"); });
        refused(static_cast<GraphError*>(nullptr),
                [&] { (void)step.template watch<float>("sum"); });
        refused(static_cast<ShapeError*>(nullptr),
                [&] { (void)store.template read_tile<float>("values", 99); });
        refused(static_cast<ShapeError*>(nullptr), [&] { (void)store.holds("values", -1); });
        refused(static_cast<TypeError*>(nullptr),
                [&] { (void)store.template read_tile<double>("values", 0); });
        refused(static_cast<ShapeError*>(nullptr),
                [&] { store.template write_tile<float>("values", 0, std::vector<float>(1)); });
      });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(said[0] ==
        "read: tile 2 of 'values' is on rank 1, and this is rank 0 of 2: have all ranks call "
        "gather(\"values\"), or read the tiles that are here by read_tile");
  CHECK_THAT(said[1], Contains("tile 0 of 'values' is on rank 0, and this is rank 1 of 2"));
}

TEMPLATE_TEST_CASE("a gather waits for what phases before the last have left in flight",
                   "[comm][store]", Serial, Ring) {
  LogicalGraph graph("phases");
  Node const from = graph.state({.shape = {6}}, "from"), w = graph.state({.shape = {6}}, "w");
  Node const to = graph.state({.shape = {6}}, "to");
  graph.set_phase("moves");
  add(from, from, to);
  graph.set_phase("updates");
  add(w, graph.state({.shape = {6}}, "step"), w);
  PlanOptions options{.tile = 0, .by_phase = true, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"from"}, {"to"}});
  std::atomic<bool> behind{false};
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    TestType runtime(RuntimeOptions{.workers = 1});
    TensorStore<TestType> store(runtime, link_of(transfers));
    CompiledGraph<TestType> run = compile_part(graph, store, options);
    for (char const* const name : {"from", "w", "step"})
      store.template write<float>(name, std::vector<float>(6, 1));
    while (comm.rank() == 1 && !behind) std::this_thread::yield();
    (void)run.execute_async("moves");
    run.execute("updates");
    behind = true;
    require(store.template gather<float>("to") == std::vector<float>(6, 2), "gather");
  });
  CHECK(thrown == std::vector<std::string>(2));
}

TEST_CASE("ranks that gather different things learn so, and none waits", "[comm][store]") {
  auto const thrown = on_stores<Ring>(3, layouts[2], [&](LocalComm& comm, auto& store, auto&) {
    if (comm.rank() == 1)
      (void)store.template gather<float>("values");
    else
      (void)store.template gather<std::int64_t>("places");
  });
  CHECK(thrown[0] ==
        "rank 0 is at gather of 'places', and rank 1 at gather of 'values': all ranks call the "
        "same in one order");
  CHECK_THAT(thrown[1], Contains("rank 1 is at gather of 'values', and rank 0 at"));
  CHECK_THAT(thrown[2], Contains("rank 1 at gather of 'values'"));
}

TEST_CASE("what one rank cannot gather fails on all, with its number", "[comm][store]") {
  auto const thrown = on_stores<Serial>(2, layouts[0], [&](LocalComm& comm, auto& store, auto&) {
    if (comm.rank() == 1)
      (void)store.template gather<double>("values");
    else
      (void)store.template gather<float>("values");
  });
  CHECK(thrown[0] ==
        "gather of 'values': rank 1: gather: 'values' is fp32, not fp64; its "
        "elements are float");
  CHECK(thrown[1] == "gather: 'values' is fp32, not fp64; its elements are float");
}

TEST_CASE("the hash of all parameters and states is one rank's on every rank", "[comm][store]") {
  auto const hash_on = [](auto& store) {
    return io::hash_tensors(io::sources_of(store, io::is_saved));
  };
  std::uint64_t one = 0;
  {
    SelfComm comm;
    Transfers transfers(comm);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    (void)train_part(store, {}, {});
    one = hash_on(store);
  }
  for (Rules const& rules : {ddp(), zero1(), fsdp()}) {
    LocalWorld world(3);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Ring runtime({.workers = 1 + comm.rank() % 2});
      TensorStore<Ring> store(runtime, link_of(transfers));
      (void)train_part(store, {{"data", 3}}, rules);
      require(hash_on(store) == one, "hash");
      comm.barrier();
    });
    CHECK(thrown == std::vector<std::string>(3));
  }
}

TEST_CASE("ranks that plan different things all learn which one differs", "[comm][store]") {
  struct Difference {
    char const* text;
    void (*change)(PlanOptions&);
  };
  std::vector<Difference> const differences{
      {"plan 'rows': rank 2 has another mesh, rules, owners or dims than rank 0: start all ranks "
       "with the same options and files",
       [](PlanOptions& options) { options.rules.push_back({.axis = "vocab"}); }},
      {"plan 'rows': rank 2 has another mesh, rules, owners or dims than rank 0: start all ranks "
       "with the same options and files",
       [](PlanOptions& options) { options.by_phase = true; }},
      {"plan 'rows': rank 2 has another mesh, rules, owners or dims than rank 0: start all ranks "
       "with the same options and files",
       [](PlanOptions& options) {
         options.owners = [](std::string_view tensor, Index) {
           return tensor == "cast" ? 1 : TileOwners::by_rules;  // a transient
         };
       }},
      {"plan 'rows': rank 2 has another tilings or homes of tiles than rank 0: start all ranks "
       "with "
       "the same options and files",
       [](PlanOptions& options) { options.cuts[0].sizes = {2}; }},
      {"planning of 'rows': rank 2: plan 'rows': rule (tensors '*', role any, axis 'colour', mesh "
       "'data') fits no tensor that another rule has not placed; axes are embed, vocab, batch",
       [](PlanOptions& options) { options.rules.push_back({.axis = "colour", .mesh = "data"}); }},
      {"planning of 'rows': rank 2: plan 'rows': a mesh of 4 ranks, and the store's communicator "
       "has 3: give PlanOptions::mesh 3 in all, or the store a communicator of 4",
       [](PlanOptions& options) { options.mesh[0].size = 4; }}};
  for (Difference const& difference : differences) {
    Rows const rows;
    LocalWorld world(3);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Serial runtime;
      TensorStore<Serial> store(runtime, link_of(transfers));
      PlanOptions options = options_for(3, layouts[2]);
      if (contains(difference.text,
                   "owners"))  // tiles of other sizes are asked for in other numbers
        options.owners = [](std::string_view, Index) { return TileOwners::by_rules; };
      if (comm.rank() == 2) difference.change(options);
      (void)compile_part(rows.graph, store, options);
    });
    CHECK(thrown[0] == difference.text);
    CHECK(thrown[1] == difference.text);
    CHECK(thrown[2] != "");
  }
}

TEST_CASE("ranks with other graphs, texts or memory all learn so", "[comm][store]") {
  auto const on_two = [](auto body) {
    LocalWorld world(3);
    return on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Ring runtime({.workers = 1});
      TensorStore<Ring> store(runtime, link_of(transfers));
      body(comm, store);
    });
  };
  auto const graphs = on_two([](LocalComm& comm, auto& store) {
    LogicalGraph graph("scaled");
    Node const x = graph.input({.shape = {8}}, "x");
    scale({.alpha = comm.rank() == 0 ? 2.0f : 3.0f}, x).named("y").mark_output();
    (void)compile_part(graph, store, uncut(3));
  });
  for (std::string const& text : graphs)
    CHECK(text ==
          "plan 'scaled': rank 0 has another graph than rank 1: start all ranks with the "
          "same options and files");
  auto const texts = on_two([](LocalComm& comm, auto& store) {
    check_alike(store.link(), "seed", 7);
    check_alike(store.link(), "text", comm.rank() == 1 ? 5 : 6);
  });
  for (std::string const& text : texts)
    CHECK(text ==
          "rank 1 has another text than rank 0: start all ranks with the same options and "
          "files");
  auto const names = on_two([](LocalComm& comm, auto& store) {
    LogicalGraph graph(comm.rank() == 0 ? "a" : "b");
    scale({.alpha = 2}, graph.input({.shape = {8}}, "x")).named("y").mark_output();
    (void)compile_part(graph, store, uncut(3));
  });
  CHECK_THAT(names[2], Contains("rank 2 is at planning of 'b', and rank 0 at planning of 'a'"));
}

TEST_CASE("ranks give each other any number of bytes, or something else", "[comm][store]") {
  LocalWorld world(3);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    RankLink const link = link_of(transfers);
    auto const of_rank = [](int rank) {
      return std::vector<std::byte>(static_cast<std::size_t>(7 * rank), std::byte(rank));
    };
    auto const all = exchange(link, "giving", [&] { return of_rank(comm.rank()); });
    for (int rank = 0; rank < 3; ++rank)
      require(all[static_cast<std::size_t>(rank)] == of_rank(rank), "bytes");
    for (std::uint64_t const head : {std::uint64_t{2}, std::uint64_t{0}}) {
      std::uint64_t const foreign[] = {head, head == 0 ? 99u : 4u, 0};
      std::string const text = message_of<CommError>([&] {
        if (comm.rank() == 1)
          (void)transfers.all_gather(std::as_bytes(std::span(foreign)));
        else
          (void)exchange(link, "giving", [] { return std::vector<std::byte>(3); });
      });
      require(comm.rank() == 1 || contains(text, "and rank 1 at something else"), text);
    }
  });
  CHECK(thrown == std::vector<std::string>(3));
}

TEST_CASE("whatever a rank throws in an exchange, the others learn so", "[comm][store]") {
  // What it throws is made before: then nothing but its own text takes memory.
  std::runtime_error const cause("the cause, in more words than a small string holds");
  auto const others_hear = [](auto give) {
    LocalWorld world(2);
    return on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      try {
        (void)exchange(link_of(transfers), "giving", [&] {
          if (comm.rank() == 0) give();
          return std::vector<std::byte>();
        });
      } catch (int number) {
        throw Error(concat("the number ", number));
      }
    })[1];
  };
  CHECK(others_hear([&] { throw cause; }) == concat("giving: rank 0: ", cause.what()));
  CHECK(others_hear([] { throw 42; }) == "giving: rank 0: it threw what is no std::exception");
  if (!allocations_are_counted()) return;
  CHECK(others_hear([&] {
          (void)fail_new_after(0);
          throw cause;
        }) == "giving: rank 0: no memory");
}

TEST_CASE("a rank that cannot bind a plan keeps none waiting", "[comm][store]") {
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Ring runtime({.workers = 1});
    TensorStore<Ring> store(runtime, link_of(transfers));
    LogicalGraph graph("scaled");
    Node const x = graph.input({.shape = {64}}, "x");
    scale({.alpha = 2}, x).named("y").mark_output();
    auto plan = plan_part(graph, store, uncut(2));
    if (comm.rank() == 1) {
      PlanData data = plan->data();
      for (PlannedKernel& kernel : data.kernels) kernel.name = "nonesuch";
      plan = std::make_shared<Plan const>(std::move(data));
    }
    CompiledGraph<Ring> const step(plan, store);
  });
  CHECK_THAT(thrown[0], Contains("binding of 'scaled': rank 1: compile: no kernel 'nonesuch'"));
  CHECK_THAT(thrown[1], Contains("no kernel 'nonesuch'"));
}

TEST_CASE("a rank that has no room for a program keeps none waiting", "[comm][store]") {
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    NoRoom runtime;
    runtime.refuses = comm.rank() == 1;
    TensorStore<NoRoom> store(runtime, link_of(transfers));
    LogicalGraph graph("scaled");
    scale({.alpha = 2}, graph.input({.shape = {64}}, "x")).named("y").mark_output();
    (void)compile_part(graph, store, uncut(2));
  });
  CHECK(thrown == std::vector<std::string>{"binding of 'scaled': rank 1: no room", "no room"});
}

TEST_CASE("a rank without a plan keeps none waiting", "[comm][store]") {
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    LogicalGraph graph("scaled");
    scale({.alpha = 2}, graph.input({.shape = {64}}, "x")).named("y").mark_output();
    auto plan = plan_part(graph, store, uncut(2));
    if (comm.rank() == 1) plan = nullptr;
    CompiledGraph<Serial> const step(plan, store);
  });
  CHECK_THAT(thrown[0], Contains("rank 1: compile: the plan is an empty shared_ptr"));
  CHECK_THAT(thrown[1], Contains("compile: the plan is an empty shared_ptr"));
}

TEST_CASE("a rank with a part or an instruction set that is not its own keeps none waiting",
          "[comm][store]") {
  auto const on_two = [](int part, Isa isa) {
    LocalWorld world(2);
    return on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Serial runtime;
      TensorStore<Serial> store(runtime, link_of(transfers));
      LogicalGraph graph("scaled");
      scale({.alpha = 2}, graph.input({.shape = {64}}, "x")).named("y").mark_output();
      auto const plan = std::make_shared<Plan const>(graph, uncut(2), comm.rank() * part);
      CompiledGraph<Serial> const step(plan, store, {.isa = comm.rank() == 1 ? isa : Isa::best});
    });
  };
  CHECK(on_two(1, Isa::best) == std::vector<std::string>(2));
  auto const parts = on_two(0, Isa::best), sets = on_two(1, static_cast<Isa>(77));
  CHECK_THAT(parts[0], Contains("binding of 'scaled': rank 1: " + parts[1]));
  CHECK_THAT(parts[1], Contains("is the part of rank 0 of 2, and the store is that of rank 1"));
  CHECK_THAT(sets[0], Contains("binding of 'scaled': rank 1: " + sets[1]));
  CHECK_THAT(sets[1], Contains("compile: this build has no kernels for"));
}
