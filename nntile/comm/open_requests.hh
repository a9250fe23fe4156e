#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parts that communicators share: the checks of a message, its name in errors, also of one that is
// waited for, and the count of traffic.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/core/error.hh"

namespace nntile {

/// A send or receive that has not ended.
struct OpenRequest {
  Request request = Request::none;
  bool sends = false;
  Message message = {};
  std::size_t bytes = 0;
};

/// "send of message 7 to rank 1", "receive of message 7 from rank 1".
inline std::string describe(OpenRequest const& open) {
  return concat(open.sends ? "send" : "receive", " of message ", open.message.number,
                open.sends ? " to rank " : " from rank ", open.message.peer);
}
/// The error of a receive to which a message of another size came.
inline std::string wrong_size(OpenRequest const& open, std::size_t came) {
  return concat(describe(open), ": ", came, " bytes came, ", open.bytes, " were expected");
}

/// A transfer that has not ended, for those who ask what a rank waits for.
struct WaitingTransfer {
  bool sends = false;
  Message message = {};
  std::size_t bytes = 0;
  std::string tensor = {};  // "": not said
  std::int64_t tile = -1;
  std::int64_t waited_ns = 0;  // since its task began
};

/// "receive of message 7 from rank 1, 4096 bytes of tensor 'h1', tile 3, for 2.1 s".
inline std::string describe(WaitingTransfer const& waiting) {
  OpenRequest const open{Request::none, waiting.sends, waiting.message, waiting.bytes};
  return concat(describe(open), ", ", waiting.bytes, " bytes",
                waiting.tensor.empty() ? "" : concat(" of tensor '", waiting.tensor, "'"),
                waiting.tile < 0 ? "" : concat(", tile ", waiting.tile), ", for ",
                static_cast<double>(waiting.waited_ns) * 1e-9, " s");
}

/// The requests that one rank has posted, and what those that ended have moved. Cost of a request:
/// logarithmic in the open ones.
class OpenRequests {
 public:
  OpenRequests(int size, std::int64_t tag_bound)
      : tag_bound_(tag_bound), traffic_(static_cast<std::size_t>(size)) {}

  /// Notes a request. Throws CommError: no such rank, a number out of bounds or in flight.
  OpenRequest open(bool sends, Message const& message, std::size_t bytes) {
    OpenRequest const open{static_cast<Request>(given_ + 1), sends, message, bytes};
    check_peer(describe(open), message.peer);
    if (message.number < 0 || message.number > tag_bound_)
      throw CommError(concat(describe(open), ": this communicator takes the numbers 0 to ",
                             tag_bound_,
                             "; numbers of messages that have ended may be used again"));
    if (!in_flight_.insert(key(open)).second)
      throw CommError(concat(describe(open),
                             ": that number is in flight already in that direction; "
                             "it is free when its request has ended"));
    ++given_;
    return open;
  }
  /// Has `list` take a request that was opened into lists. Throws what it throws; then the request
  /// is not open.
  template <std::invocable List> void keep(OpenRequest const& open, List list) {
    try {
      list();
    } catch (...) {
      refuse(open);
      throw;
    }
  }
  /// Notes its end, and counts it if it went well.
  void close(OpenRequest const& open, bool well) {
    in_flight_.erase(key(open));
    if (!well) return;
    PeerTraffic& peer = traffic_[static_cast<std::size_t>(open.message.peer)];
    Traffic& traffic = open.sends ? peer.sent : peer.received;
    ++traffic.messages;
    traffic.bytes += open.bytes;
  }
  /// Takes back what was opened last.
  void refuse(OpenRequest const& open) { in_flight_.erase(key(open)); }

  /// Throws CommError.
  PeerTraffic traffic(int peer) const {
    check_peer("traffic", peer);
    return traffic_[static_cast<std::size_t>(peer)];
  }

 private:
  using Key = std::tuple<bool, int, std::int64_t>;
  static Key key(OpenRequest const& open) {
    return {open.sends, open.message.peer, open.message.number};
  }
  void check_peer(std::string const& call, int peer) const {
    if (peer < 0 || static_cast<std::size_t>(peer) >= traffic_.size())
      throw CommError(concat(call, ": there is no rank ", peer, ", the communicator has ",
                             traffic_.size(), " (0 to ", traffic_.size() - 1, ")"));
  }

  std::int64_t tag_bound_;
  std::uint64_t given_ = 0;
  std::set<Key> in_flight_;
  std::vector<PeerTraffic> traffic_;
};

}  // namespace nntile
