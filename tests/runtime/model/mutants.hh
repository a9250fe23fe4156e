// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The seeded mistakes, and the program that finds each with the fewest preemptions.

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "tests/runtime/model/mutant.hh"

namespace nntile::test::model {

struct Seeded {
  Mutant mutant;
  std::string_view program;
  bool own_driver;
  int preemptions;  // below 0: any number
};

inline std::string_view name_of(std::memory_order order) {
  constexpr std::string_view names[] = {"relaxed", "consume", "acquire",
                                        "release", "acq_rel", "seq_cst"};
  return names[static_cast<int>(order)];
}
inline std::string_view name_of(Kind kind) {
  constexpr std::string_view names[] = {"load", "store",   "exchange", "add",
                                        "bits", "compare", "notify"};
  return names[static_cast<int>(kind)];
}

/// "queue.hh, push: release store is relaxed".
inline std::string describe(Mutant const& mutant) {
  auto const& [order, dropped, split, added, kept] = mutant.as;
  std::string what;
  if (dropped) what = "dropped";
  if (split) what = mutant.kind == Kind::compare ? "blind" : "not atomic";
  if (added != 0) what = "off by " + std::to_string(added);
  if (~kept != 0) what = "without its tag";
  if (what.empty()) what = name_of(order);
  return std::string(mutant.file) + ", " +
         (mutant.function.empty() ? "all" : std::string(mutant.function)) + ": " +
         std::string(name_of(mutant.order)) + " " + std::string(name_of(mutant.kind)) + " is " +
         what;
}

inline std::vector<Seeded> const& mutants() {
  constexpr auto relaxed = std::memory_order_relaxed;
  constexpr auto acquire = std::memory_order_acquire;
  constexpr auto release = std::memory_order_release;
  constexpr auto acq_rel = std::memory_order_acq_rel;
  constexpr auto seq_cst = std::memory_order_seq_cst;
  auto const weaker = [](std::memory_order order) { return Mutation{order}; };
  auto const dropped = [](std::memory_order order) { return Mutation{order, true}; };
  auto const torn = [](std::memory_order order) { return Mutation{order, false, true}; };
  auto const off_by = [](int added, std::memory_order order) {
    return Mutation{order, false, false, added};
  };
  auto const untagged = [](std::memory_order order) {
    return Mutation{order, false, false, 0, 0xffffffffu};
  };
  static std::vector<Seeded> const all{
      // clang-format off
      {{"broadcast.hh", "announce", Kind::add, seq_cst, weaker(relaxed)}, "bodies", false, 2},
      {{"broadcast.hh", "announce", Kind::add, seq_cst, dropped(seq_cst)}, "bodies", false, 2},
      {{"broadcast.hh", "wake_all", Kind::load, seq_cst, weaker(relaxed)}, "bodies", false, 2},
      {{"broadcast.hh", "wake_all", Kind::load, seq_cst, off_by(-1, seq_cst)}, "bodies", false, 2},
      {{"broadcast.hh", "wake_all", Kind::notify, seq_cst, dropped(seq_cst)}, "bodies", false, 2},
      {{"deque.hh", "empty", Kind::load, seq_cst, weaker(relaxed)}, "deque and sleep", false, -1},
      {{"deque.hh", "empty", Kind::load, seq_cst, weaker(acquire)}, "deque and sleep", false, -1},
      {{"deque.hh", "pop", Kind::load, seq_cst, weaker(relaxed)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::load, seq_cst, weaker(acquire)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::store, seq_cst, weaker(relaxed)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::store, seq_cst, weaker(release)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::load, relaxed, off_by(1, relaxed)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::load, seq_cst, off_by(-1, seq_cst)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::store, release, dropped(release)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::store, release, off_by(1, release)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::store, seq_cst, dropped(seq_cst)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::store, seq_cst, off_by(1, seq_cst)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::compare, seq_cst, torn(seq_cst)}, "deque", false, 3},
      {{"deque.hh", "pop", Kind::compare, seq_cst, off_by(1, seq_cst)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::store, seq_cst, weaker(relaxed)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::store, seq_cst, weaker(release)}, "deque and sleep", false, -1},
      {{"claims.hh", "take", Kind::compare, acquire, weaker(relaxed)}, "claims", false, 3},
      {{"claims.hh", "take", Kind::compare, acquire, torn(acquire)}, "claims", false, 3},
      {{"claims.hh", "take", Kind::compare, acquire, off_by(-1, acquire)}, "claims", false, 3},
      {{"claims.hh", "take", Kind::compare, release, weaker(relaxed)}, "claims", false, 3},
      {{"claims.hh", "take", Kind::compare, release, torn(release)}, "claims", false, 3},
      {{"claims.hh", "take", Kind::compare, release, off_by(1, release)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::compare, release, weaker(relaxed)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::compare, release, torn(release)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::compare, release, off_by(1, release)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::exchange, acquire, weaker(relaxed)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::exchange, acquire, torn(acquire)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::exchange, acquire, dropped(acquire)}, "claims", false, 3},
      {{"claims.hh", "release", Kind::exchange, acquire, off_by(-1, acquire)}, "claims", false, 3},
      {{"deque.hh", "push", Kind::load, relaxed, off_by(1, relaxed)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::load, acquire, off_by(-1, acquire)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::store, relaxed, dropped(relaxed)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::store, relaxed, off_by(1, relaxed)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::store, seq_cst, dropped(seq_cst)}, "deque", false, 3},
      {{"deque.hh", "push", Kind::store, seq_cst, off_by(1, seq_cst)}, "deque", false, 3},
      {{"deque.hh", "steal", Kind::load, seq_cst, weaker(relaxed)}, "deque", false, 3},
      {{"deque.hh", "steal", Kind::load, seq_cst, weaker(acquire)}, "deque", false, 3},
      {{"deque.hh", "steal", Kind::load, relaxed, off_by(1, relaxed)}, "deque", false, 3},
      {{"deque.hh", "steal", Kind::load, seq_cst, off_by(1, seq_cst)}, "deque", false, 3},
      {{"deque.hh", "steal", Kind::compare, seq_cst, torn(seq_cst)}, "deque", false, 3},
      {{"deque.hh", "steal", Kind::compare, seq_cst, off_by(1, seq_cst)}, "deque", false, 3},
      {{"flight.hh", "activate", Kind::bits, seq_cst, dropped(seq_cst)}, "replayed chain", false, 0},
      {{"flight.hh", "activate", Kind::bits, seq_cst, off_by(-1, seq_cst)}, "replayed chain", false, 0},
      {{"flight.hh", "adapt", Kind::store, relaxed, dropped(relaxed)}, "replayed chain", false, 0},
      {{"flight.hh", "adapt", Kind::store, relaxed, off_by(-1, relaxed)}, "replayed chain", false, 0},
      {{"flight.hh", "count_down", Kind::add, acq_rel, weaker(relaxed)}, "replayed join", false, 1},
      {{"flight.hh", "count_down", Kind::add, acq_rel, weaker(acquire)}, "replayed join", false, 1},
      {{"flight.hh", "count_down", Kind::add, acq_rel, weaker(release)}, "replayed join", false, 1},
      {{"flight.hh", "count_down", Kind::add, acq_rel, dropped(acq_rel)}, "replayed join", false, 0},
      {{"flight.hh", "count_down", Kind::add, acq_rel, torn(acq_rel)}, "replayed join", false, 1},
      {{"flight.hh", "count_down", Kind::add, acq_rel, off_by(1, acq_rel)}, "replayed join", false, 0},
      {{"flight.hh", "count_sinks", Kind::add, acq_rel, weaker(relaxed)}, "replayed fork", false, 2},
      {{"flight.hh", "count_sinks", Kind::add, acq_rel, weaker(acquire)}, "replayed fork", false, 2},
      {{"flight.hh", "count_sinks", Kind::add, acq_rel, weaker(release)}, "replayed fork", false, 2},
      {{"flight.hh", "count_sinks", Kind::add, acq_rel, dropped(acq_rel)}, "replayed fork", false, 2},
      {{"flight.hh", "count_sinks", Kind::add, acq_rel, torn(acq_rel)}, "replayed fork", false, 2},
      {{"flight.hh", "count_sinks", Kind::add, acq_rel, off_by(1, acq_rel)}, "replayed fork", false, 2},
      {{"flight.hh", "levels", Kind::load, relaxed, off_by(-1, relaxed)}, "replayed chain", false, 0},
      {{"flight.hh", "reset_counters", Kind::store, relaxed, dropped(relaxed)}, "replayed join", false, 0},
      {{"flight.hh", "reset_counters", Kind::store, relaxed, off_by(1, relaxed)}, "replayed join", false, 0},
      {{"flight.hh", "rewind", Kind::store, relaxed, dropped(relaxed)}, "replayed join", false, 0},
      {{"flight.hh", "rewind", Kind::store, relaxed, off_by(1, relaxed)}, "replayed join", false, 0},
      {{"flight.hh", "set_up", Kind::store, relaxed, dropped(relaxed)}, "replayed chain", false, 0},
      {{"flight.hh", "set_up", Kind::store, relaxed, off_by(1, relaxed)}, "replayed chain", false, 0},
      {{"lane.hh", "", Kind::store, release, untagged(release)}, "lane", false, -1},
      {{"lane.hh", "begin", Kind::store, release, dropped(release)}, "lane", false, -1},
      {{"lane.hh", "begin", Kind::store, release, off_by(1, release)}, "lane", false, -1},
      {{"lane.hh", "open", Kind::store, release, dropped(release)}, "lane", false, -1},
      {{"lane.hh", "open", Kind::store, release, off_by(1, release)}, "lane", false, -1},
      {{"lane.hh", "pop", Kind::load, acquire, off_by(1, acquire)}, "lane", false, -1},
      {{"lane.hh", "pop", Kind::compare, seq_cst, torn(seq_cst)}, "lane", false, -1},
      {{"lane.hh", "pop", Kind::compare, seq_cst, off_by(1, seq_cst)}, "lane", false, -1},
      {{"lane.hh", "push", Kind::store, release, dropped(release)}, "lane", false, -1},
      {{"lane.hh", "push", Kind::store, release, off_by(1, release)}, "lane", false, -1},
      {{"lane.hh", "push", Kind::add, seq_cst, dropped(seq_cst)}, "lane", false, -1},
      {{"lane.hh", "push", Kind::add, seq_cst, off_by(-1, seq_cst)}, "lane", false, -1},
      {{"lane.hh", "put", Kind::store, release, dropped(release)}, "lane", false, -1},
      {{"lane.hh", "put", Kind::store, release, off_by(1, release)}, "lane", false, -1},
      {{"lane.hh", "read", Kind::load, acquire, off_by(1, acquire)}, "lane", false, -1},
      {{"machine.hh", "leave", Kind::add, acq_rel, weaker(relaxed)}, "nested join", false, 1},
      {{"machine.hh", "leave", Kind::add, acq_rel, weaker(acquire)}, "nested join", false, 1},
      {{"machine.hh", "leave", Kind::add, acq_rel, weaker(release)}, "nested join", false, 1},
      {{"machine.hh", "leave", Kind::add, acq_rel, dropped(acq_rel)}, "nested", false, 0},
      {{"machine.hh", "leave", Kind::add, acq_rel, torn(acq_rel)}, "nested", false, 1},
      {{"machine.hh", "leave", Kind::add, acq_rel, off_by(1, acq_rel)}, "nested", false, 0},
      {{"nest.hh", "begin", Kind::store, relaxed, off_by(1, relaxed)}, "nested", false, 0},
      {{"nest.hh", "count_in", Kind::add, relaxed, dropped(relaxed)}, "nested", false, 1},
      {{"nest.hh", "count_in", Kind::add, relaxed, torn(relaxed)}, "nested", false, 1},
      {{"nest.hh", "count_in", Kind::add, relaxed, off_by(1, relaxed)}, "nested", false, 0},
      {{"offers.hh", "offer", Kind::bits, seq_cst, dropped(seq_cst)}, "nested", false, 0},
      {{"offers.hh", "offer", Kind::bits, seq_cst, torn(seq_cst)}, "offers", false, -1},
      {{"offers.hh", "offer", Kind::bits, seq_cst, weaker(relaxed)}, "bodies", false, 2},
      {{"offers.hh", "take_popped", Kind::bits, seq_cst, dropped(seq_cst)}, "offers", false, -1},
      {{"offers.hh", "take_popped", Kind::bits, seq_cst, torn(seq_cst)}, "offers", false, -1},
      {{"offers.hh", "take", Kind::bits, seq_cst, torn(seq_cst)}, "offers", false, -1},
      {{"offers.hh", "take", Kind::bits, seq_cst, dropped(seq_cst)}, "offers", false, -1},
      {{"offers.hh", "take", Kind::load, seq_cst, off_by(-1, seq_cst)}, "bodies", false, 2},
      {{"offers.hh", "any", Kind::load, seq_cst, weaker(relaxed)}, "bodies", false, 2},
      {{"block_ranges.hh", "open", Kind::store, relaxed, dropped(relaxed)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "open", Kind::store, relaxed, off_by(1, relaxed)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "open", Kind::store, relaxed, off_by(-1, relaxed)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "open", Kind::store, seq_cst, weaker(relaxed)}, "block ranges", false, 2},
      {{"block_ranges.hh", "open", Kind::store, seq_cst, weaker(release)}, "block ranges", false, 2},
      {{"block_ranges.hh", "open", Kind::store, seq_cst, off_by(1, seq_cst)}, "block ranges", false, 2},
      {{"block_ranges.hh", "open", Kind::compare, seq_cst, weaker(relaxed)}, "block ranges", false, 2},
      {{"block_ranges.hh", "claim", Kind::compare, acq_rel, torn(acq_rel)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "claim", Kind::compare, acq_rel, weaker(relaxed)}, "block ranges", false, 2},
      {{"block_ranges.hh", "claim", Kind::compare, acq_rel, off_by(1, acq_rel)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "end_block", Kind::add, acq_rel, weaker(relaxed)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "end_block", Kind::add, acq_rel, weaker(acquire)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "end_block", Kind::add, acq_rel, weaker(release)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "end_block", Kind::add, acq_rel, torn(acq_rel)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "end_block", Kind::add, acq_rel, dropped(acq_rel)}, "blocks of a range", false, 2},
      {{"block_ranges.hh", "give_back", Kind::bits, release, weaker(relaxed)}, "block ranges", false, 2},
      {{"block_ranges.hh", "any", Kind::load, seq_cst, weaker(relaxed)}, "block ranges", false, 2},
      {{"parking.hh", "announce", Kind::add, seq_cst, weaker(relaxed)}, "deque and sleep", false, -1},
      {{"parking.hh", "announce", Kind::add, seq_cst, weaker(acq_rel)}, "deque and sleep", false, -1},
      {{"parking.hh", "announce", Kind::add, seq_cst, weaker(acquire)}, "deque and sleep", false, -1},
      {{"parking.hh", "announce", Kind::add, seq_cst, weaker(release)}, "deque and sleep", false, -1},
      {{"parking.hh", "announce", Kind::add, seq_cst, dropped(seq_cst)}, "deque and sleep", false, -1},
      {{"parking.hh", "announce", Kind::add, seq_cst, off_by(-1, seq_cst)}, "deque and sleep", false, -1},
      {{"parking.hh", "completed", Kind::load, seq_cst, weaker(relaxed)}, "end", false, -1},
      {{"parking.hh", "completed", Kind::load, seq_cst, weaker(acquire)}, "end", false, -1},
      {{"parking.hh", "completed", Kind::load, seq_cst, off_by(1, seq_cst)}, "end", false, -1},
      {{"parking.hh", "expect", Kind::store, seq_cst, weaker(relaxed)}, "end", false, -1},
      {{"parking.hh", "expect", Kind::store, seq_cst, weaker(release)}, "end", false, -1},
      {{"parking.hh", "expect", Kind::store, seq_cst, dropped(seq_cst)}, "end", false, -1},
      {{"parking.hh", "expect", Kind::store, seq_cst, off_by(1, seq_cst)}, "end", false, -1},
      {{"parking.hh", "leave", Kind::load, relaxed, off_by(-1, relaxed)}, "parking", false, 2},
      {{"parking.hh", "leave", Kind::add, seq_cst, torn(seq_cst)}, "parking", false, 3},
      {{"parking.hh", "leave", Kind::add, seq_cst, off_by(-1, seq_cst)}, "parking", false, 2},
      {{"parking.hh", "ring", Kind::notify, seq_cst, dropped(seq_cst)}, "end", false, -1},
      {{"parking.hh", "wake", Kind::load, seq_cst, weaker(relaxed)}, "deque and sleep", false, -1},
      {{"parking.hh", "wake", Kind::load, seq_cst, weaker(acquire)}, "deque and sleep", false, -1},
      {{"parking.hh", "permit", Kind::load, relaxed, off_by(-1, relaxed)}, "deque and sleep", false, -1},
      {{"parking.hh", "wake", Kind::load, seq_cst, off_by(-1, seq_cst)}, "deque and sleep", false, -1},
      {{"parking.hh", "permit", Kind::add, seq_cst, torn(seq_cst)}, "parking", false, 2},
      {{"parking.hh", "permit", Kind::add, seq_cst, off_by(-1, seq_cst)}, "parking", false, 2},
      {{"parking.hh", "permit", Kind::notify, seq_cst, dropped(seq_cst)}, "deque and sleep", false, -1},
      {{"parking.hh", "wake_kind", Kind::load, seq_cst, weaker(relaxed)}, "kinds", true, 1},
      {{"parking.hh", "wake_kind", Kind::load, seq_cst, weaker(acquire)}, "kinds", true, 1},
      {{"parking.hh", "wake_kind", Kind::load, seq_cst, off_by(-1, seq_cst)}, "kinds", true, 1},
      {{"pending.hh", "ended", Kind::add, seq_cst, weaker(relaxed)}, "replayed fork", false, 2},
      {{"pending.hh", "ended", Kind::add, seq_cst, weaker(acquire)}, "replayed fork", false, 2},
      {{"pending.hh", "ended", Kind::add, seq_cst, dropped(seq_cst)}, "token", false, 0},
      {{"pending.hh", "ended", Kind::add, seq_cst, off_by(1, seq_cst)}, "token", false, 0},
      {{"pending.hh", "open", Kind::add, seq_cst, dropped(seq_cst)}, "token", false, 0},
      {{"pending.hh", "open", Kind::add, seq_cst, off_by(1, seq_cst)}, "token", false, 0},
      {{"pending.hh", "open_count", Kind::load, seq_cst, weaker(relaxed)}, "replayed fork", false, 2},
      {{"pending.hh", "open_count", Kind::load, seq_cst, off_by(1, seq_cst)}, "one task", false, 0},
      {{"queue.hh", "empty", Kind::load, seq_cst, weaker(relaxed)}, "parking", false, 2},
      {{"queue.hh", "empty", Kind::load, seq_cst, weaker(acquire)}, "parking", false, 2},
      {{"queue.hh", "pop", Kind::load, acquire, weaker(relaxed)}, "parking", false, 2},
      {{"queue.hh", "pop", Kind::load, acquire, off_by(1, acquire)}, "queue", false, -1},
      {{"queue.hh", "pop", Kind::compare, seq_cst, torn(seq_cst)}, "queue", false, -1},
      {{"queue.hh", "pop", Kind::compare, seq_cst, off_by(1, seq_cst)}, "queue", false, -1},
      {{"queue.hh", "pop_several", Kind::compare, seq_cst, torn(seq_cst)}, "several of a queue", false, -1},
      {{"queue.hh", "pop_several", Kind::compare, seq_cst, off_by(-1, seq_cst)}, "several of a queue", false, -1},
      {{"queue.hh", "read", Kind::load, acquire, weaker(relaxed)}, "several of a queue", false, -1},
      {{"queue.hh", "read", Kind::load, acquire, off_by(1, acquire)}, "several of a queue", false, -1},
      {{"queue.hh", "push", Kind::store, release, weaker(relaxed)}, "parking", false, 2},
      {{"queue.hh", "push", Kind::add, seq_cst, weaker(relaxed)}, "parking", false, 2},
      {{"queue.hh", "push", Kind::add, seq_cst, weaker(acq_rel)}, "parking", false, 2},
      {{"queue.hh", "push", Kind::add, seq_cst, weaker(acquire)}, "parking", false, 2},
      {{"queue.hh", "push", Kind::add, seq_cst, weaker(release)}, "parking", false, 2},
      {{"queue.hh", "push", Kind::store, release, dropped(release)}, "queue", false, -1},
      {{"queue.hh", "push", Kind::store, release, off_by(1, release)}, "queue", false, -1},
      {{"queue.hh", "push", Kind::add, seq_cst, dropped(seq_cst)}, "queue", false, -1},
      {{"queue.hh", "push", Kind::add, seq_cst, torn(seq_cst)}, "queue", false, -1},
      {{"queue.hh", "push", Kind::add, seq_cst, off_by(1, seq_cst)}, "queue", false, -1},
      {{"scheduler.hh", "has_some", Kind::load, seq_cst, weaker(relaxed)}, "hints", false, 1},
      {{"scheduler.hh", "grow", Kind::store, seq_cst, weaker(relaxed)}, "domains", false, 0},
      {{"scheduler.hh", "make", Kind::store, seq_cst, weaker(relaxed)}, "hints", false, 1},
      {{"scheduler.hh", "next", Kind::load, acquire, weaker(relaxed)}, "domains", false, 0},
      {{"scheduler.hh", "pause", Kind::bits, seq_cst, weaker(relaxed)}, "pause", false, 2},
      {{"scheduler.hh", "pause", Kind::bits, seq_cst, dropped(seq_cst)}, "pause", false, 2},
      {{"scheduler.hh", "paused", Kind::load, seq_cst, weaker(relaxed)}, "pause", false, 2},
      {{"scheduler.hh", "paused", Kind::load, seq_cst, weaker(acquire)}, "pause", false, 2},
      {{"pause_gate.hh", "open", Kind::notify, seq_cst, dropped(seq_cst)}, "pause", false, 2},
      {{"scheduler.hh", "steal", Kind::load, acquire, weaker(relaxed)}, "hints", false, 1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, weaker(relaxed)}, "end", false, -1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, weaker(acq_rel)}, "end", false, -1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, weaker(acquire)}, "end", false, -1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, weaker(release)}, "end", false, -1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, dropped(seq_cst)}, "end", false, -1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, torn(seq_cst)}, "edges", false, -1},
      {{"slot.hh", "close", Kind::exchange, seq_cst, off_by(1, seq_cst)}, "end", false, -1},
      {{"slot.hh", "close_own", Kind::store, relaxed, dropped(relaxed)}, "wait amid", false, 1},
      {{"slot.hh", "close_own", Kind::store, relaxed, off_by(1, relaxed)}, "wait amid", false, 1},
      {{"slot.hh", "close_own", Kind::load, relaxed, off_by(1, relaxed)}, "chain of 2", false, 0},
      {{"slot.hh", "is_closed", Kind::load, seq_cst, weaker(relaxed)}, "end", false, -1},
      {{"slot.hh", "is_closed", Kind::load, seq_cst, weaker(acquire)}, "end", false, -1},
      {{"slot.hh", "is_closed", Kind::load, seq_cst, off_by(1, seq_cst)}, "end", false, -1},
      {{"slot.hh", "open", Kind::store, relaxed, off_by(1, relaxed)}, "edges", false, -1},
      {{"slot.hh", "push", Kind::load, acquire, weaker(relaxed)}, "chain of 2", false, 2},
      {{"slot.hh", "push", Kind::compare, acq_rel, weaker(relaxed)}, "edges", false, -1},
      {{"slot.hh", "push", Kind::compare, acq_rel, weaker(acquire)}, "edges", false, -1},
      {{"slot.hh", "push", Kind::load, acquire, off_by(-1, acquire)}, "token", false, 0},
      {{"slot.hh", "push", Kind::compare, acq_rel, torn(acq_rel)}, "edges", false, -1},
      {{"slot.hh", "push", Kind::compare, acq_rel, off_by(1, acq_rel)}, "edges", false, -1},
      {{"window.hh", "Window", Kind::store, relaxed, dropped(relaxed)}, "chain of 2", false, 0},
      {{"window.hh", "advance", Kind::store, release, weaker(relaxed)}, "asked elsewhere", false, 0},
      {{"window.hh", "advance", Kind::store, release, dropped(release)}, "one task", false, 0},
      {{"window.hh", "advance", Kind::store, release, off_by(1, release)}, "one task", false, 0},
      {{"window.hh", "done", Kind::load, acquire, weaker(relaxed)}, "edges", false, -1},
      {{"window.hh", "done", Kind::load, acquire, off_by(1, acquire)}, "edges", false, -1},
      {{"window.hh", "done", Kind::load, acquire, off_by(4, acquire)}, "retired", false, 1},
      {{"window.hh", "ended", Kind::load, acquire, weaker(relaxed)}, "asked elsewhere", false, 0},
      {{"window.hh", "ended", Kind::load, acquire, off_by(1, acquire)}, "asked elsewhere", false, 1},
      {{"window.hh", "find", Kind::load, acquire, off_by(1, acquire)}, "asked elsewhere", true, 0},
      {{"window.hh", "finish", Kind::store, release, weaker(relaxed)}, "edges", false, -1},
      {{"window.hh", "finish", Kind::store, release, dropped(release)}, "edges", false, -1},
      {{"window.hh", "finish", Kind::store, release, off_by(1, release)}, "edges", false, -1},
      {{"window.hh", "head", Kind::load, relaxed, off_by(1, relaxed)}, "edges", false, -1},
      {{"window.hh", "open", Kind::store, release, weaker(relaxed)}, "asked elsewhere", false, 1},
      {{"window.hh", "open", Kind::store, release, dropped(release)}, "edges", false, -1},
      {{"window.hh", "open", Kind::store, release, off_by(1, release)}, "edges", false, -1},
      {{"window.hh", "expect", Kind::store, relaxed, dropped(relaxed)}, "edges", false, -1},
      {{"window.hh", "expect", Kind::store, relaxed, off_by(1, relaxed)}, "edges", false, -1},
      {{"window.hh", "publish", Kind::add, acq_rel, weaker(relaxed)}, "two producers", false, -1},
      {{"window.hh", "publish", Kind::add, acq_rel, weaker(release)}, "two producers", false, -1},
      {{"window.hh", "publish", Kind::add, acq_rel, weaker(acquire)}, "two producers", false, -1},
      {{"window.hh", "publish", Kind::add, acq_rel, dropped(acq_rel)}, "two producers", false, -1},
      {{"window.hh", "publish", Kind::add, acq_rel, torn(acq_rel)}, "two producers", false, -1},
      {{"window.hh", "publish", Kind::add, acq_rel, off_by(1, acq_rel)}, "two producers", false, -1},
      {{"window.hh", "walk", Kind::add, acq_rel, weaker(relaxed)}, "two producers", false, -1},
      {{"window.hh", "walk", Kind::add, acq_rel, weaker(acquire)}, "two producers", false, -1},
      {{"window.hh", "walk", Kind::add, acq_rel, torn(acq_rel)}, "two producers", false, -1},
      {{"window.hh", "walk", Kind::add, acq_rel, off_by(1, acq_rel)}, "two producers", false, -1},
      {{"window.hh", "walk", Kind::add, acq_rel, weaker(release)}, "join of 4 slots", false, 2},
      {{"window.hh", "walk", Kind::add, acq_rel, weaker(acquire)}, "join of 4 slots", false, 2},
      {{"window.hh", "watermark", Kind::load, relaxed, off_by(1, relaxed)}, "edges", false, -1},
      {{"worker.hh", "join", Kind::store, seq_cst, weaker(relaxed)}, "one task", false, 2},
      {{"worker.hh", "join", Kind::store, seq_cst, weaker(release)}, "one task", false, 2},
      {{"worker.hh", "join", Kind::store, seq_cst, dropped(seq_cst)}, "one task", false, 0},
      {{"worker.hh", "wait", Kind::load, seq_cst, weaker(relaxed)}, "one task", false, 2},
      {{"worker.hh", "wait", Kind::load, seq_cst, weaker(acquire)}, "one task", false, 2},
      // clang-format on
  };
  return all;
}

}  // namespace nntile::test::model
