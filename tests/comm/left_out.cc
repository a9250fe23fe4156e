// SPDX-License-Identifier: BSD-3-Clause
// Runs that one rank does not submit, or not to their end: the others are told, and none waits.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "nntile/comm/transfers.hh"
#include "nntile/graph/parts.hh"
#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/small_job.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// An R that refuses one submission.
template <class R> class Refusing : public Forward<R> {
 public:
  using Forward<R>::Forward;

  Event submit(Task<typename Forward<R>::Handle> const& task) {
    if (left-- == 0) throw OutOfMemory("refused");
    return Forward<R>::submit(task);
  }

  std::int64_t left = -1;  // submissions before it
};

/// A ring that refuses one replay.
class RefusingReplay : public Forward<Ring> {
 public:
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) {
    if (left-- == 0) throw OutOfMemory("refused");
    return Forward<Ring>::replay(program, bindings, block);
  }
  std::int64_t left = -1;  // replays before it
};

template <class Step> std::string thrown_by(Step& step) {
  try {
    step.execute();
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

/// Whether a rank's tiles of a tensor are those of `whole`, or marked by a failure.
template <class Store>
bool right_or_marked(Store const& store, std::string const& name, std::vector<float> const& whole) {
  Tiling const& tiling = store.at(name).spec.tiling;
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    if (!store.holds(name, tile)) continue;
    try {
      auto const values = store.template read_tile<float>(name, tile);
      if (!std::equal(values.begin(), values.end(), whole.begin() + tiling.box(tile).begin[0]))
        return false;
    } catch (TaskError const&) {
    }
  }
  return true;
}

}  // namespace

TEMPLATE_TEST_CASE("a rank that lacks a value keeps none waiting", "[comm][left_out]", Serial,
                   Ring) {
  bool const replay = GENERATE(false, true);
  LogicalGraph graph("g");
  scale({.alpha = 2}, graph.state({.shape = {4}}, "s")).named("y").mark_output();
  PlanOptions options{.tile = 0, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index) { return tensor == "s" ? 1 : 0; };
  std::vector<std::string> texts(2);
  std::vector<float> y;
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    TestType runtime;
    TensorStore<TestType> store(runtime, link_of(transfers));
    auto step = compile_part(graph, store, options, {.replay = replay});
    texts[static_cast<std::size_t>(comm.rank())] = thrown_by(step);
    if (comm.rank() == 1) store.template write<float>("s", std::vector<float>{1, 2, 3, 4});
    step.execute();
    if (comm.rank() == 0) y = store.template read<float>("y");
    comm.barrier();
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(texts[1].starts_with("execute: state 's' of graph 'g' has no value yet: load it"));
  CHECK(contains(texts[0], "cancelled: rank 1: unsubmitted of tensor 's', tile 0"));
  CHECK(contains(texts[0], "execute: state 's' of graph 'g' has no value yet: load it"));
  CHECK(y == std::vector<float>{2, 4, 6, 8});
}

TEMPLATE_TEST_CASE("a rank that is refused amid a run keeps none waiting", "[comm][left_out]",
                   Serial, Ring) {
  SmallJob const job("j", 1);
  std::vector<float> const alone = job.alone(1);
  for (std::int64_t at = 0, tasks = 1; at < tasks; ++at) {
    INFO("task " << at);
    std::vector<std::string> texts(3);
    std::vector<std::vector<float>> results(3);
    std::vector<int> right(3);
    LocalWorld world(3);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      Transfers transfers(comm);
      Refusing<TestType> runtime;
      TensorStore<Refusing<TestType>> store(runtime, link_of(transfers));
      auto step = job.compiled(store, {.replay = false});
      if (rank == 1) tasks = std::ssize(step.plan().tasks());
      if (rank == 1) runtime.left = at;
      texts[rank] = thrown_by(step);
      transfers.check_closed("behind a run");
      right[rank] = right_or_marked(store, "j.s", alone) ? 1 : 0;
      job.write(store);  // what failed tasks have not written
      step.execute();
      results[rank] = job.result(store);
    });
    CHECK(thrown == std::vector<std::string>(3));
    CHECK(texts[1] == "refused");
    CHECK(right == std::vector(3, 1));
    for (std::size_t const rank : {0u, 2u})
      CHECK((texts[rank].empty() || contains(texts[rank], "rank 1: unsubmitted of tensor '")));
    CHECK(results == std::vector(3, alone));
  }
}

