#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The transfers of a rank whose tasks have begun, and the tokens that end these.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/comm/open_requests.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"

namespace nntile {

/// State that all engines share, so that the codelets know no communicator: the transfers whose
/// tasks have begun.
class TransferQueue {
 public:
  TransferQueue(TransferQueue const&) = delete;
  TransferQueue& operator=(TransferQueue const&) = delete;

  /// Transfers that this rank waits for, oldest first. Any thread may ask, at any time.
  std::vector<WaitingTransfer> waiting() const {
    std::int64_t const now = detail::monotonic_ns();
    std::vector<WaitingTransfer> all;
    {
      detail::Lock guard(mutex_);
      (void)any_waiting([&](Transfer const& one) {
        all.push_back({one.sends, one.message, one.bytes.size(),
                       one.tensor == nullptr ? "" : one.tensor, one.tile, now - one.begun_ns});
        return false;
      });
    }
    auto const order = [](WaitingTransfer const& one) {  // the longest first
      return std::tuple(-one.waited_ns, one.sends, one.message.peer, one.message.number);
    };
    std::sort(all.begin(), all.end(), [&](WaitingTransfer const& a, WaitingTransfer const& b) {
      return order(a) < order(b);
    });
    return all;
  }

  /// The first error, of the communicator itself or for want of memory, that has ended a transfer
  /// here alone, so that another rank may wait for what will not come; "" where there was none. Any
  /// thread may ask.
  std::string broken() const {
    detail::Lock guard(mutex_);
    return broken_;
  }

  /// Notes such an error, of a transfer that cannot be added. Any thread.
  void lose(std::string_view error) noexcept {
    detail::Lock guard(mutex_);
    if (given_up_.empty()) note(error);
  }

  /// Ends all open transfers, and each later one, with that error: for a program that gives its
  /// peers up and is about to end, since the communicator may still touch their bytes. Any thread.
  void give_up(std::string const& reason) {
    {
      detail::Lock guard(mutex_);
      given_up_ = reason.empty() ? "given up" : reason;
      carriers_.clear();
      end_all(given_up_);
    }
    (void)complete_ended({});
  }

  /// The reason that a tile was not computed, as it goes to those who wait for it.
  struct Record {
    char text[status_text_bytes] = {cancelled_mark};

    Record() = default;
    explicit Record(char const* why) { std::strncpy(text + 1, why, sizeof text - 2); }
    /// The error of the receive that it cancels, with the rank where it began.
    std::string from(int rank) {
      text[sizeof text - 1] = 0;
      std::string_view const why = text + 1;
      if (why.starts_with("rank ")) return concat(cancelled_mark, why);
      return concat(cancelled_mark, "rank ", rank, ": ", why);
    }
  };

  struct Transfer {
    bool sends = false;
    Message message = {};
    std::span<std::byte> bytes = {};
    Completion token = {};
    char const* tensor = nullptr;  // lives until the task has ended
    std::int64_t tile = -1;
    std::int64_t begun_ns = 0;
    std::int64_t record_number = -1;      // of the message behind an empty one; -1: none
    std::shared_ptr<Record> record = {};  // its content; of a receive when it is posted
    std::string error = {};               // of one that has ended
  };
  /// Takes a transfer whose task has begun; posts nothing. One whose number is in flight in that
  /// direction, of a run before, is held back until that has ended. Any thread. Throws CommError
  /// (given up), std::bad_alloc.
  void add(Transfer transfer) {
    transfer.begun_ns = detail::monotonic_ns();
    detail::Lock guard(mutex_);
    if (!given_up_.empty()) throw CommError(given_up_);
    auto const [line, at] = enter(transfer);
    try {
      carry(transfer.token);
    } catch (...) {
      line->erase(at);
      if (line == &begun_) in_flight_.erase(key(transfer));
      throw;
    }
  }

 protected:
  /// Transfers in an order. Their nodes move from line to line, which takes no memory.
  using Line = std::multimap<std::uint64_t, Transfer>;
  struct Position {
    Line* line;
    Line::iterator at;
  };

  /// Puts a transfer behind those that have begun, or behind those of its number. Under the lock.
  /// Throws std::bad_alloc, having changed nothing.
  Position enter(Transfer const& transfer) {
    auto const [entry, is_first] = in_flight_.try_emplace(key(transfer));
    Line& line = is_first ? begun_ : entry->second;
    try {
      return {&line, line.emplace(++added_, transfer)};
    } catch (...) {
      if (is_first) in_flight_.erase(entry);
      throw;
    }
  }
  /// Puts a transfer elsewhere, under another number. Under the lock.
  static void move(Position from, Line& to, std::uint64_t number) noexcept {
    Line::node_type node = from.line->extract(from.at);
    node.key() = number;
    to.insert(std::move(node));
  }
  /// Transfers that are open: those held back are not.
  std::size_t open_count() const noexcept { return begun_.size() + posted_.size(); }

  TransferQueue(Completion::Poll poll, bool driver_only) : poll_(poll), driver_only_(driver_only) {}
  ~TransferQueue() = default;

