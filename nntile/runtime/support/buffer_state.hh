#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Permissions of calls by the states of a buffer, also where it is a region or has some, and its
// name in errors.

#include <cstddef>
#include <string>
#include <string_view>

#include "nntile/core/error.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/parts.hh"

namespace nntile::support {

/// "buffer 12 (4096 bytes, step)"; "64 bytes at byte 128 of ..." of a region.
inline std::string describe(Buffer const& buffer) {
  if (buffer.is(Buffer::region)) {
    Part const& part = *part_of(buffer);
    return concat(buffer.bytes, " bytes at byte ", part.offset, " of ",
                  describe(*part.division->whole));
  }
  return concat("buffer ", buffer.index, " (", buffer.bytes, " bytes, ",
                buffer.is(Buffer::adopted) ? "adopted" : name_of(buffer.lifetime), ")");
}
inline std::string why_read_only(Buffer const& buffer) {
  return concat(describe(buffer),
                " is read-only: it was adopted as const bytes; adopt a std::span<std::byte>");
}

inline std::string why_unwritten(Buffer const& buffer) {
  Buffer const& whole = buffer.is(Buffer::region) ? *part_of(buffer)->division->whole : buffer;
  return whole.is(Buffer::discarded)
             ? concat("the task that should have written ", describe(buffer), " was refused")
             : concat("nothing has written ", describe(buffer));
}

/// The locked one of it and the parts that overlap it; itself if there is none.
inline Buffer const& locked_part(Buffer const& buffer) noexcept {
  if (buffer.is(Buffer::locked)) return buffer;
  for (Overlap const& other : overlaps_of(buffer))
    if (other.buffer->is(Buffer::locked)) return *other.buffer;
  return buffer;
}

[[gnu::noinline]] inline Buffer::State state_of_part(Buffer& buffer) noexcept {
  Part const& part = *part_of(buffer);
  if (buffer.is(Buffer::region) && !part.division->calls->any_unwritten(part))
    buffer.drop(Buffer::unwritten);
  int const locked = locked_part(buffer).state & Buffer::locked;
  return static_cast<Buffer::State>(buffer.state | locked);
}
[[gnu::noinline]] inline void check_parts_unlocked(Buffer const& buffer, std::string_view call) {
  bool const parts = buffer.is(Buffer::divided) && part_of(buffer)->division->locked != 0;
  Buffer const& locked = parts ? locked_part(buffer) : buffer;
  if (locked.is(Buffer::locked))
    throw LifetimeError(concat(call, ": ", describe(locked), " is locked: unlock it first"));
}

/// The states of a buffer; of one that is a part, `locked` where some part that overlaps it is,
/// and `unwritten` where some byte of it is.
inline Buffer::State state_of(Buffer& buffer) noexcept {
  if (buffer.is(Buffer::region | Buffer::divided)) [[unlikely]]
    return state_of_part(buffer);
  return buffer.state;
}

/// Lets it count as unwritten, until a task or a lock writes it; a region with all of its buffer,
/// which needs no memory.
[[gnu::noinline]] inline void discard(Buffer& buffer) noexcept {
  Buffer& whole = whole_of(buffer);
  if (whole.is(Buffer::read_only)) return;  // nothing was to write it
  whole.set(Buffer::unwritten | Buffer::discarded);
  if (!whole.is(Buffer::divided)) return;
  Division& division = *part_of(whole)->division;
  division.calls->discard(division);
}

/// Throws LifetimeError for a region whose buffer has ended.
inline void check_whole(Buffer const& buffer, std::string_view call) {
  if (has_lost_whole(buffer)) [[unlikely]]
    throw LifetimeError(concat(call, ": ", describe(buffer),
                               ", which was retired, or its scope closed, before this call"));
}
/// Throws LifetimeError if it, or a region of it, is locked.
inline void check_unlocked(Buffer const& buffer, std::string_view call) {
  if (buffer.is(Buffer::locked | Buffer::divided)) [[unlikely]]
    check_parts_unlocked(buffer, call);
}
/// Throws ValueError for a number that was cast.
inline void check_access(Access access, std::string_view who) {
  if (!is_access(access))
    throw ValueError(concat(who, ": ", static_cast<int>(access), " is no access"));
}

/// For a buffer with a state that forbids the access, or what is none; `who` begins the sentence.
/// Throws LifetimeError (locked; nothing has written it), ValueError (read-only; no access).
[[noreturn]] inline void fail_access(Buffer const& buffer, Access access, std::string_view who) {
  check_access(access, who);
  if (Buffer const& locked = locked_part(buffer); locked.is(Buffer::locked))
    throw LifetimeError(concat(who, ": ", describe(locked), " is locked: unlock it first"));
  if (writes(access) && buffer.is(Buffer::read_only))
    throw ValueError(concat(who, ": ", why_read_only(buffer)));
  throw LifetimeError(
      concat(who, ": ", why_unwritten(buffer),
             ": submit a task that writes it, lock it for write, or adopt written memory"));
}

}  // namespace nntile::support
