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
#include "tests/support/allocations.hh"
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

/// Its own calls always have memory.
struct Spared : SelfComm {
  template <class Call> static auto spare(Call call) {
    struct Spare {
      long const left = test::fail_allocation_after(-1);
      ~Spare() { (void)test::fail_allocation_after(left); }
    } const spare;
    return call();
  }
  Request send(std::span<std::byte const> bytes, Message message) {
    return spare([&] { return SelfComm::send(bytes, message); });
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    return spare([&] { return SelfComm::receive(bytes, message); });
  }
  void test(std::vector<EndedRequest>& ended) {
    spare([&] { SelfComm::test(ended); });
  }
};

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

TEST_CASE("what a communicator fails with can be asked from any thread", "[comm][transfers]") {
  struct Failing : SelfComm {
    bool posts = false, tests = false;  // fail
    Request send(std::span<std::byte const> bytes, Message message) {
      if (posts) throw CommError("no send");
      return SelfComm::send(bytes, message);
    }
    void test(std::vector<EndedRequest>& ended) {
      if (tests) throw CommError("no test");
      SelfComm::test(ended);
    }
  };
  for (bool const posts : {true, false}) {
    Failing comm;
    Transfers<Failing> engine(comm);
    Serial runtime;
    RankTasks tasks{runtime, engine};
    auto const from = tasks.make(4, 1), to = tasks.allocate(4), large = tasks.allocate(8);
    tasks.send(from, {0, 8}, 4);
    CHECK_THROWS_AS(runtime.wait(tasks.receive(large, {0, 8}, 8)), TaskError);
    CHECK(engine.broken() == "");  // a message of the wrong size is told to both
    (posts ? comm.posts : comm.tests) = true;
    Event const sent = tasks.send(from, {0, 9}, 4), received = tasks.receive(to, {0, 9}, 4);
    CHECK_THROWS_AS(runtime.wait(sent), TaskError);
    std::string text;
    std::thread([&] { text = engine.broken(); }).join();
    CHECK(text == (posts ? "no send" : "no test"));
    engine.give_up("no more");
    CHECK_THROWS_AS(runtime.wait(received), TaskError);
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    CHECK(engine.broken() == text);
  }
}

TEST_CASE("a transfer that lacks memory to begin can be asked for", "[comm][transfers]") {
  if (!test::allocations_are_counted()) return;
  SelfComm comm;
  Transfers<SelfComm> engine(comm);
  std::byte bytes[8] = {};
  char text[status_text_bytes] = {};
  void* const buffers[] = {bytes};
  TransferCall const call{static_cast<TransferQueue*>(&engine), 7, sizeof bytes};
  (void)test::fail_new_after(0);
  Status const status = send_codelet.async({buffers, &call, text}, Completion{});
  (void)test::fail_new_after(-1);
  CHECK(status.error == std::string("std::bad_alloc"));
  CHECK(engine.broken() == "std::bad_alloc");
}

TEST_CASE("a cause for which memory lacks can be asked for", "[comm][transfers]") {
  if (!test::allocations_are_counted()) return;
  struct Ends {
    int count = 0;
    bool lacks_memory = false;
    Completion::Poll poll = nullptr;
    void* engine = nullptr;
  };
  Completion token;
  token.finish = +[](void* owner, std::uint64_t, Status status) noexcept {
    auto& ends = *static_cast<Ends*>(owner);
    ++ends.count;
    if (!status.ok() && status.error == std::string_view("no memory")) ends.lacks_memory = true;
  };
  token.add_poll = +[](void* owner, std::uint64_t, Completion::Poll poll, void* engine, bool) {
    static_cast<Ends*>(owner)->poll = poll, static_cast<Ends*>(owner)->engine = engine;
  };
  int lacking = 0;
  for (long count = 0; count < 40; ++count) {
    INFO("allocation " << count << " fails");
    SelfComm comm;
    Transfers<SelfComm> engine(comm);
    Ends ends;
    token.owner = &ends;
    std::byte bytes[8] = {};
    void* const buffers[] = {bytes};
    char text[status_text_bytes] = "the cause";
    TransferCall const call{static_cast<TransferQueue*>(&engine), 7, 8, 0, nullptr, -1, 9};
    KernelCall marked{buffers, &call, text};
    marked.marked = true;
    CHECK(send_codelet.async(marked, token).ok());
    token.id = 1;
    CHECK(receive_codelet.async({buffers, &call, text}, token).ok());
    (void)test::fail_new_after(count);
    for (int i = 0; i < 8; ++i) (void)ends.poll(ends.engine, token);
    (void)test::fail_new_after(-1);
    bool const waits = ends.count < 2;  // the other end
    lacking += ends.lacks_memory && waits ? 1 : 0;
    CHECK((!waits || engine.broken() != ""));
    engine.give_up("the end");
    CHECK(ends.count == 2);
  }
  CHECK(lacking > 0);
}