TEMPLATE_TEST_CASE("a run that a rank is refused amid others keeps its messages apart",
                   "[comm][left_out]", Serial, Ring) {
  SmallJob const job("j", 1);
  std::vector<float> const alone = job.alone(1);
  for (std::int64_t at = 0; at < 60; at += 6) {
    INFO("task " << at);
    std::vector<std::vector<float>> results(3);
    LocalWorld world(3);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Refusing<TestType> runtime;
      TensorStore<Refusing<TestType>> store(runtime, link_of(transfers));
      auto step = job.compiled(store, {.replay = false});
      step.execute_async();
      if (comm.rank() == 1) runtime.left = at;
      try {
        step.execute_async();
      } catch (OutOfMemory const&) {
      }
      step.execute_async();
      job.write(store);
      step.execute();
      results[static_cast<std::size_t>(comm.rank())] = job.result(store);
    });
    CHECK(thrown == std::vector<std::string>(3));
    CHECK(results == std::vector(3, alone));
  }
}

TEST_CASE("a run that all ranks were refused is tried again", "[comm][left_out]") {
  SmallJob const job("j", 1);
  std::vector<std::vector<float>> results(3);
  LocalWorld world(3);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Ring runtime;
    TensorStore<Ring> store(runtime, link_of(transfers));
    auto step = compile_part(job.graph, store, SmallJob::options(3));
    if (!contains(thrown_by(step), "'j.w' of graph 'j' has no value")) throw Error("no refusal");
    job.write(store);
    step.execute();
    results[static_cast<std::size_t>(comm.rank())] = job.result(store);
  });
  CHECK(thrown == std::vector<std::string>(3));
  CHECK(results == std::vector(3, job.alone(1)));
}

TEMPLATE_TEST_CASE("a rank that is refused amid a phase keeps none waiting in those behind it",
                   "[comm][left_out]", Serial, Ring) {
  LogicalGraph graph("g");
  Node value = graph.state({.shape = {4}}, "x");
  for (char const* const phase : {"a", "b", "c"}) {
    graph.set_phase(phase);
    value = scale({.alpha = 2}, value).named(concat("of_", phase));
  }
  value.mark_output();
  PlanOptions options{.tile = 2, .by_phase = true, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index tile) {
    return static_cast<int>((static_cast<Index>(tensor.back()) + tile) % 2);
  };
  for (std::int64_t at = 0; at < 7; ++at) {
    INFO("task " << at);
    std::vector<std::string> texts(2);
    std::vector<std::vector<float>> results(2);
    LocalWorld world(2);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      Transfers transfers(comm);
      Refusing<TestType> runtime;
      TensorStore<Refusing<TestType>> store(runtime, link_of(transfers));
      auto step = compile_part(graph, store, options, {.replay = false});
      store.write("x", std::span<float const>(std::vector<float>{1, 2, 3, 4}));
      if (rank == 1) runtime.left = at;
      for (char const* const phase : {"a", "b", "c"}) try {
          step.execute_async(phase);
        } catch (Error const& error) {
          texts[rank] += error.what();
        }
      store.write("x", std::span<float const>(std::vector<float>{1, 2, 3, 4}));
      for (char const* const phase : {"a", "b", "c"}) step.execute(phase);
      results[rank] = store.template gather<float>("of_c");
    });
    CHECK(thrown == std::vector<std::string>(2));
    CHECK(texts[0] == "");
    CHECK(texts[1].starts_with("refused"));
    CHECK(results == std::vector(2, std::vector<float>{8, 16, 24, 32}));
  }
}

