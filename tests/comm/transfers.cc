// SPDX-License-Identifier: BSD-3-Clause
// Transfers as tasks, on every runtime, over ranks that are threads.
#include "nntile/comm/transfers.hh"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "nntile/comm/self.hh"
#include "nntile/core/random.hh"
#include "nntile/runtime/adaptors/check.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/transfer_tasks.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;
using test::contains;
using test::message_of;
using test::RankTasks;

std::vector<std::string> nothing(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// Runs body(tasks, engine) on each rank, with a runtime of its own.
template <class R, class Body>
std::vector<std::string> on_runtimes(LocalWorld& world, int workers, Body body) {
  return test::on_ranks(world, [&](LocalComm& comm) {
    Transfers<LocalComm> engine(comm);
    R runtime(RuntimeOptions{.workers = workers});
    RankTasks tasks{runtime, engine};
    body(tasks, engine);
    runtime.wait_all();
  });
}

/// Each of two ranks receives before it sends, in the order of submission.
template <class R> void cross(int workers, std::size_t longs) {
  LocalWorld world(2);
  auto const thrown = on_runtimes<R>(world, workers, [&](auto tasks, auto& engine) {
    int const rank = engine.communicator().rank();
    auto const mine = tasks.make(longs, 10 + rank), theirs = tasks.allocate(longs);
    tasks.receive(theirs, {1 - rank, 5}, longs);
    tasks.send(mine, {1 - rank, 5}, longs);
    tasks.add(mine, theirs, longs);
    if (tasks.read(mine) != std::vector<long>(longs, 21)) throw Error("another sum");
    if (engine.communicator().traffic(1 - rank) !=
        PeerTraffic{{1, longs * sizeof(long)}, {1, longs * sizeof(long)}})
      throw Error("another traffic");
  });
  CHECK(thrown == nothing(2));
}

/// Random sums of tiles that live on random ranks: the same program on every rank, each running its
/// part of it. Gives the tiles at its end, each from the rank that owns it.
template <class R>
std::vector<long> random_sums(std::uint64_t seed, int ranks, int workers, LocalOptions options) {
  constexpr std::size_t tiles = 12, longs = 40;
  options.seed = seed;
  LocalWorld world(ranks, options);
  std::vector<std::vector<long>> ends(tiles);
  auto const thrown = on_runtimes<R>(world, workers, [&](auto tasks, auto& engine) {
    auto const me = static_cast<std::uint64_t>(engine.communicator().rank());
    auto const owner = [&](std::uint64_t tile) { return tile % static_cast<std::uint64_t>(ranks); };
    std::vector<typename R::Handle> handles(tiles);
    for (std::size_t t = 0; t < tiles; ++t)
      if (owner(t) == me) handles[t] = tasks.make(longs, static_cast<long>(t + 1));
    std::vector<typename R::Handle> slots = {tasks.allocate(longs), tasks.allocate(longs)};
    std::int64_t number = engine.reserve(200);
    for (std::uint64_t step = 0; step < 200; ++step) {
      std::uint64_t const drawn = mix_bits(mix_bits(seed) ^ step);
      std::uint64_t const to = drawn % tiles, from = (drawn >> 20) % tiles;
      std::int64_t const message = number++;
      if (owner(to) == me && owner(from) == me) {
        tasks.add(handles[to], handles[from], longs);
      } else if (owner(from) == me) {
        tasks.send(handles[from], {static_cast<int>(owner(to)), message}, longs);
      } else if (owner(to) == me) {
        auto const slot = slots[step % 2];
        tasks.receive(slot, {static_cast<int>(owner(from)), message}, longs);
        tasks.add(handles[to], slot, longs);
      }
    }
    for (std::size_t t = 0; t < tiles; ++t)
      if (owner(t) == me) ends[t] = tasks.read(handles[t]);
  });
  CHECK(thrown == nothing(ranks));
  std::vector<long> all;
  for (auto const& end : ends) all.insert(all.end(), end.begin(), end.end());
  return all;
}

/// What a TaskError says, from a call.
template <class Call> std::string failure_of(Call call) { return message_of<TaskError>(call); }

}  // namespace

TEMPLATE_LIST_TEST_CASE("crossed transfers end on every runtime", "[comm][transfers]",
                        test::AllRuntimes) {
  for (int const workers : {1, 2})
    if (workers <= test::most_workers<TestType>) cross<TestType>(workers, 1000);
}

