#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A communicator that breaks one law.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/comm/local.hh"

namespace nntile::test {

enum class CommDefect {
  none,
  counts_from_one,
  has_no_ranks,
  has_few_numbers,
  gathers_own_bytes,
  forgets_empty_pieces,
  leaves_the_barrier,
  changes_the_last_byte,
  cuts_large_messages,
  never_hears_itself,
  waits_in_send,
  waits_in_receive,
  waits_in_test,
  confuses_numbers,
  confuses_ranks,
  opens_a_hundred,
  reports_twice,
  reports_again_later,
  reports_nothing_known,
  gives_requests_again,
  throws_a_number,
  writes_beside,
  keeps_numbers,
  takes_any_rank,
  takes_negative_ranks,
  takes_any_number,
  receives_any_number,
  takes_sends_in_flight,
  takes_receives_in_flight,
  takes_any_size,
  hides_empty_ones,
  blames_all,
  counts_sends_alone,
  counts_twice,
  counts_failures,
  loses_late_ones,
};

/// LocalComm with a defect.
class BrokenComm {
 public:
  BrokenComm(CommDefect defect, LocalComm& comm) : defect_(defect), comm_(comm) {}

  int rank() const { return comm_.rank() + (is(CommDefect::counts_from_one) ? 1 : 0); }
  int size() const { return is(CommDefect::has_no_ranks) ? 0 : comm_.size(); }
  std::int64_t tag_bound() const {
    return is(CommDefect::has_few_numbers) ? 30'000 : comm_.tag_bound();
  }
  ThreadLevel thread_level() const { return comm_.thread_level(); }
  bool on_main_thread() const { return comm_.on_main_thread(); }

  Request send(std::span<std::byte const> bytes, Message message) {
    if (is(CommDefect::throws_a_number)) throw 42;
    if (is(CommDefect::waits_in_send)) wait();
    if (is(CommDefect::takes_any_rank) && message.peer >= size()) return invented();
    if (is(CommDefect::takes_negative_ranks) && message.peer < 0) return invented();
    if (is(CommDefect::takes_any_number) && message.number > tag_bound()) return invented();
    check_open();
    check_used(true, message);
    if (is(CommDefect::cuts_large_messages) && bytes.size() > 65'536) bytes = bytes.first(65'536);
    try {
      Request const request = comm_.send(bytes, message);
      open_.push_back({request, {}, message.number});
      return named(request);
    } catch (CommError const&) {
      if (is(CommDefect::takes_sends_in_flight)) return invented();
      throw;
    }
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    if (is(CommDefect::waits_in_receive)) wait();
    if (is(CommDefect::takes_any_rank) && message.peer >= size()) return invented();
    if (is(CommDefect::takes_negative_ranks) && message.peer < 0) return invented();
    if (is(CommDefect::receives_any_number) && message.number < 0) {
      of_any_number_ = bytes;
      return invented();
    }
    check_open();
    check_used(false, message);
    if (is(CommDefect::never_hears_itself) && message.peer == comm_.rank()) return invented();
    if (is(CommDefect::loses_late_ones) && message.number % 61 == 60) return invented();
    if (is(CommDefect::confuses_numbers)) message.number ^= 1;
    if (is(CommDefect::confuses_ranks)) message.peer = (message.peer + 1) % size();
    try {
      Request const request = comm_.receive(bytes, message);
      open_.push_back({request, bytes, message.number});
      return named(request);
    } catch (CommError const&) {
      if (is(CommDefect::takes_receives_in_flight)) return invented();
      throw;
    }
  }
  void test(std::vector<EndedRequest>& ended) {
    if (is(CommDefect::waits_in_test)) wait();
    std::size_t const before = ended.size();
    comm_.test(ended);
    bool const failed = std::any_of(ended.begin(), ended.end(),
                                    [](EndedRequest const& one) { return !one.error.empty(); });
    for (std::size_t i = before, end = ended.size(); i < end; ++i) {
      Open const open = forget(ended[i].request);
      if (is(CommDefect::changes_the_last_byte) && !open.room.empty())
        open.room.back() ^= std::byte{1};
      if (is(CommDefect::writes_beside) && !open.room.empty())
        open.room.data()[open.room.size()] ^= std::byte{1};
      if (is(CommDefect::takes_any_size)) ended[i].error.clear();
      if (is(CommDefect::hides_empty_ones)) ended[i].came_empty = false;
      if (is(CommDefect::blames_all) && failed) ended[i].error = "message of wrong size";
      if (is(CommDefect::reports_twice) || is(CommDefect::reports_again_later))
        late_.push_back(ended[i]);
      if (!ended[i].error.empty()) ++failures_;
    }
    if (is(CommDefect::reports_twice) && ended.size() == before) ended.swap(late_);
    ended.insert(ended.end(), due_.begin(), due_.end());
    due_.clear();
    if (is(CommDefect::reports_nothing_known)) ended.push_back({invented(), {}, false});
    for (std::size_t i = before; i < ended.size(); ++i) ended[i].request = named(ended[i].request);
  }
  void barrier() {
    if (is(CommDefect::reports_again_later)) {
      due_.insert(due_.end(), late_.begin(), late_.end());
      late_.clear();
    }
    if (!is(CommDefect::leaves_the_barrier)) comm_.barrier();
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    auto all = comm_.all_gather(bytes);
    if (is(CommDefect::gathers_own_bytes))
      for (auto& each : all) each.assign(bytes.begin(), bytes.end());
    if (is(CommDefect::forgets_empty_pieces))
      std::erase_if(all, [](auto const& each) { return each.empty(); });
    return all;
  }
  PeerTraffic traffic(int peer) const {
    PeerTraffic traffic = comm_.traffic(peer);
    if (is(CommDefect::counts_sends_alone)) traffic.received = {};
    if (is(CommDefect::counts_twice)) traffic.sent.bytes *= 2;
    if (is(CommDefect::counts_failures)) traffic.received.messages += failures_;
    return traffic;
  }
  /// The bytes of a receive of the number -1.
  std::span<std::byte const> of_any_number() const { return of_any_number_; }

 private:
  struct Open {
    Request request;
    std::span<std::byte> room;
    std::int64_t number;
  };

  bool is(CommDefect defect) const { return defect_ == defect; }
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(600)); }
  /// Ten numbers for all requests, with that defect.
  Request named(Request request) const {
    if (!is(CommDefect::gives_requests_again)) return request;
    return static_cast<Request>(1 + static_cast<std::uint64_t>(request) % 10);
  }
  Request invented() { return static_cast<Request>(next_invented_++); }
  void check_open() const {
    if (is(CommDefect::opens_a_hundred) && open_.size() >= 100)
      throw CommError("a hundred requests are open");
  }
  void check_used(bool sends, Message const& message) {
    if (is(CommDefect::keeps_numbers) &&
        !used_.insert({sends, message.peer, message.number}).second)
      throw CommError("that number was used");
  }
  Open forget(Request request) {
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].request != request) continue;
      Open const found = open_[i];
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    return {};
  }

  CommDefect const defect_;
  LocalComm& comm_;
  std::uint64_t next_invented_ = std::uint64_t{1} << 40;
  std::uint64_t failures_ = 0;
  std::vector<Open> open_;
  std::span<std::byte> of_any_number_;
  std::vector<EndedRequest> late_;  // to report again, and those that are to come next
  std::vector<EndedRequest> due_;
  std::set<std::tuple<bool, int, std::int64_t>> used_;
};
static_assert(Communicator<BrokenComm>);

}  // namespace nntile::test
