// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are threads: delays, deaths, wrong sizes, threads.
#include "nntile/comm/local.hh"

#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "tests/comm/local_ranks.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

namespace {

using namespace nntile;
using test::end_of;

using Bytes = std::vector<std::byte>;

/// The numbers of ten messages in the order in which their receives ended.
std::vector<std::int64_t> order_of_arrival(std::uint64_t seed) {
  LocalWorld world(2, {.seed = seed, .most_delay = 20});
  LocalComm from(world, 0), to(world, 1);
  Bytes bytes(4);
  std::vector<Bytes> rooms(10, Bytes(4));
  std::vector<std::int64_t> numbers;
  for (std::int64_t n = 0; n < 10; ++n) {
    (void)from.send(bytes, {1, n});
    (void)to.receive(rooms[static_cast<std::size_t>(n)], {0, n});
  }
  for (std::vector<EndedRequest> ended; numbers.size() < 10; ended.clear()) {
    to.test(ended);
    for (EndedRequest const& one : ended)
      numbers.push_back(static_cast<std::int64_t>(one.request) - 1);
  }
  return numbers;
}

}  // namespace

TEST_CASE("delayed messages overtake each other, alike for one seed", "[comm][local]") {
  std::vector<std::int64_t> const sent = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(order_of_arrival(1) != sent);
  CHECK(order_of_arrival(1) == order_of_arrival(1));
  CHECK(order_of_arrival(1) != order_of_arrival(2));
}

TEST_CASE("a send copies from buffer to buffer and ends when it was received", "[comm][local]") {
  LocalWorld world(2);
  LocalComm from(world, 0), to(world, 1);
  Bytes bytes(4, std::byte{1}), room(4);
  std::vector<EndedRequest> ended;
  (void)from.send(bytes, {1, 5});
  bytes[0] = std::byte{9};  // before the receive: the sender's own copy would be older
  from.test(ended);
  CHECK(ended.empty());
  Request const receive = to.receive(room, {0, 5});
  CHECK(end_of(to, receive).empty());
  CHECK(room[0] == std::byte{9});
  from.test(ended);
  CHECK(ended.size() == 1);
}

TEST_CASE("an eager send ends without its receive", "[comm][local]") {
  LocalWorld world(2, {.eager_bytes = 4});
  LocalComm from(world, 0), to(world, 1);
  Bytes bytes(4, std::byte{1}), room(4);
  CHECK(end_of(from, from.send(bytes, {1, 5})).empty());
  bytes[0] = std::byte{9};
  CHECK(end_of(to, to.receive(room, {0, 5})).empty());
  CHECK(room[0] == std::byte{1});
}

TEST_CASE("a message whose size was changed ends its receive with both sizes", "[comm][local]") {
  LocalWorld world(2);
  LocalComm from(world, 0), to(world, 1);
  Bytes bytes(64), room(64);
  world.change_size(0, 1, 7, 12);
  (void)from.send(bytes, {1, 7});
  CHECK(end_of(to, to.receive(room, {0, 7})) ==
        "receive of message 7 from rank 0: 12 bytes came, 64 were expected");
  CHECK(to.traffic(0).received == Traffic{});
}

TEST_CASE("a dead rank ends what others have open with it, and no more", "[comm][local]") {
  LocalWorld world(3);
  LocalComm a(world, 0), b(world, 1), c(world, 2);
  Bytes bytes(8), room(8), other(8);
  Request const send = a.send(bytes, {1, 3});
  Request const receive = a.receive(room, {1, 4});
  Request const living = a.receive(other, {2, 4});
  world.kill(1);
  std::vector<EndedRequest> ended;
  a.test(ended);
  REQUIRE(ended.size() == 2);
  CHECK((ended[0].request == send && ended[1].request == receive));
  CHECK(ended[0].error == "send of message 3 to rank 1: rank 1 has died");
  CHECK(ended[1].error == "receive of message 4 from rank 1: rank 1 has died");
  (void)c.send(bytes, {0, 4});
  CHECK(end_of(a, living).empty());
  CHECK(test::message_of<CommError>([&] { (void)b.send(bytes, {0, 1}); }) ==
        "send: this rank, 1, has died");
  CHECK(test::message_of<CommError>([&] { a.barrier(); }) == "barrier: rank 1 has died");
}

