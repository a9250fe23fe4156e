#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A file without a name, which is gone when its process is.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/posix_files.hh"

namespace nntile::detail::on_disk {

/// Outcome of a call: 0, an errno, or `ends_early` of a read behind the end.
inline constexpr int ends_early = -1;
/// "No space left on device; free space there or choose another directory".
inline std::string reason_of(int code) {
  if (code == ends_early) return "the file ends before";
  return std::generic_category().message(code) + std::string(advice_for(code));
}

/// Reading and writing may be called by one thread while another grows or shrinks the file.
class UnnamedFile {
  template <class Call> static auto retry(Call call) {
    for (;;)
      if (auto const result = call(); result != -1 || errno != EINTR) return result;
  }

 public:
  /// Makes one in a directory; "": in $TMPDIR, or /tmp. Throws DeviceError.
  explicit UnnamedFile(std::string directory) : directory_(std::move(directory)) {
    if (directory_.empty()) {
      char const* const given = ::getenv("TMPDIR");
      directory_ = given == nullptr || *given == 0 ? "/tmp" : given;
    }
    int number =
        retry([&] { return ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
    // Some file systems have no such files.
    if (number == -1 && (errno == EOPNOTSUPP || errno == EISDIR)) number = make_and_unlink();
    if (number == -1) throw DeviceError(concat("make ", name(), ": ", reason_of(errno)));
    descriptor_ = Descriptor(number);
  }

  /// "an unnamed file in '/tmp'".
  std::string name() const { return "an unnamed file in '" + directory_ + "'"; }
  std::string const& directory() const noexcept { return directory_; }

  /// Bytes that its file system has left; 0: not known.
  std::uint64_t room() const noexcept {
    struct statvfs status{};
    if (retry([&] { return ::fstatvfs(descriptor_.get(), &status); }) == -1) return 0;
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  }
  /// Takes the blocks of a longer file from the file system, so that no write there fails for want
  /// of them. A failure changes nothing.
  int grow(std::uint64_t from, std::uint64_t to) noexcept {
    FileSizeSignalGuard guard;
    int code;
    do code = ::posix_fallocate(descriptor_.get(), offset_of(from), offset_of(to - from));
    while (code == EINTR);
    if (code == EFBIG) guard.raised();
    if (code != 0) shrink(from);
    return code;
  }
  void shrink(std::uint64_t to) noexcept {
    (void)retry([&] { return ::ftruncate(descriptor_.get(), offset_of(to)); });
  }
  int read(std::byte* bytes, std::size_t count, std::uint64_t at) noexcept {
    return all_of(count, [&](std::size_t done, std::size_t most) {
      return ::pread(descriptor_.get(), bytes + done, most, offset_of(at + done));
    });
  }
  int write(std::byte const* bytes, std::size_t count, std::uint64_t at) noexcept {
    return all_of(count, [&](std::size_t done, std::size_t most) {
      return ::pwrite(descriptor_.get(), bytes + done, most, offset_of(at + done));
    });
  }

 protected:
  int descriptor() const noexcept { return descriptor_.get(); }

 private:
  static off_t offset_of(std::uint64_t bytes) noexcept { return static_cast<off_t>(bytes); }
  /// Linux moves at most 0x7ffff000 bytes a call, and may move fewer.
  template <class Call> static int all_of(std::size_t count, Call call) noexcept {
    for (std::size_t done = 0; done < count;) {
      auto const moved =
          retry([&] { return call(done, std::min(count - done, std::size_t{1} << 30)); });
      if (moved == -1) return errno;
      if (moved == 0) return ends_early;
      done += static_cast<std::size_t>(moved);
    }
    return 0;
  }
  int make_and_unlink() const {
    std::string path = directory_ + "/nntile-XXXXXX";
    int const number = ::mkostemp(path.data(), O_CLOEXEC);
    if (number != -1) (void)::unlink(path.c_str());
    return number;
  }

  std::string directory_;
  Descriptor descriptor_;
};

}  // namespace nntile::detail::on_disk
