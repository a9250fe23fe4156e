#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are threads of one process: for tests, sanitizers and debuggers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/comm/open_requests.hh"
#include "nntile/core/error.hh"
#include "nntile/core/random.hh"
#include "nntile/core/threads.hh"

namespace nntile {

/// Delivery of messages in a LocalWorld.
struct LocalOptions {
  std::uint64_t seed = 0;
  /// A message is seen by the receiver's next test but 0 to this many, drawn from the seed, its
  /// ranks and its number: so messages overtake each other. The same in every run.
  int most_delay = 0;
  /// A send of at most this many bytes is copied and ends without its receive, as MPI's eager ones.
  std::size_t eager_bytes = 0;
  std::int64_t tag_bound = least_tag_bound;
  ThreadLevel thread_level = ThreadLevel::multiple;
};

/// State that the ranks of one process share: the messages between them. Outlives its LocalComms.
/// Any thread may call it.
class LocalWorld {
 public:
  static constexpr int most_ranks = 65536;  // as many as a mesh may have

  /// Throws ValueError: no rank or too many, a negative delay, fewer numbers than any communicator
  /// has.
  explicit LocalWorld(int size, LocalOptions const& options = {}) : options_(options) {
    if (size < 1 || size > most_ranks)
      throw ValueError(concat("LocalWorld: ", size, " ranks; 1 to ", most_ranks));
    if (options.most_delay < 0)
      throw ValueError(concat("LocalWorld: most_delay=", options.most_delay, "; at least 0"));
    if (options.tag_bound < least_tag_bound)
      throw ValueError(concat("LocalWorld: tag_bound=", options.tag_bound, "; at least ",
                              least_tag_bound, ", as every communicator has"));
    ranks_.resize(static_cast<std::size_t>(size));
  }
  LocalWorld(LocalWorld const&) = delete;
  LocalWorld& operator=(LocalWorld const&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }

  /// For tests of failures: the rank is dead from now on. What others have open with it ends with
  /// an error, and so do their blocking calls; its own calls throw CommError.
  void kill(int rank) {
    detail::Lock guard(mutex_);
    if (rank >= 0 && rank < size()) leave(rank, "has died");
  }
  /// For tests of failures: the next message of that number between the two arrives with another
  /// size, as if its sender had a plan of its own. None at all says that its tile was not computed:
  /// the receive then waits for the cause.
  void change_size(int from, int to, std::int64_t number, std::size_t bytes) {
    detail::Lock guard(mutex_);
    changed_sizes_[{from, to, number}] = bytes;
  }

 private:
  friend class LocalComm;
  using Edge = std::tuple<int, int, std::int64_t>;  // from, to, number

  struct Sent {
    std::byte const* bytes = nullptr;
    std::vector<std::byte> copy;  // of an eager one
    std::size_t size = 0;
    std::uint64_t due = 0;  // the receiver's count of tests
    bool taken = false;
  };
  struct Rank {
    std::string gone;  // its end, in words for errors; "" while it lives
    bool made = false;
    std::uint64_t tests = 0;
    std::uint64_t gathers = 0;  // that it has entered
    std::vector<std::byte> given;
  };

  /// Under the lock, as all that follows.
  void leave(int rank, char const* how) {
    Rank& its = at(rank);
    if (!its.gone.empty()) return;
    its.gone = how;
    for (auto at = mail_.begin(); at != mail_.end();) {  // its buffers are read no more
      auto const now = at++;
      if (std::get<0>(now->first) != rank) continue;
      std::erase_if(now->second, [this](Sent const& sent) { return !is_eager(sent.size); });
      if (now->second.empty()) mail_.erase(now);
    }
    changed_.notify_all();
  }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void post(int from, int to, std::int64_t number, std::span<std::byte const> bytes) {
    Sent sent;
    sent.size = bytes.size();
    sent.bytes = bytes.data();
    if (bytes.size() <= options_.eager_bytes) sent.copy.assign(bytes.begin(), bytes.end());
    std::int64_t const pair = std::int64_t{from} * size() + to;  // may be above 2^31
    std::uint64_t const edge = mix_bits(options_.seed ^ static_cast<std::uint64_t>(pair));
    std::uint64_t const drawn = mix_bits(edge ^ static_cast<std::uint64_t>(number)) %
                                (static_cast<std::uint64_t>(options_.most_delay) + 1);
    sent.due = at(to).tests + 1 + drawn;
    mail_[{from, to, number}].push_back(std::move(sent));
  }
  bool is_eager(std::size_t bytes) const { return bytes <= options_.eager_bytes; }

