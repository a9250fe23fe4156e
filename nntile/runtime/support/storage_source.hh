#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Memory that is not of the host's heap: of an executor's own, of devices, or of the disk.

#include <cstddef>
#include <span>
#include <string>

#include "nntile/core/error.hh"
#include "nntile/core/place.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

/// The source of storage of a runtime that does not take all of it from the host's heap; null: the
/// heap, and the host is the only place.
struct StorageSource {
  void* (*allocate)(void* state, std::size_t bytes, Place place) = nullptr;
  void (*free)(void* state, void* pointer, std::size_t bytes, Place place) noexcept = nullptr;
  void* state = nullptr;
  /// Throws ValueError: no such place. Null: any will do.
  void (*check_place)(void* state, char const* call, Place place) = nullptr;
  /// Throws ValueError: a task that names memory of a device has no entry that runs there, or one
  /// on the host none that runs here. Null: all run on the host.
  void (*check_task)(void* state, Codelet const* codelet, TaskLabel const& label,
                     std::span<Use<Buffer*> const> uses) = nullptr;
  /// The address at which the host reads and writes memory of a device itself. Null: nowhere.
  void* (*reach)(void* state, void* pointer) = nullptr;
  /// Whether the host reads and writes memory of that place itself.
  bool reaches(Place place) const noexcept {
    return host_reaches(place) || (reach != nullptr && is_on_device(place));
  }
  /// Throws ValueError: memory that is adopted is not of its place. Null: it is not known.
  void (*check_memory)(void* state, void const* memory, std::size_t bytes, Place place) = nullptr;

  /// The bytes that a lock shows of a buffer, which lives on the host or where the host reaches.
  std::span<std::byte> view(Buffer const& buffer) const noexcept {
    bool const there = buffer.is(Buffer::off_host);
    return {static_cast<std::byte*>(there ? reach(state, buffer.pointer) : buffer.pointer),
            buffer.bytes};
  }
};

/// Throws the error of a host that would look at memory of a device or of the disk.
[[noreturn, gnu::noinline]] inline void fail_lock_off_host(std::string const& buffer, Place place) {
  throw ValueError(concat("lock: ", buffer, " lives on ", place == disk ? "the " : "",
                          to_string(place),
                          ", where the host cannot look: copy it to a buffer of the host by a task "
                          "of copy_codelet, and lock that"));
}

}  // namespace nntile::support
