// SPDX-License-Identifier: BSD-3-Clause
// The order of what a save asks of the system: nothing gets its final name before everything under
// it is on the disk. A crash of a process cannot show this, since the system keeps its caches then.
#include <fcntl.h>
#include <sys/syscall.h>

#include "nntile/io/checkpoint.hh"
#include "tests/io/checkpoint_sample.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

using Calls = std::vector<std::string>;
thread_local Calls* noted = nullptr;  // where calls of this thread are noted, if anywhere

/// Notes a call where that is asked for; memory may be failing on purpose where it is not.
template <class... Words> void note(Words const&... words) {
  if (noted != nullptr) noted->push_back(concat(words...));
}

}  // namespace

// These stand before the system's own.
extern "C" int fsync(int descriptor) {
  if (noted != nullptr) {
    char path[4096];
    std::string const link = concat("/proc/self/fd/", descriptor);
    ssize_t const length = ::readlink(link.c_str(), path, sizeof path);
    note("sync ", std::string_view(path, static_cast<std::size_t>(std::max<ssize_t>(length, 0))));
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int rename(char const* from, char const* to) noexcept {
  note("rename ", std::string_view(from), " ", std::string_view(to));
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
extern "C" int renameat2(int from_directory, char const* from, int to_directory, char const* to,
                         unsigned flags) noexcept {
  note("exchange ", std::string_view(from), " ", std::string_view(to));
  return static_cast<int>(::syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
}

TEST_CASE("a checkpoint is on the disk, its directory included, before it gets its name",
          "[io][checkpoint_order]") {
  Scratch const scratch;
  std::string const run = scratch / "run", final = run + "/step-0000000007",
                    pending = final + ".tmp";
  CheckpointDirectory directory(run, {.keep = 1});
  save_step(directory, 6);
  for (bool const again : {false, true}) {
    Calls calls;
    noted = &calls;
    save_step(directory, 7);
    noted = nullptr;
    Calls expected{"sync " + pending + "/model.safetensors",
                   "sync " + pending + "/optimizer.safetensors",
                   "sync " + pending + "/manifest.json",
                   "sync " + pending,
                   (again ? "exchange " : "rename ") + pending + " " + final,
                   "sync " + run};
    if (!again)  // the old one is removed when the new one is there for good
      expected.push_back("rename " + run + "/step-0000000006 " + run + "/step-0000000006.tmp");
    CHECK(calls == expected);
  }
}

TEST_CASE("a file is on the disk before it gets its name, and its name then",
          "[io][checkpoint_order]") {
  Scratch const scratch;
  Calls calls;
  noted = &calls;
  write_file(scratch / "a", "text");
  noted = nullptr;
  std::string const path = scratch / "a";
  CHECK(calls == Calls{"sync " + path + ".tmp", "rename " + path + ".tmp " + path,
                       "sync " + scratch.path()});
}

TEST_CASE("a directory is made for good with its parents", "[io][checkpoint_order]") {
  Scratch const scratch;
  Calls calls;
  noted = &calls;
  make_directories(scratch / "a/b");
  noted = nullptr;
  CHECK(calls == Calls{"sync " + scratch.path(), "sync " + (scratch / "a")});
}