  /// Copies a message to its receive; false if it is not there yet. `size`: that of what came.
  bool take(int from, int to, std::int64_t number, std::span<std::byte> room, std::size_t& size) {
    auto const found = mail_.find({from, to, number});
    if (found == mail_.end()) return false;
    Sent& sent = found->second.front();
    if (sent.taken || sent.due > at(to).tests) return false;
    size = sent.size;
    if (auto const changed = changed_sizes_.find(found->first); changed != changed_sizes_.end()) {
      size = changed->second;
      changed_sizes_.erase(changed);
    }
    bool const eager = is_eager(sent.size);
    if (size == room.size() && size == sent.size && size != 0)
      std::memcpy(room.data(), eager ? sent.copy.data() : sent.bytes, size);
    if (eager)
      drop(found);
    else
      sent.taken = true;
    return true;
  }
  /// Whether the receiver has a message that is not eager; it is forgotten then.
  bool has_arrived(int from, int to, std::int64_t number) {
    auto const found = mail_.find({from, to, number});
    if (!found->second.front().taken) return false;
    drop(found);
    return true;
  }
  void drop(std::map<Edge, std::vector<Sent>>::iterator found) {
    found->second.erase(found->second.begin());
    if (found->second.empty()) mail_.erase(found);
  }

  /// Every rank's bytes, when all have called it.
  std::vector<std::vector<std::byte>> gather(int rank, std::span<std::byte const> bytes,
                                             char const* call) {
    detail::Lock lock(mutex_);
    Rank& mine = at(rank);
    check_alive(rank, call);
    mine.given.assign(bytes.begin(), bytes.end());
    std::uint64_t const round = ++mine.gathers;
    // Looked up rather than counted: a rank may enter again after one that ended has failed it.
    if (std::all_of(ranks_.begin(), ranks_.end(),
                    [&](Rank const& each) { return each.gathers >= round; })) {
      gathered_.clear();
      for (Rank& each : ranks_) gathered_.push_back(std::move(each.given));
      ++rounds_;
      changed_.notify_all();
    }
    while (rounds_ < round) {
      check_alive(rank, call);
      for (int other = 0; other < size(); ++other)
        if (!at(other).gone.empty() && at(other).gathers < round)
          throw CommError(concat(call, ": rank ", other, " ", at(other).gone));
      changed_.wait(lock);
    }
    return gathered_;  // the next round ends only when this rank has entered it
  }
  void check_alive(int rank, char const* call) {
    if (!at(rank).gone.empty())
      throw CommError(concat(call, ": this rank, ", rank, ", ", at(rank).gone));
  }

  LocalOptions const options_;
  detail::Mutex mutex_;
  detail::Condition changed_;
  std::vector<Rank> ranks_;
  std::map<Edge, std::vector<Sent>> mail_;  // of one edge, in the order of the sends
  std::map<Edge, std::size_t> changed_sizes_;
  std::uint64_t rounds_ = 0;
  std::vector<std::vector<std::byte>> gathered_;
};

/// One rank of a LocalWorld. Copies from the sender's buffer to the receiver's, in the receiver's
/// `test`. When it ends, what others have open with it ends with an error.
class LocalComm {
 public:
  static constexpr char const* communicator_name = "local";

