#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// POSIX files that read and write whole requests or throw.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/posix_files.hh"
#include "nntile/io/fault.hh"
#include "nntile/io/quotes.hh"

namespace nntile::io {

namespace detail {

using nntile::detail::advice_for, nntile::detail::Descriptor;
using nntile::detail::FileSizeSignalGuard;

[[noreturn]] inline void throw_system(FileStep step, std::string const& path, int code,
                                      std::string_view what = "") {
  throw Error(concat(name_of(step), ' ', path_in_quotes(path), what, ": ",
                     std::generic_category().message(code), advice_for(code)));
}

/// Throws Error for a path with a NUL byte, of which the system sees what is before it alone:
/// another file's.
inline void check_path(FileStep step, std::string const& path) {
  if (path.find('\0') != std::string::npos)
    throw Error(concat(name_of(step), ' ', path_in_quotes(path),
                       ": a NUL byte, which no path holds; leave it out"));
}

/// Runs `call` until it succeeds or fails for another reason than a signal; returns its value,
/// throws at -1.
template <class Call>
auto retry(Fault const* fault, FileStep step, std::string const& path, Call call) {
  check_path(step, path);
  for (;;) {
    std::size_t bytes = 0;
    int const forced = fault == nullptr ? 0 : fault->ask(step, path, bytes);
    auto const result = forced != 0 ? static_cast<decltype(call())>(-1) : call();
    if (result != -1) return result;
    int const code = forced != 0 ? forced : errno;
    if (code != EINTR) throw_system(step, path, code);
  }
}

/// Runs a file operation; a std::bad_alloc becomes an OutOfMemory that names the operation.
template <class F>
decltype(auto) with_memory_for(std::string_view operation, std::string const& path, F f) {
  try {
    return f();
  } catch (std::bad_alloc const&) {
    throw OutOfMemory(concat(operation, ' ', path_in_quotes(path),
                             ": not enough memory for its header and one piece"));
  }
}

}  // namespace detail

/// One open regular file. System errors throw Error with step, path, the system's words and what to
/// do; a file that ends early throws FormatError. Positions are bytes from the start: there is no
/// cursor. A written file that was neither synced nor closed may be lost by a crash, and its
/// destructor reports nothing.
class File {
 public:
  /// Opens for reading. Throws Error where there is no such file or it is a directory, a pipe or a
  /// device.
  static File open(std::string path, Fault const* fault = nullptr) {
    // Without O_NONBLOCK, opening a pipe that has no writer would never return.
    return File(std::move(path), FileStep::open, O_RDONLY | O_CLOEXEC | O_NONBLOCK, fault);
  }
  /// Creates for writing, or empties what is there.
  static File create(std::string path, Fault const* fault = nullptr) {
    return File(std::move(path), FileStep::create, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, fault);
  }

  std::string const& path() const { return path_; }

  /// Bytes of the file at this moment.
  std::uint64_t size() const { return static_cast<std::uint64_t>(status().st_size); }

  /// Fills `out` from byte `offset`. Throws FormatError when the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      std::size_t bytes = std::min(out.size(), largest_request);
      ssize_t const got = request(FileStep::read, offset, bytes, [&] {
        return ::pread(descriptor_.get(), out.data(), bytes, static_cast<off_t>(offset));
      });
      if (got == 0)
        throw FormatError(concat(path_in_quotes(path_), " ends at byte ", offset, " where ",
                                 out.size(), " more were expected"));
      out = out.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }

  /// Writes all of `data` at byte `offset`. Throws Error when the disk is full or a limit is met.
  void write_at(std::uint64_t offset, std::span<std::byte const> data) {
    detail::FileSizeSignalGuard guard;
    while (!data.empty()) {
      std::size_t bytes = std::min(data.size(), largest_request);
      ssize_t const put = request(FileStep::write, offset, bytes, [&] {
        ssize_t const result =
            ::pwrite(descriptor_.get(), data.data(), bytes, static_cast<off_t>(offset));
        if (result == -1 && errno == EFBIG) guard.raised();
        return result;
      });
      if (put == 0) detail::throw_system(FileStep::write, path_, EIO);
      data = data.subspan(static_cast<std::size_t>(put));
      offset += static_cast<std::uint64_t>(put);
    }
  }

  /// Returns when the bytes are on the disk.
  void sync() {
    detail::retry(fault_, FileStep::sync, path_, [&] { return ::fsync(descriptor_.get()); });
  }

  /// Closes and reports what the destructor cannot: some file systems report a failed write only
  /// here.
  void close() {
    std::size_t bytes = 0;
    int const forced = fault_ == nullptr ? 0 : fault_->ask(FileStep::close, path_, bytes);
    int const closed = ::close(descriptor_.release());
    int const code = forced != 0 ? forced : closed == -1 ? errno : 0;
    // After EINTR the descriptor is closed all the same (Linux), and sync() has reported any failed
    // write.
    if (code != 0 && code != EINTR) detail::throw_system(FileStep::close, path_, code);
  }

 private:
  static constexpr std::size_t largest_request =
      std::size_t{1} << 30;  // Linux moves at most 0x7ffff000 bytes a call

  File(std::string path, FileStep step, int flags, Fault const* fault)
      : path_(std::move(path)), fault_(fault) {
    descriptor_ = detail::Descriptor(
        detail::retry(fault_, step, path_, [&] { return ::open(path_.c_str(), flags, 0666); }));
    mode_t const mode = status().st_mode;
    if (S_ISDIR(mode)) detail::throw_system(step, path_, EISDIR);
    if (step == FileStep::open && !S_ISREG(mode))
      throw Error(concat("open ", path_in_quotes(path_),
                         ": not a regular file; copy its contents into one"));
  }

  struct stat status() const {
    struct stat result{};
    detail::retry(fault_, FileStep::stat, path_,
                  [&] { return ::fstat(descriptor_.get(), &result); });
    return result;
  }

  /// One read or write of at most `bytes`, which the fault may lower.
  template <class Call>
  ssize_t request(FileStep step, std::uint64_t offset, std::size_t& bytes, Call call) const {
    for (;;) {
      int const forced = fault_ == nullptr ? 0 : fault_->ask(step, path_, bytes);
      ssize_t const result = forced != 0 ? -1 : call();
      if (result != -1) return result;
      int const code = forced != 0 ? forced : errno;
      if (code != EINTR) detail::throw_system(step, path_, code, concat(" at byte ", offset));
    }
  }

  std::string path_;
  detail::Descriptor descriptor_;
  Fault const* fault_;
};

}  // namespace nntile::io
