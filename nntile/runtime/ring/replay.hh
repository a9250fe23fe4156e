#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Replaying a program: one task over the union of its accesses, which starts a flight.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/ring/submit.hh"
#include "nntile/runtime/support/bindings.hh"

namespace nntile::detail::ring {

/// The driver's side of replays.
template <class Policy> class Replayer {
 public:
  Replayer(Domain<Policy>& domain, Driver<Policy>& driver, Submitter<Policy>& submitter)
      : machine_(domain.machine), domain_(domain), driver_(driver), submitter_(submitter) {}

  /// Submits one run of the program and returns its first sequence. Throws what Bindings::bind
  /// does, and std::bad_alloc; nothing is submitted then.
  std::uint64_t replay(std::shared_ptr<Image const> const& image,
                       std::span<DataHandle const> bindings, std::span<std::byte const> block) {
    if (bindings_.capacity() < bindings.size()) ++growths_;
    bindings_.bind(machine_.table, image.get(), bindings, block.size());
    forget_ended();
    Pending<Policy>& pending = submitter_.take_pending(bindings_.uses().size(), 0);
    Flight<Policy>* flight = nullptr;
    try {
      flight = take_flight(image);
      flight->set_up(image, bindings_.buffers(), block);
      if constexpr (Wiring<Policy>::runs_ahead)
        flight->find_streams([this](support::TaskBody const& body) {
          return machine_.devices.stream_of(*body.codelet, body.uses);
        });
      pending.flight = flight;
      pending.groups = support::Groups::none;
      pending.uses.assign(bindings_.uses());
      pending.body = {};
      pending.body.uses = pending.uses;
      std::uint64_t const count = image->size() == 0 ? 1 : image->size();
      if (log_.size() == log_.capacity()) grow_log();
      std::uint64_t const first = submitter_.submit_pending(pending, {}, count);
      log_.push_back({first, count});
      return first;
    } catch (...) {
      if (flight != nullptr) machine_.scheduler.flights.give_back(*flight);
      pending.flight = nullptr;
      domain_.pending.give_back(pending);
      throw;
    }
  }

  /// Makes room for `in_flight` replays of programs no larger than `program`. Before the first
  /// replay. Throws std::bad_alloc.
  void reserve(std::uint32_t in_flight, ProgramCapacity const& program) {
    bindings_.reserve(program.bindings);
    log_.reserve(2 * in_flight + forget_from_);  // see forget_ended
    machine_.scheduler.flights.reserve(in_flight, program);
  }
  /// Times that memory was taken, that of flights included.
  std::uint64_t growths() const { return growths_ + machine_.scheduler.flights.growths(); }

  /// Number of sequences of the task or replay that begins with this one.
  std::uint64_t sequences(std::uint64_t first) const {
    auto const at = std::lower_bound(log_.begin(), log_.end(), first,
                                     [](Entry const& e, std::uint64_t f) { return e.first < f; });
    return at != log_.end() && at->first == first ? at->count : 1;
  }

 private:
  struct Entry {
    std::uint64_t first;
    std::uint64_t count;
  };

  /// Without unreported failures, replays that have ended need not be remembered.
  void forget_ended() {
    if (log_.size() < forget_from_ || machine_.failures.unreported() != 0) return;
    erase_if(log_, [this](Entry const& e) { return !domain_.pending.is_open(e.first); });
    forget_from_ = 2 * log_.size() + 64;
  }

  [[gnu::noinline]] void grow_log() {
    ++growths_;
    log_.reserve(2 * log_.size() + 64);
  }

  Flight<Policy>* take_flight(std::shared_ptr<Image const> const& image) {
    Flight<Policy>* flight = nullptr;
    driver_.block_until(
        [&] {
          driver_.reclaim().collect();
          flight = machine_.scheduler.flights.take(image);
          return flight != nullptr;
        },
        [this] { return domain_.pending.oldest(); });
    return flight;
  }

  Machine<Policy>& machine_;
  Domain<Policy>& domain_;
  Driver<Policy>& driver_;
  Submitter<Policy>& submitter_;
  DynamicArray<Entry> log_;  // ascending
  std::size_t forget_from_ = 64;
  std::uint64_t growths_ = 0;
  support::Bindings bindings_;
};

}  // namespace nntile::detail::ring
