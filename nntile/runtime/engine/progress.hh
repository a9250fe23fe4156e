#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Counts of an engine's nodes that were started and have ended, and its driver's wait for them.

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>

#include "nntile/runtime/support/tokens.hh"
#include "nntile/runtime/support/wake.hh"

namespace nntile::detail::engine {

/// The driver's work while it waits: help() executes one spawned job, if it may; tokens() are to be
/// polled.
template <class W>
concept DriverWork = requires(W const work) {
  { work.help() } -> std::same_as<bool>;
  { work.tokens() } -> std::same_as<support::Tokens&>;
};

/// Counts of nodes; what the driver waits for, and its sleep. Law: the driver says what it waits
/// for, then looks; a node's end is counted, then what the driver waits for is read: all four
/// sequentially consistent, so that one of the two sees the other.
class Progress {
 public:
  /// While tokens are out, `let_in` nodes more may be in flight at a time than `most`.
  explicit Progress(std::uint64_t most, std::uint64_t let_in = 1024)
      : most_(most), let_in_(let_in), limit_(most) {}

  /// The driver, for each node.
  void start() noexcept {
    issued_.store(issued_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Any thread, for each node; of a task with its sequence, else 0. Wakes the driver if it waits
  /// for this end, or `wake`.
  void end(std::uint64_t sequence, bool wake) noexcept {
    std::uint64_t const ended = ended_.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (ended == wake_at_.load(std::memory_order_seq_cst) || wake ||
        (sequence != 0 && sequence == wake_for_.load(std::memory_order_seq_cst)))
      wake_.notify();
  }
  /// Any thread: the driver may have something to do.
  void notify() noexcept { wake_.notify(); }
  support::Wake& wake() noexcept { return wake_; }
  /// In a forked child, before the end: sleepers are in the parent, and would be waited for.
  void forget_sleepers() noexcept { std::construct_at(&wake_); }

  /// Helps, polls and sleeps until reached() holds, which is to become true by the end of some
  /// task.
  template <DriverWork W, class Reached> void wait_until(W const& work, Reached&& reached) {
    while (!reached()) {
      if (work.help() || work.tokens().poll(true)) continue;
      std::uint64_t const ticket = wake_.prepare();
      if (reached()) return wake_.cancel();
      if (work.help())
        wake_.cancel();
      else if (work.tokens().polls() != 0)
        wake_.nap(ticket);
      else
        wake_.sleep(ticket);
    }
  }
  /// The same, where the end of that task is what makes it true.
  template <DriverWork W, class Reached>
  void wait_for(W const& work, std::uint64_t sequence, Reached&& reached) {
    wake_for_.store(sequence, std::memory_order_seq_cst);
    wait_until(work, reached);
  }
  /// Waits for the end of every node started so far.
  template <DriverWork W> void drain(W const& work) {
    std::uint64_t const count = issued_.load(std::memory_order_relaxed);
    wake_at_.store(count, std::memory_order_seq_cst);
    wait_until(work, [&] { return ended_.load(std::memory_order_seq_cst) >= count; });
  }

  /// Blocks while too many tasks are in flight. With tokens out, the thread that completes them may
  /// be waiting for the driver to go on: where nothing ends during a nap, some more tasks are let
  /// in.
  template <DriverWork W> void make_room(W const& work) {
    std::uint64_t const issued = issued_.load(std::memory_order_relaxed);
    if (issued - ended_seen_ < limit_) [[likely]]
      return;
    limit_ = most_;
    auto const has_room = [&] {
      ended_seen_ = ended_.load(std::memory_order_seq_cst);
      return issued - ended_seen_ < limit_;
    };
    wake_at_.store(issued - limit_ / 2, std::memory_order_seq_cst);
    wait_until(work, [&] { return has_room() || work.tokens().outstanding() != 0; });
    while (!has_room()) {
      std::uint64_t const before = ended_seen_;
      if (work.help() || work.tokens().poll(true)) continue;
      wake_.nap(wake_.prepare());
      if (ended_.load(std::memory_order_seq_cst) == before) limit_ = issued - before + let_in_;
    }
  }

 private:
  std::uint64_t const most_, let_in_;
  std::uint64_t ended_seen_ = 0;  // not above ended_: so that a submission need not look
  std::uint64_t limit_;
  std::atomic<std::uint64_t> issued_{0};  // nodes started; the driver's
  alignas(64) std::atomic<std::uint64_t> ended_{0};
  alignas(64) std::atomic<std::uint64_t> wake_at_{
      0};                                   // count of ended nodes that the driver waits for
  std::atomic<std::uint64_t> wake_for_{0};  // sequence that the driver waits for
  support::Wake wake_;
};

}  // namespace nntile::detail::engine