TEST_CASE("whatever a communicator throws ends all that it concerns", "[comm][transfers]") {
  struct Throwing : SelfComm {
    bool posts = false, tests = false;  // fail
    Request send(std::span<std::byte const> bytes, Message message) {
      if (posts) throw std::bad_alloc();
      return SelfComm::send(bytes, message);
    }
    void test(std::vector<EndedRequest>& ended) {
      if (tests) throw std::runtime_error("the network is gone");
      SelfComm::test(ended);
    }
  };
  for (bool const posts : {true, false}) {
    Throwing comm;
    Transfers<Throwing> engine(comm);
    Ring runtime(RuntimeOptions{.workers = 2});
    RankTasks tasks{runtime, engine};
    auto const from = tasks.make(4, 1), to = tasks.allocate(4), other = tasks.allocate(4);
    (posts ? comm.posts : comm.tests) = true;
    Event const received = tasks.receive(to, {0, 9}, 4), more = tasks.receive(other, {0, 7}, 4);
    Event const sent = tasks.send(from, {0, 9}, 4);
    std::string const text = posts ? "bad_alloc" : "the network is gone";
    CHECK(contains(failure_of([&] { runtime.wait(sent); }), text));
    CHECK(contains(engine.broken(), text));
    if (posts) engine.give_up("");
    for (Event const event : {received, more})
      CHECK(contains(failure_of([&] { runtime.wait(event); }), posts ? "given up" : text));
    CHECK(engine.waiting().empty());
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  }
}

TEST_CASE("transfers end where memory lacks amid a poll", "[comm][transfers]") {
  for (long count = 0; count < 60; ++count) {
    INFO("allocation " << count << " fails");
    Spared comm;
    Transfers<Spared> engine(comm);
    Serial runtime;
    RankTasks tasks{runtime, engine};
    std::vector<Event> events;
    for (std::int64_t n = 0; n < 12; ++n) {  // the last one's message has the wrong size
      auto const from = tasks.make(n == 11 ? 3 : 4, n), to = tasks.allocate(4);
      events.push_back(tasks.receive(to, {0, n % 8}, 4));
      events.push_back(tasks.send(from, {0, n % 8}, n == 11 ? 3 : 4));
    }
    (void)test::fail_allocation_after(count);
    for (int i = 0; i < 100; ++i) (void)runtime.done(events.back());
    (void)test::fail_allocation_after(-1);
    for (int i = 0; i < 1000; ++i) (void)runtime.done(events.back());
    int open = 0;
    for (Event const event : events) open += !runtime.done(event);
    CHECK(open == 0);
    if (open != 0) engine.give_up("a transfer was lost");
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  }
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

TEST_CASE("a communicator of too few pieces, or of impossible ranks, is refused",
          "[comm][transfers]") {
  struct Odd : SelfComm {
    int its_rank = 0, its_size = 1;
    int rank() const { return its_rank; }
    int size() const { return its_size; }
    std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const>) { return {}; }
  };
  Odd comm;
  Transfers<Odd> engine(comm);
  CHECK(message_of<CommError>([&] { (void)engine.reserve(1); }) ==
        "all_gather: the communicator gave 0 pieces, and has 1 ranks");
  for (auto const& [rank, size] : {std::pair(0, 0), {-1, 2}, {2, 2}, {0, -1}}) {
    comm.its_rank = rank, comm.its_size = size;
    CHECK(message_of<CommError>([&] { Transfers<Odd> const other(comm); }) ==
          concat("communicator: rank() is ", rank, " and size() ", size,
                 "; ranks count from 0 to size() - 1"));
  }
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
