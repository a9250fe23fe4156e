// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are processes of one host: deaths, sizes, and the heap of a rank that has one to
// itself.
#include "nntile/comm/processes.hh"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/forked_ranks.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/random_job.hh"
#include "tests/comm/run_parts.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Time that a poll of this process takes before it looks.
std::int64_t poll_delay_ns = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// In place of the system's: by the symbol's name, since headers may define poll (_FORTIFY_SOURCE).
extern "C" int late_poll(pollfd* ends, nfds_t count, int milliseconds) __asm__("poll");
extern "C" int late_poll(pollfd* ends, nfds_t count, int milliseconds) {
  if (poll_delay_ns != 0) nntile::detail::sleep_ns(poll_delay_ns);
  timespec const most{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return ::ppoll(ends, count, milliseconds < 0 ? nullptr : &most, nullptr);
}
#endif

namespace {

using Bytes = std::vector<std::byte>;

/// Heap of one rank at its fullest: what it has for buffers, and what runs add to all else.
struct RankHeap {
  std::size_t buffers = 0, others = 0, messages = 0;
};

/// The most of `others`, by name: records of open transfers and their requests for each message,
/// lists of tasks, and ring's first chunk for arguments of tasks that are submitted, not replayed.
template <class R> std::size_t most_others(std::size_t messages) {
  constexpr std::size_t a_message = 1024, lists = 64 << 10, chunk = 1 << 20;
  return a_message * messages + lists + (std::is_same_v<R, Ring> ? chunk : 0);
}

/// The text of a rank that runs its part of a random graph in a process of its own: its RankHeap,
/// where its tiles are those of one rank and its bytes are as planned. Throws Error.
template <class R>
std::string run_rank(ProcessComm& comm, RandomParts const& parts, Tiles const& one) {
  bool const watched = watch_heap();
  RankHeap heap;
  Tiles tiles;
  {
    Transfers transfers(comm);
    R runtime(RuntimeOptions{.workers = runs_alone<R> ? 1 : 1 + comm.rank() % 2});
    TensorStore<R> store(runtime, link_of(transfers));
    HeapBytes before;
    RandomRuns const runs = run_random(parts, parts.options(), store, [&] {
      begin_heap_peak();
      before = heap_bytes();
    });
    for (PlannedTraffic const& with : runs.traffic)
      heap.messages += static_cast<std::size_t>(with.sent + with.received);
    HeapBytes const most = heap_peak();
    heap.buffers = most.buffers, heap.others = most.others - before.others;
    if (watched && static_cast<Index>(most.buffers) != runs.memory)
      throw Error(concat("buffers take ", most.buffers, " bytes, not ", runs.memory));
    if (heap.others > most_others<R>(heap.messages))
      throw Error(concat("runs of ", heap.messages, " messages take ", heap.others, " more bytes"));
    collect(store, tiles);
    comm.barrier();
    if (!(counted_by(comm) == runs.traffic)) throw Error("sends and receives what is not planned");
  }
  for (auto const& [name, bytes] : tiles)
    if (one.at(name) != bytes) throw Error(concat(name, " differs from one rank's"));
  std::string text(sizeof heap, '\0');
  std::memcpy(text.data(), &heap, sizeof heap);
  return text;
}

}  // namespace

TEST_CASE("a send from process to process copies from buffer to buffer", "[comm][processes]") {
  if (!may_read_processes()) return;
  ProcessWorld world(2);
  auto const texts = on_processes(world, [](ProcessComm& comm) -> std::string {
    Bytes bytes(1 << 20, std::byte{1});
    comm.barrier();
    std::size_t const large = allocation_totals().large;
    if (comm.rank() == 1) {
      comm.barrier();
      std::string const error = end_of(comm, comm.receive(bytes, {0, 5}));
      if (allocation_totals().large != large) return "the receiver allocates";
      return error + (bytes.front() == std::byte{9} && bytes.back() == std::byte{1} ? "" : "other");
    }
    Request const send = comm.send(bytes, {1, 5});
    bytes[0] = std::byte{9};  // before the receive: a copy would be older
    comm.barrier();
    std::string const error = end_of(comm, send);
    return allocation_totals().large == large ? error : "the sender allocates";
  });
  CHECK(texts == std::vector<std::string>(2));
}

TEST_CASE("more messages than a mail of notes has room for arrive", "[comm][processes]") {
  if (!may_read_processes()) return;
  ProcessWorld world(1);
  ProcessComm comm(world, 0);
  std::vector<Bytes> sent(1000, Bytes(8)), rooms(1000, Bytes(8));
  std::vector<EndedRequest> ended;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    std::memcpy(sent[i].data(), &i, sizeof i);
    (void)comm.send(sent[i], {0, static_cast<std::int64_t>(i)});
    (void)comm.receive(rooms[i], {0, static_cast<std::int64_t>(i)});
  }
  while (ended.size() < 2000) comm.test(ended);
  CHECK(rooms == sent);
  CHECK(comm.traffic(0).sent == Traffic{1000, 8000});
}

