#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Access modes of a task to a buffer, and the pair of both.

#include <cstdint>

namespace nntile {

/// `read` sees what earlier writers left; `write` overwrites every byte and never looks; `update`
/// reads and writes. Two accesses let tasks be reordered among themselves: `accumulate` adds, one
/// task at a time; `write_disjoint` writes bytes that no other task of its group touches, and may
/// do so at the same time. `unordered` leaves the order to the caller: no dependence follows from
/// it, and the buffer is held until the task has ended.
enum class Access : std::uint8_t { read, write, update, accumulate, write_disjoint, unordered };

/// Whether the task depends on bytes that earlier tasks left: the buffer must have been written.
constexpr bool reads(Access access) {
  return access != Access::write && access < Access::write_disjoint;
}
/// Whether the task may change bytes.
constexpr bool writes(Access access) { return access != Access::read; }

/// Whether it is one of them, and not a number that was cast.
constexpr bool is_access(Access access) { return access <= Access::unordered; }

constexpr char const* name_of(Access access) {
  switch (access) {
    case Access::read:
      return "read";
    case Access::write:
      return "write";
    case Access::update:
      return "update";
    case Access::accumulate:
      return "accumulate";
    case Access::write_disjoint:
      return "write_disjoint";
    case Access::unordered:
      return "unordered";
  }
  return "?";
}

/// An operand of a task. `Handle` names the buffer: a runtime's handle, a position among the
/// bindings of a program or the buffers of a plan, a tile of an operand, a runtime's own record.
template <class Handle> struct Use {
  Handle handle;
  Access access;
  bool operator==(Use const&) const = default;
};

}  // namespace nntile
