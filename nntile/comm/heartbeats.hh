#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Whether ranks of other hosts still live: one rank of each host asks one of the next host over
// UDP, beside any communicator, so that neither its thread level nor a long step keeps it from
// answering.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "nntile/comm/presence.hh"

namespace nntile {

namespace detail {

/// Address of a rank's heartbeat: its host, and the port on which it listens.
struct HeartbeatCard {
  char host[256] = {};
  long process = 0;
  std::uint64_t token = 0;  // in every datagram: ports are used again, by other programs too
  std::uint32_t addresses[8] = {};  // IPv4, of the host
  std::int32_t count = 0;           // of them
  std::int32_t error = 0;           // reason that it has no port
  std::uint16_t port = 0;
};

struct Heartbeat {
  enum Kind : std::uint64_t { ask, answer, farewell };
  std::uint64_t token = 0;
  std::uint64_t kind = ask;
};

inline sockaddr_in address_of(std::uint32_t address, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = port;
  to.sin_addr.s_addr = address;
  return to;
}

class UdpSocket {
 public:
  UdpSocket() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  UdpSocket(UdpSocket&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  UdpSocket& operator=(UdpSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~UdpSocket() {
    if (socket_ >= 0) ::close(socket_);
  }
  int get() const { return socket_; }

 private:
  int socket_;
};

/// Sends this rank's token in reply to each request, and a farewell at the end, but not in a
/// process that was forked since.
class Answers {
 public:
  explicit Answers(std::string const& host_name) {
    card_.process = ::getpid();
    std::random_device random;
    card_.token = std::uint64_t{random()} << 32 | random();
    if (host_name.empty())
      (void)::gethostname(card_.host, sizeof card_.host - 1);
    else
      host_name.copy(card_.host, sizeof card_.host - 1);
    sockaddr_in own = address_of(htonl(INADDR_ANY), 0);
    socklen_t size = sizeof own;
    auto* const any = reinterpret_cast<sockaddr*>(&own);
    if (socket_.get() < 0 || ::bind(socket_.get(), any, size) != 0 ||
        ::getsockname(socket_.get(), any, &size) != 0)
      card_.error = errno;
    card_.port = own.sin_port;
    list_addresses();
  }
  Answers(Answers const&) = delete;
  Answers& operator=(Answers const&) = delete;
  ~Answers() {
    if (!asked_ || card_.process != this_process()) return;
    for (int times = 0; times < 3; ++times) send(Heartbeat::farewell);  // may get lost
  }

  HeartbeatCard const& card() const { return card_; }
  void answer() {
    Heartbeat beat;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    while (::recvfrom(socket_.get(), &beat, sizeof beat, 0, reinterpret_cast<sockaddr*>(&from),
                      &size) == sizeof beat) {
      if (beat.token != card_.token || beat.kind != Heartbeat::ask) continue;
      asked_ = from;
      send(Heartbeat::answer);
    }
  }

 private:
  void list_addresses() {
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) all = nullptr;
    for (ifaddrs const* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
          (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      sockaddr_in its{};
      std::memcpy(&its, each->ifa_addr, sizeof its);
      if (card_.count < 8) card_.addresses[card_.count++] = its.sin_addr.s_addr;
    }
    if (all != nullptr) ::freeifaddrs(all);
    if (card_.count == 0) card_.addresses[card_.count++] = htonl(INADDR_LOOPBACK);
  }
  void send(Heartbeat::Kind kind) {
    Heartbeat const beat{card_.token, kind};
    (void)::sendto(socket_.get(), &beat, sizeof beat, 0,
                   reinterpret_cast<sockaddr const*>(&*asked_), sizeof *asked_);
  }

  UdpSocket socket_;
  HeartbeatCard card_;
  std::optional<sockaddr_in> asked_;  // from where, last
};

/// Asks another rank, at all addresses of its host until one answers.
class Asks {
 public:
  explicit Asks(HeartbeatCard const& card) : token_(card.token) {
    for (int i = 0; i < card.count; ++i) {
      UdpSocket socket;
      sockaddr_in const to = address_of(card.addresses[i], card.port);
      if (::connect(socket.get(), reinterpret_cast<sockaddr const*>(&to), sizeof to) == 0)
        sockets_.push_back(std::move(socket));
    }
  }

  void ask() {
    if (ended_ || dead_) return;
    double const now = seconds();
    silent_ += std::min(now - asked_at_, longest_gap);
    asked_at_ = now;
    bool refused = refused_;
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      refused |= listen(sockets_[i]);
      if (!heard_ || sockets_.size() == 1) continue;
      std::swap(sockets_[0], sockets_[i]);
      sockets_.erase(sockets_.begin() + 1, sockets_.end());
      refused = false;  // at another address
    }
    dead_ = refused && heard_ && !ended_;
    Heartbeat const beat{token_, Heartbeat::ask};
    for (UdpSocket const& socket : sockets_)
      refused_ = ::send(socket.get(), &beat, sizeof beat, 0) < 0 && errno == ECONNREFUSED && heard_;
  }
  bool heard() const { return heard_; }
  bool ended() const { return ended_; }
  bool dead() const { return dead_; }
  /// Since the last answer, as far as this side was asking; 0 before the first.
  double silent() const { return heard_ && !ended_ ? silent_ : 0; }

 private:
  /// A gap between two questions is this side's own silence: it counts for no more.
  static constexpr double longest_gap = 1;

  static double seconds() {
    timespec now{};
    (void)::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  /// Takes all that came, a farewell before the end; whether the other host says that nothing has
  /// the port.
  bool listen(UdpSocket const& socket) {
    Heartbeat beat;
    for (bool refused = false;;) {
      ssize_t const got = ::recv(socket.get(), &beat, sizeof beat, 0);
      if (got < 0 && errno == ECONNREFUSED) refused = true;
      if (got < 0 && errno != ECONNREFUSED && errno != EINTR) return refused;
      if (got != sizeof beat || beat.token != token_) continue;
      if (beat.kind == Heartbeat::farewell) ended_ = true;
      if (beat.kind == Heartbeat::answer) heard_ = true, silent_ = 0;
    }
  }

  std::uint64_t token_;
  std::vector<UdpSocket> sockets_;
  double asked_at_ = seconds(), silent_ = 0;
  bool heard_ = false, ended_ = false, refused_ = false, dead_ = false;
};

}  // namespace detail

/// Looks after another host. The lowest rank of each host asks that of the next one, in a ring:
/// within a host Presence sees who has died. A host whose kernel still runs says that a process has
/// ended; a host that is gone, a rank that is stopped and a network that is cut are silent alike.
/// Hosts without an IPv4 address that others reach are never heard, and nothing is said of them.
/// One thread calls everything.
class Heartbeats {
 public:
  /// A rank, and the host that it is on.
  struct Peer {
    RankProcess process;
    std::string host;
  };