TEST_CASE("a receive ends when its sender can know", "[comm][processes]") {
  if (!may_read_processes()) return;
  ProcessWorld world(2);
  ProcessComm from(world, 0), to(world, 1);
  Bytes const bytes(8);
  std::vector<Bytes> rooms(10, Bytes(8));
  for (std::int64_t n = 0; n < 1000; ++n) (void)to.send(bytes, {0, n});  // fill the mail
  for (std::size_t n = 0; n < rooms.size(); ++n) {
    (void)from.send(bytes, {1, static_cast<std::int64_t>(n)});
    (void)to.receive(rooms[n], {0, static_cast<std::int64_t>(n)});
  }
  std::vector<EndedRequest> sent, received;
  while (sent.size() < rooms.size()) {
    to.test(received);
    from.test(sent);
    REQUIRE(sent.size() == received.size());
  }
}

TEST_CASE("a message of another size ends its receive between processes", "[comm][processes]") {
  if (!may_read_processes()) return;
  ProcessWorld world(2);
  ProcessComm from(world, 0), to(world, 1);
  Bytes const bytes(12), none;
  Bytes room(64);
  (void)from.send(bytes, {1, 7});
  CHECK(end_of(to, to.receive(room, {0, 7})) ==
        "receive of message 7 from rank 0: 12 bytes came, 64 were expected");
  CHECK(to.traffic(0).received == Traffic{});
}

TEST_CASE("a killed process ends what others have open with it", "[comm][processes]") {
  if (!may_read_processes()) return;
  ProcessWorld world(2);
  auto const texts = on_processes(world, [](ProcessComm& comm) -> std::string {
    Bytes bytes(64);
    comm.barrier();
    if (comm.rank() == 1) (void)::raise(SIGKILL);
    std::string said = end_of(comm, comm.receive(bytes, {1, 3})) + "; ";
    said += end_of(comm, comm.send(bytes, {1, 3})) + "; ";
    return said + message_of<CommError>([&] { comm.barrier(); });
  });
  CHECK(texts == std::vector<std::string>{
                     "receive of message 3 from rank 1: rank 1 has died; send of message 3 to rank "
                     "1: rank 1 has died; barrier: rank 1 has died",
                     "signal 9"});
}

TEST_CASE("a rank that has ended ends the waits of other processes", "[comm][processes]") {
  if (!may_read_processes()) return;
  ProcessWorld world(3);
  auto const texts = on_processes(world, [](ProcessComm& comm) -> std::string {
    if (comm.rank() != 2) comm.barrier();
    return {};
  });
  CHECK(texts ==
        std::vector<std::string>{"barrier: rank 2 has ended", "barrier: rank 2 has ended", ""});
}

