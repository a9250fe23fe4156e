#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous tasks under Check: tokens of their own, between the body and the runtime.

#include <cstdint>
#include <deque>
#include <exception>
#include <new>
#include <optional>

#include "nntile/core/codelet.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/adaptors/checked_body.hh"

namespace nntile::detail {

/// The asynchronous tasks of one Check that are in flight. From any thread.
///
/// Law: a token names a flight and a number, which grows when a task's end is claimed: so one that
/// is void fits no flight, whenever it is used. Flights are used again, and live as long as the
/// runtime, as do polls: another thread may be about to call one whose task has ended.
class CheckedFlights {
 public:
  CheckedFlights() = default;
  CheckedFlights(CheckedFlights const&) = delete;
  CheckedFlights& operator=(CheckedFlights const&) = delete;

  /// Looks at the operands of a task, and gives a token for its body. Throws std::bad_alloc.
  Completion begin(KernelCall const& call, Completion outer) {
    Flight& flight = take();
    try {
      flight.run.emplace(call);
      flight.run->enter();
    } catch (...) {
      give_back(flight);
      throw;
    }
    flight.outer = outer;
    return token_of(flight, flight.number);
  }
  /// The status of a task whose entry has failed, which counts even where its token was completed
  /// before.
  static Status entry_failed(Completion token, Codelet const& codelet, Status status, char* text) {
    Flight& flight = flight_of(token.owner);
    if (!claim(flight, token.id)) return named_failure(codelet, status, text);
    Status const checked = flight.run->leave(status, text);
    flight.flights->give_back(flight);
    return checked;
  }

 private:
  struct Flight {
    CheckedFlights* flights;
    Flight* next = nullptr;  // of the free ones
    std::uint64_t number = 1;
    std::optional<CheckedRun> run{};
    Completion outer{};
  };
  /// A poll of a task's own.
  struct Poll {
    Completion token;
    Completion::Poll function;
    void* state;
  };

  static Flight& flight_of(void* owner) { return *static_cast<Flight*>(owner); }
  static Completion token_of(Flight& flight, std::uint64_t number) {
    return {&flight, number, &finish, &add_poll};
  }

  Flight& take() {
    Lock const hold(mutex_);
    if (free_ == nullptr) return flights_.emplace_back(Flight{this});
    Flight& flight = *free_;
    free_ = flight.next;
    return flight;
  }
  void give_back(Flight& flight) noexcept {
    flight.run.reset();
    Lock const hold(mutex_);
    flight.next = free_;
    free_ = &flight;
  }
  /// True for the one that is to end the task; false for a token that is void.
  static bool claim(Flight& flight, std::uint64_t number) noexcept {
    Lock const hold(flight.flights->mutex_);
    if (flight.number != number) return false;
    ++flight.number;
    return true;
  }

  static void finish(void* owner, std::uint64_t number, Status status) noexcept {
    Flight& flight = flight_of(owner);
    if (!claim(flight, number)) return;
    char text[status_text_bytes];
    Status const checked = flight.run->leave(status, text);
    Completion const outer = flight.outer;
    flight.flights->give_back(flight);  // the runtime may end as soon as the task has
    outer.complete(checked);
  }
  static void add_poll(void* owner, std::uint64_t number, Completion::Poll function, void* state,
                       bool driver_only) {
    Flight& flight = flight_of(owner);
    CheckedFlights& self = *flight.flights;
    Poll* poll;
    Completion outer;
    {
      Lock const hold(self.mutex_);
      if (flight.number != number) return;
      poll = &self.polls_.emplace_back(Poll{token_of(flight, number), function, state});
      outer = flight.outer;
    }
    outer.poll(&call_poll, poll, driver_only);
  }
  static bool call_poll(void* state, Completion) {
    Poll const& poll = *static_cast<Poll const*>(state);
    try {
      return poll.function(poll.state, poll.token);
    } catch (std::exception const& error) {
      poll.token.complete({error.what()});
    } catch (...) {
      poll.token.complete({"its poll threw what is no std::exception"});
    }
    return true;
  }

  Mutex mutex_;
  std::deque<Flight> flights_;
  std::deque<Poll> polls_;
  Flight* free_ = nullptr;
};

inline Status start_checked(KernelCall const& call, Completion token) noexcept try {
  CheckedHeader const header = header_of(call);
  Completion const own = header.flights->begin(call, token);
  Status const status = header.codelet->async(own_call(call), own);
  if (status.ok()) return status;
  return CheckedFlights::entry_failed(own, *header.codelet, status, call.text);
} catch (std::bad_alloc const&) {
  return no_memory_to_check;
}

inline constexpr Codelet checked_codelet{"checked", &run_checked, nullptr, nullptr};
inline constexpr Codelet checked_large_codelet{"checked", &run_checked, nullptr, nullptr,
                                               max_workspace_bytes};
inline constexpr Codelet checked_late_codelet{"checked", nullptr, nullptr, &start_checked};
inline constexpr Codelet checked_marked_codelet{
    .name = "checked", .async = &start_checked, .runs_on_marks = true};

/// The substitute of a codelet: the same kind of entry and, where it has one, a workspace.
inline Codelet const& checked_codelet_for(Codelet const& codelet) {
  if (codelet.cpu == nullptr)
    return codelet.runs_on_marks ? checked_marked_codelet : checked_late_codelet;
  return codelet.workspace != 0 ? checked_large_codelet : checked_codelet;
}

}  // namespace nntile::detail
