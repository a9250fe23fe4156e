#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The policy of a ring: atomics, threads, clock, trace and sizes, all replaceable at compile time.

#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "nntile/core/call_site.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/device.hh"

namespace nntile {

namespace detail::ring {
inline constexpr std::uint32_t largest_window = 1u << 20;
}  // namespace detail::ring

/// Sizes of one domain. A test may ask for a window of 2, or for ids that wrap after a thousand
/// tasks.
struct RingSizes {
  /// Task slots where RingCapacities name no other number; a submitter that is further ahead of its
  /// oldest unfinished task is held back.
  static constexpr std::uint32_t window = 4096;
  /// Slots that the tasks of a task have at first, and those where they go on if these are full.
  static constexpr std::uint32_t child_window = 8;
  static constexpr std::uint32_t larger_child_window = 256;
  /// Ready tasks that one worker keeps to itself; more go where every worker finds them.
  static constexpr std::uint32_t deque = 1024;
  /// Room for payloads that do not fit into a slot; a task that needs a quarter of it allocates.
  static constexpr std::uint32_t argument_bytes = 1u << 20;
  /// Bytes that a heap takes first where no capacity is given, and buffers that it holds.
  static constexpr std::size_t heap_bytes = std::size_t{1} << 20;
  static constexpr std::uint32_t heap_records = 1024;
  /// The same of a heap of a task that submits.
  static constexpr std::size_t child_heap_bytes = 4096;
  /// Replays in flight at a time.
  static constexpr std::uint32_t flights = 64;
  /// Sequence of the first task.
  static constexpr std::uint64_t first_sequence = 1;
  /// Tasks after which stale references are swept: a reference distinguishes 2^31 tasks.
  static constexpr std::uint64_t sweep_every = std::uint64_t{1} << 29;
  /// Nanoseconds that an idle worker spins before it sleeps: about the cost of a wake, so that the
  /// wait is never more than twice the shortest.
  static constexpr std::int64_t spin_ns = 50'000;
  /// A body that takes less, two reads of the clock included, takes less than its slot takes from
  /// core to core.
  static constexpr std::int64_t tiny_ns = 40;
  /// Bodies of which a worker times one, for 50 ns.
  static constexpr std::uint32_t timed_every = 32;
  /// Rounds, of 15 to 40 ns, of a worker's longest wait amid tiny tasks.
  static constexpr std::uint32_t most_rounds = 512;
  /// Tasks that a worker runs each because the one before it made it ready, before it looks for
  /// others that wait.
  static constexpr std::uint32_t most_kept = 64;
  /// Yields of its core that follow before it sleeps.
  static constexpr int yields = 1;
};

/// Times how long an idle worker spins, and lets another thread have its core; nothing else depends
/// on it.
struct RingClock {
  static std::int64_t nanoseconds() { return detail::monotonic_ns(); }
  static void yield_core() { detail::yield_core(); }
};

/// Steps of a submission, in turn: operands are looked up and checked; a slot is waited for, and
/// tasks may be run meanwhile; producers are listed; the slot is filled; edges are made, and a
/// ready task is queued.
enum class SubmitStep : std::uint8_t { bind, room, lookup, payload, publish };
inline constexpr int submit_steps = 5;

/// In a trace the number of a join, which runs nothing, is this and the id of its slot.
inline constexpr std::uint64_t traced_join = std::uint64_t{1} << 63;

/// Receives the reports of a ring, which keeps one such object; a policy's own derives from this.
/// `worker` 0 is the driving thread unless it executes nothing. `edge` is called only where
/// `sees_edges`; what concerns heaps, by the driving thread and only where `sees_heaps`.
struct RingNoTrace {
  static constexpr bool sees_edges = false;
  static constexpr bool sees_heaps = false;

  explicit RingNoTrace(int /*workers*/) {}
  /// Around a body, by the thread that runs it.
  void begin(int /*worker*/, std::uint64_t /*sequence*/, Codelet const& /*codelet*/) {}
  void end(int /*worker*/, std::uint64_t /*sequence*/) {}
  /// By the submitter: the second waits for the first.
  void edge(std::uint64_t /*from*/, std::uint64_t /*to*/) {}
  /// A scope has been opened, or the innermost of that lifetime closed; `used` is what its heap
  /// holds.
  void open_scope(Lifetime, CallSite, std::size_t /*used*/) {}
  void close_scope(Lifetime, std::size_t /*used*/) {}
  /// An allocation from a heap, which holds `used` bytes now.
  void allocated(Lifetime, std::size_t /*bytes*/, std::size_t /*used*/) {}