TEST_CASE("a rank that dies behind a barrier has entered it", "[comm][processes]") {
  if (!may_read_processes()) return;
  if (sanitized) return skip("sanitizers have a poll of their own");
  for (int times = 0; times < 3; ++times) {
    ProcessWorld world(2);
    auto const texts = on_processes(world, [](ProcessComm& comm) -> std::string {
      if (comm.rank() == 0) {
        nntile::detail::sleep_ns(20'000'000);  // the other waits for it, and leaves behind it
        poll_delay_ns = 20'000'000;            // and dies amid the look for the dead
      }
      comm.barrier();
      if (comm.rank() == 1) (void)::raise(SIGKILL);
      return {};
    });
    CHECK(texts == std::vector<std::string>{"", "signal 9"});
  }
}

TEST_CASE("a rank whose gather fails does not hold up the others", "[comm][processes]") {
  if (!may_read_processes()) return;
  if (sanitized) return skip("sanitizers take addresses without end");
  ProcessWorld world(3);
  auto const texts = on_processes(world, [](ProcessComm& comm) -> std::string {
    constexpr std::size_t large = 64 << 20, left = 16 << 20;
    ::alarm(300);  // a rank that waits for ever is ended
    Bytes bytes(comm.rank() == 0 ? large : 8, std::byte{1});
    if (comm.rank() == 1) {
      std::ifstream statistics("/proc/self/statm");
      std::size_t pages = 0;
      statistics >> pages;
      rlimit const limit{pages * static_cast<std::size_t>(::getpagesize()) + left, RLIM_INFINITY};
      if (pages == 0 || ::setrlimit(RLIMIT_AS, &limit) != 0) return "no limit";
    }
    std::string said;
    try {
      said = concat(comm.all_gather(bytes)[0].size(), " bytes");
    } catch (std::bad_alloc const&) {
      said = "no memory";
    }
    // It lives until another has come out of the gather, and takes part in the next one.
    if (comm.rank() == 0) said += end_of(comm, comm.send(Bytes(4), {1, 1}));
    Bytes room(4);
    if (comm.rank() == 1) said += end_of(comm, comm.receive(room, {0, 1}));
    comm.barrier();
    return said;
  });
  CHECK(texts == std::vector<std::string>{"67108864 bytes", "no memory", "67108864 bytes"});
}

TEST_CASE("requests between processes for which memory ran short pass", "[comm][processes]") {
  if (!may_read_processes()) return;
  for (std::size_t const others :
       {std::size_t{0}, std::size_t{60}})  // as many as a mail of notes has room for
    for (std::size_t const expected : {std::size_t{4}, std::size_t{8}})
      for (long count = 0; count < 16; ++count) {
        INFO(others << " others, " << expected << " bytes expected, allocation " << count);
        ProcessWorld world(2);
        ProcessComm from(world, 0), to(world, 1);
        Bytes bytes(4, std::byte{1}), room(expected);
        std::vector<EndedRequest> sent, received;
        for (std::size_t n = 0; n < others; ++n)
          (void)from.send(bytes, {1, static_cast<std::int64_t>(100 + n)});
        Retry again;
        (void)fail_allocation_after(count);
        again([&] { return from.send(bytes, {1, 5}); });
        again([&] { return to.receive(room, {0, 5}); });
        for (int i = 0; i < 4; ++i) {
          again([&] { to.test(received); });
          again([&] { from.test(sent); });
        }
        (void)fail_allocation_after(-1);
        CHECK(again.failures <= 1);
        REQUIRE((sent.size() == 1 && received.size() == 1));
        CHECK(sent[0].error.empty());
        CHECK(received[0].error.empty() == (expected == 4));
        CHECK((room[0] == std::byte{1}) == (expected == 4));
        CHECK_NOTHROW(from.send(bytes, {1, 5}));  // the number is free
      }
}

