#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The sentences of comm/LAW.md as checks.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "nntile/testing/communicator/trial.hh"

namespace nntile::testing::comm_checks {

/// Above what communicators send eagerly.
inline constexpr std::size_t large = 300'000;

/// One number of every rank, through all_gather.
inline std::vector<std::int64_t> gather(CommTrial& trial, std::int64_t mine) {
  std::vector<std::byte> bytes(sizeof mine);
  std::memcpy(bytes.data(), &mine, sizeof mine);
  auto const all = trial.comm.all_gather(bytes);
  require(all.size() == static_cast<std::size_t>(trial.size()),
          concat("all_gather gave ", all.size(), " pieces among ", trial.size(), " ranks"));
  std::vector<std::int64_t> values;
  for (auto const& piece : all) {
    require(piece.size() == sizeof mine,
            concat("a piece of ", sizeof mine, " bytes has ", piece.size()));
    std::memcpy(&values.emplace_back(), piece.data(), sizeof mine);
  }
  return values;
}

inline void ranks(CommTrial& trial) {
  require(trial.comm.size() >= 1, concat("size() is ", trial.comm.size()));
  require(trial.rank() >= 0 && trial.rank() < trial.size(),
          concat("rank() is ", trial.rank(), " of ", trial.size()));
  auto const all = gather(trial, trial.rank());
  require(std::set<std::int64_t>(all.begin(), all.end()).size() == all.size(),
          "two ranks have one number");
  for (std::int64_t const size : gather(trial, trial.size()))
    require(size == trial.size(),
            concat("one rank says that there are ", size, " ranks, this one ", trial.size()));
}
inline void tag_bound(CommTrial& trial) {
  std::int64_t const mine = trial.comm.tag_bound();
  require(mine >= least_tag_bound, concat("tag_bound() is ", mine));
  for (std::int64_t const bound : gather(trial, mine))
    require(bound == mine, concat("one rank's tag bound is ", bound, ", this one's ", mine));
}
inline void all_gather(CommTrial& trial) {
  for (std::size_t round = 0; round < 6; ++round) {
    auto const length = [&](int rank) {
      return round * (static_cast<std::size_t>(rank) * 7 % 5) * 31;
    };
    auto const value = [&](int rank) {
      return static_cast<std::byte>(static_cast<std::size_t>(rank) * 16 + round);
    };
    std::vector<std::byte> const mine(length(trial.rank()), value(trial.rank()));
    auto const all = trial.comm.all_gather(mine);
    require(all.size() == static_cast<std::size_t>(trial.size()),
            concat("all_gather gave ", all.size(), " pieces among ", trial.size(), " ranks"));
    for (int rank = 0; rank < trial.size(); ++rank)
      require(
          all[static_cast<std::size_t>(rank)] == std::vector<std::byte>(length(rank), value(rank)),
          concat("the piece of rank ", rank, " is another one than it gave"));
  }
}
inline void barrier(CommTrial& trial) {
  for (int late = 0; late < trial.size(); ++late) {
    if (trial.rank() == late) nntile::detail::sleep_ns(3'000'000);
    std::int64_t const entered = nntile::detail::monotonic_ns();
    trial.comm.barrier();
    std::int64_t const left = nntile::detail::monotonic_ns();
    // The clock is that of the host; on several, each compares with itself and passes.
    for (std::int64_t const other : gather(trial, entered))
      require(other <= left || other - left > 1'000'000'000,
              concat("a rank left the barrier ", other - left, " ns before another entered it"));
  }
}

inline void whole(CommTrial& trial) {
  std::size_t const sizes[] = {0, 1, 7, 64, 4096, 65'537, large};
  std::int64_t n = 0;
  for (std::size_t const size : sizes) {
    trial.send(trial.next(), n, size);
    trial.receive(trial.next(-1), n++, size);
    trial.finish();
  }
}
inline void itself(CommTrial& trial) {
  trial.send(trial.rank(), 0, 100);
  trial.receive(trial.rank(), 0, 100);
  trial.receive(trial.rank(), 1, 200'000);
  trial.send(trial.rank(), 1, 200'000);
  trial.finish();
}
inline void no_wait(CommTrial& trial) {
  for (std::size_t const size : {std::size_t{16}, large}) {
    std::int64_t const n = size == 16 ? 0 : 10;
    trial.send(trial.next(), n, size);
    trial.test();
    trial.comm.barrier();  // all sends are out before the first receive
    trial.receive(trial.next(-1), n, size);
    trial.finish();
    trial.comm.barrier();
    trial.receive(trial.next(-1), n + 1, size);
    trial.test();
    trial.comm.barrier();  // and the other way round
    trial.send(trial.next(), n + 1, size);
    trial.finish();
  }
}
inline void by_number(CommTrial& trial) {
  constexpr std::int64_t count = 20;
  for (std::int64_t n = 0; n < count; ++n) trial.send(trial.next(), n, 40);
  for (std::int64_t n = count; n-- > 0;) trial.receive(trial.next(-1), n, 40);
  trial.finish();
}
inline void by_rank(CommTrial& trial) {
  for (int places = 0; places < trial.size(); ++places) trial.receive(trial.next(places), 0, 3000);
  for (int places = 0; places < trial.size(); ++places) trial.send(trial.next(places), 0, 3000);
  trial.finish();
}
inline void many(CommTrial& trial) {
  for (std::int64_t n = 0; n < 500; ++n) trial.receive(trial.next(-1), n, 8);
  for (std::int64_t n = 0; n < 500; ++n) trial.send(trial.next(), n, 8);
  trial.finish();
}
inline void once(CommTrial& trial) {
  for (std::int64_t n = 0; n < 10; ++n) {
    trial.receive(trial.next(-1), n, 8);
    trial.send(trial.next(), n, 8);
    trial.wait(static_cast<std::size_t>(n));  // some stay open
  }
  trial.wait();
  for (int i = 0; i < 20; ++i) trial.test();  // a second report is a violation
  trial.finish();
}
inline void beside(CommTrial& trial) {
  for (std::int64_t n = 0; n < 16; ++n) {
    trial.receive(trial.next(-1), n, static_cast<std::size_t>(n));
    trial.send(trial.next(), n, static_cast<std::size_t>(n));
  }
  trial.finish();
}
inline void again(CommTrial& trial) {
  for (int i = 0; i < 20; ++i) {
    trial.send(trial.next(), 0, 500);
    trial.receive(trial.next(-1), 0, 500);
    trial.finish();
    trial.comm.barrier();
  }
}

inline void no_such_rank(CommTrial& trial) {
  std::span<std::byte> const bytes = trial.bytes(8);
  for (int const peer : {-1, trial.size(), trial.size() + 1000}) {
    std::vector<std::string> const words = {concat(peer), concat(trial.size())};
    trial.refuses(
        "a send to a rank that is not there",
        [&] { return trial.comm.send(bytes, {peer, trial.number(0)}); }, words);
    trial.refuses(
        "a receive from a rank that is not there",
        [&] { return trial.comm.receive(bytes, {peer, trial.number(0)}); }, words);
  }
}
inline void no_such_number(CommTrial& trial) {
  std::span<std::byte> const bytes = trial.bytes(8);
  std::vector<std::int64_t> numbers = {-1};
  if (trial.comm.tag_bound() < INT64_MAX) numbers.push_back(trial.comm.tag_bound() + 1);
  for (std::int64_t const number : numbers) {
    std::vector<std::string> const words = {concat(number), concat(trial.comm.tag_bound())};
    trial.refuses(
        "a send with a number out of bounds",
        [&] { return trial.comm.send(bytes, {trial.next(), number}); }, words);
    trial.refuses(
        "a receive with a number out of bounds",
        [&] { return trial.comm.receive(bytes, {trial.next(), number}); }, words);
  }
}
inline void in_flight(CommTrial& trial) {
  std::span<std::byte> const bytes = trial.bytes(8);
  std::vector<std::string> const words = {concat(trial.number(0)), concat(trial.next())};
  trial.receive(trial.next(), 0, 8);
  trial.refuses(
      "a second receive of a number in flight",
      [&] { return trial.comm.receive(bytes, {trial.next(), trial.number(0)}); }, words);
  trial.comm.barrier();  // the receives are out, so that no send below may end before
  trial.send(trial.next(-1), 0, 8);
  trial.finish();
  trial.send(trial.next(), 1, large);
  trial.refuses("a second send of a number in flight",
                [&] { return trial.comm.send(bytes, {trial.next(), trial.number(1)}); },
                {concat(trial.number(1)), concat(trial.next())});
  trial.comm.barrier();
  trial.receive(trial.next(-1), 1, large);
  trial.finish();
}
inline void wrong_size(CommTrial& trial) {
  for (auto const& [expected, came] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 100}, {99, 100}, {101, 100}, {100, 0}}) {
    auto const n = static_cast<std::int64_t>(expected) * 3;
    trial.receive(trial.next(-1), n, expected);
    trial.receive(trial.next(-1), n + 1, 100);
    trial.send(trial.next(), n, came);
    trial.send(trial.next(), n + 1, 100);
    auto const errors = trial.errors();
    require(!errors[0].empty(), concat(came, " bytes came where ", expected,
                                       " were expected, and the receive ended well"));
    require(
        trial.came_empty() == (came == 0 ? 1 : 0),
        concat("of a message of ", came, " bytes it does not say rightly whether it was empty"));
    for (std::string const& word :
         {concat(trial.number(n)), concat("rank ", trial.next(-1)), concat(expected)})
      require(errors[0].find(word) != std::string::npos,
              concat("the error '", errors[0], "' does not name '", word, "'"));
    for (std::size_t const other : {std::size_t{1}, std::size_t{2}, std::size_t{3}})
      require(errors[other].empty(),
              concat("another request than the receive of the wrong size ended with '",
                     errors[other], "'"));
  }
}

inline void traffic(CommTrial& trial) {
  std::vector<PeerTraffic> before;
  for (int peer = 0; peer < trial.size(); ++peer) before.push_back(trial.comm.traffic(peer));
  for (int peer = 0; peer < trial.size(); ++peer) {
    for (std::int64_t n = 0; n <= peer; ++n)
      trial.send(peer, n, static_cast<std::size_t>(10 * trial.rank() + 1));
    for (std::int64_t n = 0; n <= trial.rank(); ++n)
      trial.receive(peer, n, static_cast<std::size_t>(10 * peer + 1));
  }
  trial.finish();
  trial.receive(trial.rank(), 900, 3);
  trial.send(trial.rank(), 900, 5);  // counts at the sender alone
  (void)trial.errors();
  trial.comm.barrier();
  for (int peer = 0; peer < trial.size(); ++peer) {
    auto const rank = static_cast<std::uint64_t>(trial.rank());
    auto const other = static_cast<std::uint64_t>(peer);
    PeerTraffic expected = before[static_cast<std::size_t>(peer)];
    expected.sent.messages += other + 1 + (rank == other ? 1 : 0);
    expected.sent.bytes += (other + 1) * (10 * rank + 1) + (rank == other ? 5 : 0);
    expected.received.messages += rank + 1;
    expected.received.bytes += (rank + 1) * (10 * other + 1);
    PeerTraffic const counted = trial.comm.traffic(peer);
    require(counted == expected,
            concat("traffic(", peer, ") says ", counted.sent.messages, " messages and ",
                   counted.sent.bytes, " bytes sent, ", counted.received.messages, " and ",
                   counted.received.bytes, " received; it was ", expected.sent.messages, " and ",
                   expected.sent.bytes, ", ", expected.received.messages, " and ",
                   expected.received.bytes));
  }
}

inline void random(CommTrial& trial) {
  struct Drawn {
    int from, to;
    std::size_t size;
  };
  auto const ranks = static_cast<std::uint64_t>(trial.size());
  std::uint64_t stream = 0;
  for (int round = 0; round < trial.rounds; ++round) {
    std::vector<Drawn> all;
    for (int m = 0; m < 60; ++m) {
      std::uint64_t const from = trial.draw(++stream, ranks), to = trial.draw(++stream, ranks);
      std::uint64_t const most = std::uint64_t{1} << trial.draw(++stream, 17);
      all.push_back({static_cast<int>(from), static_cast<int>(to), trial.draw(++stream, most)});
    }
    // Each rank posts its ends of the messages in an order of its own.
    std::uint64_t own = (stream << 20) + static_cast<std::uint64_t>(trial.rank() + 1) * 100'000;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < all.size(); ++i)
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(trial.draw(++own, i + 1)), i);
    for (std::size_t const i : order) {
      bool const first = trial.draw(++own, 2) == 0;
      for (bool const sends : {first, !first}) {
        if (sends && all[i].from == trial.rank())
          trial.send(all[i].to, static_cast<std::int64_t>(i), all[i].size);
        if (!sends && all[i].to == trial.rank())
          trial.receive(all[i].from, static_cast<std::int64_t>(i), all[i].size);
      }
      if (trial.draw(++own, 3) == 0) trial.test();
    }
    trial.finish();
    trial.comm.barrier();
  }
}

}  // namespace nntile::testing::comm_checks

