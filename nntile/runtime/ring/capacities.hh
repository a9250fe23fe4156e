#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Capacities of a ring, and what its heaps count.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/aligned.hh"

namespace nntile {

/// Policy of `allocate` where a heap has no room: takes more memory from the system; waits for
/// tasks whose end makes room, and throws DeadlockError once nothing runs that could; or throws
/// OutOfMemory at once.
enum class OnFull : std::uint8_t { grow, wait, fail };

/// One heap. `bytes` of 0 is room for what comes first; it must be given where the heap may not
/// grow. Memory that is given is taken at construction.
struct HeapCapacity {
  std::size_t bytes = 0;
  OnFull on_full = OnFull::grow;
};

/// Room that a replay needs, as `RingProgram::capacity` says of its program.
struct ProgramCapacity {
  std::uint32_t tasks = 0;
  std::uint32_t lines = 0;  // of 64 bytes, that the recorded tasks take
  std::uint32_t bindings = 0;
  std::uint32_t prepared = 0;  // tasks that are asynchronous, or have many operands,
  std::uint32_t operands = 0;  // and the most operands of one of them
  std::size_t varying = 0;     // bytes of arguments that a parameter changes

  /// Room for either of two.
  friend ProgramCapacity larger(ProgramCapacity const& a, ProgramCapacity const& b) {
    auto const most = [](auto one, auto other) { return one < other ? other : one; };
    return {most(a.tasks, b.tasks),       most(a.lines, b.lines),
            most(a.bindings, b.bindings), most(a.prepared, b.prepared),
            most(a.operands, b.operands), most(a.varying, b.varying)};
  }
};

/// Room that a ring has from its construction on. Where there is enough of it, the ring takes no
/// memory from the system later on, but for buffers of no heap, tasks that submit, failures, and
/// arguments of a task that fill a quarter of `RingSizes::argument_bytes`. RingStats says where it
/// did. `ring_capacities` (graph/ring_capacities.hh) fills it for a plan.
struct RingCapacities {
  /// The heaps, one a lifetime but `persistent`. Buffers of a heap come back in the order of their
  /// allocation: one that lives long holds up those behind it, and so belongs to a lifetime of its
  /// own, or to `persistent`.
  HeapCapacity step{}, scope{}, scratch{}, staging{};
  /// Each of the heaps of a task that submits, one a lifetime of which its body opens a scope;
  /// their memory is pieces of powers of two that all such tasks share, taken from the system when
  /// there are too few. Where heaps grow, `bytes` are their first ones, 0 for the policy's.
  HeapCapacity bodies{};
  /// Buffers that one heap holds at a time, rounded up to a power of two; 0 for the policy's. Where
  /// it is given, no allocation from a heap with a capacity that may not grow takes memory from the
  /// system.
  std::uint32_t records = 0;
  /// Task slots, 2 to 2^20, rounded up to a power of two; 0 for the policy's. A submitter that is
  /// further ahead of its oldest unfinished task is held back. 192 bytes a slot.
  std::uint32_t window = 0;
  /// Priorities of tasks other than 0, of which there are 7, and whether hints name workers: a
  /// queue for each, of 16 bytes a slot. Each kind of workers, if there are several, has as many,
  /// and one for priority 0.
  std::uint32_t priorities = 0;
  bool named_workers = false;
  /// Buffers outside of heaps, and regions, that the ring names at a time before it takes memory
  /// for more; 240 bytes each. What else regions need is `reserve_regions`'.
  std::uint32_t buffers = 0;
  /// Most operands of one task that is submitted alone; 0 for 7.
  std::uint32_t operands = 0;
  /// Most bytes of arguments of one task that is asynchronous or of blocks; of another one, for
  /// which these and its operands are too many for its slot, any number.
  std::uint32_t argument_bytes = 0;
  /// Asynchronous tasks, and tasks of blocks, that have not ended at a time; 1,000 bytes each.
  std::uint32_t tokens = 0;
  /// Replays in flight at a time, and what the largest of their programs needs.
  std::uint32_t replays = 0;
  ProgramCapacity program{};

  HeapCapacity const& of(Lifetime lifetime) const {
    HeapCapacity const* const all[] = {&step, &scope, &scratch, &staging};
    return *all[static_cast<int>(lifetime) - 1];
  }

