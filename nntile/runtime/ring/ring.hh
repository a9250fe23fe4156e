#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ring runtime: one submitter, a window of task slots, workers that steal.

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/ring/allocate.hh"
#include "nntile/runtime/ring/recorder.hh"
#include "nntile/runtime/ring/replay.hh"
#include "nntile/runtime/ring/submission.hh"
#include "nntile/runtime/support/storage_calls.hh"
#include "nntile/runtime/support/submitted.hh"

namespace nntile {

template <class R> struct Blocking;

namespace detail::ring {

/// Destroys a machine, but in a child process leaves it as it is: threads that are not there may
/// hold its locks and sleep at its conditions.
template <class Policy> struct EndOfMachine {
  Machine<Policy>& machine;
  /// Set at the end of the ring's constructor: one that throws destroys its variant member itself.
  bool constructed = false;
  ~EndOfMachine() {
    if (constructed && !machine.thread.in_child()) machine.~Machine();
  }
};

}  // namespace detail::ring

/// Counters of a ring since its construction. Those of the workers may be a moment old.
struct RingStats {
  std::uint64_t submitted = 0;    // tasks, joins included
  std::uint64_t joins = 0;        // of them, stand-ins for more producers or readers than fit
  std::uint64_t executed = 0;     // tasks that a worker has taken
  std::uint64_t stolen = 0;       // of them, from another worker
  std::uint64_t blocked = 0;      // submissions that waited for a slot
  std::uint64_t outstanding = 0;  // asynchronous tasks and replays that have not ended
  bool oversubscribed = false;    // more workers than cores: no spinning
  HeapStats step, scope, scratch, staging;
  BodyHeapStats bodies;  // heaps of tasks that submit
  RingGrowths growths;
};

/// Runs tasks on `workers` threads, ordered by what they do to their buffers. Law: concept.hh; how:
/// README.md of this folder. Submission allocates nothing once the sizes of `Policy` are filled.
template <class Policy = RingPolicy>
requires RequiredRingPolicy<Policy>
class BasicRing : public support::StorageCalls<BasicRing<Policy>>,
                  public Orchestrates<BasicRing<Policy>> {
  using Calls = support::StorageCalls<BasicRing>;
  using Calls::link_;
  using typename Calls::Inside;

 public:
  using typename Calls::Handle;
  using Program = RingProgram;
  static constexpr std::string_view runtime_name = "ring";
  static constexpr bool heeds_hints = true;
  using RunsBlocks = BasicRing;  // by Blocking of that

  /// Throws ValueError for a worker count that is not 1 to 1,024, more workers of kinds than that,
  /// a window beyond 2^20, or a heap without capacity that may not grow; OutOfMemory for a heap, or
  /// room of RingCapacities, larger than memory.
  explicit BasicRing(RuntimeOptions const& options = {}, RingCapacities const& capacities = {},
                     WorkerKinds const& kinds = {})
      : BasicRing(Made{}, options, capacities, kinds) {}
  /// Hands what follows the options to the policy's Device. Throws likewise.
  template <class First, class... Rest>
  requires Policy::Device::exists &&
           std::constructible_from<typename Policy::Device, First, Rest...>
  explicit BasicRing(RuntimeOptions const& options, First&& first, Rest&&... rest)
      : BasicRing(Made{}, options, {}, {}, static_cast<First&&>(first),
                  static_cast<Rest&&>(rest)...) {}
  explicit BasicRing(std::integral auto) = delete;  // workers have a name: Ring({.workers = 2})
  BasicRing(BasicRing const&) = delete;             // tasks and buffers name it: pass a reference
  /// Waits for every task, asynchronous ones included. In a process that was forked since, where
  /// its threads are not, it waits for nothing and keeps the child's copy of its memory; any call
  /// there throws LifetimeError.
  ~BasicRing() {
    static_assert(ScopedRuntime<BasicRing> && ReplayingRuntime<BasicRing> &&
                  HintedRuntime<BasicRing> &&
                  PausingRuntime<BasicRing>);  // here, so that including costs no instantiation
    bool const in_child = machine_.thread.in_child();
    link_->close(!in_child);
    if (in_child) return;
    auto const inside = machine_.thread.enter_to_destroy();
    this->take_dropped();
    root_.driver.resume();
    root_.wait_for_everything();
  }

  /// Takes buffers of all lifetimes but `persistent` from heaps (RingCapacities), on the host.
  /// Always inlined: its stores take its cycles, and a call would be one more.
  [[gnu::always_inline]] Handle allocate(std::size_t bytes, Place place = host,
                                         Lifetime lifetime = Lifetime::persistent) {
    if (has_heap(lifetime) && place == host) [[likely]] {
      support::Buffer* const buffer = machine_.thread.quickly(
          "allocate", [&]() noexcept { return traced(allocator_.take(bytes, lifetime)); });
      if (buffer != nullptr) [[likely]]
        return machine_.table.handle_of(*buffer);
    }
    return allocate_slowly(bytes, place, lifetime);
  }
  /// `site` names the scope in errors.
  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here()) {
    Inside const inside(*this, "open_scope");
    support::Scope& scope = machine_.table.open_scope(lifetime, site);
    allocator_.open_scope(scope);
    if constexpr (Policy::Trace::sees_heaps)
      machine_.trace.open_scope(lifetime, site, allocator_.stats(lifetime).used);
    return {scope.number};
  }
  void close_scope(Lifetime lifetime, ScopeName name = {}) {
    Inside const inside(*this, "close_scope");
    support::Scope& scope = machine_.table.check_close(lifetime, name);
    allocator_.check_close(scope);
    allocator_.close_scope(scope);
    machine_.table.end_scope(scope, [this](Handle handle) { retire_one(handle); });
    if constexpr (Policy::Trace::sees_heaps)
      machine_.trace.close_scope(lifetime, allocator_.stats(lifetime).used);
  }

