#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parts of whatever touches POSIX files: a descriptor, the signal of a size limit, remedies.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string_view>
#include <utility>

namespace nntile::detail {

/// A remedy for an errno; empty where the system's own words suffice.
inline std::string_view advice_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; free space there or choose another directory";
    case EFBIG:
      return "; raise the limit of this process (ulimit -f) or of the file system";
    case EACCES:
    case EPERM:
      return "; give this user access or choose another path";
    case EROFS:
      return "; choose a directory on a writable file system";
    case EMFILE:
      return "; close some, or raise the limit of this process (ulimit -n)";
    case ENOMEM:
      return "; free some memory, or raise the limit of this process (ulimit -v)";
    case ENOENT:
      return "; check the path";
    default:
      return "";
  }
}

/// While it lives, writing past RLIMIT_FSIZE returns EFBIG to this thread instead of ending the
/// process by SIGXFSZ. Only the thread's mask is touched; a signal that was raised under the guard
/// is taken off the thread before the mask is put back, one that was pending before stays.
class FileSizeSignalGuard {
 public:
  FileSizeSignalGuard() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &mask_);
  }
  FileSizeSignalGuard(FileSizeSignalGuard const&) = delete;
  FileSizeSignalGuard& operator=(FileSizeSignalGuard const&) = delete;
  ~FileSizeSignalGuard() {
    int const code = errno;
    if (raised_ && !was_pending_) {
      timespec const now{};
      while (sigtimedwait(&signal_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    errno = code;
  }
  /// Tells the guard that a write came back with EFBIG, so that the signal is there to be taken.
  void raised() { raised_ = true; }

 private:
  sigset_t signal_;
  sigset_t mask_;
  bool was_pending_ = false;
  bool raised_ = false;
};

/// A file descriptor that is closed once.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ != -1) ::close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

}  // namespace nntile::detail