  /// Each runtime polls the engine through one of its tokens: its carrier. Under the lock. Throws
  /// std::bad_alloc.
  void carry(Completion const& token) {
    for (Completion const& carrier : carriers_)
      if (carrier.owner == token.owner) return;
    carriers_.push_back(token);
    try {
      token.poll(poll_, this, driver_only_);
    } catch (...) {
      carriers_.pop_back();
      throw;
    }
  }
  /// A text, or a shorter one where memory lacks: this one needs none.
  static std::string text_of(std::string_view text) noexcept {
    try {
      return std::string(text);
    } catch (...) {
      return "no memory";
    }
  }
  /// Keeps the first error. Under the lock.
  void note(std::string_view error) noexcept {
    if (broken_.empty()) broken_ = text_of(error);
  }
  /// Notes that an open transfer has ended, with a reason if it failed. Needs no memory: what has
  /// ended is not lost. Under the lock.
  void end(Position position, std::string error) noexcept {
    position.at->second.error = std::move(error);
    Key const was = key(position.at->second);
    move(position, ended_, ++added_);
    free_number(was);
  }
  /// The same of all, with one reason.
  void end_all(std::string const& reason) noexcept {
    for (Line* const line : {&posted_, &begun_})
      while (!line->empty()) end({line, line->begin()}, text_of(reason));
  }
  /// Goes on with the message that says why none of the bytes came, or went. Under the lock. Throws
  /// std::bad_alloc, having changed nothing.
  void go_on(Position position) {
    Transfer next = position.at->second;
    if (!next.sends) next.record = std::make_shared<Record>();
    next.message.number = std::exchange(next.record_number, -1);
    next.bytes = std::as_writable_bytes(std::span(next.record->text));
    (void)enter(next);
    Key const was = key(position.at->second);
    position.line->erase(position.at);
    free_number(was);
  }
  static bool is_same(Completion const& a, Completion const& b) noexcept {
    return a.owner == b.owner && a.id == b.id;
  }
  /// Completes the tokens of what has ended; whether `polled` was one of them. Once the last token
  /// is completed, the engine may be gone.
  bool complete_ended(Completion const& polled) noexcept {
    bool own = false;
    for (std::optional<Transfer> next = take_ended(); next;) {
      Transfer const now = *std::exchange(next, take_ended());
      own = own || is_same(now.token, polled);
      now.token.complete(now.error.empty() ? Status{} : Status{now.error.c_str()});
    }
    return own;
  }

  using Key = std::tuple<bool, int, std::int64_t>;
  static Key key(Transfer const& of) { return {of.sends, of.message.peer, of.message.number}; }

  mutable detail::Mutex mutex_;    // never held while the communicator is called
  Line begun_;                     // in the order in which they were added; not posted yet
  Line posted_;                    // by request
  std::map<Key, Line> in_flight_;  // of all in both; with those of later runs that it holds back
  Line ended_;                     // tokens to be completed
  std::vector<Completion> carriers_;
  std::string given_up_, broken_;
  std::uint64_t added_ = 0;

 private:
  /// A number is in flight no more: the next transfer of it, if any, begins behind the others.
  void free_number(Key const& key) noexcept {
    auto const entry = in_flight_.find(key);
    Line& held = entry->second;
    if (held.empty())
      in_flight_.erase(entry);
    else
      move({&held, held.begin()}, begun_, ++added_);
  }
  /// Whether f(transfer) holds for one that has not ended. Under the lock.
  template <class F> bool any_waiting(F f) const {
    auto const any = [&](Line const& line) {
      return std::any_of(line.begin(), line.end(),
                         [&](auto const& each) { return f(each.second); });
    };
    return any(posted_) || any(begun_) ||
           std::any_of(in_flight_.begin(), in_flight_.end(),
                       [&](auto const& entry) { return any(entry.second); });
  }
  /// One that has ended, if another one carries on where it was a carrier. Where there is no memory
  /// for that, it stays: the next poll, which is its own, tries again.
  std::optional<Transfer> take_ended() noexcept {
    detail::Lock guard(mutex_);
    auto const at = std::find_if(ended_.begin(), ended_.end(), [this](auto const& one) {
      return replace_carrier(one.second.token);
    });
    if (at == ended_.end()) return {};
    Transfer was = std::move(at->second);
    ended_.erase(at);
    return was;
  }
  /// False where there is no memory for it.
  bool replace_carrier(Completion const& token) noexcept {
    auto const carrier = std::find_if(carriers_.begin(), carriers_.end(),
                                      [&](Completion const& one) { return is_same(one, token); });
    if (carrier == carriers_.end()) return true;
    try {
      bool const replaced = any_waiting([&](Transfer const& one) {
        if (one.token.owner != token.owner) return false;
        one.token.poll(poll_, this, driver_only_);
        *carrier = one.token;
        return true;
      });
      if (!replaced) carriers_.erase(carrier);
      return true;
    } catch (...) {
      return false;
    }
  }

  Completion::Poll const poll_;
  bool const driver_only_;
};

}  // namespace nntile