TEST_CASE("a rank that has ended ends the waits of the others", "[comm][local]") {
  LocalWorld world(3);
  auto const thrown = test::on_ranks(world, [](LocalComm& comm) {
    if (comm.rank() != 2) comm.barrier();
  });
  CHECK(thrown ==
        std::vector<std::string>{"barrier: rank 2 has ended", "barrier: rank 2 has ended", ""});
}

TEST_CASE("a rank that enters again does not stand for one that has ended", "[comm][local]") {
  LocalWorld world(3);
  LocalComm a(world, 0), b(world, 1);
  {
    LocalComm const ended(world, 2);
  }
  Bytes const bytes(4);
  for (int times = 0; times < 2; ++times)
    CHECK(test::message_of<CommError>([&] { (void)a.all_gather(bytes); }) ==
          "all_gather: rank 2 has ended");
  CHECK(test::message_of<CommError>([&] { b.barrier(); }) == "barrier: rank 2 has ended");
}

TEST_CASE("the bytes of a rank that has ended are not read", "[comm][local]") {
  LocalWorld world(2);
  LocalComm to(world, 0);
  Bytes room(1000);
  {
    Bytes const bytes(1000);
    LocalComm from(world, 1);
    (void)from.send(bytes, {0, 1});
  }
  CHECK(end_of(to, to.receive(room, {1, 1})) ==
        "receive of message 1 from rank 1: rank 1 has ended");
}

TEST_CASE("what an eager sender left behind arrives", "[comm][local]") {
  LocalWorld world(2, {.eager_bytes = 100});
  LocalComm to(world, 0);
  Bytes room(10);
  {
    Bytes const bytes(10, std::byte{3});
    LocalComm from(world, 1);
    (void)from.send(bytes, {0, 1});
  }
  CHECK(end_of(to, to.receive(room, {1, 1})).empty());
  CHECK(room[9] == std::byte{3});
}

TEST_CASE("of a rank that has ended only what it sent eagerly is read", "[comm][local]") {
  LocalWorld world(2, {.eager_bytes = 10});
  LocalComm to(world, 0);
  Bytes const few(10), many(1000);
  Bytes room(10), large(1000);
  {
    LocalComm from(world, 1);
    CHECK(end_of(from, from.send(few, {0, 1})).empty());
    (void)from.send(many, {0, 1});  // of the same number, behind the other
  }
  CHECK(end_of(to, to.receive(room, {1, 1})).empty());
  CHECK(end_of(to, to.receive(large, {1, 1})) ==
        "receive of message 1 from rank 1: rank 1 has ended");
}

TEST_CASE("below serialized another thread than the first is refused", "[comm][local]") {
  LocalWorld world(1, {.thread_level = ThreadLevel::funneled});
  LocalComm comm(world, 0);
  Bytes bytes(1);
  std::string text;
  std::thread([&] {
    text = test::message_of<CommError>([&] { (void)comm.send(bytes, {0, 0}); });
  }).join();
  CHECK(text == "LocalComm: send on a thread that is not the main one, at thread level funneled");
  CHECK_NOTHROW(comm.barrier());
}

