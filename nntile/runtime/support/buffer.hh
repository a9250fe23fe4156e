#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Records of a buffer and of a task, and the handle that names a buffer.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nntile/core/access.hh"
#include "nntile/core/codelet.hh"
#include "nntile/runtime/concept.hh"

namespace nntile {

/// Names a buffer of one runtime: a copyable value that owns nothing. A default one names none.
struct DataHandle {
  std::uint32_t index = UINT32_MAX;
  std::uint32_t generation = 0;
  bool operator==(DataHandle const&) const = default;
};

namespace support {

/// A runtime's own number of a submitted task, ascending in the order of submission: Serial's is
/// the sequence, the ring's the ticket of the slot. 0 is before every task.
enum class Ticket : std::uint64_t {};

/// Record of one buffer. The address is stable, and reused under another generation once the buffer
/// is reclaimed. The first line belongs to the driving thread. Tasks read `mark` of the second, and
/// only while some mark exists, and `place`.
struct alignas(64) Buffer {
  using State = std::uint16_t;
  // Submission looks at the low byte alone.
  static constexpr State unwritten = 1;     // no task, lock or adopt has written it
  static constexpr State locked = 2;        // between lock and unlock
  static constexpr State read_only = 4;     // the caller's memory, never written
  static constexpr State region = 8;        // part of another buffer (parts.hh)
  static constexpr State divided = 16;      // has regions
  static constexpr State in_use = 32;       // the record is a buffer's
  static constexpr State live = 64;         // holds storage that must be released
  static constexpr State off_host = 128;    // the host's code must not touch it
  static constexpr State dropped = 256;     // to be retired when it is unlocked
  static constexpr State ranged = 512;      // its memory is among the ranges of addresses
  static constexpr State ended = 1024;      // its handle is void; tasks may be using it
  static constexpr State unordered = 2048;  // some task accesses it in no order
  static constexpr State adopted = 4096;    // the caller's memory
  static constexpr State discarded = 8192;  // has become unwritten again, perhaps more than once

  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::uint32_t index = 0;  // followed by the generation, as in a handle
  std::uint32_t generation = 0;
  State state = 0;
  Access lock_access = Access::read;
  Lifetime lifetime = Lifetime::persistent;
  /// Serial number of the scope that lists it; 0 if none does.
  std::uint32_t scope = 0;
  /// The last submitted task that names it.
  Ticket last_use{};
  /// The runtime's own: StarPU's data handle, the ring's heap.
  void* native = nullptr;
  /// The last replay that looked it up.
  std::uint64_t replay = 0;
  /// Serial's last look at its queue in which an open task named the buffer.
  std::uint64_t look = 0;

  /// 0, or 1 + the position of a failure in `Failures`.
  alignas(64) std::atomic<std::uint32_t> mark{0};
  /// Neighbours in the scope that lists it, as indices + 1.
  std::uint32_t scope_previous = 0;
  std::uint32_t scope_next = 0;
  Place place{};  // tasks look at it
  Release release{};
  Buffer* next_free = nullptr;
  /// Of tasks that accumulate into it: the runtime's own (claims.hh), kept with the record.
  void* claim = nullptr;
  /// The Part that it is, null without regions. Atomic, since tasks look at it for marks.
  std::atomic<void*> part{nullptr};

  bool is_part() const noexcept { return part.load(std::memory_order_relaxed) != nullptr; }
  bool is(State flag) const noexcept { return (state & flag) != 0; }
  void set(State flag) noexcept { state = static_cast<State>(state | flag); }
  void drop(State flag) noexcept { state = static_cast<State>(state & ~flag); }
  /// Lets some states go, on the thread that ends the buffer, while the driver looks at all records
  /// by `states`.
  void end(State flags = UINT16_MAX) noexcept {
    std::atomic_ref(state).store(static_cast<State>(state & ~flags), std::memory_order_relaxed);
  }
  State states() const noexcept {
    return std::atomic_ref(const_cast<State&>(state)).load(std::memory_order_relaxed);
  }
};
static_assert(sizeof(Buffer) == 128);

/// States in which no task may name a buffer that it is to access so.
constexpr Buffer::State forbidden_states(Access access) noexcept {
  constexpr Buffer::State reading = Buffer::locked | Buffer::unwritten;
  constexpr Buffer::State writing = Buffer::locked | Buffer::read_only;
  return static_cast<Buffer::State>((reads(access) ? reading : 0) | (writes(access) ? writing : 0));
}

/// States in which the submission of a task with that access needs a closer look: what is not
/// ordered as a read, a write or an update always does, so that others need not be asked whether
/// they are; so does a buffer in parts, or off the host.
struct ExaminedStates {
  static constexpr Buffer::State always = Buffer::region | Buffer::divided | Buffer::off_host;
  std::uint8_t of[256];  // by any byte: an access may be a number that was cast

  constexpr ExaminedStates() : of{} {
    for (std::uint8_t& states : of) states = 0xff;
    for (Access const usual : {Access::read, Access::write, Access::update})
      of[static_cast<int>(usual)] = static_cast<std::uint8_t>(forbidden_states(usual) | always);
  }
};
inline constexpr ExaminedStates all_examined_states;
constexpr Buffer::State examined_states(Access access) noexcept {
  return all_examined_states.of[static_cast<int>(access)];
}

/// A submitted task as `run_body` takes it. Nothing is copied: all of it lives until the task has
/// ended.
struct TaskBody {
  Codelet const* codelet = nullptr;
  std::uint64_t sequence = 0;
  std::span<Use<Buffer*> const> uses;
  /// One pointer a use, in order; they become KernelCall::buffers.
  void* const* pointers = nullptr;
  void const* arguments = nullptr;
  TaskLabel label;
};

}  // namespace support
}  // namespace nntile
