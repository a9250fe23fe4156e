#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The Runtime and Executor concepts, and their law. Smallest model: runtime/archetype.hh; simplest:
// runtime/serial/.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nntile/core/access.hh"
#include "nntile/core/call_site.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/cost.hh"
#include "nntile/core/hints.hh"
#include "nntile/core/place.hh"

namespace nntile {

/// Lifetime of an allocation. All but `persistent` belong to the innermost open scope of their
/// class: of a training step, of a part of it (a layer), of one operation, or of a transfer.
enum class Lifetime : std::uint8_t { persistent, step, scope, scratch, staging };

constexpr char const* name_of(Lifetime lifetime) {
  constexpr char const* names[] = {"persistent", "step", "scope", "scratch", "staging"};
  if (lifetime > Lifetime::staging) return "?";  // a number that was cast
  return names[static_cast<int>(lifetime)];
}

/// A submitted task: a copyable value, valid while its runtime lives. A default one is finished.
struct Event {
  void const* runtime = nullptr;
  std::uint64_t sequence = 0;
};

/// A call to the owner of adopted memory once the runtime has dropped it; from any thread, and
/// perhaps amid another call of the runtime: inside it every call of the runtime but `done` throws
/// LifetimeError, as inside a task.
struct Release {
  void (*call)(void* state) noexcept = nullptr;
  void* state = nullptr;
  void operator()() const noexcept {
    if (call != nullptr) call(state);
  }
};

/// The name of a task in errors, besides its codelet. The string lives until the task has ended.
struct TaskLabel {
  char const* tensor = nullptr;
  std::int64_t tile = -1;
};

/// One submission. Everything it points to (but the codelet and the label's string) is copied by
/// `submit`.
template <class Handle> struct Task {
  Codelet const* codelet = nullptr;
  std::span<Use<Handle> const> uses;
  std::span<std::byte const> arguments;
  Hints hints;
  TaskLabel label;
  Cost cost = {};  // zeros: not stated
};

/// Kinds and counts of the threads that execute tasks.
struct Workers {
  int cpu = 1;
  int cuda = 0;
  /// More threads than cores in the process's affinity mask: they do not spin.
  bool oversubscribed = false;
};

/// Options of a CPU runtime. `workers` counts the threads that execute tasks: 1 to 1,024, by
/// default as many as the affinity mask allows, the driving thread among them unless `own_driver`.
struct RuntimeOptions {
  std::optional<int> workers;
  bool own_driver = false;
  bool pin = false;
};

// clang-format off
/// Owns storage and runs tasks. This is the short form: runtime/LAW.md has every demand as a
/// sentence, testing/conformance.hh tries each on any runtime, and a test compares the two.
///
///   result                            After `wait_all` every buffer holds what the tasks would
///                                     have left one at a time in submission order.
///   order                             Tasks that name one buffer run in submission order, unless
///                                     all only read it, all only accumulate into it or all only
///                                     write disjoint bytes of it, or one is in no order;
///                                     accumulating tasks exclude each other.
///   values                            A buffer that nothing has written yet may only be written.
///   failure                           A failed task marks what it writes. A task that reads or
///                                     updates a marked buffer is cancelled and marks what it
///                                     writes. A complete successful write clears the mark.
///   refusal                           A call that throws LifetimeError or ValueError has changed
///                                     nothing. A handle or event that the runtime did not give,
///                                     and a retired handle, is a LifetimeError in every call.
///   threads                           One thread drives at a time; several may in turn, ordered by
///                                     whatever orders threads. Of two that call at once one gets a
///                                     LifetimeError that names both threads and calls.
///   bodies                            Run under the default floating-point mode. An asynchronous
///                                     one ends through its Completion, on any thread.
///   objects                           Any number live in one process, and end in any order.
///
///   construction                      from RuntimeOptions, where the runtime takes them. Throws
///                                     ValueError (workers that it cannot have).
///   allocate(bytes, place, lifetime)  64-byte aligned, unwritten. Throws OutOfMemory, ValueError
///                                     (no such place), LifetimeError (no open scope).
///   adopt(span, place, release)       the caller's written memory, in place; `release` is called
///                                     exactly once, from any thread, after the retired handle's
///                                     last task, contents current. Throws ValueError (no such
///                                     place).
///   retire(handle)                    no later task names it; its storage goes after its last
///                                     task. Does not wait. Throws LifetimeError (locked).
///   submit(task)                      copies uses and arguments; may block for room, and never
///                                     waits for the task itself. Throws LifetimeError (unwritten,
///                                     locked, inside a task), ValueError (no entry that runs here,
///                                     more workspace than is lent).
///   wait(event)                       until that task has ended; at once if it has or for Event{}.
///                                     Throws TaskError if and only if it failed or was cancelled.
///   done(event)                       whether it has ended; any thread may ask. Asked again and
///                                     again by the driver, it lets the task end.
///   wait_all()                        until all tasks have ended. Throws TaskError, that of the
///                                     oldest failure not yet reported, and so reports all;
///                                     LifetimeError (a handle is locked).
///   lock(handle, access)              host view after the handle's tasks; until unlock no task may
///                                     name the handle. Throws LifetimeError (unwritten, locked
///                                     already), TaskError (marked, unless to write).
///   unlock(handle)                    ends the lock; one for writing clears the mark. Throws
///                                     LifetimeError (not locked).
///   workers()                         threads that execute tasks, as many as were asked for.
///   destruction                       waits for tasks and tokens, releases all memory, and never
///                                     throws.
// clang-format on
template <class R>
concept Runtime =
    requires(R& runtime, R const& constant, typename R::Handle handle, Event event,
             Task<typename R::Handle> const& task, std::span<std::byte> bytes, std::size_t size,
             Place place, Lifetime lifetime, Release release, Access access) {
      requires std::copyable<typename R::Handle>;
      { runtime.allocate(size, place, lifetime) } -> std::same_as<typename R::Handle>;
      { runtime.adopt(bytes, place, release) } -> std::same_as<typename R::Handle>;
      runtime.retire(handle);
      { runtime.submit(task) } -> std::same_as<Event>;
      runtime.wait(event);
      { runtime.done(event) } -> std::same_as<bool>;
      runtime.wait_all();
      { runtime.lock(handle, access) } -> std::same_as<std::span<std::byte>>;
      runtime.unlock(handle);
      { constant.workers() } -> std::same_as<Workers>;
    };

namespace detail {

/// Whether R is a Runtime; says which member any other type lacks, or has of another kind.
template <class R> consteval bool is_required_runtime() {
  constexpr bool has_handle = requires { requires std::copyable<typename R::Handle>; };
  static_assert(has_handle, "a runtime needs a type `Handle`: a copyable name of a buffer");
  if constexpr (has_handle && !Runtime<R>) {
    using Handle = typename R::Handle;
    static_assert(
        requires(R& runtime, std::size_t bytes, Place place, Lifetime lifetime) {
          { runtime.allocate(bytes, place, lifetime) } -> std::same_as<Handle>;
        }, "a runtime needs `Handle allocate(std::size_t bytes, Place, Lifetime)`");
    static_assert(
        requires(R& runtime, std::span<std::byte> bytes, Place place, Release release) {
          { runtime.adopt(bytes, place, release) } -> std::same_as<Handle>;
        }, "a runtime needs `Handle adopt(std::span<std::byte>, Place, Release)`");
    static_assert(
        requires(R& runtime, Handle handle) { runtime.retire(handle); },
        "a runtime needs `void retire(Handle)`");
    static_assert(
        requires(R& runtime, Task<Handle> const& task) {
          { runtime.submit(task) } -> std::same_as<Event>;
        }, "a runtime needs `Event submit(Task<Handle> const&)`");
    static_assert(
        requires(R& runtime, Handle handle, Access access) {
          { runtime.lock(handle, access) } -> std::same_as<std::span<std::byte>>;
        }, "a runtime needs `std::span<std::byte> lock(Handle, Access)`");
    static_assert(
        requires(R& runtime, Handle handle) { runtime.unlock(handle); },
        "a runtime needs `void unlock(Handle)`");
    static_assert(
        requires(R& runtime, Event event) { runtime.wait(event); },
        "a runtime needs `void wait(Event)`");
    static_assert(
        requires(R& runtime, Event event) {
          { runtime.done(event) } -> std::same_as<bool>;
        }, "a runtime needs `bool done(Event)`");
    static_assert(
        requires(R& runtime) { runtime.wait_all(); }, "a runtime needs `void wait_all()`");
    static_assert(
        requires(R const& runtime) {
          { runtime.workers() } -> std::same_as<Workers>;
        }, "a runtime needs `Workers workers() const`");
  }
  return Runtime<R>;
}

}  // namespace detail

/// A Runtime; any other type is an error whose first line names what it lacks. For parameters of
/// classes, and to assert after a runtime of one's own.
template <class R>
concept RequiredRuntime = detail::is_required_runtime<R>();

/// Adopts const bytes as well: a task or lock that would write them is a ValueError, and they may
/// overlap other const bytes. Writable bytes are adopted by one handle at a time: an overlap is a
/// ValueError, until the other handle is retired and its tasks have ended.
template <class R>
concept ReadOnlyRuntime = Runtime<R> && requires(R& runtime, std::span<std::byte const> bytes,
                                                 Place place, Release release) {
  { runtime.adopt(bytes, place, release) } -> std::same_as<typename R::Handle>;
};

/// Lets a buffer count as unwritten, whatever it holds, where a task should have written it and
/// could not be submitted, nor another that marks it: what reads it is a LifetimeError until it is
/// written. Takes no memory and waits for nothing.
template <class R>
concept DiscardingRuntime =
    Runtime<R> && requires(R& runtime, typename R::Handle handle) { runtime.discard(handle); };

/// Tells apart the threads that drive it. drive(call): the calling thread counts as inside `call`
/// while the result lives, through any number of other calls; throws as they do, LifetimeError.
template <class R>
concept DrivenRuntime =
    Runtime<R> && requires(R& runtime, char const* call) { runtime.drive(call); };

namespace detail {

struct NotDriven {};
/// For operations made of several calls: excludes other threads meanwhile, where the runtime can.
template <Runtime R> auto drive(R& runtime, char const* call) {
  if constexpr (DrivenRuntime<R>)
    return runtime.drive(call);
  else
    return NotDriven{};
}

}  // namespace detail

/// Names an open scope of one runtime; a default one names none.
struct ScopeName {
  std::uint32_t number = 0;
};

/// Opens and closes scopes itself; others get them from runtime/scope.hh. Law: scopes of all
/// lifetimes nest; one that is not the innermost is not closed, and that is a LifetimeError, which
/// names the lines of both where open_scope takes a site and returns a name, and close_scope takes
/// that name.
template <class R>
concept ScopedRuntime = Runtime<R> && requires(R& runtime, Lifetime lifetime) {
  runtime.open_scope(lifetime);
  runtime.close_scope(lifetime);
};

namespace detail {

/// Opens a scope of any runtime that has them, and names it if the runtime does.
template <class R> ScopeName open_scope(R& runtime, Lifetime lifetime, CallSite site) {
  if constexpr (requires { ScopeName{runtime.open_scope(lifetime, site)}; })
    return runtime.open_scope(lifetime, site);
  else
    return runtime.open_scope(lifetime), ScopeName{};
}
template <class R> void close_scope(R& runtime, Lifetime lifetime, ScopeName name) {
  if constexpr (requires { runtime.close_scope(lifetime, name); })
    runtime.close_scope(lifetime, name);
  else
    runtime.close_scope(lifetime);
}

}  // namespace detail

/// Lends each CPU body that runs `workspace_bytes()` bytes, as KernelCall::workspace says. With
/// max_workspace_bytes every kernel of the library runs, on threads of 64 KiB of stack; on a
/// runtime that lends less than a kernel needs, binding throws ValueError. support::Workspaces has
/// the blocks.
template <class R>
concept LendingRuntime = Runtime<R> && requires(R const& constant) {
  { constant.workspace_bytes() } -> std::same_as<std::size_t>;
};

/// The workspace that the runtime lends to a body; 0 where it lends none.
template <Runtime R> std::size_t lent_workspace_bytes(R const& runtime) {
  if constexpr (LendingRuntime<R>)
    return runtime.workspace_bytes();
  else
    return 0;
}

/// Heeds `Hints`.
template <class R>
concept HintedRuntime = Runtime<R> && requires {
  { R::heeds_hints } -> std::convertible_to<bool>;
  requires bool(R::heeds_hints);
};

/// Keeps replicas of buffers in the memories of its workers itself: plans move nothing for it, and
/// their places are hints.
template <class R>
concept CoherentRuntime = HintedRuntime<R> && requires {
  { R::coherent } -> std::convertible_to<bool>;
  requires bool(R::coherent);
};

/// Reads `Task::cost`: eager calls state it for these alone, plans always.
template <class R>
concept CostedRuntime = Runtime<R> && requires {
  { R::reads_costs } -> std::convertible_to<bool>;
  requires bool(R::reads_costs);
};

/// Names a buffer of a recorded program: its position in the table of bindings.
using Binding = std::uint32_t;
/// One task of a recorded program.
using ProgramTask = Task<Binding>;

/// Argument bytes of a recorded task that each replay takes from the parameter block.
struct ProgramParameter {
  std::uint32_t task;
  std::uint32_t argument_offset;
  std::uint32_t parameter_offset;
  std::uint32_t bytes;
};

// clang-format off
/// Compiles a list of tasks once and runs it many times.
///
///   record(tasks, count, parameters)  a program over the bindings 0 to count - 1. Copies all but
///                                     codelets and labels' strings. Ring and Serial take the
///                                     bytes of each binding in place of the count, too, and
///                                     refuse buffers of other sizes.
///   replay(program, bindings, block)  runs the program's tasks on these handles, with arguments
///                                     patched from the block; copies both. Orders itself like one
///                                     task with the union of the accesses, and leaves each
///                                     handle's last writer and readers as the tasks would have.
///                                     One program may be in flight several times. Throws what
///                                     `submit` does, ValueError (bindings that alias where the
///                                     recording was distinct); then nothing has run.
// clang-format on
template <class R>
concept ReplayingRuntime =
    Runtime<R> &&
    requires(R& runtime, std::span<ProgramTask const> tasks, std::uint32_t binding_count,
             std::span<ProgramParameter const> parameters, typename R::Program const& program,
             std::span<typename R::Handle const> bindings, std::span<std::byte const> block) {
      { runtime.record(tasks, binding_count, parameters) } -> std::same_as<typename R::Program>;
      { runtime.replay(program, bindings, block) } -> std::same_as<Event>;
    };

// clang-format off
/// Runs tasks that submit tasks: runtime/orchestrate.hh, which also has orchestrate(f, uses...).
///
///   submit_nesting(f, uses, hints, label)
///                                     runs f(nested), whose argument has the calls of a runtime
///                                     for tasks that are part of this one, on buffers that it
///                                     declared or that f allocates, in scopes of its own. It ends
///                                     when f has returned and all its tasks have ended; no thread
///                                     waits for that, and what f has allocated ends with it. It
///                                     fails when f throws, or one of its tasks failed or was
///                                     cancelled and that was not reported to f. Throws what
///                                     `submit` does.
// clang-format on
template <class R>
concept NestingRuntime = Runtime<R> && requires(R& runtime, void (*body)(...),
                                                std::span<Use<typename R::Handle> const> uses,
                                                Hints const& hints, TaskLabel const& label) {
  { runtime.submit_nesting(body, uses, hints, label) } -> std::same_as<Event>;
};

/// Can stand still, as between two phases of a program that needs the cores itself.
///
///   pause()       from its return on no body runs, and no worker uses its core, until `resume`;
///                 waits for the bodies that run. Tasks may be submitted meanwhile; a call that
///                 would wait for a task throws LifetimeError.
///   resume()      goes on. Either one twice is as once; destruction resumes.
///   paused()      whether it stands still. Any thread may ask.
template <class R>
concept PausingRuntime = Runtime<R> && requires(R& runtime) {
  runtime.pause();
  runtime.resume();
  { runtime.paused() } -> std::same_as<bool>;
};

namespace detail {

struct NoProgram {};
template <class R> struct ProgramOf {
  using type = NoProgram;
};
template <ReplayingRuntime R> struct ProgramOf<R> {
  using type = typename R::Program;
};

}  // namespace detail

/// The programs of a runtime; an empty type where it does not replay.
template <Runtime R> using program_t = typename detail::ProgramOf<R>::type;

// clang-format off
/// Threads without handles or dependences; `Engine<Executor>` of it models Runtime. 64 KiB of stack
/// suffice for the library's kernels: the engine lends them workspaces, mapped at construction for
/// `workers()` bodies at a time; each one more at a time costs a mapping.
///
///   spawn(job)    runs the job once on some thread, soon; never on the calling thread before it
///                 returns. Called from any thread, also from inside a job.
///   help()        runs one spawned job on the calling thread; false if there is none. Called from
///                 the driving thread.
///   workers()     threads that execute jobs, the helping driver included: with `own_driver` all
///                 of them are the executor's own, else all but one. Constant.
///   on_idle(job)  runs the job every now and then on a thread that finds nothing to do, one at a
///                 time or several; a null job ends that.
///   destruction   joins the threads; a job that is left has nothing to do, and need not run.
// clang-format on
struct Job {
  void (*call)(void* state) noexcept = nullptr;
  void* state = nullptr;
  void operator()() const noexcept { call(state); }
};
template <class X>
concept Executor = requires(X& executor, X const& constant, Job job) {
  executor.spawn(job);
  { executor.help() } -> std::same_as<bool>;
  { constant.workers() } -> std::same_as<Workers>;
  executor.on_idle(job);
};

namespace detail {

/// Whether X is an Executor; says which member any other type lacks, or has of another kind.
template <class X> consteval bool is_required_executor() {
  static_assert(
      requires(X& executor, Job job) { executor.spawn(job); },
      "an executor needs `void spawn(Job)`: runs the job once on some thread");
  static_assert(
      requires(X& executor) {
        { executor.help() } -> std::same_as<bool>;
      }, "an executor needs `bool help()`: runs one spawned job, false if there is none");
  static_assert(
      requires(X const& executor) {
        { executor.workers() } -> std::same_as<Workers>;
      }, "an executor needs `Workers workers() const`");
  static_assert(
      requires(X& executor, Job job) { executor.on_idle(job); },
      "an executor needs `void on_idle(Job)`: runs the job now and then on an idle thread");
  return Executor<X>;
}

}  // namespace detail

/// An Executor; any other type is an error whose first line names what it lacks.
template <class X>
concept RequiredExecutor = detail::is_required_executor<X>();

}  // namespace nntile