  /// Throws CommError: no such rank, or it has been made before.
  LocalComm(LocalWorld& world, int rank)
      : world_(world),
        rank_(rank),
        main_(detail::this_thread()),
        requests_(world.size(), world.options_.tag_bound) {
    if (rank < 0 || rank >= world.size())
      throw CommError(concat("LocalComm: there is no rank ", rank, ", the world has ", world.size(),
                             " (0 to ", world.size() - 1, ")"));
    detail::Lock guard(world.mutex_);
    if (std::exchange(world.at(rank).made, true))
      throw CommError(concat("LocalComm: rank ", rank, " was made before; one object is one rank"));
  }
  LocalComm(LocalComm const&) = delete;
  LocalComm& operator=(LocalComm const&) = delete;
  ~LocalComm() {
    detail::Lock guard(world_.mutex_);
    world_.leave(rank_, "has ended");
  }

  int rank() const { return rank_; }
  int size() const { return world_.size(); }
  std::int64_t tag_bound() const { return world_.options_.tag_bound; }
  ThreadLevel thread_level() const { return world_.options_.thread_level; }
  /// Of the thread that made it.
  bool on_main_thread() const { return detail::this_thread() == main_; }

  Request send(std::span<std::byte const> bytes, Message message) {
    check_thread("send");
    detail::Lock guard(world_.mutex_);
    world_.check_alive(rank_, "send");
    OpenRequest const open = requests_.open(true, message, bytes.size());
    posted_.push_back({open, {}, world_.is_eager(bytes.size())});
    world_.post(rank_, message.peer, message.number, bytes);
    return open.request;
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    check_thread("receive");
    detail::Lock guard(world_.mutex_);
    world_.check_alive(rank_, "receive");
    OpenRequest const open = requests_.open(false, message, bytes.size());
    posted_.push_back({open, bytes, false});
    return open.request;
  }
  void test(std::vector<EndedRequest>& ended) {
    check_thread("test");
    detail::Lock guard(world_.mutex_);
    world_.check_alive(rank_, "test");
    ++world_.at(rank_).tests;
    std::size_t kept = 0;
    for (Posted const& posted : posted_) {
      EndedRequest one{posted.open.request};
      if (!has_ended(posted, one)) {
        posted_[kept++] = posted;
        continue;
      }
      requests_.close(posted.open, one.error.empty());
      ended.push_back(std::move(one));
    }
    posted_.resize(kept);
  }
  void barrier() {
    check_thread("barrier");
    (void)world_.gather(rank_, {}, "barrier");
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    check_thread("all_gather");
    return world_.gather(rank_, bytes, "all_gather");
  }
  /// Throws CommError.
  PeerTraffic traffic(int peer) const { return requests_.traffic(peer); }

 private:
  struct Posted {
    OpenRequest open;
    std::span<std::byte> room;  // of a receive
    bool eager = false;
  };

  bool has_ended(Posted const& posted, EndedRequest& ended) {
    int const peer = posted.open.message.peer;
    std::int64_t const number = posted.open.message.number;
    if (posted.open.sends) {
      if (posted.eager || world_.has_arrived(rank_, peer, number)) return true;
    } else {
      std::size_t size = 0;
      if (world_.take(peer, rank_, number, posted.room, size)) {
        if (size == posted.open.bytes) return true;
        ended.error = wrong_size(posted.open, size);
        ended.came_empty = size == 0;
        return true;
      }
      if (world_.mail_.contains({peer, rank_, number})) return false;  // sent before it left
    }
    std::string const& gone = world_.at(peer).gone;
    if (gone.empty()) return false;
    ended.error = concat(describe(posted.open), ": rank ", peer, " ", gone);
    return true;
  }
  void check_thread(char const* call) const {
    if (thread_level() < ThreadLevel::serialized && !on_main_thread())
      throw CommError(concat("LocalComm: ", call,
                             " on a thread that is not the main one, at thread "
                             "level ",
                             name_of(thread_level())));
  }

  LocalWorld& world_;
  int const rank_;
  std::uintptr_t const main_;
  OpenRequests requests_;
  std::vector<Posted> posted_;
};
static_assert(Communicator<LocalComm>);

}  // namespace nntile