namespace nntile::testing {

/// All checks, each behind those that it builds upon.
inline std::vector<CommCheck> all_comm_checks() {
  using namespace comm_checks;
  return {
      {"ranks are numbered from 0, each number once", &ranks},
      {"the tag bound is at least 32,767", &comm_checks::tag_bound},
      {"all_gather gives the bytes of every rank, in the order of ranks", &comm_checks::all_gather},
      {"no rank leaves a barrier before all have entered it", &comm_checks::barrier},
      {"a message arrives whole", &whole},
      {"a rank may send to itself", &itself},
      {"send, receive and test do not wait", &no_wait},
      {"messages are told apart by number", &by_number},
      {"messages are told apart by rank", &by_rank},
      {"a thousand requests may be open", &many},
      {"test reports each request once", &once},
      {"the bytes beside a message stay as they were", &beside},
      {"a number may be used again when its requests have ended", &again},
      {"a rank that is not there is refused", &no_such_rank},
      {"a number out of bounds is refused", &no_such_number},
      {"a number in flight in that direction is refused", &in_flight},
      {"a message of another size than expected ends its receive with an error",
       &comm_checks::wrong_size},
      {"traffic is counted by rank and direction", &comm_checks::traffic},
      {"random messages arrive whole, whatever overtakes what", &comm_checks::random},
  };
}

}  // namespace nntile::testing
