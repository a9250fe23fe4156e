#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The runtime that runs each task inside submit, and thereby defines correct.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/serial/program.hh"
#include "nntile/runtime/support/bindings.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/options.hh"
#include "nntile/runtime/support/run_body.hh"
#include "nntile/runtime/support/storage_calls.hh"
#include "nntile/runtime/support/submitted.hh"
#include "nntile/runtime/support/wake.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace nntile {

/// Runs tasks one at a time, in submission order, on the driving thread: a CPU task has ended when
/// `submit` returns. Only behind an asynchronous task that waits for its token do later ones queue,
/// in order; `wait`, `lock` and `wait_all` drain the queue. Cost of a submission: look-up and
/// checks of its handles; of a replayed task: its operands' pointers. Allocates: only to record, to
/// queue, or beyond 16 uses.
class Serial : public support::StorageCalls<Serial> {
 public:
  using Program = SerialProgram;
  static constexpr char const* runtime_name = "serial";

  Serial() = default;
  /// Throws ValueError for more than one worker, or `own_driver`: there is no other thread.
  explicit Serial(RuntimeOptions const& options) {
    (void)support::check_options({options.workers.value_or(1), false, false}, "serial", 1);
    if (options.own_driver)
      throw ValueError("serial: own_driver needs a thread besides the driver, and serial has none");
  }
  Serial(Serial const&) = delete;
  Serial& operator=(Serial const&) = delete;
  /// Waits for tokens; never throws.
  ~Serial() {
    link_->close();
    auto const inside = thread_.enter_to_destroy();
    take_dropped();
    drain(submitted_);
    tokens_.quiesce();
  }

  Event submit(Task<Handle> const& task) {
    Inside const inside(*this, "submit");
    if (!queue_.empty()) run_queue(no_limit);
    std::size_t const count = task.uses.size();
    if (!queue_.empty() || count > inline_uses) [[unlikely]]
      return enqueue(task);
    Use<support::Buffer*> uses[inline_uses];
    void* pointers[inline_uses];
    buffers_.bind(task, uses, pointers);
    if (task.codelet->cpu == nullptr) [[unlikely]]
      return enqueue(task);
    std::uint64_t const sequence = ++submitted_;
    buffers_.commit({uses, count}, support::Ticket{sequence});
    {
      support::DrivingThread::InTask const in_task(thread_);
      char text[status_text_bytes];
      (void)support::run_body(failures_, task.codelet->cpu,
                              {pointers, task.arguments.data(), text, workspaces_[0]}, [&] {
                                return support::TaskBody{task.codelet,          sequence,
                                                         {uses, count},         pointers,
                                                         task.arguments.data(), task.label};
                              });
    }
    ended_.store(sequence, std::memory_order_release);
    return {this, sequence};
  }

