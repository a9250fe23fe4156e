// SPDX-License-Identifier: BSD-3-Clause
// Transfers whose communicator fails, throws or lacks memory.
#include "nntile/comm/transfers.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/comm/self.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/transfer_tasks.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

namespace {

using namespace nntile;
using test::contains;
using test::message_of;
using test::RankTasks;

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

}  // namespace

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
    CHECK(engine.broken() == "");  // both sides fail by the size of the message
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
    CHECK(contains(message_of<TaskError>([&] { runtime.wait(sent); }), text));
    CHECK(contains(engine.broken(), text));
    if (posts) engine.give_up("");
    for (Event const event : {received, more})
      CHECK(
          contains(message_of<TaskError>([&] { runtime.wait(event); }), posts ? "given up" : text));
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