TEST_CASE("a rank that was left out of a run goes on from none before it", "[comm][left_out]") {
  LogicalGraph graph("g");
  graph.set_phase("a");
  Node const of_a = scale({.alpha = 2}, graph.state({.shape = {4}}, "x")).named("of_a");
  graph.set_phase("b");
  scale({.alpha = 2}, of_a).named("y").mark_output();
  scale({.alpha = 2}, graph.state({.shape = {4}}, "s")).named("of_s").mark_output();
  PlanOptions options{.tile = 0, .by_phase = true, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index) { return tensor == "y" ? 0 : 1; };
  std::vector<std::string> texts(2);
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Ring runtime;
    TensorStore<Ring> store(runtime, link_of(transfers));
    auto step = compile_part(graph, store, options);
    store.write("x", std::span<float const>(std::vector<float>(4, 1)));
    if (comm.rank() == 1 && message_of<LifetimeError>([&] { step.execute("b"); }).empty())
      throw Error("out of turn");  // alone: no other rank is at it
    step.execute("a");
    (void)thrown_by(step);  // rank 1 has no value of s, and runs nothing of it
    if (comm.rank() == 1) store.write("s", std::span<float const>(std::vector<float>(4, 1)));
    try {
      step.execute("b");
    } catch (LifetimeError const& error) {
      texts[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    for (char const* const phase : {"a", "b"}) step.execute(phase);
    if (store.gather<float>("y") != std::vector<float>(4, 4)) throw Error("other values");
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(texts[0].ends_with("runs behind 'a', and the last that ran was b: run the phases in turn"));
  CHECK(texts[1].ends_with("and the last that ran was none: run the phases in turn"));
}

TEST_CASE("a gather waits for a run that a rank was refused amid", "[comm][left_out]") {
  SmallJob const job("j", 1);
  for (std::int64_t at = 5; at < 60; at += 10) {
    INFO("task " << at);
    LocalWorld world(3, {.seed = 7, .most_delay = 20});
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Refusing<Ring> runtime;
      TensorStore<Refusing<Ring>> store(runtime, link_of(transfers));
      auto step = job.compiled(store, {.replay = false});
      if (comm.rank() == 1) runtime.left = at;
      try {
        step.execute_async();
      } catch (OutOfMemory const&) {
      }
      (void)store.template gather<float>("j.w");
    });
    CHECK(thrown == std::vector<std::string>(3));
  }
}

TEST_CASE("a run that a rank leaves out comes behind the one before it", "[comm][left_out]") {
  if (!allocations_are_counted()) return;
  LogicalGraph graph("g");
  Node const there = scale({.alpha = 2}, graph.state({.shape = {4}}, "x")).named("there");
  scale({.alpha = 2}, there).named("back").mark_output();
  PlanOptions options{.tile = 0, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index) { return tensor == "there" ? 1 : 0; };
  std::vector<std::string> texts(2);
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Ring runtime;
    TensorStore<Ring> store(runtime, link_of(transfers));
    auto step = compile_part(graph, store, options);
    store.write("x", std::span<float const>(std::vector<float>(4, 1)));
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    auto const first = step.execute_async();  // in use, so that the next one takes memory
    if (comm.rank() == 0) {
      first.wait();
      if (store.read<float>("back") != std::vector<float>(4, 4)) throw Error("other values");
    }
    if (comm.rank() == 1) (void)fail_new_after(0);
    try {
      step.execute();
    } catch (std::exception const& error) {
      (void)fail_new_after(-1);
      texts[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    first.wait();
    step.execute();
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(contains(texts[0], "cancelled: rank 1: "));
  CHECK(texts[1] == "std::bad_alloc");
}

TEST_CASE("a replay that a rank is refused does not overtake the run before", "[comm][left_out]") {
  LogicalGraph graph("g");
  scale({.alpha = 2}, graph.state({.shape = {4}}, "s")).named("y").mark_output();
  PlanOptions options{.tile = 0, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index) { return tensor == "s" ? 1 : 0; };
  std::vector<std::string> texts(2);
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    RefusingReplay runtime;
    TensorStore<RefusingReplay> store(runtime, link_of(transfers));
    auto step = compile_part(graph, store, options);
    Gate gate;  // in front of the tile that the first run sends
    std::thread opener;
    if (comm.rank() == 1) {
      store.write<float>("s", std::vector<float>{1, 2, 3, 4});
      Use<Ring::Handle> const use[] = {{store.at("s").tiles[0], Access::update}};
      Gate* const argument = &gate;
      (void)runtime.submit({&wait_codelet, use, std::as_bytes(std::span(&argument, 1)), {}, {}});
      opener = std::thread([&] {
        while (!gate.open) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        gate.token.complete();
      });
    }
    auto const first = step.execute_async();
    if (comm.rank() == 1) runtime.left = 0;
    texts[static_cast<std::size_t>(comm.rank())] = thrown_by(step);
    if (opener.joinable()) opener.join();
    first.wait();
    comm.barrier();
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(contains(texts[0], "cancelled: rank 1: unsubmitted of tensor 's', tile 0"));
  CHECK(texts[1] == "refused");
}
