// SPDX-License-Identifier: BSD-3-Clause
// Graphs that are in flight together: on one communicator, and on several.
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nntile/comm/transfers.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/comm/small_job.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Runtimes = std::tuple<Serial, Ring>;

template <class R> RuntimeOptions workers() { return {.workers = runs_alone<R> ? 1 : 2}; }

/// Numbers of messages, and of records of failures, as transfers began: rank, whether it sends, the
/// peer, the number.
struct Noted {
  using Number = std::tuple<int, bool, int, std::int64_t>;
  static inline std::mutex mutex;
  static inline std::multiset<Number> numbers;
  static inline thread_local int rank = 0;

  static void note(KernelCall const& call, bool sends) {
    TransferCall its;
    std::memcpy(&its, call.arguments, sizeof its);
    std::lock_guard const guard(mutex);
    for (std::int64_t const number : {its.number, its.record})
      numbers.insert({rank, sends, its.peer, number});
  }
};
constexpr Codelet noted_send{.name = "send",
                             .async =
                                 +[](KernelCall const& call, Completion token) noexcept {
                                   Noted::note(call, true);
                                   return send_codelet.async(call, token);
                                 },
                             .runs_on_marks = true};
constexpr Codelet noted_receive{.name = "receive",
                                .async = +[](KernelCall const& call, Completion token) noexcept {
                                  Noted::note(call, false);
                                  return receive_codelet.async(call, token);
                                }};

void require(bool condition, std::string const& text) {
  if (!condition) throw Error(text);
}

template <class Body> void on_all(LocalWorld& world, Body body) {
  for (std::string const& text : on_ranks(world, body)) CHECK(text == "");
}

}  // namespace

TEST_CASE("no two messages or records of two graphs of one communicator have one number",
          "[comm][two_graphs]") {
  SmallJob const a("a", 1), b("b", -2);
  Noted::numbers.clear();
  LocalWorld world(3);
  on_all(world, [&](LocalComm& comm) {
    Noted::rank = comm.rank();  // Serial: tasks begin on this thread
    Transfers transfers(comm);
    RankLink link = link_of(transfers);
    link.send = &noted_send, link.receive = &noted_receive;
    Serial runtime;
    TensorStore<Serial> store(runtime, link), other(runtime, link);
    auto first = a.compiled(store), second = b.compiled(other);
    first.execute(), second.execute();
    comm.barrier();
  });
  CHECK(Noted::numbers.size() > 100);
  std::set<Noted::Number> const distinct(Noted::numbers.begin(), Noted::numbers.end());
  CHECK(distinct.size() == Noted::numbers.size());
  for (auto const& [rank, sends, peer, number] : distinct) {
    CHECK(number >= 0);
    CHECK(distinct.contains({peer, !sends, rank, number}));
  }
}

TEMPLATE_LIST_TEST_CASE("two graphs in flight on one communicator have the bits of one rank",
                        "[comm][two_graphs]", Runtimes) {
  SmallJob const a("a", 1), b("b", -2);
  std::vector<float> const of_a = a.alone(4), of_b = b.alone(4);
  int const ranks = GENERATE(2, 3);
  bool const one_store = GENERATE(true, false);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(ranks, one_store, seed);
    LocalWorld world(ranks, {.seed = seed, .most_delay = 7, .eager_bytes = seed % 2 * 4096});
    on_all(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      TestType runtime(workers<TestType>());
      TensorStore<TestType> store(runtime, link_of(transfers)), more(runtime, link_of(transfers));
      TensorStore<TestType>& other = one_store ? store : more;
      auto first = a.compiled(store), second = b.compiled(other);
      for (int run = 0; run < 2; ++run) {  // in flight together
        auto const x = first.execute_async(), y = second.execute_async();
        y.wait(), x.wait();
      }
      for (int run = 0; run < 2; ++run) first.execute(), second.execute();  // in turn
      require(a.result(store) == of_a && b.result(other) == of_b, "the bits differ");
      comm.barrier();
    });
  }
}

