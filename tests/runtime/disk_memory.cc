// SPDX-License-Identifier: BSD-3-Clause
// A disk by its parts: its file, what that holds, and the thread that copies.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "nntile/core/copy.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/disk/disk.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;
using detail::on_disk::Copy;
using detail::on_disk::Memory;
using detail::on_disk::UnnamedFile;

namespace {

constexpr std::size_t page = 4096;

struct SeenFile : UnnamedFile {
  using UnnamedFile::UnnamedFile;
  std::size_t size() const {
    struct stat status{};
    REQUIRE(::fstat(descriptor(), &status) == 0);
    return static_cast<std::size_t>(status.st_size);
  }
  int flags() const { return ::fcntl(descriptor(), F_GETFD); }
};

template <std::uint64_t bytes> struct RoomyFile : UnnamedFile {
  using UnnamedFile::UnnamedFile;
  std::uint64_t room() const noexcept { return bytes; }
};

bool blocks_signals() {
  sigset_t set;
  sigemptyset(&set);
  (void)pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGUSR1) == 1;
}

/// Takes its time for a write.
struct SlowFile : UnnamedFile {
  using UnnamedFile::UnnamedFile;
  int write(std::byte const*, std::size_t, std::uint64_t) noexcept {
    for (int i = 0; i < 100; ++i) nntile::detail::yield_core();
    blocked = blocks_signals();
    ++writes;
    return 0;
  }
  std::atomic<bool> blocked{false};
  std::atomic<int> writes{0};
};

/// Is made slowly.
std::atomic<int> made{0}, asking{0};
struct LateFile : UnnamedFile {
  explicit LateFile(std::string directory) : UnnamedFile(std::move(directory)) {
    ++made;
    while (asking < 2) nntile::detail::yield_core();
    for (int i = 0; i < 1000; ++i) nntile::detail::yield_core();
  }
};

}  // namespace

TEST_CASE("the file of a disk is as long as its blocks, and no child's", "[runtime][disk_memory]") {
  Memory<SeenFile> memory("", 8 * page);
  CHECK((memory.file().flags() & FD_CLOEXEC) != 0);
  void* const first = memory.allocate(2 * page);
  void* const second = memory.allocate(page);
  CHECK(memory.file().size() == 3 * page);
  memory.free(second);
  CHECK(memory.file().size() == 2 * page);
  memory.free(first);
  CHECK(memory.file().size() == 0);
}

TEST_CASE("memory of a disk counts what is in use, and at most", "[runtime][disk_memory]") {
  Memory<UnnamedFile> memory("", 8 * page);
  void* const first = memory.allocate(page);
  void* const second = memory.allocate(2 * page);
  memory.free(second);
  memory.free(second);  // in no block
  CHECK(memory.use().used == page);
  (void)memory.allocate(page);
  CHECK(memory.use().used == 2 * page);
  CHECK(memory.use().peak == 3 * page);
  memory.free(first);
}

TEST_CASE("a file system may not know its room, or have more than addresses",
          "[runtime][disk_memory]") {
  Memory<RoomyFile<0>> unknown("", 0);
  CHECK(unknown.allocate(1) != nullptr);
  if (sanitized) return;  // a sanitizer takes most of the addresses
  Memory<RoomyFile<UINT64_MAX>> endless("", 0);
  CHECK(endless.allocate(1) != nullptr);
}

TEST_CASE("a disk without a directory is in TMPDIR, or in /tmp", "[runtime][disk_memory]") {
  char const* const given = ::getenv("TMPDIR");
  std::optional<std::string> const before =
      given == nullptr ? std::nullopt : std::optional<std::string>(given);
  REQUIRE(::setenv("TMPDIR", "/nowhere", 1) == 0);
  CHECK(contains(message_of<DeviceError>([] { UnnamedFile file(""); }), "file in '/nowhere': No"));
  CHECK(UnnamedFile("/tmp").directory() == "/tmp");
  REQUIRE(::setenv("TMPDIR", "", 1) == 0);
  CHECK(message_of<DeviceError>([] { CHECK(UnnamedFile("").directory() == "/tmp"); }) ==
        "(nothing was thrown)");
  REQUIRE(::unsetenv("TMPDIR") == 0);
  CHECK(UnnamedFile("").directory() == "/tmp");
  if (before) REQUIRE(::setenv("TMPDIR", before->c_str(), 1) == 0);
}

TEST_CASE("a disk's thread takes no signals, and ends behind its copies",
          "[runtime][disk_memory]") {
  SlowFile file("");
  std::byte byte{};
  {
    detail::on_disk::Stream<SlowFile> stream(file);
    CHECK_FALSE(blocks_signals());
    for (int i = 0; i < 50; ++i) CHECK(stream.launch(Copy{&byte, 1, 0, true}).ok());
  }
  CHECK(file.writes == 50);
  CHECK(file.blocked);
}

TEST_CASE("threads that need a disk at once have one", "[runtime][disk_memory]") {
  made = asking = 0;
  WithDisk<NoDevice, LateFile> device{DiskOptions{.capacity = 8 * page}};
  std::array<void*, 2> blocks{};
  auto const ask = [&](std::size_t i) {
    ++asking;
    blocks[i] = device.allocate(page, disk);
  };
  std::thread other([&] { ask(1); });
  ask(0);
  other.join();
  CHECK(made == 1);
  for (void* const block : blocks) CHECK(device.place_of(block) == disk);
  CHECK(device.disk_use().used == 2 * page);
}

TEST_CASE("a copy of less than no bytes copies none", "[runtime][disk_memory]") {
  WithDisk<> device{DiskOptions{.capacity = page}};
  std::array<std::byte, 2 * page> here{};
  void* const buffers[2] = {device.allocate(page, disk), here.data()};
  char text[status_text_bytes] = {};
  std::int64_t const bytes = -1;
  REQUIRE(device.launch({0, 0}, {copy_codelet, buffers, &bytes}, text).ok());
  std::uint64_t const mark = device.mark({0, 0});
  StreamProgress progress;
  do progress = device.query({0, 0}, mark, text);
  while (progress == StreamProgress::running);
  CHECK(progress == StreamProgress::ended);
  CHECK(device.take_disk_traffic() == DiskTraffic{.reads = 1});
}
