#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The part of a Machine that runs and ends the tasks of programs, and their flights.

#include <cstdint>
#include <utility>

#include "nntile/runtime/ring/flight.hh"
#include "nntile/runtime/ring/ready_task.hh"
#include "nntile/runtime/ring/scheduler.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/run_body.hh"

namespace nntile::detail::ring {

template <class Policy> class Machine;

/// A base of the Machine, which befriends it.
template <class Policy> class FlightTasks {
 public:
  /// Publishes the worker's batched sink completions to their flight; before the worker does
  /// anything else.
  void flush(std::uint32_t self) {
    auto& worker = machine().scheduler.worker(self);
    if (worker.sinks != 0) end_sinks(worker);
  }

 protected:
  /// Those that wait for the launch of a task of a program, for its end, or for either.
  enum class Behind : std::uint8_t { launch, end, any };

  /// Starts a flight. The launch counts as a sink of it: otherwise a preempted worker could end the
  /// flight amid this, and its active bit would be set while it is free, or for the next replay.
  void launch(std::uint32_t self, Flight<Policy>& flight) {
    if (flight.image().size() == 0) return machine().end_pending(flight.pending());
    auto const ready = static_cast<std::uint32_t>(flight.image().roots.size());
    flight.open_lanes();
    machine().scheduler.flights.activate(flight);
    machine().parking.wake(ready);
    end_sink(self, flight);
  }

  [[gnu::noinline]] ReadyTask run_program(std::uint32_t self, Flight<Policy>& flight,
                                          std::uint32_t offset) {
    auto& worker = machine().scheduler.worker(self);
    if (worker.sinks != 0 && worker.sink_flight != &flight) end_sinks(worker);
    RecordedTask const& task = flight.image().task(offset);
    flight.rewind(offset, task);
    flight.prefetch_successors(task);
    std::uint64_t const sequence = flight.sequence() + task.number;
    machine().trace.begin(static_cast<int>(self), sequence, *task.codelet);
    if constexpr (Policy::Device::exists) {
      bool launched = false;
      ReadyTask kept = no_task;
      bool const ended = machine().run_with_token(self, flight.prepared(task.arguments), [&] {
        launched = true;
        kept = make_ready(self, flight, task, Behind::launch);
      });
      machine().trace.end(static_cast<int>(self), sequence);
      if (!ended) return kept;
      return end_device_task(self, flight, task, launched ? Behind::end : Behind::any, kept);
    } else {
      bool ended = true;
      if (task.prepared)
        ended = machine().run_with_token(self, flight.prepared(task.arguments));
      else
        run_plain(self, flight, task);
      machine().trace.end(static_cast<int>(self), sequence);
      return ended ? end_program_task(self, flight, task) : no_task;
    }
  }

  /// Counts the successors down. After the last decrement the flight may be recycled, unless this
  /// thread still holds ready tasks of it.
  ReadyTask end_program_task(std::uint32_t self, Flight<Policy>& flight, RecordedTask const& task) {
    if (task.successor_count == 0) {
      end_sink(self, flight);
      return no_task;
    }
    return make_ready(self, flight, task, Behind::any);
  }
  /// The same with devices, where each task is a sink: the successors that are left, and
  /// `kept` of those before.
  ReadyTask end_device_task(std::uint32_t self, Flight<Policy>& flight, RecordedTask const& task,
                            Behind behind, ReadyTask kept = no_task) {
    kept = make_ready(self, flight, task, behind, kept);
    end_sink(self, flight);
    return kept;
  }

 private:
  /// Runs a task whose operands are unpacked here. The rest of its body lies in cold lines, and is
  /// collected for marks and failures only.
  void run_plain(std::uint32_t self, Flight<Policy>& flight, RecordedTask const& task) {
    void* pointers[unpacked_operands];
    flight.bind(task, pointers);
    Use<support::Buffer*> uses[unpacked_operands];
    char text[status_text_bytes];
    (void)support::run_entry(machine().failures, task.codelet->cpu,
                             {pointers, flight.arguments(task), text, machine().workspaces[self]},
                             [&] { return flight.body(task, uses, pointers); });
    support::DefaultFloatEnvironment::renew();
  }

  /// Returns one that is ready now and kept for the caller, in place of `kept` where that is less
  /// urgent.
  [[gnu::always_inline]] ReadyTask make_ready(std::uint32_t self, Flight<Policy>& flight,
                                              RecordedTask const& task, Behind behind,
                                              ReadyTask kept = no_task) {
    std::uint32_t const count = task.successor_count;
    Image const& image = flight.image();
    std::uint32_t const* const successors = task.successors();
    bool const local = flight.local();
    std::uint32_t shared = 0;
    auto const share = [&](std::uint32_t offset) {
      machine().scheduler.push_program(self, flight, offset,
                                       local ? normal_level : image.task(offset).level);
      ++shared;
    };
    auto const less_urgent = [&](std::uint32_t offset) {
      return !local && image.task(offset).level < image.task(task_of(kept)).level;
    };
    // From the youngest to the oldest, as in a slot's list: see Successors.
    for (std::uint32_t i = count; i-- > 0;) {
      std::uint32_t const offset = successors[i] >> 1;
      if (behind != Behind::any && flight.is_behind(task, offset) != (behind == Behind::launch))
        continue;
      if ((successors[i] & 1) == 0 && !flight.count_down(offset)) continue;
      if (self == Machine<Policy>::outside || (kept != no_task && less_urgent(offset))) {
        share(offset);
        continue;
      }
      if (kept != no_task) share(task_of(kept));
      kept = flight_task(flight.number(), offset);
    }
    if (shared != 0) machine().parking.wake(shared);
    return kept;
  }

  void end_sink(std::uint32_t self, Flight<Policy>& flight) {
    if (self == Machine<Policy>::outside) {
      if (flight.count_sinks(1)) end_flight(flight);
      return;
    }
    machine().scheduler.worker(self).sink_flight = &flight;
    ++machine().scheduler.worker(self).sinks;
  }

  void end_sinks(WorkerState<Policy>& worker) {
    std::uint32_t const sinks = std::exchange(worker.sinks, 0);
    if (worker.sink_flight->count_sinks(sinks)) end_flight(*worker.sink_flight);
  }

  void end_flight(Flight<Policy>& flight) {
    machine().scheduler.flights.deactivate(flight);
    machine().end_pending(flight.pending());
  }

  Machine<Policy>& machine() { return static_cast<Machine<Policy>&>(*this); }
};

}  // namespace nntile::detail::ring
