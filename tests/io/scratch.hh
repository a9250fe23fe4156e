#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What the tests of files share: a directory that goes away, whole files as strings, a child
// process.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "nntile/io/directory.hh"

namespace nntile::test {

/// A new empty directory, removed with its contents.
class Scratch {
 public:
  Scratch() {
    // In memory where there is such a place: a sync on a busy disk takes milliseconds, and here are
    // thousands.
    char const* const chosen = std::getenv("TMPDIR");
    char const* const base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    path_ = std::string(chosen == nullptr ? base : chosen) + "/nntile-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw Error("mkdtemp failed for " + path_);
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  ~Scratch() {
    try {
      io::remove_tree(path_);
    } catch (Error const&) {  // the system's temporary directory will be cleaned by others
    }
  }
  std::string const& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline void put(std::string const& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string get(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::span<std::byte const> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The text of what `call` throws, as E; empty when it throws nothing.
template <class E = Error, class Call> std::string thrown(Call call) {
  try {
    call();
  } catch (E const& error) {
    return error.what();
  }
  return "";
}

/// Runs `body` in a child process that shares nothing; returns its exit status, 128 + the signal
/// when one ended it.
template <class Body> int status_in_child(Body body) {
  pid_t const child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace nntile::test