TEMPLATE_LIST_TEST_CASE("random sums over ranks are those of one", "[comm][transfers]",
                        test::AllRuntimes) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    auto const expected = random_sums<Serial>(seed, 1, 1, {});
    for (int ranks = 2; ranks <= 4; ++ranks) {
      if (test::sanitized && ranks != static_cast<int>(seed) + 1) continue;  // each of both once
      for (int const workers : {1, 2}) {
        if (workers > test::most_workers<TestType>) continue;
        INFO("seed " << seed << " ranks " << ranks << " workers " << workers);
        CHECK(random_sums<TestType>(seed, ranks, workers, {.most_delay = 3}) == expected);
      }
    }
  }
}

TEST_CASE("random sums go on below multiple, where the driver alone polls", "[comm][transfers]") {
  auto const expected = random_sums<Serial>(9, 1, 1, {});
  for (auto const level : {ThreadLevel::single, ThreadLevel::funneled, ThreadLevel::serialized})
    CHECK(random_sums<Ring>(9, 3, 2, {.most_delay = 2, .thread_level = level}) == expected);
}

TEST_CASE("random sums go on under the checking adaptor", "[comm][transfers]") {
  CHECK(random_sums<Check<Ring>>(5, 3, 2, {}) == random_sums<Serial>(5, 1, 1, {}));
}

TEMPLATE_LIST_TEST_CASE("crossed transfers end in a recorded program", "[comm][transfers]",
                        test::AllRuntimes) {
  if constexpr (ReplayingRuntime<TestType>) {
    LocalWorld world(2);
    auto const thrown = on_runtimes<TestType>(world, 1, [&](auto tasks, auto& engine) {
      int const rank = engine.communicator().rank();
      auto const mine = tasks.make(8, 1 + rank), theirs = tasks.allocate(8);
      auto const arguments = tasks.arguments(engine, {1 - rank, 3}, 8);
      auto const bytes = std::as_bytes(std::span(&arguments, 1));
      Use<Binding> const in[] = {{1, Access::write}}, out[] = {{0, Access::read}};
      ProgramTask const program[] = {{&receive_codelet, in, bytes, {}, {}},
                                     {&send_codelet, out, bytes, {}, {}}};
      auto const recorded = tasks.runtime.record(program, 2, {});
      typename TestType::Handle const bindings[] = {mine, theirs};
      for (int i = 0; i < 5; ++i) {
        tasks.runtime.replay(recorded, bindings, {});
        tasks.add(mine, theirs, 8);
        tasks.runtime.wait_all();
        engine.communicator().barrier();  // the number is used again
      }
      if (tasks.read(mine) != std::vector<long>(8, 3 * 16)) throw Error("another sum");
    });
    CHECK(thrown == nothing(2));
  }
}

TEMPLATE_LIST_TEST_CASE("a rank that is busy with a chain sends meanwhile", "[comm][transfers]",
                        test::AllRuntimes) {
  struct Chain {
    std::atomic<int> ended{0};
    std::atomic<bool> received{false};
  };
  // What is left of the chain takes no time once the message is there. Behind some tasks it has
  // been sent: the others wait until the other rank, whose thread may be late, has it.
  constexpr static int length = 2000, sent = length / 4;
  static constexpr Codelet busy{"busy",
                                +[](KernelCall const& call) noexcept -> Status {
                                  Chain* chain = nullptr;
                                  std::memcpy(&chain, call.arguments, sizeof chain);
                                  do {
                                    if (!chain->received) detail::sleep_ns(2'000'000);
                                  } while (!chain->received && chain->ended >= sent);
                                  ++chain->ended;
                                  return {};
                                },
                                nullptr, nullptr};
  for (int const workers : {1, 2}) {
    if (workers > test::most_workers<TestType>) continue;
    LocalWorld world(2);
    Chain chain;
    int seen = length;
    auto const thrown = on_runtimes<TestType>(world, workers, [&](auto tasks, auto& engine) {
      using Handle = typename decltype(tasks)::Handle;
      if (engine.communicator().rank() == 1) {
        tasks.runtime.wait(tasks.receive(tasks.allocate(1000), {0, 1}, 1000));
        seen = chain.ended;
        chain.received = true;
        return;
      }
      auto* const argument = &chain;
      Handle const a = tasks.make(1, 0), b = tasks.make(1, 0), mine = tasks.make(1000, 1);
      tasks.send(mine, {1, 1}, 1000);
      for (int i = 0; i < length / 2; ++i)
        for (Handle const& handle : {a, b}) {
          Use<Handle> const uses[] = {{handle, Access::update}};
          tasks.runtime.submit({&busy, uses, std::as_bytes(std::span(&argument, 1)), {}, {}});
        }
    });
    CHECK(thrown == nothing(2));
    CHECK(seen < length / 3);
  }
}

