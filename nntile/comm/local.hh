#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are threads of one process: for tests, sanitizers and debuggers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <set>
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
  using Mail = std::multimap<Edge, Sent>;  // of one edge, in the order of the sends
  struct Coming {
    std::uint64_t due = 0;
    int from = 0;
    std::int64_t number = 0;
    bool operator<(Coming const& other) const {
      return std::tie(due, from, number) < std::tie(other.due, other.from, other.number);
    }
  };
  struct Rank {
    std::string gone;  // its end, in words for errors; "" while it lives
    bool made = false;
    std::uint64_t tests = 0;
    std::multiset<Coming> coming;  // messages to look for; some may not be there
    std::vector<Message> left;     // its sends to look at: eager, or taken by their receivers
    std::uint64_t gathers = 0;     // that it has entered
    std::vector<std::byte> given;
    bool given_all = false;  // there was memory for it
    std::vector<std::vector<std::byte>> gathered;
  };

  /// Under the lock, as all that follows.
  void leave(int rank, char const* how) {
    Rank& its = at(rank);
    if (!its.gone.empty()) return;
    its.gone = how;
    std::erase_if(mail_, [&](auto const& each) {  // its buffers are read no more
      return std::get<0>(each.first) == rank && !is_eager(each.second.size);
    });
    ++gone_;
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
    at(to).coming.insert({sent.due, from, number});
    if (is_eager(bytes.size())) at(from).left.push_back({to, number});
    mail_.emplace(Edge{from, to, number}, std::move(sent));
  }
  bool is_eager(std::size_t bytes) const { return bytes <= options_.eager_bytes; }

  /// The first message of an edge that is not there for its sender alone; none: the end.
  Mail::iterator find(int from, int to, std::int64_t number) {
    Edge const edge{from, to, number};
    auto const found = mail_.lower_bound(edge);
    bool const there = found != mail_.end() && found->first == edge && !found->second.taken;
    return there ? found : mail_.end();
  }
  /// Whether a send that is not eager has been received; it is forgotten then.
  bool was_received(int from, int to, std::int64_t number) {
    Edge const edge{from, to, number};
    auto const found = mail_.lower_bound(edge);
    if (found == mail_.end() || found->first != edge || !found->second.taken) return false;
    mail_.erase(found);
    return true;
  }
  std::size_t arriving_size(Mail::value_type const& mail) const {
    auto const changed = changed_sizes_.find(mail.first);
    return changed == changed_sizes_.end() ? mail.second.size : changed->second;
  }
  /// Marks a message as received; copies all of it or nothing.
  void take(Mail::iterator found, std::byte* room, bool copies) {
    Sent& sent = found->second;
    bool const eager = is_eager(sent.size);
    if (copies && sent.size != 0)
      std::memcpy(room, eager ? sent.copy.data() : sent.bytes, sent.size);
    changed_sizes_.erase(found->first);
    if (eager)
      mail_.erase(found);
    else
      sent.taken = true;
  }

  /// Every rank's bytes, when all have called it. A rank that lacks the memory has called it all
  /// the same, as the others would wait for it: then it fails on all.
  std::vector<std::vector<std::byte>> gather(int rank, std::span<std::byte const> bytes,
                                             char const* call) {
    detail::Lock lock(mutex_);
    Rank& mine = at(rank);
    check_alive(rank, call);
    mine.given_all = copied(bytes, mine.given);
    std::uint64_t const round = ++mine.gathers;
    // Looked up rather than counted: a rank may enter again after one that ended has failed it.
    if (std::all_of(ranks_.begin(), ranks_.end(),
                    [&](Rank const& each) { return each.gathers >= round; })) {
      deliver(rank);
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
    // The next round, which changes these, ends only when this rank has entered it.
    if (lacking_ == rank) throw std::bad_alloc();
    if (lacking_ != nobody) throw CommError(concat(call, ": rank ", lacking_, " lacks memory"));
    return std::move(mine.gathered);
  }
  /// False where there is no memory for it.
  static bool copied(std::span<std::byte const> bytes, std::vector<std::byte>& to) noexcept {
    try {
      to.assign(bytes.begin(), bytes.end());
      return true;
    } catch (std::bad_alloc const&) {
      return false;
    }
  }
  /// Gives each rank a copy of the bytes of all, here, where none takes memory any more; or notes
  /// who lacks it.
  void deliver(int last) noexcept {
    lacking_ = nobody;
    for (int rank = size(); rank-- > 0;)
      if (!at(rank).given_all) lacking_ = rank;
    if (lacking_ != nobody) return;
    try {
      for (Rank& to : ranks_) {
        to.gathered.clear();
        for (Rank const& from : ranks_) to.gathered.push_back(from.given);
      }
    } catch (std::bad_alloc const&) {
      lacking_ = last;
    }
  }
  void check_alive(int rank, char const* call) {
    if (!at(rank).gone.empty())
      throw CommError(concat(call, ": this rank, ", rank, ", ", at(rank).gone));
  }

  LocalOptions const options_;
  detail::Mutex mutex_;
  detail::Condition changed_;
  std::vector<Rank> ranks_;
  Mail mail_;
  std::map<Edge, std::size_t> changed_sizes_;
  std::uint64_t rounds_ = 0;
  int gone_ = 0;  // ranks
  static constexpr int nobody = -1;
  int lacking_ = nobody;  // the rank that lacked memory in the last round
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
    requests_.keep(open, [&] {
      auto const at = sends_.emplace(key(message), open).first;
      try {
        world_.post(rank_, message.peer, message.number, bytes);
      } catch (...) {
        sends_.erase(at);
        throw;
      }
    });
    return open.request;
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    check_thread("receive");
    detail::Lock guard(world_.mutex_);
    world_.check_alive(rank_, "receive");
    OpenRequest const open = requests_.open(false, message, bytes.size());
    requests_.keep(open, [&] {
      auto const found = world_.find(message.peer, rank_, message.number);
      if (found != world_.mail_.end())
        mine().coming.insert({found->second.due, message.peer, message.number});
      receives_.emplace(key(message), Posted{open, bytes.data()});
    });
    return open.request;
  }
  void test(std::vector<EndedRequest>& ended) {
    check_thread("test");
    detail::Lock guard(world_.mutex_);
    world_.check_alive(rank_, "test");
    ++mine().tests;
    for (Message const& message : mine().left) end_send(message, ended);
    mine().left.clear();
    auto& coming = mine().coming;
    while (!coming.empty() && coming.begin()->due <= mine().tests) {
      end_receive({coming.begin()->from, coming.begin()->number}, ended);
      coming.erase(coming.begin());
    }
    if (world_.gone_ == 0) return;
    end_gone(sends_, ended);
    end_gone(receives_, ended);
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
  using Key = std::pair<int, std::int64_t>;  // the other rank, the number
  struct Posted {
    OpenRequest open;
    std::byte* room;
  };

  static Key key(Message const& message) { return {message.peer, message.number}; }
  static OpenRequest const& open_of(OpenRequest const& send) { return send; }
  static OpenRequest const& open_of(Posted const& receive) { return receive.open; }
  LocalWorld::Rank& mine() { return world_.at(rank_); }

  void end_send(Message const& message, std::vector<EndedRequest>& ended) {
    auto const send = sends_.find(key(message));
    if (send == sends_.end()) return;
    OpenRequest const open = send->second;
    if (!world_.is_eager(open.bytes) && !world_.was_received(rank_, message.peer, message.number))
      return;
    end(open, {}, false, ended);
    sends_.erase(send);
  }
  /// If its message is there and due.
  void end_receive(Message const& message, std::vector<EndedRequest>& ended) {
    auto const receive = receives_.find(key(message));
    auto const found = world_.find(message.peer, rank_, message.number);
    if (receive == receives_.end() || found == world_.mail_.end()) return;
    if (found->second.due > mine().tests) return;
    auto const [open, room] = receive->second;
    std::size_t const size = world_.arriving_size(*found);
    bool const fits = size == open.bytes;
    if (!world_.is_eager(found->second.size))
      world_.at(message.peer).left.push_back({rank_, message.number});
    end(open, fits ? std::string{} : wrong_size(open, size), !fits && size == 0, ended);
    world_.take(found, room, fits && size == found->second.size);
    receives_.erase(receive);
  }
  /// Ends what is open with ranks that are gone, but receives of what they sent before.
  template <class T> void end_gone(std::map<Key, T>& list, std::vector<EndedRequest>& ended) {
    for (auto at = list.begin(); at != list.end();) {
      auto const [peer, number] = at->first;
      std::string const& gone = world_.at(peer).gone;
      if (gone.empty()) {
        at = list.lower_bound({peer + 1, 0});
        continue;
      }
      OpenRequest const& open = open_of(at->second);
      if (!open.sends && world_.find(peer, rank_, number) != world_.mail_.end()) {
        ++at;
        continue;
      }
      end(open, concat(describe(open), ": rank ", peer, " ", gone), false, ended);
      at = list.erase(at);
    }
  }
  void end(OpenRequest const& open, std::string error, bool came_empty,
           std::vector<EndedRequest>& ended) {
    bool const well = error.empty();
    ended.push_back({open.request, std::move(error), came_empty});
    requests_.close(open, well);
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
  std::map<Key, OpenRequest> sends_;
  std::map<Key, Posted> receives_;
};
static_assert(Communicator<LocalComm>);

}  // namespace nntile
