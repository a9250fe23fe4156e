#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The place of bytes: a memory of a process, and the process.

#include <cstdint>
#include <string>

#include "nntile/core/error.hh"

namespace nntile {

/// A memory that a handle's bytes live in. `device` counts the accelerators of a machine.
struct Place {
  enum class Kind : std::uint8_t { host, pinned, device, disk };
  Kind kind = Kind::host;
  int device = 0;
  bool operator==(Place const&) const = default;
};
inline constexpr Place host{};
constexpr bool is_on_device(Place place) noexcept { return place.kind == Place::Kind::device; }
/// Whether the host's code may follow addresses of that memory.
constexpr bool host_reaches(Place place) noexcept {
  return place.kind == Place::Kind::host || place.kind == Place::Kind::pinned;
}
inline constexpr Place pinned{Place::Kind::pinned, 0};
inline constexpr Place disk{Place::Kind::disk, 0};
constexpr Place device(int number) { return {Place::Kind::device, number}; }

/// A memory of one of the processes that run the parts of a plan.
struct Location {
  int rank = 0;
  Place place = {};
  bool operator==(Location const&) const = default;
};

constexpr char const* name_of(Place::Kind kind) {
  switch (kind) {
    case Place::Kind::host:
      return "host";
    case Place::Kind::pinned:
      return "pinned";
    case Place::Kind::device:
      return "device";
    case Place::Kind::disk:
      return "disk";
  }
  return "?";
}

/// "device 1"; the number of a memory that a process has once is left out.
inline std::string to_string(Place const& place) {
  std::string text = name_of(place.kind);
  if (place.kind == Place::Kind::device) text += concat(" ", place.device);
  return text;
}
/// "rank 2 device 1".
inline std::string to_string(Location const& location) {
  return concat("rank ", location.rank, " ", to_string(location.place));
}

}  // namespace nntile