TEMPLATE_LIST_TEST_CASE("a message of the wrong size fails its receive, and what needs it",
                        "[comm][transfers]", test::AllRuntimes) {
  SelfComm comm;
  Transfers<SelfComm> engine(comm);
  TestType runtime(RuntimeOptions{.workers = 1});
  RankTasks tasks{runtime, engine};
  auto const from = tasks.make(4, 1), to = tasks.make(4, 2), sum = tasks.make(4, 3);
  Event const received = tasks.receive(to, {0, 8}, 4, {"h1", 3});
  Event const added = tasks.add(sum, to, 4);
  tasks.send(from, {0, 8}, 2);
  std::string const text = failure_of([&] { runtime.wait(received); });
  CHECK(contains(text, "receive of message 8 from rank 0: 16 bytes came, 32 were expected"));
  CHECK(contains(text, "h1"));
  CHECK(contains(failure_of([&] { runtime.wait(added); }), "cancelled"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_LIST_TEST_CASE("a transfer waits for the one before it of its number and direction",
                        "[comm][transfers]", test::AllRuntimes) {
  SelfComm comm;
  Transfers<SelfComm> engine(comm);
  TestType runtime(RuntimeOptions{.workers = 1});
  RankTasks tasks{runtime, engine};
  auto const to = tasks.allocate(4), sum = tasks.make(4, 0);
  std::vector<Event> sent;
  for (int run = 0; run < 5; ++run) sent.push_back(tasks.send(tasks.make(4, 1), {0, 8}, 4));
  while (engine.waiting().size() < 5) (void)runtime.done(sent[0]);
  for (int run = 0; run < 4; ++run) {
    tasks.receive(to, {0, 8}, 4);
    tasks.add(sum, to, 4);
  }
  CHECK(tasks.read(sum) == std::vector<long>(4, 4));
  CHECK(engine.waiting().size() == 1);
  engine.give_up("no more");
  CHECK(contains(failure_of([&] { runtime.wait(sent[4]); }), "no more"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_LIST_TEST_CASE("a dead rank fails the transfers with it", "[comm][transfers]",
                        test::AllRuntimes) {
  LocalWorld world(3);
  std::vector<std::string> texts(3);
  auto const thrown = test::on_ranks(world, [&](LocalComm& comm) {
    Transfers<LocalComm> engine(comm);
    TestType runtime(RuntimeOptions{.workers = 1});
    RankTasks tasks{runtime, engine};
    if (comm.rank() == 2) return world.kill(2);
    auto const to = tasks.allocate(4), mine = tasks.make(4, 1), other = tasks.allocate(4);
    Event const lost = tasks.receive(to, {2, 1}, 4);
    tasks.send(mine, {1 - comm.rank(), 1}, 4);
    runtime.wait(tasks.receive(other, {1 - comm.rank(), 1}, 4));
    texts[static_cast<std::size_t>(comm.rank())] = failure_of([&] { runtime.wait(lost); });
    if (failure_of([&] { runtime.wait_all(); }).empty()) throw Error("no failure is left");
  });
  CHECK(thrown == nothing(3));
  for (int const rank : {0, 1})
    CHECK(contains(texts[static_cast<std::size_t>(rank)],
                   "receive of message 1 from rank 2: rank 2 has"));
}

TEST_CASE("what a rank waits for can be asked from any thread, and given up", "[comm][transfers]") {
  SelfComm comm;
  Transfers<SelfComm> engine(comm);
  Ring runtime(RuntimeOptions{.workers = 2});
  RankTasks tasks{runtime, engine};
  CHECK(engine.waiting().empty());
  std::vector<WaitingTransfer> seen;
  std::thread other([&] {
    while (seen.size() < 2) seen = engine.waiting();
    engine.give_up("rank 0 gives up");
  });
  auto const to = tasks.allocate(4), mine = tasks.make(2, 1);
  Event const received = tasks.receive(to, {0, 7}, 4, {"h1", 3});
  Event const sent = tasks.send(mine, {0, 8}, 2);
  CHECK(contains(failure_of([&] { runtime.wait(received); }), "rank 0 gives up"));
  CHECK(contains(failure_of([&] { runtime.wait(sent); }), "rank 0 gives up"));
  other.join();
  std::string all;
  for (WaitingTransfer const& one : seen) all += describe(one) + "\n";
  CHECK(contains(all, "receive of message 7 from rank 0, 32 bytes of tensor 'h1', tile 3, for "));
  CHECK(contains(all, "send of message 8 to rank 0, 16 bytes, for "));
  CHECK(engine.waiting().empty());
  Event const late = tasks.send(mine, {0, 9}, 2);
  CHECK(contains(failure_of([&] { runtime.wait(late); }), "rank 0 gives up"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEST_CASE("two runtimes of one rank share an engine", "[comm][transfers]") {
  SelfComm comm;
  Transfers<SelfComm> engine(comm);
  Serial first;
  Ring second(RuntimeOptions{.workers = 2});
  RankTasks a{first, engine};
  RankTasks b{second, engine};
  for (std::int64_t n = 0; n < 50; ++n) {
    auto const from = a.make(4, n), to = b.allocate(4), back = a.allocate(4);
    a.receive(back, {0, 2 * n + 1}, 4);
    b.receive(to, {0, 2 * n}, 4);
    a.send(from, {0, 2 * n}, 4);
    b.send(to, {0, 2 * n + 1}, 4);
    if (n % 3 == 0) second.wait_all();
    CHECK(a.read(back) == std::vector<long>(4, n));
  }
}

TEST_CASE("a driver on another thread than the main one is refused below serialized",
          "[comm][transfers]") {
  for (auto const level : {ThreadLevel::single, ThreadLevel::funneled, ThreadLevel::multiple}) {
    LocalWorld world(1, {.thread_level = level});
    LocalComm comm(world, 0);
    Transfers<LocalComm> engine(comm);
    CHECK_NOTHROW(engine.check_driver());
    std::string text;
    std::thread([&] { text = message_of<CommError>([&] { engine.check_driver(); }); }).join();
    CHECK(contains(text, level == ThreadLevel::multiple ? "nothing was thrown"
                                                        : concat("level ", name_of(level))));
  }
}

TEST_CASE("numbers of messages are reserved by all ranks alike", "[comm][transfers]") {
  LocalWorld world(2);
  auto const thrown = test::on_ranks(world, [&](LocalComm& comm) {
    Transfers<LocalComm> engine(comm);
    if (engine.reserve(10) != 0 || engine.reserve(0) != 10 || engine.reserve(5) != 10)
      throw Error("another number");
    (void)engine.reserve(comm.rank() == 0 ? 3 : 4);
  });
  CHECK(thrown[0] ==
        "reserve: rank 1 asks for 4 numbers from 15, rank 0 for 3 from 15: all ranks bind the same "
        "graphs in one order");
  CHECK(contains(thrown[1], "rank 0 asks for 3 numbers"));
}

TEST_CASE("more numbers than the tag bound admits are refused", "[comm][transfers]") {
  LocalWorld world(1);
  LocalComm comm(world, 0);
  Transfers<LocalComm> engine(comm);
  CHECK(engine.reserve(32'768) == 0);
  CHECK(
      message_of<CommError>([&] { (void)engine.reserve(1); }) ==
      "reserve: 1 numbers of messages, but 0 are left of those up to the tag bound, 32767: larger "
      "tiles need fewer, and so do fewer graphs on one engine");
  CHECK(engine.reserve(0) == 32'768);
}

TEST_CASE("numbers are not reserved while transfers are open", "[comm][transfers]") {
  SelfComm comm;
  Transfers<SelfComm> engine(comm);
  Serial runtime;
  RankTasks tasks{runtime, engine};
  auto const from = tasks.make(1, 1), to = tasks.allocate(1);
  tasks.send(from, {0, 0}, 1);
  CHECK(message_of<CommError>([&] { (void)engine.reserve(1); }) ==
        "reserve: 1 transfers are open on rank 0; wait for their tasks before");
  tasks.receive(to, {0, 0}, 1);
  runtime.wait_all();
  CHECK(engine.reserve(1) == 0);
}
