#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Access modes of a task to a buffer, and the pair of both.

#include <cstdint>

namespace nntile {

/// `read` sees what earlier writers left; `write` overwrites every byte and never looks; `update`
/// reads and writes; `accumulate` adds, and is the only access whose tasks may be reordered among
/// themselves.
enum class Access : std::uint8_t { read, write, update, accumulate };

constexpr bool reads(Access access) { return access != Access::write; }
constexpr bool writes(Access access) { return access != Access::read; }

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
