#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Steps at which a disk can fail, and the hook by which a test makes it fail there.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace nntile::io {

/// One request to the operating system.
enum class FileStep : std::uint8_t {
  open,
  create,
  stat,
  read,
  write,
  sync,
  close,
  lock,
  list,
  make_directory,
  sync_directory,
  rename,
  exchange,
  remove
};

/// The words of an error's text: "write 'model.safetensors': No space left on device".
constexpr char const* name_of(FileStep step) {
  switch (step) {
    case FileStep::open:
      return "open";
    case FileStep::create:
      return "create";
    case FileStep::stat:
      return "look at";
    case FileStep::read:
      return "read";
    case FileStep::write:
      return "write";
    case FileStep::sync:
      return "sync";
    case FileStep::close:
      return "close";
    case FileStep::lock:
      return "lock";
    case FileStep::list:
      return "list directory";
    case FileStep::make_directory:
      return "make directory";
    case FileStep::sync_directory:
      return "sync directory";
    case FileStep::rename:
      return "rename to";
    case FileStep::exchange:
      return "exchange with";
    case FileStep::remove:
      return "remove";
  }
  return "?";
}

/// A disk that fails on purpose. Functions that touch files take a pointer to one, null outside
/// tests, and call it before each step, on their own thread. It outlives the objects that hold the
/// pointer.
struct Fault {
  /// Returns 0 to let the step happen, or the errno to fail with. For read and write,
  /// `bytes` may be lowered (not to 0), which makes a short one. It may throw or end the process,
  /// as a crash does.
  std::function<int(FileStep step, std::string const& path, std::size_t& bytes)> before;

  int ask(FileStep step, std::string const& path, std::size_t& bytes) const {
    return before ? before(step, path, bytes) : 0;
  }
};

}  // namespace nntile::io