  /// Compiles tasks into a program, whose labels' strings must live as long as it. Throws
  /// ValueError: a binding, parameter or codelet that cannot be.
  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters = {}) {
    Inside const inside(*this, "record");
    auto image = std::make_shared<detail::serial::Image const>(support::check_entries(tasks),
                                                               binding_count, parameters);
    bindings_.reserve(binding_count);
    flight_.reserve(*image);
    return Program(std::move(image));
  }

  /// Runs a program once: a loop over its kernels. Its tasks count as submitted one by one, and the
  /// event is the last one's. Throws what Bindings::bind does; nothing has run then.
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block = {}) {
    Inside const inside(*this, "replay");
    if (!queue_.empty()) run_queue(no_limit);
    bindings_.bind(buffers_, program.image_.get(), bindings, block.size());
    forget_ended();
    bool const at_once = queue_.empty() && !program.image_->asynchronous;
    Flight* const flight = at_once ? &flight_ : enqueue_flight();
    try {
      flight->set_up(program.image_, bindings, bindings_.buffers(), block, submitted_ + 1,
                     workspaces_[0]);
      if (replays_.size() == replays_.capacity()) replays_.reserve(2 * replays_.size() + 16);
    } catch (...) {
      if (!at_once) queue_.pop_back();
      throw;
    }
    submitted_ = flight->last();
    support::BufferTable::commit(bindings_.uses(), support::Ticket{flight->last()});
    bool const well = at_once && run_flight(*flight);
    if (!well) replays_.push_back({flight->first(), flight->last()});
    if (!at_once) run_queue(no_limit);
    return {this, submitted_};
  }

  void wait(Event event) {
    Inside const inside(*this, "wait");
    support::check_event(event, this, submitted_, "wait");
    drain(event.sequence);
    if (failures_.unreported() == 0) return;
    for (std::uint64_t s = first_of(event.sequence); s <= event.sequence; ++s)
      failures_.throw_if_failed(s);
  }
  bool done(Event event) {
    support::check_event(event, this, submitted_, "done");
    if (has_ended(event.sequence)) return true;
    auto const inside = thread_.enter_as_driver();
    if (!inside) return false;
    (void)tokens_.poll(true);
    run_queue(1);
    return has_ended(event.sequence);
  }
  void wait_all() {
    Inside const inside(*this, "wait_all");
    buffers_.check_nothing_locked();
    drain(submitted_);
    this->link()->forget_names();
    failures_.report();
  }

  bool here() const noexcept { return thread_.here(); }
  Workers workers() const { return {}; }
  /// Names the tasks that wait for a token; "" if none does.
  std::string waiting_for() const { return tokens_.waiting_for(); }

 private:
  friend class support::StorageCalls<Serial>;
  static constexpr std::size_t inline_uses = 16;

  using Flight = detail::serial::Flight;

  /// A copied submission, a replay, or the end of a retired buffer, that waits for its turn.
  struct Queued {
    support::TaskBody body;
    std::unique_ptr<Flight> flight;  // `body` is that of its next step
    std::vector<Use<support::Buffer*>> uses;
    std::vector<void*> pointers;
    std::vector<std::byte> arguments;
    support::Buffer* retired = nullptr;
    bool started = false;
  };

  static constexpr std::uint64_t no_limit = UINT64_MAX;

  /// The sequences of a replay that was queued, or in which something failed.
  struct Replayed {
    std::uint64_t first;
    std::uint64_t last;
  };
  /// The first sequence of the replay that ends with this one, or itself.
  std::uint64_t first_of(std::uint64_t sequence) const {
    std::size_t low = 0, high = replays_.size();
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      if (replays_[middle].last < sequence)
        low = middle + 1;
      else
        high = middle;
    }
    return low < replays_.size() && replays_[low].last == sequence ? replays_[low].first : sequence;
  }
  /// Without unreported failures, replays that have ended need not be remembered.
  void forget_ended() {
    if (replays_.empty() || failures_.unreported() != 0) return;
    std::size_t ended = 0;
    while (ended < replays_.size() && has_ended(replays_[ended].last)) ++ended;
    if (ended == 0) return;
    replays_.erase(replays_.begin(), replays_.begin() + static_cast<std::ptrdiff_t>(ended));
  }

  /// Runs all of a replay; false if a task of it failed or was cancelled.
  bool run_flight(Flight& flight) {
    bool well = true;
    {
      support::DrivingThread::InTask const in_task(thread_);
      support::DefaultFloatEnvironment environment;
      for (Flight::Call const& call : flight.calls()) {
        bool const ran_well = support::run_entry(failures_, call.entry, call.call,
                                                 [&] { return body_of(flight, call); });
        environment.renew();
        if (!ran_well) [[unlikely]]
          well = false;
      }
    }
    ended_.store(flight.last(), std::memory_order_release);
    flight.finish();
    return well;
  }
  static support::TaskBody body_of(Flight& flight, Flight::Call const& call) {
    return flight.body(static_cast<std::size_t>(&call - flight.calls().data()));
  }

  Flight* enqueue_flight() {
    queue_.emplace_back();
    try {
      queue_.back().flight = std::make_unique<Flight>();
    } catch (...) {
      queue_.pop_back();
      throw;
    }
    return queue_.back().flight.get();
  }

  bool has_ended(std::uint64_t sequence) const noexcept {
    return sequence <= ended_.load(std::memory_order_acquire);
  }

  support::StorageState state() noexcept { return {thread_, failures_, buffers_}; }
  void wait_for_uses(support::Buffer const& buffer, Access) {
    drain(static_cast<std::uint64_t>(buffer.last_use));
  }
  void retire_one(Handle handle) {
    if (!queue_.empty()) {
      try {
        return enqueue_retired(handle);
      } catch (std::bad_alloc const&) {  // destructors retire, too: wait for the tasks instead
        drain(submitted_);
      }
    }
    buffers_.reclaim(buffers_.begin_retire(handle));
  }
  void enqueue_retired(Handle handle) {
    Queued& last = queue_.emplace_back();
    try {
      last.retired = &buffers_.begin_retire(handle);
    } catch (...) {
      queue_.pop_back();
      throw;
    }
  }

  Event enqueue(Task<Handle> const& task) {
    Queued& last = queue_.emplace_back();
    try {
      last.uses.resize(task.uses.size());
      last.pointers.resize(task.uses.size());
      last.arguments.resize(task.arguments.size());
      if (!task.arguments.empty())
        std::memcpy(last.arguments.data(), task.arguments.data(), task.arguments.size());
      buffers_.bind(task, last.uses.data(), last.pointers.data());
    } catch (...) {
      queue_.pop_back();
      throw;
    }
    std::uint64_t const sequence = ++submitted_;
    std::span<Use<support::Buffer*> const> const uses{last.uses.data(), last.uses.size()};
    support::BufferTable::commit(uses, support::Ticket{sequence});
    last.body = {task.codelet,          sequence,  uses, last.pointers.data(),
                 last.arguments.data(), task.label};
    run_queue(no_limit);
    return {this, sequence};
  }

  /// Runs the queue from its head until a task waits for its token, or `most` tasks were started.
  void run_queue(std::uint64_t most) {
    for (; !queue_.empty(); queue_.pop_front()) {
      Queued& head = queue_.front();
      if (head.retired != nullptr) {
        buffers_.reclaim(*head.retired);
        continue;
      }
      while (head.flight == nullptr || !head.flight->over()) {
        if (!head.started) {
          if (most-- == 0) return;
          if (head.flight != nullptr) head.body = head.flight->next();
          if (start(head) == support::Ran::ended)
            head_ended_.store(true, std::memory_order_relaxed);
        }
        if (!head_ended_.load(std::memory_order_seq_cst)) return;
        ended_.store(head.body.sequence, std::memory_order_release);
        if (head.flight == nullptr) break;
        head.flight->advance();
        head.started = false;
      }
      if (head.flight != nullptr) ended_.store(head.flight->last(), std::memory_order_release);
    }
  }
  support::Ran start(Queued& head) {
    head.started = true;
    head_ended_.store(false, std::memory_order_relaxed);
    support::DrivingThread::InTask const in_task(thread_);
    return support::run_body(failures_, tokens_, head.body, &head, workspaces_[0]);
  }

  /// Returns when the task of that sequence has ended.
  void drain(std::uint64_t sequence) {
    for (;;) {
      run_queue(no_limit);
      if (has_ended(sequence)) return;
      if (tokens_.poll(true)) continue;
      std::uint64_t const ticket = wake_.prepare();
      if (head_ended_.load(std::memory_order_seq_cst))
        wake_.cancel();
      else if (tokens_.polls() != 0)
        wake_.nap(ticket);
      else
        wake_.sleep(ticket);
    }
  }

  /// The token of the queue's head was completed, on any thread.
  static void token_ended(void* runtime, void* task, Status status) noexcept {
    auto& self = *static_cast<Serial*>(runtime);
    support::settle(self.failures_, static_cast<Queued*>(task)->body, status);
    self.head_ended_.store(true, std::memory_order_seq_cst);
    self.wake_.notify();
  }

  support::Failures failures_;
  support::DrivingThread thread_{0, &link_->driver()};
  support::BufferTable buffers_{failures_, {}, &thread_};
  support::Workspaces workspaces_{1};
  support::Submitted submitted_;
  std::atomic<std::uint64_t> ended_{0};  // tasks end in order: all up to here have
  std::deque<Queued> queue_;             // only the head has started
  support::Bindings bindings_;           // of the latest replay
  Flight flight_;                        // likewise, if it ran at once
  std::vector<Replayed> replays_;        // ascending
  std::atomic<bool> head_ended_{false};
  support::Wake wake_;
  support::Tokens tokens_{this, &token_ended, &wake_, &thread_};
};

static_assert(ScopedRuntime<Serial> && ReplayingRuntime<Serial> && !HintedRuntime<Serial>);

}  // namespace nntile