  /// One submission, by the submitter; `ended` is missing where it threw.
  struct Submission {
    explicit Submission(RingNoTrace&) {}
    void reached(SubmitStep) {}
    void ended(std::uint64_t /*sequence*/, Codelet const*, std::uint64_t /*slots in use*/) {}
  };
};

/// The default policy.
struct RingPolicy {
  template <class T> using Atomic = std::atomic<T>;
  /// A value that threads share without atomics: ordered by those around it.
  template <class T> using Plain = T;
  using Mutex = detail::Mutex;
  using Condition = detail::Condition;
  using Thread = detail::Thread;
  using Clock = RingClock;
  using Trace = RingNoTrace;
  using Sizes = RingSizes;
  using Device = NoDevice;  // for tasks that name memory of one
};

/// Law: the sizes that index are powers of two, the window is 2 to 2^20, what is done every so
/// often is done at least every first time, Atomic<T> behaves as std::atomic<T>, Plain<T> as T, and
/// mutexes, conditions and threads as those of core/threads.hh.
template <class P>
concept RingPolicyType = requires {
  typename P::template Atomic<std::uint32_t>;
  typename P::template Plain<std::uint32_t>;
  typename P::Mutex;
  typename P::Condition;
  typename P::Thread;
  { P::Clock::nanoseconds() } -> std::same_as<std::int64_t>;
  P::Clock::yield_core();
  requires requires(typename P::Trace trace, Codelet const& codelet) {
    trace.begin(0, std::uint64_t{}, codelet);
    trace.end(0, std::uint64_t{});
    trace.edge(std::uint64_t{}, std::uint64_t{});
  };
  requires std::constructible_from<typename P::Trace::Submission, typename P::Trace&>;
  requires std::has_single_bit(P::Sizes::window);
  requires P::Sizes::window >= 2 && P::Sizes::window <= detail::ring::largest_window;
  requires std::has_single_bit(P::Sizes::child_window);
  requires std::has_single_bit(P::Sizes::larger_child_window);
  requires P::Sizes::child_window >= 2 && P::Sizes::child_window < P::Sizes::larger_child_window;
  requires std::has_single_bit(P::Sizes::deque);
  requires std::has_single_bit(P::Sizes::argument_bytes);
  requires P::Sizes::flights >= 1;
  requires P::Sizes::most_kept >= 1;
  requires P::Sizes::timed_every >= 1;
  requires Device<typename P::Device>;
  requires P::Sizes::sweep_every <= (std::uint64_t{1} << 30);
};

static_assert(RingPolicyType<RingPolicy>);

namespace detail {

/// The default policy with other sizes.
template <class Others> struct SizedRingPolicy : RingPolicy {
  using Sizes = Others;
};

/// Whether P is a policy of a ring; says what any other type lacks, or has of another kind.
template <class P> consteval bool is_required_ring_policy() {
  if constexpr (!RingPolicyType<P>) {
    constexpr bool has_parts = requires {
      typename P::template Atomic<std::uint32_t>;
      typename P::template Plain<std::uint32_t>;
      typename P::Mutex;
      typename P::Condition;
      typename P::Thread;
      typename P::Clock;
      typename P::Trace;
      typename P::Sizes;
      typename P::Device;
    };
    static_assert(has_parts,
                  "a policy of a ring derives from RingPolicy, and replaces parts of it");
    if constexpr (has_parts) {
      using Trace = typename P::Trace;
      static_assert(
          requires {
            { P::Clock::nanoseconds() } -> std::same_as<std::int64_t>;
            P::Clock::yield_core();
          }, "Clock of a ring's policy needs what RingClock has: derive it from that");
      static_assert(
          requires(Trace trace, Codelet const& codelet) {
            trace.begin(0, std::uint64_t{}, codelet);
            trace.end(0, std::uint64_t{});
            trace.edge(std::uint64_t{}, std::uint64_t{});
            requires std::constructible_from<typename Trace::Submission, Trace&>;
          },
          "Trace of a ring's policy derives from RingNoTrace; its begin() takes int, "
          "std::uint64_t, "
          "Codelet const&");
      (void)is_required_device<typename P::Device>();
      static_assert(
          requires { requires RingPolicyType<SizedRingPolicy<typename P::Sizes>>; },
          "Sizes of a ring's policy derive from RingSizes: powers of two for window (2 to 2^20), "
          "child_window (2 or more, below larger_child_window), deque and argument_bytes; 1 or "
          "more "
          "for flights, most_kept and timed_every; sweep_every up to 2^30");
    }
  }
  return RingPolicyType<P>;
}

}  // namespace detail

/// A policy of a ring; any other type is an error whose first line names what it lacks.
template <class P>
concept RequiredRingPolicy = detail::is_required_ring_policy<P>();

namespace detail::ring {

/// Bytes between words that different threads write: two 64-byte lines, which x86 prefetches as a
/// pair.
inline constexpr std::size_t apart = 128;

/// Fetches a line that is about to be written. Compilers turn `__builtin_prefetch(at, 1)` into a
/// fetch for reading unless the CPU is said to have `prefetchw`, so that a line which another core
/// wrote is asked for twice. x86-64 CPUs without it take it for an instruction that does nothing.
inline void fetch_to_write(void const* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<char const*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

/// Tells the core that this is a spin loop.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace detail::ring
}  // namespace nntile
