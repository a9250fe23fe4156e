#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Directories: making, listing, renaming, removing, and committing a file or directory under its
// final name.

#include <dirent.h>
#include <stdio.h>
#include <sys/file.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "nntile/core/threads.hh"
#include "nntile/io/file.hh"

namespace nntile::io {

/// "a/b" for "a/b/c", "." where there is no slash.
inline std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::size_t const slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// "c" for "a/b/c" and "a/b/c/".
inline std::string_view basename_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

/// Whether a file name is one component: not empty, no separator, neither "." nor "..".
inline bool is_basename(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

/// Whether there is anything under this name; a dangling link counts. A name too long is nothing's.
/// Throws Error where that cannot be seen: a directory on the way that this user may not enter, a
/// disk that fails.
inline bool path_exists(std::string const& path) {
  return detail::retry(nullptr, FileStep::stat, path, [&] {
           struct stat status{};
           if (::lstat(path.c_str(), &status) == 0) return 1;
           return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? 0 : -1;
         }) == 1;
}

/// Whether there is a directory under this name; a link to one counts.
inline bool is_directory(std::string const& path) {
  detail::check_path(FileStep::stat, path);
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Makes a directory; its parent must exist. Returns false where it was there already.
inline bool make_directory(std::string const& path, Fault const* fault = nullptr) {
  if (is_directory(path)) return false;
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0)
    detail::throw_system(FileStep::make_directory, path, ENOTDIR);
  return detail::retry(fault, FileStep::make_directory, path, [&] {
           if (::mkdir(path.c_str(), 0777) == 0) return 1;
           int const code = errno;
           if (code == EEXIST && is_directory(path)) return 0;  // another run has made it since
           errno = code;
           return -1;
         }) == 1;
}

/// Makes a directory's name durable: files created, renamed or removed in it survive a crash
/// afterwards.
inline void sync_directory(std::string const& path, Fault const* fault = nullptr) {
  detail::Descriptor const directory(detail::retry(fault, FileStep::sync_directory, path, [&] {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }));
  detail::retry(nullptr, FileStep::sync_directory, path, [&] {
    int const result = ::fsync(directory.get());
    // Some network file systems have no such call for directories, and keep names in order without
    // it.
    return result == -1 && (errno == EINVAL || errno == ENOTSUP) ? 0 : result;
  });
}

/// Makes a directory with all its parents, durably.
inline void make_directories(std::string const& path, Fault const* fault = nullptr) {
  if (path_exists(path)) {
    make_directory(path, fault);
    return;
  }
  std::string const parent = parent_of(path);
  if (parent != path) make_directories(parent, fault);
  make_directory(path, fault);
  sync_directory(parent, fault);
}

/// Names in a directory, sorted, without "." and "..".
inline std::vector<std::string> list_directory(std::string const& path,
                                               Fault const* fault = nullptr) {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(nullptr, ::closedir);
  detail::retry(fault, FileStep::list, path, [&] {
    directory.reset(::opendir(path.c_str()));
    return directory == nullptr ? -1 : 0;
  });
  std::vector<std::string> names;
  errno = 0;
  while (dirent const* const entry = ::readdir(directory.get())) {
    std::string_view const name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) detail::throw_system(FileStep::list, path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

/// Gives a file or directory another name; a file under the new name is replaced in one step.
inline void rename_path(std::string const& from, std::string const& to,
                        Fault const* fault = nullptr) {
  detail::check_path(FileStep::rename, from);
  detail::retry(fault, FileStep::rename, to, [&] { return ::rename(from.c_str(), to.c_str()); });
}

/// Swaps two names in one step. Returns false where the file system cannot.
inline bool exchange_paths(std::string const& a, std::string const& b,
                           Fault const* fault = nullptr) {
  for (std::string const* const path : {&a, &b}) detail::check_path(FileStep::exchange, *path);
#ifdef RENAME_EXCHANGE
  std::size_t bytes = 0;
  int const forced = fault == nullptr ? 0 : fault->ask(FileStep::exchange, b, bytes);
  if (forced == 0 && ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0)
    return true;
  int const code = forced != 0 ? forced : errno;
  if (code != EINVAL && code != ENOSYS && code != ENOTSUP)
    detail::throw_system(FileStep::exchange, b, code);
#else
  static_cast<void>(fault);
#endif
  return false;
}

/// Removes a file, a link (not what it points to), or a directory with everything in it. Nothing
/// there is no error.
inline void remove_tree(std::string const& path, Fault const* fault = nullptr) {
  detail::check_path(FileStep::remove, path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return;
  bool const directory = S_ISDIR(status.st_mode);
  if (directory)
    for (std::string const& name : list_directory(path, fault))
      remove_tree(path + "/" + name, fault);
  detail::retry(fault, FileStep::remove, path,
                [&] { return directory ? ::rmdir(path.c_str()) : ::unlink(path.c_str()); });
}

/// An advisory lock on a directory, held while the object lives and freed by the system when the
/// process dies, and those that it forked. It holds the directory, not its path: where that leads
/// may change.
class DirectoryLock {
 public:
  /// Throws Error when another process or object holds it. Where the file system has no locks, it
  /// holds nothing.
  explicit DirectoryLock(std::string const& path, Fault const* fault = nullptr)
      : path_(path), descriptor_(detail::retry(fault, FileStep::lock, path, [&] {
          return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        })) {
    if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK)
      throw Error(
          concat(path_in_quotes(path),
                 " is in use by another run; wait for its end or choose another directory"));
    check();  // another run may have removed the directory before it was locked
  }
  DirectoryLock(DirectoryLock const&) = delete;
  DirectoryLock& operator=(DirectoryLock const&) = delete;
  /// Unlocks, although forked processes share the descriptor; in such a process, no effect.
  ~DirectoryLock() {
    if (process_ == nntile::detail::this_process()) (void)::flock(descriptor_.get(), LOCK_UN);
  }

  /// Throws Error when the path does not lead to the locked directory any more: it was removed,
  /// renamed or replaced, and what is there now may be another run's.
  void check() const {
    struct stat locked{}, found{};
    if (::fstat(descriptor_.get(), &locked) == 0 && ::stat(path_.c_str(), &found) == 0 &&
        locked.st_dev == found.st_dev && locked.st_ino == found.st_ino)
      return;
    throw Error(concat(path_in_quotes(path_),
                       " was removed or replaced since this run began, and what is there may be "
                       "another run's; put the directory back or choose another"));
  }

 private:
  std::string path_;
  pid_t const process_ = nntile::detail::this_process();
  detail::Descriptor descriptor_;
};

/// Throws Error where the name exists and is not a regular file's: a rename would replace a device,
/// pipe, socket or link, /dev/stdout for example.
inline void check_replaceable(std::string const& path) {
  detail::check_path(FileStep::create, path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  char const* const kind = S_ISDIR(status.st_mode)   ? "directory"
                           : S_ISLNK(status.st_mode) ? "link"
                                                     : "device, pipe or socket";
  throw Error(concat("create ", path_in_quotes(path), ": there is a ", kind,
                     " of that name, which no file replaces; choose another name"));
}

/// Whether a file is written beside its final name and renamed, or in place, in a directory that is
/// renamed as a whole.
enum class Appear : std::uint8_t { renamed, in_place };

/// A file that appears under its name complete or not at all: written to `<path>.tmp`, synced,
/// renamed. One writer at a time per path. Without commit() the destructor removes what was
/// written, but not in a process that was forked since, whose parent may go on writing. Throws
/// Error, also where the name is not a regular file's.
class PendingFile {
 public:
  explicit PendingFile(std::string path, Appear appear = Appear::renamed,
                       Fault const* fault = nullptr)
      : path_(std::move(path)),
        appear_(appear),
        fault_(fault),
        file_(File::create(checked(appear), fault)) {}
  PendingFile(PendingFile const&) = delete;
  PendingFile& operator=(PendingFile const&) = delete;
  ~PendingFile() {
    if (!committed_ && process_ == nntile::detail::this_process()) ::unlink(file_.path().c_str());
  }

  std::string const& path() const { return path_; }
  File& file() { return file_; }

  /// Makes the contents durable, then the name. A file in place gets its name's durability from its
  /// directory's owner.
  void commit() {
    file_.sync();
    file_.close();
    if (appear_ == Appear::renamed) rename_path(file_.path(), path_, fault_);
    committed_ = true;
    if (appear_ == Appear::renamed) sync_directory(parent_of(path_), fault_);
  }

 private:
  /// The name to write under.
  std::string checked(Appear appear) const {
    check_replaceable(path_);
    if (appear == Appear::in_place) return path_;
    check_replaceable(path_ + ".tmp");  // a link would be followed, a pipe waited for
    return path_ + ".tmp";
  }

  std::string path_;
  Appear appear_;
  Fault const* fault_;
  pid_t const process_ = nntile::detail::this_process();
  File file_;
  bool committed_ = false;
};

/// Writes a small file.
inline void write_file(std::string const& path, std::string_view text,
                       Appear appear = Appear::renamed, Fault const* fault = nullptr) {
  PendingFile file(path, appear, fault);
  file.file().write_at(0, std::as_bytes(std::span(text.data(), text.size())));
  file.commit();
}

/// Reads a whole file. Throws FormatError when it is larger than `limit`, before anything is
/// allocated.
inline std::string read_file(std::string const& path, std::uint64_t limit,
                             Fault const* fault = nullptr) {
  File const file = File::open(path, fault);
  std::uint64_t const bytes = file.size();
  if (bytes > limit)
    throw FormatError(
        concat(path_in_quotes(path), " has ", bytes, " bytes where at most ", limit, " are read"));
  std::string text(bytes, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

}  // namespace nntile::io
