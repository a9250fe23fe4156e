#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// One check on one rank of a communicator: posts messages of known bytes and looks at what came.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/core/error.hh"
#include "nntile/core/random.hh"
#include "nntile/core/threads.hh"
#include "nntile/testing/communicator/subject.hh"
#include "nntile/testing/conformance/journal.hh"

namespace nntile::testing {

/// Bytes of requests that may still be open.
using KeptBytes = std::vector<std::shared_ptr<std::vector<std::byte>>>;

/// All that the communicator has given, and which of it has ended. What a failed check leaves open
/// may end in a later one.
class CommRequests {
 public:
  /// False: it was given before.
  bool add(Request request) { return ended_.emplace(request, false).second; }
  bool has(Request request) const { return ended_.contains(request); }
  /// Of one that was given. False: it had ended before.
  bool end(Request request) { return !std::exchange(ended_.at(request), true); }

 private:
  std::map<Request, bool> ended_;
};

/// Arguments and means of a check. Every rank runs the same checks in the same order.
class CommTrial {
 public:
  static constexpr std::int64_t numbers = 1500;  // of a check

  CommTrial(CommSubject& subject, std::int64_t check, std::uint64_t its_seed, int its_rounds,
            double seconds, KeptBytes& kept, CommRequests& requests)
      : comm(subject),
        seed(its_seed),
        rounds(its_rounds),
        first_(check * numbers),
        seconds_(seconds),
        kept_(kept),
        requests_(requests) {}

  CommSubject& comm;
  std::uint64_t const seed;
  int const rounds;

  int rank() const { return comm.rank(); }
  /// At least 1, whatever the communicator says, so that ranks are in a circle.
  int size() const { return std::max(1, comm.size()); }
  /// The rank that many places on, in a circle.
  int next(int places = 1) const { return ((rank() + places) % size() + size()) % size(); }
  /// A number of this check's own.
  std::int64_t number(std::int64_t n) const { return first_ + n; }

  /// Bytes of a post that is to be refused; one that is not may use them later.
  std::span<std::byte> bytes(std::size_t size) { return *keep(size); }

  /// Posts a message of known bytes.
  void send(int to, std::int64_t n, std::size_t size) {
    Posted post{Request::none, true, to, n, size, false, {}, {}};
    post.bytes = keep(size + 2 * margin);
    std::uint64_t const first = stream(rank(), to, n);
    for (std::size_t i = 0; i < size; ++i) (*post.bytes)[margin + i] = byte(first, i);
    post.request = timed(
        "send", [&] { return comm.send({post.bytes->data() + margin, size}, {to, number(n)}); });
    add(std::move(post));
  }
  /// Posts the receive of such a message.
  void receive(int from, std::int64_t n, std::size_t size) {
    Posted post{Request::none, false, from, n, size, false, {}, {}};
    post.bytes = keep(size + 2 * margin);
    post.request = timed("receive", [&] {
      return comm.receive({post.bytes->data() + margin, size}, {from, number(n)});
    });
    add(std::move(post));
  }
  /// One call of `test`.
  void test() {
    std::vector<EndedRequest> ended;
    (void)timed("test", [&] { return comm.test(ended), 0; });
    for (EndedRequest& one : ended) {
      auto const post = std::find_if(posted_.begin(), posted_.end(), [&](Posted const& each) {
        return each.request == one.request;
      });
      bool const of_before = post == posted_.end();
      auto const number = static_cast<std::uint64_t>(one.request);
      require(requests_.has(one.request),
              [&] { return concat("test reported request ", number, ", which was never given"); });
      require(requests_.end(one.request), [&] {
        return concat("test reported the ", of_before ? concat("request ", number) : name(*post),
                      " twice");
      });
      if (of_before) continue;
      post->ended = true;
      ++ended_;
      post->error = std::move(one.error);
      post->came_empty = one.came_empty;
    }
  }
  /// Tests until all that was posted has ended; `most` are left then.
  void wait(std::size_t most = 0) {
    std::int64_t const begin = nntile::detail::monotonic_ns();
    while (open() > most) {
      test();
      if (open() <= most) break;
      double const waited = static_cast<double>(nntile::detail::monotonic_ns() - begin) * 1e-9;
      require(waited < seconds_,
              concat("the ", name(first_open()), " has not ended within ", seconds_, " seconds"));
      nntile::detail::yield_core();
    }
  }
  /// The same; all must have gone well and brought what was sent.
  void finish() {
    wait();
    for (Posted const& post : posted_) {
      require(post.error.empty(), concat("the ", name(post), " ended with '", post.error, "'"));
      if (!post.sends) check_bytes(post);
    }
    forget();
  }
  /// The same; gives the error of each in the order of their posts, and looks at no bytes.
  std::vector<std::string> errors() {
    wait();
    std::vector<std::string> all;
    came_empty_ = 0;
    for (Posted& post : posted_) {
      all.push_back(std::move(post.error));
      came_empty_ += post.came_empty ? 1 : 0;
    }
    forget();
    return all;
  }
  /// The number of those reported as come empty.
  int came_empty() const { return came_empty_; }
  std::size_t open() const { return posted_.size() - ended_; }
  /// Requires that a post throws CommError whose text has each of these words.
  template <class Call>
  void refuses(char const* what, Call call, std::vector<std::string> const& words) {
    try {
      (void)requests_.add(call());  // it may end in a later check
    } catch (CommError const& error) {
      for (std::string const& word : words)
        require(std::string(error.what()).find(word) != std::string::npos,
                concat(what, ": the error '", error.what(), "' does not name '", word, "'"));
      return;
    }
    throw Violation{concat(what, " was not refused")};
  }
  /// A number below `bound`, the same on each rank.
  std::uint64_t draw(std::uint64_t stream, std::uint64_t bound) const {
    return mix_bits(mix_bits(seed ^ static_cast<std::uint64_t>(first_)) ^ stream) % bound;
  }