TEST_CASE("what is open with a rank that is gone ends once where memory runs short",
          "[comm][processes]") {
  for (long count = 0; count < 24; ++count) {
    INFO("allocation " << count << " fails");
    ProcessWorld world(2);
    ProcessComm comm(world, 0);
    Bytes bytes(4), room(4);
    for (std::int64_t n = 0; n < 3; ++n) {
      (void)comm.send(bytes, {1, n});
      (void)comm.receive(room, {1, n});
    }
    ProcessComm(world, 1);
    std::vector<EndedRequest> ended;
    (void)fail_allocation_after(count);
    for (int i = 0; i < 2; ++i) try {
        comm.test(ended);
      } catch (std::bad_alloc const&) {
      }
    (void)fail_allocation_after(-1);
    CHECK(ended.size() == 6);
  }
}

TEST_CASE("a rank of processes is made once, and only where it is", "[comm][processes]") {
  ProcessWorld world(2);
  ProcessComm const first(world, 0);
  CHECK(message_of<CommError>([&] { ProcessComm(world, 0); }) ==
        "ProcessComm: rank 0 was made before; one object is one rank");
  CHECK(message_of<CommError>([&] { ProcessComm(world, 2); }) ==
        "ProcessComm: there is no rank 2, the world has 2 (0 to 1)");
  CHECK(message_of<ValueError>([&] { ProcessWorld(0); }) == "ProcessWorld: 0 ranks; 1 to 1024");
  CHECK(message_of<ValueError>([&] { ProcessWorld(1025); }) ==
        "ProcessWorld: 1025 ranks; 1 to 1024");
}

// NNTILE_PROCESS_PARTS (50) says how many, NNTILE_RANDOM_SEED (1) from which seed on.
TEST_CASE("a process that was forked leaves its parent's rank alone", "[comm][processes]") {
  ProcessWorld world(2);
  std::optional<ProcessComm> first(std::in_place, world, 0);
  pid_t const child = ::fork();
  if (child == 0) {
    first.reset();
    std::_Exit(0);
  }
  ::waitpid(child, nullptr, 0);
  ProcessComm second(world, 1);
  Bytes const sent{std::byte{7}};
  Bytes got(1);
  (void)first->send(sent, {1, 5});
  CHECK(end_of(second, second.receive(got, {0, 5})) == "");
  CHECK(got == sent);
}

TEST_CASE("random graphs have the heap of their plans in a process for each rank",
          "[comm][processes]") {
  if (!may_read_processes()) return;
  std::uint64_t const count = setting("NNTILE_PROCESS_PARTS", sanitized ? 10 : 50);
  std::uint64_t tried = 0;
  RankHeap all;
  std::size_t ranks = 0;
  for (std::uint64_t seed = setting("NNTILE_RANDOM_SEED", 1); tried < count; ++seed) {
    RandomParts const parts(seed);
    if (parts.is_useless() || !parts.refusal().empty()) continue;
    INFO("seed " << seed);
    ++tried;
    PlanOptions const alone = parts.alone();
    Tiles const one = run_parts<Serial>(
        {}, {}, [&](auto& store) { return run_random(parts, alone, store).traffic; });
    ProcessWorld world(parts.ranks());
    auto const texts = on_processes(world, [&](ProcessComm& comm) {
      return seed % 2 == 0 ? run_rank<Serial>(comm, parts, one) : run_rank<Ring>(comm, parts, one);
    });
    std::string said;
    for (std::string const& text : texts)
      if (text.size() != sizeof(RankHeap)) said += text + "; ";
    INFO(said);
    for (std::string const& text : texts) {
      REQUIRE(text.size() == sizeof(RankHeap));
      RankHeap heap;
      std::memcpy(&heap, text.data(), sizeof heap);
      ++ranks;
      all.buffers += heap.buffers, all.others += heap.others, all.messages += heap.messages;
    }
  }
  if (std::getenv("NNTILE_PROCESS_PARTS") != nullptr)
    std::printf(
        "parts in processes: %zu graphs, %zu ranks, %zu messages of two runs, %zu bytes of "
        "buffers, "
        "%zu of all else in runs\n",
        static_cast<std::size_t>(tried), ranks, all.messages, all.buffers, all.others);
  CHECK(all.messages > 2 * tried);
}