TEST_CASE("a world has 1 to 65,536 ranks", "[comm][local]") {
  for (int const size : {-1, 0, 65'537, 1'000'000'000})
    CHECK(test::message_of<ValueError>([&] { LocalWorld{size}; }) ==
          concat("LocalWorld: ", size, " ranks; 1 to 65536"));
  CHECK(LocalWorld(65'536).size() == 65'536);
}

TEST_CASE("a world has 32,768 numbers of messages or more", "[comm][local]") {
  for (std::int64_t const bound : {INT64_MIN, -INT64_C(5), INT64_C(0), INT64_C(32766)})
    CHECK(test::message_of<ValueError>([&] { LocalWorld(2, {.tag_bound = bound}); }) ==
          concat("LocalWorld: tag_bound=", bound, "; at least 32767, as every communicator has"));
  LocalWorld world(1, {.tag_bound = 32'767});
  CHECK(LocalComm(world, 0).tag_bound() == 32'767);
}

TEST_CASE("the last of 65,536 ranks is sent to and sends", "[comm][local]") {
  LocalWorld world(65'536);
  LocalComm first(world, 0), last(world, 65'535);
  Bytes bytes(4, std::byte{5}), room(4);
  (void)last.send(bytes, {0, 1});
  CHECK(end_of(first, first.receive(room, {65'535, 1})).empty());
  CHECK(room == bytes);
}

TEST_CASE("a rank is made once, and only where it is", "[comm][local]") {
  LocalWorld world(2);
  LocalComm const first(world, 0);
  CHECK(test::message_of<CommError>([&] { LocalComm(world, 0); }) ==
        "LocalComm: rank 0 was made before; one object is one rank");
  CHECK(test::message_of<CommError>([&] { LocalComm(world, 2); }) ==
        "LocalComm: there is no rank 2, the world has 2 (0 to 1)");
  CHECK_THROWS_AS(LocalWorld(0), ValueError);
}

TEST_CASE("requests for which memory ran short are posted again and pass", "[comm][local]") {
  for (std::size_t const eager : {std::size_t{0}, std::size_t{4}})
    for (long count = 0; count < 12; ++count) {
      INFO("eager " << eager << ", allocation " << count << " fails");
      LocalWorld world(2, {.eager_bytes = eager});
      LocalComm from(world, 0), to(world, 1);
      Bytes bytes(4, std::byte{1}), room(4);
      std::vector<EndedRequest> sent, received;
      auto const until = [](auto call) {
        for (int i = 0; i < 3; ++i) try {
            return call();
          } catch (std::bad_alloc const&) {
          }
      };
      (void)test::fail_allocation_after(count);
      until([&] { (void)from.send(bytes, {1, 5}); });
      until([&] { (void)to.receive(room, {0, 5}); });
      for (int i = 0; i < 3; ++i) until([&] { to.test(received); });
      for (int i = 0; i < 3; ++i) until([&] { from.test(sent); });
      (void)test::fail_allocation_after(-1);
      CHECK((sent.size() == 1 && received.size() == 1 && room == bytes));
    }
}

TEST_CASE("a gather for which one rank lacks memory fails on all", "[comm][local]") {
  if (!test::allocations_are_counted()) return;
  struct FailNew {
    explicit FailNew(long count) { (void)test::fail_new_after(count); }
    ~FailNew() { (void)test::fail_new_after(-1); }
  };
  for (long count = 0; count < 20; ++count) {
    INFO("allocation " << count << " fails");
    LocalWorld world(3);
    std::atomic<int> went_well{0};
    auto const thrown = test::on_ranks(world, [&](LocalComm& comm) {
      Bytes const bytes(40, std::byte(comm.rank()));
      std::exception_ptr failure;
      try {
        // The last to enter makes the copies of all.
        if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        FailNew const fail(comm.rank() == 1 ? count : -1);
        if (comm.all_gather(bytes).size() != 3) throw CommError("bytes of some ranks are lacking");
      } catch (...) {
        failure = std::current_exception();
      }
      went_well += comm.all_gather(bytes).size() == 3;  // the next one
      if (failure != nullptr) std::rethrow_exception(failure);
    });
    CHECK(went_well == 3);
    bool const failed = thrown[1] != "";
    CHECK((failed || count > 0));
    CHECK(thrown[1] == (failed ? "std::bad_alloc" : ""));
    for (std::size_t const other : {0u, 2u})
      CHECK(thrown[other] == (failed ? "all_gather: rank 1 lacks memory" : ""));
  }
}
