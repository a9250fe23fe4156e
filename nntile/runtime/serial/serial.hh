#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The runtime that runs each task inside submit, and thereby defines correct.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/serial/line.hh"
#include "nntile/runtime/serial/program.hh"
#include "nntile/runtime/serial/replays.hh"
#include "nntile/runtime/support/bindings.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/device_tasks.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/options.hh"
#include "nntile/runtime/support/run_body.hh"
#include "nntile/runtime/support/storage_calls.hh"
#include "nntile/runtime/support/submitted.hh"
#include "nntile/runtime/support/wake.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace nntile {

/// Runs tasks one at a time, in submission order, on the driving thread: a CPU task has ended when
/// `submit` returns. Only those that name a buffer of an asynchronous task which waits for its
/// token queue, and those behind them; `wait`, `lock` and `wait_all` run what can be run meanwhile.
/// Cost of a submission: look-up and checks of its handles; of a replayed task: its operands'
/// pointers. Allocates: only to record, to queue, or beyond 16 uses. The tasks of a task run in
/// order when its body waits, or has returned.
/// With a Device, tasks that name memory of one run there, as asynchronous tasks; behind others of
/// their stream they are launched without waiting for the ends of these, up to `most_in_flight` of
/// them, beyond which `submit` waits.
template <RequiredDevice D = NoDevice>
class BasicSerial : public support::StorageCalls<BasicSerial<D>>,
                    public Orchestrates<BasicSerial<D>> {
  using Calls = support::StorageCalls<BasicSerial>;
  using Calls::link_;
  using typename Calls::Inside;

 public:
  using Handle = DataHandle;
  using Program = SerialProgram;
  static constexpr char const* runtime_name = "serial";
  static constexpr std::size_t most_in_flight = 256;

  BasicSerial() = default;
  /// Hands its further arguments to the device. Throws ValueError for more than one worker, or
  /// `own_driver`: there is no other thread.
  template <class... Arguments>
  requires std::constructible_from<D, Arguments...>
  explicit BasicSerial(RuntimeOptions const& options, Arguments&&... device)
      : devices_(static_cast<Arguments&&>(device)...) {
    (void)support::check_options({options.workers.value_or(1), false, false}, "serial", 1);
    if (options.own_driver)
      throw ValueError("serial: own_driver needs a thread besides the driver, and serial has none");
  }
  BasicSerial(BasicSerial const&) = delete;
  BasicSerial& operator=(BasicSerial const&) = delete;
  /// Waits for tokens; never throws.
  ~BasicSerial() {
    link_->close();
    auto const inside = thread_.enter_to_destroy();
    this->take_dropped();
    drain_all();
    tokens_.quiesce();
  }

  Event submit(Task<Handle> const& task) {
    Inside const inside(*this, "submit");
    if (!line_.queue.empty()) run_queue_and_poll();
    std::size_t const count = task.uses.size();
    if (count > inline_uses) [[unlikely]]
      return enqueue(task);
    Use<support::Buffer*> uses[inline_uses];
    void* pointers[inline_uses];
    if (!buffers_.bind(task, uses, pointers)) [[unlikely]]
      return enqueue(task);
    if (!line_.queue.empty() && line_.holds_back({uses, count})) [[unlikely]]
      return enqueue(task);
    std::uint64_t const sequence = ++line_.submitted;
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
    if (line_.queue.empty()) [[likely]]
      line_.end_at_once(sequence);
    return {this, sequence};
  }

  /// Compiles tasks into a program, whose labels' strings must live as long as it. Throws
  /// ValueError: a binding, parameter or codelet that cannot be.
  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters = {}) {
    return record(tasks, binding_count, {}, parameters);
  }
  /// The same for bindings of these bytes each: replays on buffers of other sizes are refused with
  /// ValueError.
  Program record(std::span<ProgramTask const> tasks, std::span<std::size_t const> binding_bytes,
                 std::span<ProgramParameter const> parameters = {}) {
    return record(tasks, static_cast<std::uint32_t>(binding_bytes.size()), binding_bytes,
                  parameters);
  }

  /// Runs a program once: a loop over its kernels. Its tasks count as submitted one by one, and the
  /// event is the last one's. Throws what Bindings::bind does; nothing has run then.
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block = {}) {
    Inside const inside(*this, "replay");
    if (!line_.queue.empty()) run_queue_and_poll();
    bindings_.bind(buffers_, program.image_.get(), bindings, block.size());
    // Without unreported failures, replays that have ended need not be remembered.
    if (!replays_.empty() && failures_.unreported() == 0)
      replays_.forget([this](std::uint64_t sequence) { return has_ended(sequence); });
    bool const at_once =
        line_.queue.empty() && !program.image_->asynchronous && !devices_.own(bindings_.uses());
    std::unique_ptr<Queued> queued;
    if (!at_once) {
      queued = std::make_unique<Queued>();
      queued->flight = std::make_unique<Flight>();
    }
    Flight& flight = at_once ? flight_ : *queued->flight;
    flight.set_up(program.image_, bindings, bindings_.buffers(), block, line_.submitted + 1,
                  workspaces_[0]);
    replays_.make_room();
    std::uint64_t const first = flight.first(), last = flight.last();
    if (at_once) {
      line_.submitted = last;
    } else {
      flight.queue();
      line_.push(std::move(queued), flight.size());
    }
    support::BufferTable::commit(bindings_.uses(), support::Ticket{last});
    support::commit_parts(bindings_.uses(), support::Ticket{last});
    bool const well = at_once && run_flight(flight);
    if (!well) replays_.add(first, last);
    if (!at_once) run_queue(no_limit);
    return {this, last};
  }

  void wait(Event event) {
    Inside const inside(*this, "wait");
    support::check_event(event, this, line_.submitted, "wait");
    drain(event.sequence);
    if (failures_.unreported() == 0) return;
    for (std::uint64_t s = replays_.first_of(event.sequence); s <= event.sequence; ++s)
      failures_.throw_if_failed(s);
  }
  bool done(Event event) {
    support::check_event(event, this, line_.submitted, "done");
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
    drain_all();
    this->link()->forget_names();
    failures_.report();
  }

  bool here() const noexcept { return thread_.here(); }
  Workers workers() const { return {}; }
  /// Names the tasks that wait for a token; "" if none does.
  std::string waiting_for() const { return tokens_.waiting_for(); }
  D& device() noexcept
  requires D::exists {
    return devices_.device();
  }

 private:
  friend class support::StorageCalls<BasicSerial>;
  friend class detail::serial::Level<BasicSerial>;
  friend class detail::serial::Levels<BasicSerial>;
  friend struct Nesting<BasicSerial>;
  friend struct detail::serial::Line<BasicSerial>;
  static constexpr std::size_t inline_uses = 16;

  using Flight = detail::serial::Flight;
  using Pending = detail::serial::Pending;
  using Queued = detail::serial::Queued<BasicSerial>;
  using Line = detail::serial::Line<BasicSerial>;
  using Levels = detail::serial::Levels<BasicSerial>;

  static constexpr std::uint64_t no_limit = UINT64_MAX;
  static constexpr std::uint64_t look_unit = 1 << 16;
  static_assert(look_unit > most_streams + 1);  // the disk's is one more
  static constexpr bool runs_ahead = support::DeviceTasks<D>::runs_ahead;

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
    line_.end_at_once(flight.last());
    flight.finish();
    return well;
  }
  static support::TaskBody body_of(Flight& flight, Flight::Call const& call) {
    return flight.body(static_cast<std::size_t>(&call - flight.calls().data()));
  }

  bool has_ended(std::uint64_t sequence) const noexcept { return line_.has_ended(sequence); }

  support::StorageState state() noexcept { return {thread_, failures_, buffers_}; }
  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<std::size_t const> binding_bytes,
                 std::span<ProgramParameter const> parameters) {
    Inside const inside(*this, "record");
    auto image = std::make_shared<detail::serial::Image>(support::check_entries(tasks),
                                                         binding_count, parameters);
    image->binding_bytes.assign(binding_bytes);
    bindings_.reserve(binding_count);
    flight_.reserve(*image);
    return Program(std::move(image));
  }

  void wait_until_unused(support::Buffer& buffer) { wait_for_uses(buffer, Access::write); }
  void wait_for_uses(support::Buffer& buffer, Access) {
    while (std::uint64_t const user = line_.last_user(buffer)) drain(user);
  }
  bool is_unused(support::Buffer const& buffer) const noexcept {
    return has_ended(static_cast<std::uint64_t>(buffer.last_use));
  }
  void retire_one(Handle handle) {
    support::Buffer& buffer = buffers_.begin_retire(handle);
    // A region's record is ended when others are made, and may be another's by the time that a
    // queue comes to it.
    if (buffer.is(support::Buffer::region)) return;
    if (!line_.queue.empty() && (buffer.is(support::Buffer::divided) || !is_unused(buffer))) {
      try {
        return line_.push_retired(buffer);
      } catch (std::bad_alloc const&) {  // destructors retire, too: wait for the tasks instead
        drain_all();
      }
    }
    buffers_.reclaim(buffer);
  }
  Event enqueue(Task<Handle> const& task) {
    std::uint64_t const sequence = line_.push(buffers_, [&](Queued&) { return task; });
    run_queue(no_limit);
    if constexpr (runs_ahead)
      if (devices_.in_flight() >= most_in_flight)
        drain([this] { run_queue(no_limit); },
              [this] { return devices_.in_flight() < most_in_flight; });
    return {this, sequence};
  }

  /// Runs what is queued and not held back, or until `most` tasks were started.
  void run_queue(std::uint64_t most) {
    if (levels_ != nullptr) [[unlikely]]
      return run_levels_(*levels_, most);
    (void)look_through(line_, buffers_, most, [this](Queued& queued) {
      this->start(queued);
      return false;
    });
  }

  /// For submissions, which wait for nothing: polls as often as they are due.
  void run_queue_and_poll() {
    if (tokens_.due(true)) (void)tokens_.poll(true);
    run_queue(no_limit);
  }

  /// Result of a look at a queue: all tasks that can have begun, a task opened a level whose tasks
  /// come first, or as many as asked for have begun.
  enum class Looked : std::uint8_t { all, opened, limited };
  /// Starts, in order, what no open task before it holds back. start(queued) returns whether tasks
  /// of it come first. Cost: linear in the queue where something has ended; else in what is new.
  template <class Table, class Start>
  Looked look_through(Line& line, Table& table, std::uint64_t& most, Start start) {
    std::uint64_t const tokens = ended_tokens_.load(std::memory_order_seq_cst);
    if (!line.changed && line.seen == tokens) return Looked::all;
    bool const goes_on = line.look != 0 && line.look == look_ && line.seen == tokens;
    line.seen = tokens;
    line.changed = false;
    line.look = 0;
    if (!goes_on) look_ += look_unit;
    Looked looked = Looked::all;
    std::size_t const first = goes_on ? line.looked : 0;
    std::size_t count = first;
    bool any_open = first != 0;
    bool passes = first == 0 || !line.queue[first - 1]->nests;
    while (passes && looked == Looked::all && count != line.queue.size()) {
      Queued& queued = *line.queue[count];
      if (queued.nests && !queued.started && any_open) break;  // it passes nothing
      looked = queued.flight != nullptr ? look_at_flight(*queued.flight, most)
                                        : look_at(queued, table, most, start);
      if (queued.flight != nullptr) queued.over = queued.flight->over();
      any_open = any_open || !queued.over;
      ++count;
      passes = !queued.nests || queued.over;
    }
    if (looked == Looked::limited) line.changed = true;
    if (looked == Looked::all) line.look = look_;
    line.drop_over(first, count);
    return looked;
  }
  template <class Table, class Start>
  Looked look_at(Queued& queued, Table& table, std::uint64_t& most, Start start) {
    if (queued.retired != nullptr) {
      queued.over = !is_held(support::whole_of(*queued.retired));
      if (queued.over) table.reclaim(*queued.retired);
      return Looked::all;
    }
    bool held = false;
    if (queued.stream == detail::serial::unknown_stream)
      queued.stream = queued.nests ? 0 : number_of_stream(queued.body);
    if (!queued.started) {
      for (Use<support::Buffer*> const& use : queued.uses)
        held = held || is_held(*use.handle, queued.stream);
      if (!held) {
        if (most == 0) return Looked::limited;
        --most;
        queued.started = true;
        if (start(queued)) return Looked::opened;
      }
    }
    queued.over = !held && queued.ended.load(std::memory_order_seq_cst);
    if (!queued.over)
      for (Use<support::Buffer*> const& use : queued.uses)
        hold(*use.handle, held ? 0 : queued.stream);
    return Looked::all;
  }
  /// The same for the tasks of a replay.
  Looked look_at_flight(Flight& flight, std::uint64_t& most) {
    for (std::size_t number = flight.next(); number != flight.size(); ++number) {
      if (flight.has_ended(number)) continue;
      Flight::Step* step = flight.step(number);
      bool held = false;
      std::uint32_t stream = 0;
      if constexpr (runs_ahead)
        stream = flight.stream(number, [this](auto const& body) { return number_of_stream(body); });
      if (step == nullptr) {
        for (Use<Binding> const& use : flight.uses_of(number))
          held = held || is_held(flight.buffer(use.handle), stream);
        if (!held) {
          if (most == 0) return Looked::limited;
          --most;
          if ((step = begin(flight, number)) == nullptr) continue;
          start(*step);
        }
      }
      if (!held && step->ended.load(std::memory_order_seq_cst)) {
        flight.end(number);
        continue;
      }
      for (Use<Binding> const& use : flight.uses_of(number))
        hold(flight.buffer(use.handle), held ? 0 : stream);
    }
    return Looked::all;
  }
  /// Null when it has failed for want of memory.
  Flight::Step* begin(Flight& flight, std::size_t number) noexcept {
    try {
      return &flight.begin(number);
    } catch (std::bad_alloc const&) {
      support::settle(failures_, flight.body(number), {"no memory for a task of a replay"});
      flight.end(number);
      return nullptr;
    }
  }
  /// Whether an open task named the buffer, or a byte of it, in this look, but for those that have
  /// been launched into that stream.
  bool is_held(support::Buffer& buffer, std::uint64_t stream = 0) const noexcept {
    if (buffer.look < look_) return false;
    return !runs_ahead || stream == 0 || buffer.look != (look_ | stream);
  }
  /// `stream`: that into which the task was launched; 0: it holds back all.
  void hold(support::Buffer& buffer, std::uint64_t stream) const noexcept {
    hold_one(buffer, stream);
    for (support::Overlap const& other : support::overlaps_of(buffer))
      hold_one(*other.buffer, stream);
  }
  void hold_one(support::Buffer& buffer, std::uint64_t stream) const noexcept {
    buffer.look = is_held(buffer, stream) ? look_ : look_ | stream;
  }
  std::uint32_t number_of_stream(support::TaskBody const& body) const noexcept {
    if constexpr (runs_ahead)
      return devices_.number_of(devices_.stream_of(*body.codelet, body.uses));
    else
      return 0;
  }
  /// Whether a task may be launched before those that it depends on have ended.
  static bool goes_ahead(std::span<Use<support::Buffer*> const> uses) noexcept {
    return runs_ahead && support::DeviceTasks<D>::own(uses);
  }

  void start(Pending& task) {
    {
      support::DrivingThread::InTask const in_task(thread_);
      if (devices_.run_body(failures_, tokens_, task.body, &task, workspaces_[0]) !=
          support::Ran::ended)
        return;
    }
    task.ended.store(true, std::memory_order_relaxed);
    if (tokens_.due(true)) (void)tokens_.poll(true);
  }

  /// Returns when the task of that sequence has ended.
  void drain(std::uint64_t sequence) {
    drain([this] { run_queue(no_limit); }, [&] { return has_ended(sequence); });
  }
  void drain_all() {
    drain([this] { run_queue(no_limit); }, [&] { return line_.queue.empty(); });
  }
  /// Calls run() until over() holds.
  template <class Run, class Over> void drain(Run run, Over over) {
    for (;;) {
      std::uint64_t const tokens = ended_tokens_.load(std::memory_order_seq_cst);
      run();
      if (over()) return;
      if (tokens_.poll(true)) continue;
      std::uint64_t const ticket = wake_.prepare();
      if (ended_tokens_.load(std::memory_order_seq_cst) != tokens)
        wake_.cancel();
      else if (tokens_.polls() != 0)
        wake_.nap(ticket);
      else
        wake_.sleep(ticket);
    }
  }
  /// A token was completed, on any thread.
  static void token_ended(void* runtime, void* task, Status status) noexcept {
    auto& self = *static_cast<BasicSerial*>(runtime);
    Pending& pending = *static_cast<Pending*>(task);
    self.devices_.settle(self.failures_, pending.body, status);
    pending.ended.store(true, std::memory_order_seq_cst);
    self.ended_tokens_.fetch_add(1, std::memory_order_seq_cst);
    self.wake_.notify();
  }

  support::Failures failures_;
  support::DrivingThread thread_{0, &link_->driver()};
  [[no_unique_address]] support::DeviceTasks<D> devices_;
  support::BufferTable buffers_{failures_, devices_.source(), &thread_};
  support::Workspaces workspaces_{1};
  Line line_;
  /// Of tasks that submit, once there was one (nest.hh): programs without pay for none of it.
  std::unique_ptr<Levels, void (*)(Levels*)> levels_{nullptr, nullptr};
  void (*run_levels_)(Levels&, std::uint64_t most) = nullptr;
  support::Bindings bindings_;                  // of the latest replay
  Flight flight_;                               // likewise, if it ran at once
  detail::serial::Replays replays_;             // that were queued, or in which something failed
  std::uint64_t look_ = 0;                      // the latest look, with room for a stream's number
  std::atomic<std::uint64_t> ended_tokens_{0};  // counts what changes a queue from outside
  support::Wake wake_;
  support::Tokens tokens_{this, &token_ended, &wake_, &thread_};
};

using Serial = BasicSerial<>;
static_assert(ScopedRuntime<Serial> && ReplayingRuntime<Serial> && !HintedRuntime<Serial>);

}  // namespace nntile