 private:
  static constexpr std::size_t margin = 16;
  static constexpr std::byte beside{0x5a};

  struct Posted {
    Request request;
    bool sends;
    int peer;
    std::int64_t n;
    std::size_t size;
    bool ended;
    std::string error;
    std::shared_ptr<std::vector<std::byte>> bytes;
    bool came_empty = false;
  };

  /// The seed of a message's bytes.
  std::uint64_t stream(int from, int to, std::int64_t n) const {
    auto const edge = static_cast<std::uint64_t>(from * 4099 + to);
    return mix_bits(mix_bits(seed ^ edge) ^ static_cast<std::uint64_t>(number(n)));
  }
  static std::byte byte(std::uint64_t stream, std::size_t at) {
    return static_cast<std::byte>((stream >> (at % 57)) + at);
  }
  void check_bytes(Posted const& post) const {
    std::byte const* const bytes = post.bytes->data();
    for (std::size_t i = 0; i < margin; ++i)
      if (bytes[i] != beside || bytes[margin + post.size + i] != beside)
        throw Violation{concat("the ", name(post), " changed bytes beside it")};
    std::uint64_t const first = stream(post.peer, rank(), post.n);
    for (std::size_t i = 0; i < post.size; ++i)
      if (bytes[margin + i] != byte(first, i))
        throw Violation{concat("the ", name(post), " brought another byte ", i)};
  }
  std::shared_ptr<std::vector<std::byte>> keep(std::size_t size) {
    kept_.push_back(std::make_shared<std::vector<std::byte>>(size, beside));
    return kept_.back();
  }
  void forget() {
    posted_.clear();
    ended_ = 0;
  }
  void add(Posted post) {
    require(post.request != Request::none, concat("the ", name(post), " has no request"));
    require(requests_.add(post.request), "two posts gave one request");
    posted_.push_back(std::move(post));
  }
  template <class Call> std::invoke_result_t<Call&> timed(char const* what, Call call) const {
    std::int64_t const begin = nntile::detail::monotonic_ns();
    auto const result = call();
    double const took = static_cast<double>(nntile::detail::monotonic_ns() - begin) * 1e-9;
    require(took < seconds_, concat(what, " returned after ", took, " seconds"));
    return result;
  }
  std::string name(Posted const& post) const {
    return concat(post.sends ? "send of message " : "receive of message ", number(post.n),
                  post.sends ? " to rank " : " from rank ", post.peer, " (", post.size, " bytes)");
  }
  Posted const& first_open() const {
    return *std::find_if(posted_.begin(), posted_.end(),
                         [](Posted const& post) { return !post.ended; });
  }

  std::int64_t const first_;
  double const seconds_;
  KeptBytes& kept_;
  CommRequests& requests_;
  std::vector<Posted> posted_;
  int came_empty_ = 0;
  std::size_t ended_ = 0;
};

struct CommCheck {
  char const* name;
  void (*run)(CommTrial&);
};

}  // namespace nntile::testing