  Event submit(Task<Handle> const& task) {
    Inside const inside(*this, "submit");
    return {this, root_.submitter.submit(task)};
  }

  /// Compiles tasks into a program, whose labels' strings must live as long as it. Hints of workers
  /// are ignored, but for kinds, which are a ValueError; priorities are heeded, by even shares
  /// where there are more than the ring distinguishes. Cost: linear in the operands. Throws
  /// ValueError: a binding, parameter or codelet that cannot be. Needs no ring.
  static Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                        std::span<ProgramParameter const> parameters = {}) {
    using namespace detail::ring;
    return Program(std::make_shared<Image const>(
        Recorder(tasks, binding_count, parameters, Policy::Device::exists).image()));
  }
  /// The same for bindings of these bytes each: replays on buffers of other sizes are refused with
  /// ValueError.
  static Program record(std::span<ProgramTask const> tasks,
                        std::span<std::size_t const> binding_bytes,
                        std::span<ProgramParameter const> parameters = {}) {
    using namespace detail::ring;
    auto const count = static_cast<std::uint32_t>(binding_bytes.size());
    Image image = Recorder(tasks, count, parameters, Policy::Device::exists).image();
    image.binding_bytes.assign(binding_bytes);
    return Program(std::make_shared<Image const>(std::move(image)));
  }

  /// Runs a program once. Its tasks count as submitted one by one: errors name them by the event's
  /// sequence plus their position. May block for room, or while `Policy::Sizes::flights` programs
  /// are in flight.
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block = {}) {
    Inside const inside(*this, "replay");
    return {this, replayer_.replay(program.image_, bindings, block)};
  }

  void wait(Event event) {
    Inside const inside(*this, "wait");
    if (!known(event, "wait")) return;
    if (support::EventName::unpack(event.sequence).domain != support::root_domain)
      throw LifetimeError(
          "wait: the event is of a task inside another; its body alone may wait for it");
    root_.wait(event.sequence);
    if (machine_.failures.unreported() == 0) return;
    std::uint64_t const count = replayer_.sequences(event.sequence);
    for (std::uint64_t i = 0; i < count; ++i) machine_.failures.throw_if_failed(event.sequence + i);
  }

  bool done(Event event) {
    if (!known(event, "done") || root_.over(event.sequence)) return true;
    auto const inside = machine_.thread.enter_as_driver();
    if (!inside) {
      machine_.thread.check_process("done");
      return false;
    }
    return root_.done(event.sequence);
  }

  void wait_all() {
    Inside const inside(*this, "wait_all");
    machine_.table.check_nothing_locked();
    root_.wait_for_everything();
    this->link()->forget_names();
    machine_.failures.report();
  }

  /// Progress of a task; that of the default event is `past`. Runs no task. Throws LifetimeError
  /// for one that this runtime never gave, or that is of a task inside another.
  RingProgress progress(Event event) {
    Inside const inside(*this, "progress");
    if (!known(event, "progress")) return RingProgress::past;
    if (support::EventName::unpack(event.sequence).domain != support::root_domain)
      throw LifetimeError("progress: the event is of a task inside another");
    root_.driver.reclaim().collect();
    return root_.domain.progress(event.sequence);
  }
  /// Address of a buffer. Throws LifetimeError for a handle that is default, foreign or retired.
  std::byte* address(Handle handle) {
    Inside const inside(*this, "address");
    return static_cast<std::byte*>(machine_.table.find(handle, "address").pointer);
  }

  /// Lets no body run until `resume`. Meanwhile a wait for a task, and a submission that finds no
  /// free slot, is refused.
  void pause() {
    Inside const inside(*this, "pause");
    root_.driver.pause();
  }
  void resume() {
    Inside const inside(*this, "resume");
    root_.driver.resume();
  }
  bool paused() const noexcept { return machine_.scheduler.paused(); }

  bool here() const noexcept { return machine_.thread.here(); }
  Workers workers() const { return {machine_.options.workers, 0, machine_.options.oversubscribed}; }

  /// Names the tasks that wait for a token; "" if none does.
  std::string waiting_for() const {
    machine_.thread.check_process("waiting_for");
    return machine_.tokens.waiting_for();
  }

  typename Policy::Device& device() noexcept
  requires Policy::Device::exists {
    return machine_.devices.device();
  }
  /// The policy's trace, with its records.
  typename Policy::Trace& trace() { return machine_.trace; }

  /// For the driving thread, or while no other drives.
  RingStats stats() const {
    RingStats stats;
    stats.submitted = machine_.root.window.head() - Policy::Sizes::first_sequence;
    stats.joins = root_.submitter.wiring().joins();
    stats.blocked = root_.submitter.wiring().blocked();
    stats.outstanding = machine_.root.pending.open_count();
    stats.oversubscribed = machine_.options.oversubscribed;
    for (std::uint32_t i = 0; i < machine_.scheduler.workers(); ++i) {
      auto const& worker = machine_.scheduler.worker(i);
      stats.executed += worker.executed.load(std::memory_order_relaxed);
      stats.stolen += worker.stolen.load(std::memory_order_relaxed);
    }
    stats.step = allocator_.stats(Lifetime::step);
    stats.scope = allocator_.stats(Lifetime::scope);
    stats.scratch = allocator_.stats(Lifetime::scratch);
    stats.staging = allocator_.stats(Lifetime::staging);
    stats.bodies = machine_.pieces.stats();
    stats.growths = growths() - made_;
    return stats;
  }

 private:
  struct Made {};
  template <class... Arguments>
  BasicRing(Made, RuntimeOptions const& options, RingCapacities const& capacities,
            WorkerKinds const& kinds, Arguments&&... device)
      : machine_(options, &link_->driver(), kinds, window_of(capacities),
                 static_cast<Arguments&&>(device)...),
        root_(end_of_machine_.machine.root),  // by its own name g++ 12 takes it for uninitialized
        allocator_(capacities, root_.domain, root_.driver),
        replayer_(root_.domain, root_.driver, root_.submitter),
        workers_(end_of_machine_.machine) {
    machine_.owner = this;
    machine_.body_heaps = checked(capacities.bodies);
    if (capacities.buffers != 0) root_.driver.reclaim().reserve(capacities.buffers);
    reserve(capacities);
    made_ = growths();
    end_of_machine_.constructed = true;
  }

  friend class support::StorageCalls<BasicRing>;
  friend struct Nesting<BasicRing>;
  friend struct Blocking<BasicRing>;
  support::StorageState state() noexcept {
    return {machine_.thread, machine_.failures, machine_.table};
  }
  static HeapCapacity const& checked(HeapCapacity const& bodies) {
    if (bodies.bytes == 0 && bodies.on_full != OnFull::grow)
      throw ValueError(
          "ring: the heaps of tasks that submit may not grow, and need a capacity: "
          "RingCapacities::bodies");
    return bodies;
  }
  static std::uint32_t window_of(RingCapacities const& capacities) {
    detail::ring::check_memory(capacities);
    std::uint32_t const window = capacities.window;
    if (window > detail::ring::largest_window)
      throw ValueError(concat("ring: a window of ", window, " tasks where 2^20 are possible"));
    return window == 0 ? Policy::Sizes::window : std::bit_ceil(std::max(window, 2u));
  }
  void reserve(RingCapacities const& capacities) {
    ProgramCapacity const& program = capacities.program;
    std::uint32_t const usual_operands = detail::ring::Payload::inline_operands;
    std::uint32_t const operands = std::max(capacities.operands, usual_operands);
    std::uint32_t const tokens = capacities.tokens + capacities.replays * program.prepared;
    if (capacities.replays > Policy::Sizes::flights)
      throw ValueError(concat("ring: ", capacities.replays, " replays in flight where ",
                              Policy::Sizes::flights, " are possible"));
    std::uint32_t const priorities = std::min(capacities.priorities, detail::ring::level_count - 1);
    machine_.scheduler.reserve_queues(
        priorities + machine_.kinds.apart() * (1 + priorities) +
        (capacities.named_workers ? machine_.scheduler.workers() : 0));
    root_.submitter.reserve(std::max(operands, program.bindings));
    if (operands > usual_operands || capacities.argument_bytes != 0)
      root_.driver.reclaim().reserve_arguments();
    if (capacities.buffers != 0 || capacities.records != 0)
      machine_.claims.reserve(machine_.table.count());
    if (tokens != 0) machine_.tokens.reserve(tokens);
    // Each thread may be amid the end of one.
    std::uint32_t const pending =
        capacities.tokens + capacities.replays + machine_.scheduler.workers();
    if (pending != machine_.scheduler.workers())
      root_.domain.pending.reserve(pending, std::max(operands, program.bindings),
                                   capacities.argument_bytes);
    if (capacities.replays != 0) replayer_.reserve(capacities.replays, program);
  }
  RingGrowths growths() const noexcept {
    return {machine_.table.growths() + machine_.claims.growths(),
            machine_.table.region_growths(),
            root_.submitter.growths() + root_.driver.reclaim().has_arguments(),
            machine_.tokens.growths() + machine_.root.pending.growths(),
            replayer_.growths(),
            machine_.scheduler.growths()};
  }

  /// One comparison also for a number that is no lifetime, of which there is no heap.
  static constexpr bool has_heap(Lifetime lifetime) {
    return static_cast<unsigned>(lifetime) - 1 < static_cast<unsigned>(Lifetime::staging);
  }
  [[gnu::noinline]] Handle allocate_slowly(std::size_t bytes, Place place, Lifetime lifetime) {
    if (!has_heap(lifetime) || place != host) return allocate_alone(bytes, place, lifetime);
    if (!link_->any_dropped()) [[likely]] {
      support::Buffer* const buffer = machine_.thread.quickly(
          "allocate", [&]() noexcept { return traced(allocator_.take_again(bytes, lifetime)); });
      if (buffer != nullptr) [[likely]]
        return machine_.table.handle_of(*buffer);
    }
    Inside const inside(*this, "allocate");
    support::Buffer& buffer =
        allocator_.take_slowly(bytes, lifetime, [this] { this->take_dropped(); });
    return machine_.table.handle_of(*traced(&buffer));
  }
  /// Inside `allocate`, as the trace is the driver's.
  support::Buffer* traced(support::Buffer* buffer) {
    if constexpr (Policy::Trace::sees_heaps)
      if (buffer != nullptr)
        machine_.trace.allocated(buffer->lifetime, buffer->bytes,
                                 allocator_.stats(buffer->lifetime).used);
    return buffer;
  }
  [[gnu::noinline]] Handle allocate_alone(std::size_t bytes, Place place, Lifetime lifetime) {
    return Calls::allocate(bytes, place, lifetime);
  }
  template <class Take> Handle make(Take take) {
    root_.driver.reclaim().collect();
    return root_.driver.reclaim().begin(take);
  }

  /// False for the default event. Throws LifetimeError for one that this runtime never gave.
  bool known(Event event, char const* call) {
    auto const* const domain = machine_.domain_of(support::EventName::unpack(event.sequence));
    support::check_event(event, this, domain == nullptr ? 0 : domain->window.next_sequence() - 1,
                         call);
    return event.runtime != nullptr;
  }

  /// The last task may have ended long before an older one lets the watermark pass.
  void retire_one(Handle handle) {
    support::Buffer& buffer = machine_.table.begin_retire(handle);
    if (!allocator_.end(buffer)) [[unlikely]]
      retire_alone(buffer);
  }
  [[gnu::noinline]] void retire_alone(support::Buffer& buffer) {
    if (buffer.is(support::Buffer::region)) return;
    root_.driver.reclaim().collect();
    if (!has_users(buffer)) machine_.table.leave_ranges(buffer);
    root_.driver.reclaim().retire(buffer);
  }
  bool has_users(support::Buffer& buffer) {
    return root_.driver.next_user(buffer, Access::write) != detail::ring::no_reference ||
           (some_in_no_order(buffer) && !is_unused(buffer));
  }
  /// Whether some task may access it in no order: of a region the buffer says so.
  static bool some_in_no_order(support::Buffer& buffer) {
    return support::whole_of(buffer).is(support::Buffer::unordered);
  }
  bool is_unused(support::Buffer const& buffer) { return root_.driver.reclaim().is_unused(buffer); }
  support::Buffer* find_in_heaps(void const* byte) { return allocator_.find(byte); }
  void check_adopt(std::span<std::byte const> bytes) { allocator_.check_adopt(bytes); }
  void wait_for_uses(support::Buffer const& buffer, Access access) {
    auto const next = [&] { return root_.driver.next_user(buffer, access); };
    root_.driver.block_until([&] { return next() == detail::ring::no_reference; }, next);
  }
  /// For the end of who lends the memory, which goes behind it: a paused ring resumes rather than
  /// refuse.
  void wait_until_unused(support::Buffer& buffer) {
    root_.driver.reclaim().collect();
    if (machine_.scheduler.paused() && has_users(buffer)) root_.driver.resume();
    wait_for_uses(buffer, Access::write);
    if (!some_in_no_order(buffer)) return;
    auto& driver = root_.driver;
    auto const over = [&] {
      driver.reclaim().collect();
      return is_unused(buffer);
    };
    driver.block_until(over, [&] {
      auto const pending = root_.domain.pending.naming(buffer);
      return pending != detail::ring::no_reference ? pending : driver.oldest();
    });
  }

  union {  // a union destroys nothing
    detail::ring::Machine<Policy> machine_;
  };
  detail::ring::EndOfMachine<Policy> end_of_machine_{machine_};
  detail::ring::Submission<Policy> root_;
  detail::ring::Allocator<Policy> allocator_;
  detail::ring::Replayer<Policy> replayer_;
  RingGrowths made_;  // at construction
  detail::ring::Workers<Policy> workers_;
};

/// The default runtime.
using Ring = BasicRing<>;

}  // namespace nntile
