// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/comm/measure_link.hh"

#include <chrono>
#include <string>
#include <vector>

#include "nntile/comm/self.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Clock = std::chrono::steady_clock;

/// Reports the end of a receive later than it is: by 5 ms, and 10 ns for each byte.
class LateComm {
 public:
  static constexpr double latency = 5e-3, bandwidth = 1e8;

  explicit LateComm(LocalComm& comm) : comm_(comm) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  std::int64_t tag_bound() const { return comm_.tag_bound(); }
  ThreadLevel thread_level() const { return comm_.thread_level(); }
  bool on_main_thread() const { return comm_.on_main_thread(); }
  Request send(std::span<std::byte const> bytes, Message message) {
    due_ = {};
    return comm_.send(bytes, message);
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    due_ = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(latency + static_cast<double>(bytes.size()) / bandwidth));
    return comm_.receive(bytes, message);
  }
  void test(std::vector<EndedRequest>& ended) {
    if (held_.empty()) {
      comm_.test(held_);
      since_ = Clock::now();
    }
    if (held_.empty() || Clock::now() - since_ < due_) return;
    ended.insert(ended.end(), held_.begin(), held_.end());
    held_.clear();
  }
  void barrier() { comm_.barrier(); }
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    return comm_.all_gather(bytes);
  }
  PeerTraffic traffic(int peer) const { return comm_.traffic(peer); }

 private:
  LocalComm& comm_;
  Clock::duration due_{};
  Clock::time_point since_;
  std::vector<EndedRequest> held_;
};
static_assert(Communicator<LateComm>);

}  // namespace

TEST_CASE("a link's times are not below those of its communicator", "[comm][link]") {
  LocalWorld world(3);
  std::vector<LinkModel> found(3);
  for (std::string const& text : on_ranks(world, [&](LocalComm& comm) {
         LateComm late(comm);
         found[static_cast<std::size_t>(comm.rank())] =
             measure_link(late, {.bytes = 1'000'000, .rounds = 3});
       }))
    CHECK(text == "");
  // A thread that comes back finds the message only then, and waits: all is its own time.
  for (LinkModel const& link : found) {
    double const small = link.latency + 2 * link.overhead;
    double const byte = 1 / link.bandwidth + 2 * link.overhead_per_byte;
    CHECK(small >= LateComm::latency * 0.99);
    // Of both together, since a busy core may have made the small message late, not the large one.
    CHECK(small + 999'992 * byte >= 0.99 * (LateComm::latency + 1e6 / LateComm::bandwidth));
    CHECK((link.latency >= 0 && link.bandwidth > 0 && link.overhead >= 0));
    CHECK((link.latency == found[0].latency && link.bandwidth == found[0].bandwidth));
  }
}

TEST_CASE("a link is measured between two ranks at least, and leaves nothing open",
          "[comm][link]") {
  SelfComm alone;
  CHECK(message_of<ValueError>([&] { (void)measure_link(alone); }) ==
        "measure_link: 1 rank; a link is between two");
  LocalWorld world(2);
  for (std::string const& text : on_ranks(world, [&](LocalComm& comm) {
         if (message_of<ValueError>([&] { (void)measure_link(comm, {.rounds = 0}); }) !=
             "measure_link: 0 rounds of 1048576 bytes; at least 1 of 1024")
           throw Error("no rounds were admitted");
         if (message_of<ValueError>([&] {
               (void)measure_link(comm, {.bytes = std::size_t{1} << 60});  // 16 times that wraps
             }) != "measure_link: messages of 1152921504606846976 bytes; at most 2^40")
           throw Error("more bytes than there are addresses were admitted");
         (void)measure_link(comm, {.bytes = 4096, .rounds = 2});
         std::vector<EndedRequest> ended;
         comm.test(ended);
         if (!ended.empty()) throw Error("a request was open");
       }))
    CHECK(text == "");
}

TEST_CASE("a rank that measures otherwise, or cannot, has no other wait", "[comm][link]") {
  auto const said = [](MeasureLinkOptions const& first, MeasureLinkOptions const& second) {
    LocalWorld world(2);
    std::vector<std::string> texts(2);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      try {
        (void)measure_link(comm, comm.rank() == 0 ? first : second);
      } catch (Error const& error) {
        texts[static_cast<std::size_t>(comm.rank())] = error.what();
      }
      comm.barrier();  // none has ended
    });
    CHECK(thrown == std::vector<std::string>(2));
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(said({.bytes = 4096, .rounds = 2}, {.bytes = 4096, .rounds = 3}) ==
        Texts{"measure_link: rank 0 is at 2 rounds of 4096 bytes, rank 1 at 3 rounds of 4096 "
              "bytes: all ranks measure alike",
              "measure_link: rank 1 is at 3 rounds of 4096 bytes, rank 0 at 2 rounds of 4096 "
              "bytes: all ranks measure alike"});
  CHECK(said({.bytes = 4096, .rounds = 2}, {.bytes = 8, .rounds = 2}) ==
        Texts{"measure_link: rank 0 is at 2 rounds of 4096 bytes, rank 1 at measure_link: 2 rounds "
              "of 8 bytes; at least 1 of 1024: all ranks measure alike",
              "measure_link: 2 rounds of 8 bytes; at least 1 of 1024"});
}
