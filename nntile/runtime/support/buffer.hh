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
/// only while some mark exists.
struct alignas(64) Buffer {
  static constexpr std::uint8_t live = 1;        // holds storage that must be released
  static constexpr std::uint8_t unwritten = 2;   // no task, lock or adopt has written it
  static constexpr std::uint8_t locked = 4;      // between lock and unlock
  static constexpr std::uint8_t adopted = 8;     // the caller's memory
  static constexpr std::uint8_t dropped = 16;    // to be retired when it is unlocked
  static constexpr std::uint8_t read_only = 32;  // the caller's memory, never written
  static constexpr std::uint8_t ranged = 64;     // its memory is among the adopted ranges
  static constexpr std::uint8_t ended = 128;     // in a heap of the ring: its handle is void

  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::uint32_t generation = 0;
  std::uint32_t index = 0;
  std::uint8_t state = 0;
  Access lock_access = Access::read;
  Lifetime lifetime = Lifetime::persistent;
  /// The last submitted task that names it.
  Ticket last_use{};
  /// The runtime's own: StarPU's data handle, the ring's heap.
  void* native = nullptr;
  /// The last replay that looked it up.
  std::uint64_t replay = 0;

  /// 0, or 1 + the position of a failure in `Failures`.
  alignas(64) std::atomic<std::uint32_t> mark{0};
  /// Neighbours in the scope that owns it, as indices + 1.
  std::uint32_t scope_previous = 0;
  std::uint32_t scope_next = 0;
  std::uint32_t scope = 0;  // serial number of that scope, 0 if none
  Place place{};
  Release release{};
  Buffer* next_free = nullptr;

  bool is(std::uint8_t flag) const noexcept { return (state & flag) != 0; }
  void set(std::uint8_t flag) noexcept { state = static_cast<std::uint8_t>(state | flag); }
  void drop(std::uint8_t flag) noexcept { state = static_cast<std::uint8_t>(state & ~flag); }
};
static_assert(sizeof(Buffer) == 128);

/// States in which no task may name a buffer that it is to access so.
constexpr std::uint8_t forbidden_states(Access access) noexcept {
  constexpr std::uint8_t reading = Buffer::locked | Buffer::unwritten;
  constexpr std::uint8_t writing = Buffer::locked | Buffer::read_only;
  constexpr std::uint8_t of[] = {reading, writing, reading | writing, reading | writing};
  static_assert(of[static_cast<int>(Access::accumulate)] == (reading | writing));
  return of[static_cast<int>(access)];
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
