// SPDX-License-Identifier: BSD-3-Clause
// The communicator of one rank, where memory runs short.
#include "nntile/comm/self.hh"

#include <new>
#include <vector>

#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"

using namespace nntile;

TEST_CASE("a request for which memory ran short was not posted", "[comm][self]") {
  for (std::size_t const expected : {std::size_t{4}, std::size_t{8}})
    for (bool const receive_first : {false, true})
      for (long count = 0; count < 8; ++count) {
        INFO(expected << " bytes expected, receive first " << receive_first << ", allocation "
                      << count << " fails");
        SelfComm comm;
        std::vector<std::byte> bytes(4, std::byte{1}), room(expected);
        std::vector<EndedRequest> ended;
        test::Retry again;
        (void)test::fail_allocation_after(count);
        if (receive_first) again([&] { return comm.receive(room, {0, 5}); });
        again([&] { return comm.send(bytes, {0, 5}); });
        if (!receive_first) again([&] { return comm.receive(room, {0, 5}); });
        again([&] { return comm.test(ended), 0; });
        (void)test::fail_allocation_after(-1);
        CHECK(again.failures <= 1);
        REQUIRE(ended.size() == 2);
        CHECK(ended[0].error.empty());
        CHECK(ended[1].error.empty() == (expected == 4));
        CHECK((room[0] == std::byte{1}) == (expected == 4));
        CHECK(comm.traffic(0).sent.messages == 1);
      }
}
