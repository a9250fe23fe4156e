#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Buffers that are named in parts: which regions of a buffer overlap, as submissions see it.

#include <cstddef>
#include <cstdint>
#include <span>

#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

class BufferTable;
class Failures;
struct Division;

/// Another part of the same buffer that shares bytes with one, or is the whole of it.
struct Overlap {
  Buffer* buffer;
  bool covered;  // all its bytes are of that one
};

/// A region of a buffer, or the whole of one that has regions. The bytes are division.hh's. Tasks
/// read `division`, which never changes; the rest is the driver's.
struct Part {
  Buffer* buffer = nullptr;
  Division* division = nullptr;
  Overlap const* overlaps = nullptr;
  std::size_t overlap_count = 0;
  std::size_t offset = 0;  // from the whole's first byte
  /// The handle is void; the record goes once its tasks have ended.
  bool ended = false;
};

/// Calls about the bytes of parts, by pointers to functions: a program that makes no region does
/// not compile them.
struct PartCalls {
  void (*note_written)(Part const&) noexcept;
  bool (*any_unwritten)(Part const&) noexcept;
  void (*discard)(Division&) noexcept;  // all bytes are unwritten again
  void (*void_handles)(Division&) noexcept;
  void (*end)(Division&, BufferTable*) noexcept;  // gives the regions' records back, if to any
  // Under the lock of Failures:
  std::uint32_t (*mark_of)(Failures const&, Part const&) noexcept;
  void (*mark)(Failures&, Part const&, std::uint32_t failure, bool keep_older) noexcept;
  void (*clear)(Failures&, Part const&) noexcept;
  void (*drop_marks)(Failures&, Division&) noexcept;
};

/// The parts of one buffer. Law: every two parts that share a byte are in each other's lists, from
/// the moment a part is made, so that the order of tasks needs no comparison of regions; so are the
/// whole and each region, an empty one too, whose record ends with the whole's.
struct Division {
  PartCalls const* calls = nullptr;
  Buffer* whole = nullptr;
  std::uint32_t locked = 0;  // regions, not the whole
  /// Of the whole's handle: a region's is void, too, once this one is.
  std::uint32_t generation = 0;
};

/// The part that a buffer's record stands for; null for a buffer without regions.
inline Part* part_of(Buffer const& buffer) noexcept {
  return static_cast<Part*>(buffer.part.load(std::memory_order_acquire));
}
/// The buffer whose memory it is: of a region, the whole.
inline Buffer& whole_of(Buffer& buffer) noexcept {
  return buffer.is(Buffer::region) ? *part_of(buffer)->division->whole : buffer;
}
/// Whether it is a region of a buffer whose handle is void.
inline bool has_lost_whole(Buffer const& buffer) noexcept {
  if (!buffer.is(Buffer::region)) [[likely]]
    return false;
  Division const& division = *part_of(buffer)->division;
  return division.whole->generation != division.generation;
}
/// Whether a task names a region, or a buffer that has some.
inline bool names_parts(std::span<Use<Buffer*> const> uses) noexcept {
  for (Use<Buffer*> const& use : uses)
    if (use.handle->is(Buffer::region | Buffer::divided)) return true;
  return false;
}

/// Several in turn.
struct Overlaps {
  Overlap const* first;
  std::size_t count;
  Overlap const* begin() const noexcept { return first; }
  Overlap const* end() const noexcept { return first + count; }
};
/// The other parts that share bytes with this one, and the whole; none for a buffer without
/// regions. The driver.
inline Overlaps overlaps_of(Buffer const& buffer) noexcept {
  if (!buffer.is(Buffer::region | Buffer::divided)) return {nullptr, 0};
  Part const& part = *part_of(buffer);
  return {part.overlaps, part.overlap_count};
}

/// Whether an entry of overlaps_of(buffer) stands for bytes of both.
inline bool share_bytes(Buffer const& buffer, Overlap const& other) noexcept {
  return buffer.bytes != 0 && other.buffer->bytes != 0;
}

/// Notes that a task which names parts is submitted, besides BufferTable::commit: the whole lives
/// as long, and other parts may now be written.
inline void commit_parts(std::span<Use<Buffer*> const> uses, Ticket task) noexcept {
  for (Use<Buffer*> const& use : uses) {
    if (!use.handle->is(Buffer::region | Buffer::divided)) continue;
    Part const& part = *part_of(*use.handle);
    part.division->whole->last_use = task;
    if (writes(use.access)) part.division->calls->note_written(part);
  }
}

}  // namespace nntile::support
