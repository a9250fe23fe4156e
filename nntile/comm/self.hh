#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The communicator of one rank.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/comm/open_requests.hh"

namespace nntile {

/// Rank 0 of 1, which may send to itself. Copies from buffer to buffer when the later of both is
/// posted. Allocates: what names a request.
class SelfComm {
 public:
  static constexpr char const* communicator_name = "self";

  SelfComm() = default;
  SelfComm(SelfComm const&) = delete;
  SelfComm& operator=(SelfComm const&) = delete;

  int rank() const { return 0; }
  int size() const { return 1; }
  std::int64_t tag_bound() const { return INT64_MAX; }
  ThreadLevel thread_level() const { return ThreadLevel::multiple; }
  bool on_main_thread() const { return true; }

  Request send(std::span<std::byte const> bytes, Message message) {
    Posted<std::byte const> const send{requests_.open(true, message, bytes.size()), bytes.data()};
    requests_.keep(send.open, [&] {
      auto const receive = receives_.find(message.number);
      if (receive == receives_.end()) return (void)sends_.emplace(message.number, send);
      deliver(send, receive->second);
      receives_.erase(receive);
    });
    return send.open.request;
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    Posted<std::byte> const receive{requests_.open(false, message, bytes.size()), bytes.data()};
    requests_.keep(receive.open, [&] {
      auto const send = sends_.find(message.number);
      if (send == sends_.end()) return (void)receives_.emplace(message.number, receive);
      deliver(send->second, receive);
      sends_.erase(send);
    });
    return receive.open.request;
  }
  void test(std::vector<EndedRequest>& ended) {
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }
  void barrier() {}
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    return {{bytes.begin(), bytes.end()}};
  }
  /// Throws CommError.
  PeerTraffic traffic(int peer) const { return requests_.traffic(peer); }

 private:
  template <class Byte> struct Posted {
    OpenRequest open;
    Byte* bytes;
  };

  template <class Byte> using ByNumber = std::map<std::int64_t, Posted<Byte>>;

  /// Throws std::bad_alloc, having changed nothing.
  void deliver(Posted<std::byte const> const& send, Posted<std::byte> const& receive) {
    bool const fits = send.open.bytes == receive.open.bytes;
    EndedRequest received{receive.open.request,
                          fits ? std::string{} : wrong_size(receive.open, send.open.bytes),
                          !fits && send.open.bytes == 0};
    if (ended_.capacity() < ended_.size() + 2) ended_.reserve(2 * ended_.size() + 2);
    ended_.push_back({send.open.request});
    ended_.push_back(std::move(received));
    if (fits && send.open.bytes != 0) std::memcpy(receive.bytes, send.bytes, send.open.bytes);
    requests_.close(send.open, true);
    requests_.close(receive.open, fits);
  }

  OpenRequests requests_{1, INT64_MAX};
  ByNumber<std::byte const> sends_;
  ByNumber<std::byte> receives_;
  std::vector<EndedRequest> ended_;  // since the last test
};
static_assert(Communicator<SelfComm>);

}  // namespace nntile
