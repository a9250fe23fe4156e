#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Detects ranks of this host that have died: each holds a locked file, which the kernel frees at
// once when its process ends in any way, and not while it is stopped.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"

namespace nntile {

namespace detail {

/// A file that this process alone holds until it ends; removed by the destructor, but not in a
/// process that was forked since.
class HeldFile {
 public:
  /// Creates it in that folder. Throws CommError.
  explicit HeldFile(std::string const& folder) : path_(whole(folder) + "/nntile-rank-XXXXXX") {
    file_ = ::mkostemp(path_.data(), O_CLOEXEC);
    if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      int const error = errno;
      if (file_ >= 0) ::close(file_), ::unlink(path_.c_str());
      throw CommError(concat("presence: no locked file in '", folder,
                             "': ", static_cast<char const*>(std::strerror(error)),
                             "; name a local folder that can be written, as TMPDIR does"));
    }
  }
  HeldFile(HeldFile const&) = delete;
  HeldFile& operator=(HeldFile const&) = delete;
  ~HeldFile() {
    if (process_ == this_process()) ::unlink(path_.c_str());
    ::close(file_);
  }

  /// From the root: others look for it from folders of their own.
  std::string const& path() const { return path_; }

 private:
  static std::string whole(std::string const& folder) {
    std::unique_ptr<char, void (*)(void*)> const path(::realpath(folder.c_str(), nullptr), ::free);
    return path == nullptr ? folder : path.get();
  }

  std::string path_;
  pid_t const process_ = this_process();
  int file_ = -1;
};

/// Whether the file is there and its holder has ended without removing it.
inline bool is_abandoned(std::string const& path) {
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat found{};
  // Removed between the two calls: its holder is about to close it.
  bool const abandoned =
      ::flock(file, LOCK_SH | LOCK_NB) == 0 && ::fstat(file, &found) == 0 && found.st_nlink > 0;
  ::close(file);
  return abandoned;
}

}  // namespace detail

/// A rank, and the number of its process on its host.
struct RankProcess {
  int rank = 0;
  long process = 0;
};

/// Says which ranks of the same host have died: were killed, crashed or ended without destroying
/// theirs. A stopped process (SIGSTOP) has not. No communicator tells: neither a receive from a
/// dead rank nor a large send to it ever fails. Ranks of other hosts are not looked at. Any thread
/// may ask.
class Presence {
 public:
  /// Collective. `folder`: a local one; "" is TMPDIR, or /tmp. Throws CommError, on every rank
  /// where one has no file there.
  template <Communicator C> explicit Presence(C& comm, std::string folder = "") {
    if (folder.empty()) {
      char const* const temporary = std::getenv("TMPDIR");
      folder = temporary == nullptr || *temporary == '\0' ? "/tmp" : temporary;
    }
    char machine[256] = {};
    (void)::gethostname(machine, sizeof machine - 1);
    std::string path, error;
    try {
      own_ = std::make_unique<detail::HeldFile>(folder);
      path = own_->path();
    } catch (CommError const& cause) {
      error = cause.what();
    }
    std::string const mine =
        concat(machine, "\n", static_cast<long>(::getpid()), "\n", path, "\n", error);
    auto const all = comm.all_gather(std::as_bytes(std::span(mine)));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::string_view rest(reinterpret_cast<char const*>(all[rank].data()), all[rank].size());
      auto const next = [&] {
        std::string_view const line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        return line;
      };
      bool const here = next() == machine;
      Peer peer{{static_cast<int>(rank), std::strtol(std::string(next()).c_str(), nullptr, 10)}};
      peer.path = next();
      if (!rest.empty()) throw CommError(concat("rank ", rank, ": ", rest));
      processes_.push_back(peer.process);
      if (here && static_cast<int>(rank) != comm.rank()) peers_.push_back(std::move(peer));
    }
  }

  /// Of all ranks, in their order; numbers of processes are those of each rank's host.
  std::vector<RankProcess> const& processes() const { return processes_; }
  /// Ranks of this host, this one included.
  int ranks_here() const { return static_cast<int>(peers_.size()) + 1; }
  /// The first rank of this host that has died. Cost: two system calls a rank.
  std::optional<RankProcess> dead() const {
    for (Peer const& peer : peers_)
      if (detail::is_abandoned(peer.path)) return peer.process;
    return std::nullopt;
  }

 private:
  struct Peer {
    RankProcess process;
    std::string path = {};
  };
  std::unique_ptr<detail::HeldFile> own_;
  std::vector<RankProcess> processes_;
  std::vector<Peer> peers_;
};

}  // namespace nntile
