#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are processes of one host, forked by one program: without MPI and without copies.

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"

namespace nntile {

namespace detail {

/// A note of one process to another: "these bytes wait for you", or "I have taken those".
struct ProcessNote {
  std::int64_t number = 0;
  std::uint64_t address = 0;  // in the sender; of bytes that were taken 0
  std::uint64_t bytes = 0;
  bool taken = false;
};

/// Notes from one rank to another, in memory of both, which is zeros at first. One writes, one
/// reads, neither waits, and the death of either leaves it whole.
class ProcessMail {
 public:
  /// For its writer, which alone takes room.
  bool is_full() {
    std::uint64_t const at = std::atomic_ref(put_).load(std::memory_order_relaxed);
    return at - std::atomic_ref(got_).load(std::memory_order_acquire) == capacity;
  }
  /// False where it is full.
  bool put(ProcessNote const& note) {
    if (is_full()) return false;
    std::uint64_t const at = std::atomic_ref(put_).load(std::memory_order_relaxed);
    notes_[at % capacity] = note;
    std::atomic_ref(put_).store(at + 1, std::memory_order_release);
    return true;
  }
  /// The first note, which stays until it is dropped; false where it is empty.
  bool look(ProcessNote& note) {
    std::uint64_t const at = std::atomic_ref(got_).load(std::memory_order_relaxed);
    if (at == std::atomic_ref(put_).load(std::memory_order_acquire)) return false;
    note = notes_[at % capacity];
    return true;
  }
  void drop() {
    std::uint64_t const at = std::atomic_ref(got_).load(std::memory_order_relaxed);
    std::atomic_ref(got_).store(at + 1, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t capacity = 60;

  alignas(64) std::uint64_t put_;
  alignas(64) std::uint64_t got_;
  alignas(64) ProcessNote notes_[capacity];
};

/// First in, first out. Takes memory with its first entry.
template <class T> class ProcessQueue {
 public:
  bool empty() const { return begin_ == list_.size(); }
  T const& front() const { return list_[begin_]; }
  void push(T const& one) { list_.push_back(one); }
  void pop() {
    if (++begin_ * 2 < list_.size()) return;
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  void clear() { list_.clear(), begin_ = 0; }

 private:
  std::vector<T> list_;
  std::size_t begin_ = 0;
};

enum class ProcessState : std::uint32_t { absent, here, ended };

/// A rank as all see it.
struct alignas(64) ProcessRank {
  ProcessState state;
  std::int32_t process;
  std::uint64_t gathers;  // two for each that it has entered, less one until it reads no more
  std::uint64_t address, bytes;
};

}  // namespace detail

/// Memory that the ranks share: made by one process, which forks the others (and may be a rank
/// itself). Outlives their ProcessComms. 2 KiB for each pair of ranks that exchange messages.
class ProcessWorld {
 public:
  static constexpr int most_ranks = 1024;

  /// Throws ValueError: no rank, or too many. CommError: no memory to share.
  explicit ProcessWorld(int size) : size_(size), creator_(detail::this_process()) {
    if (size < 1 || size > most_ranks)
      throw ValueError(concat("ProcessWorld: ", size, " ranks; 1 to ", most_ranks));
    void* const pages = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
      throw CommError(concat("ProcessWorld: ", bytes(), " bytes for ", size,
                             " ranks to share: ", static_cast<char const*>(std::strerror(errno))));
    pages_ = static_cast<std::byte*>(pages);
  }
  ProcessWorld(ProcessWorld const&) = delete;
  ProcessWorld& operator=(ProcessWorld const&) = delete;
  ~ProcessWorld() { ::munmap(pages_, bytes()); }

  int size() const { return size_; }

 private:
  friend class ProcessComm;
  std::size_t count() const { return static_cast<std::size_t>(size_); }
  std::size_t bytes() const {
    return count() * sizeof(detail::ProcessRank) + count() * count() * sizeof(detail::ProcessMail);
  }
  detail::ProcessRank& at(int rank) const {
    return reinterpret_cast<detail::ProcessRank*>(pages_)[rank];
  }
  detail::ProcessMail& mail(int from, int to) const {
    auto* const all = reinterpret_cast<detail::ProcessMail*>(&at(size_));
    return all[static_cast<std::size_t>(from) * count() + static_cast<std::size_t>(to)];
  }

  int const size_;
  pid_t const creator_;  // it and its descendants may read each other
  std::byte* pages_ = nullptr;
};

/// One rank of a ProcessWorld. Copies from the sender's buffer to the receiver's, in the receiver's
/// `test`, by process_vm_readv, and allocates nothing but records of open requests. When its
/// process has died, or it ends, what others have open with it ends with an error, and so do their
/// blocking calls. While it lives, ranks of the world may trace this process (PR_SET_PTRACER, where
/// the kernel asks for that).
class ProcessComm {
 public:
  static constexpr char const* communicator_name = "processes";

  /// Throws CommError: no such rank, or it has been made before.
  ProcessComm(ProcessWorld& world, int rank)
      : world_(world),
        rank_(rank),
        requests_(world.size(), INT64_MAX),
        peers_(static_cast<std::size_t>(world.size())) {
    if (rank < 0 || rank >= world.size())
      throw CommError(concat("ProcessComm: there is no rank ", rank, ", the world has ",
                             world.size(), " (0 to ", world.size() - 1, ")"));
    detail::ProcessRank& own = world.at(rank);
    std::int32_t none = 0;
    if (!std::atomic_ref(own.process).compare_exchange_strong(none, detail::this_process()))
      throw CommError(
          concat("ProcessComm: rank ", rank, " was made before; one object is one rank"));
#ifdef PR_SET_PTRACER
    (void)::prctl(PR_SET_PTRACER, static_cast<unsigned long>(world.creator_), 0, 0, 0);
#endif
    std::atomic_ref(own.state).store(detail::ProcessState::here);
  }
  ProcessComm(ProcessComm const&) = delete;
  ProcessComm& operator=(ProcessComm const&) = delete;
  /// In a process that was forked since, the rank goes on.
  ~ProcessComm() {
    detail::ProcessRank& own = world_.at(rank_);
    if (std::atomic_ref(own.process).load() == detail::this_process()) {
      std::atomic_ref(own.state).store(detail::ProcessState::ended);
#ifdef PR_SET_PTRACER
      (void)::prctl(PR_SET_PTRACER, 0, 0, 0, 0);
#endif
    }
    for (Peer const& peer : peers_)
      if (peer.watch >= 0) ::close(peer.watch);
  }

  int rank() const { return rank_; }
  int size() const { return world_.size(); }
  std::int64_t tag_bound() const { return INT64_MAX; }
  ThreadLevel thread_level() const { return ThreadLevel::multiple; }
  bool on_main_thread() const { return true; }

  Request send(std::span<std::byte const> bytes, Message message) {
    OpenRequest const open = requests_.open(true, message, bytes.size());
    requests_.keep(open, [&] {
      auto& sends = peer(message.peer).sends;
      auto const at = sends.emplace(message.number, open).first;
      try {
        tell(message.peer, {message.number, address_of(bytes), bytes.size(), false});
      } catch (...) {
        sends.erase(at);
        throw;
      }
    });
    ++open_;
    return open.request;
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    OpenRequest const open = requests_.open(false, message, bytes.size());
    Peer& from = peer(message.peer);
    requests_.keep(open, [&] {
      if (from.offers.contains(message.number)) from.ready.push(message.number);
      from.receives.emplace(message.number, Posted{open, bytes.data()});
    });
    ++open_;
    return open.request;
  }
  /// Throws std::bad_alloc; what it has not reported by then the next one does.
  void test(std::vector<EndedRequest>& ended) {
    if (open_ == 0 && untold_ == 0) return;
    look_for_dead();
    for (int rank = 0; rank < size(); ++rank) {
      read_mail(rank, ended);
      end_ready(rank, ended);
      if (peer(rank).gone != nullptr) end_all(rank, ended);
      if (untold_ != 0) tell_rest(rank);
    }
  }
  void barrier() { (void)gather({}, "barrier"); }
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    return gather(bytes, "all_gather");
  }
  /// Throws CommError.
  PeerTraffic traffic(int peer) const { return requests_.traffic(peer); }

 private:
  struct Posted {
    OpenRequest open;
    std::byte* room;
  };
  struct Offer {
    std::uint64_t address = 0, bytes = 0;
  };
  struct Peer {
    std::map<std::int64_t, OpenRequest> sends;         // to it, by number
    std::map<std::int64_t, Posted> receives;           // from it
    std::map<std::int64_t, Offer> offers;              // messages that have come
    detail::ProcessQueue<std::int64_t> ready;          // those for which there is a receive
    detail::ProcessQueue<detail::ProcessNote> untold;  // notes for which its mail had no room
    char const* gone = nullptr;                        // its end, in words for errors
    int watch = unknown;  // a descriptor that says when its process has ended
    static constexpr int unknown = -1, cannot = -2;
  };

  static std::uint64_t address_of(std::span<std::byte const> bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void tell(int rank, detail::ProcessNote const& note) {
    Peer& its = peer(rank);
    if (its.untold.empty() && world_.mail(rank_, rank).put(note)) return;
    its.untold.push(note);
    ++untold_;
  }
  void tell_rest(int rank) {
    auto& untold = peer(rank).untold;
    for (; !untold.empty() && world_.mail(rank_, rank).put(untold.front()); --untold_) untold.pop();
  }
  void read_mail(int rank, std::vector<EndedRequest>& ended) {
    Peer& its = peer(rank);
    if (its.gone == nullptr && state_of(rank) == detail::ProcessState::ended)
      its.gone = "has ended";  // its last notes are read now
    auto& mail = world_.mail(rank, rank_);
    for (detail::ProcessNote note; mail.look(note); mail.drop())
      if (note.taken) {
        auto const sent = its.sends.find(note.number);
        if (sent == its.sends.end()) continue;
        end(sent->second, {}, false, ended);
        its.sends.erase(sent);
      } else {
        its.offers[note.number] = {note.address, note.bytes};
        if (its.receives.contains(note.number)) its.ready.push(note.number);
      }
  }
  detail::ProcessState state_of(int rank) const {
    return std::atomic_ref(world_.at(rank).state).load(std::memory_order_acquire);
  }

  /// Ends the receives whose messages have come, unless their bytes are read no more.
  void end_ready(int rank, std::vector<EndedRequest>& ended) {
    Peer& from = peer(rank);
    // Behind its last receive a rank need not test again, and so has to have told by then.
    while (from.gone == nullptr && !from.ready.empty() && from.untold.empty() &&
           !world_.mail(rank_, rank).is_full()) {
      auto const posted = from.receives.find(from.ready.front());
      auto const offer = from.offers.find(from.ready.front());
      // The number is here a second time if memory for the receive was short.
      if (posted != from.receives.end() && offer != from.offers.end()) {
        receive(posted->second, offer->second, ended);
        from.offers.erase(offer);
        from.receives.erase(posted);
      }
      from.ready.pop();
    }
  }
  void receive(Posted const& posted, Offer const& offer, std::vector<EndedRequest>& ended) {
    OpenRequest const& open = posted.open;
    bool const fits = offer.bytes == open.bytes;
    std::string error = fits ? read(open.message.peer, offer, posted.room)
                             : wrong_size(open, static_cast<std::size_t>(offer.bytes));
    if (fits && !error.empty()) error = concat(describe(open), ": ", error);
    end(open, std::move(error), !fits && offer.bytes == 0, ended);
    tell(open.message.peer, {open.message.number, 0, 0, true});  // its mail has room
  }
  /// Ends what is open with a rank that is gone.
  void end_all(int rank, std::vector<EndedRequest>& ended) {
    Peer& its = peer(rank);
    for (auto at = its.sends.begin(); at != its.sends.end(); at = its.sends.erase(at))
      end(at->second, gone(at->second), false, ended);
    for (auto at = its.receives.begin(); at != its.receives.end(); at = its.receives.erase(at))
      end(at->second.open, gone(at->second.open), false, ended);
    its.ready.clear();
  }
  /// Throws std::bad_alloc, having changed nothing.
  void end(OpenRequest const& open, std::string error, bool came_empty,
           std::vector<EndedRequest>& ended) {
    bool const well = error.empty();
    ended.push_back({open.request, std::move(error), came_empty});
    requests_.close(open, well);
    --open_;
  }
  std::string gone(OpenRequest const& open) {
    return concat(describe(open), ": rank ", open.message.peer, " ", peer(open.message.peer).gone);
  }

  /// Copies bytes of another rank; "", or the reason why not.
  std::string read(int rank, Offer const& offer, std::byte* room) const {
    pid_t const process = std::atomic_ref(world_.at(rank).process).load();
    for (std::uint64_t done = 0; done < offer.bytes;) {
      std::size_t const left = offer.bytes - done;
      auto* const from = reinterpret_cast<void*>(offer.address + done);
      if (process == detail::this_process()) {
        std::memcpy(room, from, left);
        return {};
      }
      iovec const here{room + done, left}, there{from, left};
      auto const bytes = ::process_vm_readv(process, &here, 1, &there, 1, 0);
      if (bytes <= 0)
        return concat(left, " bytes of process ", process, " cannot be read: ",
                      static_cast<char const*>(std::strerror(bytes < 0 ? errno : EIO)),
                      errno == EPERM ? "; the kernel has to allow process_vm_readv: "
                                       "kernel.yama.ptrace_scope of 0 or 1"
                                     : "");
      done += static_cast<std::uint64_t>(bytes);
    }
    return {};
  }

  /// Every rank's bytes, when all have called it.
  std::vector<std::vector<std::byte>> gather(std::span<std::byte const> bytes, char const* call) {
    detail::ProcessRank& own = world_.at(rank_);
    own.address = address_of(bytes);
    own.bytes = bytes.size();
    std::uint64_t const round = 2 * ++gathers_;
    std::atomic_ref(own.gathers).store(round - 1, std::memory_order_release);
    wait_for_all(round - 1, call);
    auto const end = [&] {
      std::atomic_ref(own.gathers).store(round, std::memory_order_release);
      wait_for_all(round, call);  // they have read what is this one's
    };
    std::vector<std::vector<std::byte>> gathered;
    try {
      for (int rank = 0; rank < size(); ++rank) {
        Offer const offer{world_.at(rank).address, world_.at(rank).bytes};
        auto& its = gathered.emplace_back(static_cast<std::size_t>(offer.bytes));
        if (std::string const error = read(rank, offer, its.data()); !error.empty())
          throw CommError(concat(call, ": ", error, " (rank ", rank, ")"));
      }
    } catch (...) {
      end();  // the others would wait for it as long as it lives
      throw;
    }
    end();
    return gathered;
  }
  void wait_for_all(std::uint64_t gathers, char const* call) {
    for (int rank = 0, turns = 0; rank < size();) {
      look_for_dead();  // before the count, which a rank may raise and then end
      char const* gone = peer(rank).gone;
      if (state_of(rank) == detail::ProcessState::ended) gone = "has ended";
      if (std::atomic_ref(world_.at(rank).gathers).load(std::memory_order_acquire) >= gathers) {
        ++rank;
        continue;
      }
      if (gone != nullptr) throw CommError(concat(call, ": rank ", rank, " ", gone));
      constexpr int few = 100, nanoseconds = 50'000;
      if (++turns < few)
        detail::yield_core();
      else
        detail::sleep_ns(nanoseconds);
    }
  }
  /// Notes which processes have died, every 10 ms.
  void look_for_dead() {
    constexpr std::int64_t interval = 10'000'000;
    std::int64_t const now = detail::monotonic_ns();
    if (now - looked_ < interval) return;
    looked_ = now;
    for (int rank = 0; rank < size(); ++rank) {
      Peer& its = peer(rank);
      if (rank == rank_ || its.gone != nullptr || its.watch == Peer::cannot) continue;
      if (state_of(rank) != detail::ProcessState::here) continue;
      pid_t const process = std::atomic_ref(world_.at(rank).process).load();
      bool died = false;
      if (its.watch == Peer::unknown) {
        its.watch = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
        died = its.watch < 0 && errno == ESRCH;
        if (its.watch < 0) its.watch = Peer::cannot;
      }
      pollfd ends{its.watch, POLLIN, 0};
      if (died || (its.watch >= 0 && ::poll(&ends, 1, 0) == 1)) its.gone = "has died";
    }
  }

  ProcessWorld& world_;
  int const rank_;
  OpenRequests requests_;
  std::vector<Peer> peers_;
  std::size_t open_ = 0;    // requests
  std::size_t untold_ = 0;  // notes of all ranks
  std::uint64_t gathers_ = 0;
  std::int64_t looked_ = 0;
};
static_assert(Communicator<ProcessComm>);

}  // namespace nntile