TEMPLATE_LIST_TEST_CASE("graphs on communicators that overlap have the bits of one rank",
                        "[comm][two_graphs]", Runtimes) {
  SmallJob const a("a", 1), b("b", -2);
  std::vector<float> const of_a = a.alone(3), of_b = b.alone(3);
  bool const one_runtime = GENERATE(true, false);
  LocalWorld all(4, {.seed = 5, .most_delay = 7}), low(2), high(2, {.seed = 6, .most_delay = 3});
  on_all(all, [&](LocalComm& comm) {
    LocalComm half(comm.rank() < 2 ? low : high, comm.rank() % 2);
    Transfers wide(comm), narrow(half);
    TestType runtime(workers<TestType>()), more(workers<TestType>());
    TestType& other = one_runtime ? runtime : more;
    TensorStore<TestType> store(runtime, link_of(wide)), part(other, link_of(narrow));
    SmallJob const& mine = comm.rank() < 2 ? b : a;  // the halves run different graphs
    auto first = a.compiled(store), second = mine.compiled(part);
    for (int run = 0; run < 3; ++run) {
      auto const x = first.execute_async(), y = second.execute_async();
      x.wait(), y.wait();
    }
    require(a.result(store) == of_a, "all differ");
    require(mine.result(part) == (comm.rank() < 2 ? of_b : of_a), "the half differs");
    half.barrier(), comm.barrier();
  });
}

TEST_CASE("a graph of another mesh is refused by a store whose tiles are on other ranks",
          "[comm][two_graphs]") {
  LogicalGraph a("a"), b("b");
  for (LogicalGraph* const graph : {&a, &b})
    scale(graph->parameter({.shape = {8, 8}}, "w")).named(graph->name() + ".z").mark_output();
  auto const over = [](int data, int own) {
    PlanOptions options{.tile = 2, .mesh = {{"data", data}, {"own", own}}};
    options.rules = {{.role = Role::parameter, .mesh = "data"},
                     {.role = Role::output, .mesh = "own"}};
    return options;
  };
  LocalWorld world(6);
  std::vector<std::string> said(6);
  on_all(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    auto const first = compile_part(a, store, over(2, 3));
    try {
      auto const second = compile_part(b, store, over(3, 2));  // coordinate 1: ranks 1 and 4
    } catch (Error const& error) {
      said[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    comm.barrier();
  });
  for (std::string const& text : said)
    CHECK(text.find("store: tiles of 'w' are on other ranks here than in the new graph") !=
          std::string::npos);
}

TEMPLATE_LIST_TEST_CASE("an input that is sent goes run by run, whichever is there first",
                        "[comm][two_graphs]", Runtimes) {
  bool const replay = GENERATE(false, true);
  LogicalGraph graph("g");
  scale({.alpha = 2}, graph.input({.shape = {4}}, "x")).named("z").mark_output();
  PlanOptions options{.tile = 0, .double_buffered = {"x"}, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index) { return tensor == "x" ? 0 : 1; };
  LocalWorld world(2);
  on_all(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    TestType runtime(workers<TestType>());
    TensorStore<TestType> store(runtime, link_of(transfers));
    auto step = compile_part(graph, store, options, {.replay = replay});
    step.bind_input("x", std::vector<float>(4, 1));
    Gate gate;  // in front of the tile of the first run
    if (comm.rank() == 0) {
      Use<typename TestType::Handle> const use[] = {{store.at("x").tiles[0], Access::update}};
      Gate* const argument = &gate;
      (void)runtime.submit({&wait_codelet, use, std::as_bytes(std::span(&argument, 1)), {}, {}});
    }
    auto const first = step.execute_async();
    step.bind_input("x", std::vector<float>(4, 2));
    auto const second = step.execute_async();
    if (comm.rank() == 0) {
      while (!gate.open) (void)first.is_complete();
      for (int i = 0; i < 100; ++i) (void)first.is_complete();  // the second send may begin
      gate.token.complete();
    }
    first.wait(), second.wait();
    require(store.template gather<float>("z") == std::vector<float>(4, 4), "of another run");
    comm.barrier();
  });
}