  /// Room for two programs at a time, which use the heaps in turn.
  friend RingCapacities together(RingCapacities const& a, RingCapacities const& b) {
    auto const most = [](auto one, auto other) { return one < other ? other : one; };
    auto const heap = [](HeapCapacity const& one, HeapCapacity const& other) {
      return one.bytes < other.bytes ? other : one;
    };
    return {.step = heap(a.step, b.step),
            .scope = heap(a.scope, b.scope),
            .scratch = heap(a.scratch, b.scratch),
            .staging = heap(a.staging, b.staging),
            .bodies = heap(a.bodies, b.bodies),
            .records = most(a.records, b.records),
            .window = a.window == 0 || b.window == 0 ? 0 : most(a.window, b.window),
            .priorities = a.priorities + b.priorities,
            .named_workers = a.named_workers || b.named_workers,
            .buffers = a.buffers + b.buffers,
            .operands = most(a.operands, b.operands),
            .argument_bytes = most(a.argument_bytes, b.argument_bytes),
            .tokens = a.tokens + b.tokens,
            .replays = a.replays + b.replays,
            .program = larger(a.program, b.program)};
  }
};

namespace detail::ring {

/// Throws OutOfMemory, before any of it is taken, for room that the machine's memory has not.
inline void check_memory(RingCapacities const& capacities) {
  auto const check = [](char const* name, std::uint64_t count, std::size_t bytes) {
    support::check_room("ring: RingCapacities::", name, count, bytes);
  };
  check("buffers", capacities.buffers, 240);
  check("records", capacities.records, 240);     // at least: each heap lists its own beside
  std::size_t const token = 1000, operand = 24;  // a use and a pointer
  check("tokens", capacities.tokens,
        token + capacities.argument_bytes + capacities.operands * operand);
  ProgramCapacity const& program = capacities.program;
  bool const bound = program.bindings > capacities.operands;
  check(bound ? "program.bindings" : "operands", bound ? program.bindings : capacities.operands,
        operand + 80);  // and the tasks to wait for
  std::uint64_t const replays = capacities.replays;
  check("program.prepared of all replays", replays * program.prepared,
        token + program.operands * operand);
  check("program.tasks of all replays", replays * program.tasks, 16);
  check("program.lines of all replays", replays * program.lines, 64);
  check("program.bindings of all replays", replays * program.bindings, 16);
  check("replays", replays, std::max<std::size_t>(program.varying, 1));
}

}  // namespace detail::ring

/// Counters of one heap. Bytes are those from the oldest buffer that still holds memory to the
/// newest: what a heap of that capacity would have held.
struct HeapStats {
  std::size_t capacity = 0;
  std::size_t used = 0;
  std::size_t peak = 0;
  std::uint64_t records = 0;       // buffers that hold memory
  std::uint64_t peak_records = 0;  // at a time
  std::uint64_t growths = 0;       // times that memory was taken from the system
  std::uint64_t waits = 0;         // allocations that waited for tasks
};

/// Counters of the memory that the heaps of tasks that submit share. Bytes are those of whole
/// pieces.
struct BodyHeapStats {
  std::size_t capacity = 0;   // from the system
  std::size_t used = 0;       // of them, by heaps
  std::size_t peak = 0;       // most that were used at a time
  std::uint64_t growths = 0;  // times that memory was taken from the system
  std::uint64_t waits = 0;    // allocations that waited for tasks, of bodies that have ended
};

/// Times that a ring has taken memory from the system since its construction, beside heaps and the
/// memory of buffers.
struct RingGrowths {
  std::uint64_t buffers = 0;   // room for their records
  std::uint64_t regions = 0;   // for what else is kept of regions
  std::uint64_t operands = 0;  // room for those of one task
  std::uint64_t tokens = 0;    // for asynchronous tasks, their arguments, and the polls of tokens
  std::uint64_t replays = 0;   // for flights and what their programs need
  std::uint64_t queues = 0;    // of ready tasks, for a priority, a worker or a kind of them

  friend RingGrowths operator-(RingGrowths const& now, RingGrowths const& before) {
    return {now.buffers - before.buffers,   now.regions - before.regions,
            now.operands - before.operands, now.tokens - before.tokens,
            now.replays - before.replays,   now.queues - before.queues};
  }
  std::uint64_t sum() const { return buffers + regions + operands + tokens + replays + queues; }
};

}  // namespace nntile