  /// Collective. `host_name`: what tells hosts apart, "" the system's name. Throws CommError, on
  /// every rank where one has no socket.
  template <Communicator C>
  explicit Heartbeats(C& comm, std::string const& host_name = "") : answers_(host_name) {
    auto const& own = answers_.card();
    auto const all = comm.all_gather(std::as_bytes(std::span(&own, 1)));
    std::vector<Peer> first;  // of each host
    std::vector<detail::HeartbeatCard> cards;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      detail::HeartbeatCard card;
      std::memcpy(&card, all[rank].data(), sizeof card);
      if (card.error != 0)
        throw CommError(concat("rank ", rank, ": heartbeats: no UDP port: ",
                               static_cast<char const*>(std::strerror(card.error)),
                               "; do without Heartbeats, deaths on other hosts stay unseen then"));
      if (std::any_of(first.begin(), first.end(),
                      [&](Peer const& each) { return each.host == card.host; }))
        continue;
      first.push_back({{static_cast<int>(rank), card.process}, card.host});
      cards.push_back(card);
    }
    for (std::size_t h = 0; h < first.size() && first.size() > 1; ++h)
      if (first[h].process.rank == comm.rank()) {
        std::size_t const next = (h + 1) % first.size();
        peer_ = first[next];
        asks_.emplace(cards[next]);
      }
  }

  /// The rank that this one asks; none on a single host, and where another rank of this one asks.
  std::optional<Peer> const& peer() const { return peer_; }
  /// Answers, and asks. To be called several times a second.
  void beat() {
    answers_.answer();
    if (asks_) asks_->ask();
  }
  /// Whether the peer has answered once: only then is it known to be reached.
  bool heard() const { return asks_ && asks_->heard(); }
  /// Whether its process has ended without destroying its Heartbeats.
  bool dead() const { return asks_ && asks_->dead(); }
  /// Seconds since it last answered, of those in which this rank asked; 0 before the first answer.
  double silent() const { return asks_ ? asks_->silent() : 0; }

 private:
  detail::Answers answers_;
  std::optional<Peer> peer_;
  std::optional<detail::Asks> asks_;
};

}  // namespace nntile
