// SPDX-License-Identifier: BSD-3-Clause
// A disk as a device: the marks of failures, and where its addresses end.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "nntile/core/copy.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/disk/disk.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A file that refuses to be written in fours.
struct RefusingFile : detail::on_disk::UnnamedFile {
  using UnnamedFile::UnnamedFile;
  int write(std::byte const* bytes, std::size_t count, std::uint64_t at) noexcept {
    return count == 4 ? EIO : UnnamedFile::write(bytes, count, at);
  }
};

constexpr Stream of_disk{0, 0};
constexpr std::int64_t well = 8, badly = 4;  // bytes of a copy that ends so

}  // namespace

TEST_CASE("a copy of the disk that fails is the failure of the mark behind it",
          "[runtime][disk_stream]") {
  WithDisk<NoDevice, RefusingFile> device{DiskOptions{.capacity = 1 << 20}};
  long value = 7;
  void* const buffers[2] = {&value, device.allocate(sizeof value, disk)};
  char text[status_text_bytes] = {};
  auto const launch = [&](std::int64_t bytes) {
    REQUIRE(device.launch(of_disk, {copy_codelet, buffers, &bytes}, text).ok());
  };
  auto const outcome = [&](std::uint64_t mark) {
    StreamProgress progress;
    do progress = device.query(of_disk, mark, text);
    while (progress == StreamProgress::running);
    return progress;
  };
  // Both have ended before there is a mark.
  launch(badly);
  launch(well);
  while (device.take_disk_traffic().writes == 0) nntile::detail::yield_core();
  CHECK(outcome(device.mark(of_disk)) == StreamProgress::failed);
  CHECK(contains(text, "write 4 bytes at byte 0 of"));

  std::uint64_t marks[4];
  for (int i = 0; i < 4; ++i) {
    launch(i % 2 == 0 ? well : badly);
    marks[i] = device.mark(of_disk);
  }
  launch(well);
  CHECK(outcome(device.mark(of_disk)) == StreamProgress::ended);
  CHECK(outcome(marks[2]) == StreamProgress::ended);
  CHECK(outcome(marks[1]) == StreamProgress::failed);
  CHECK(outcome(marks[0]) == StreamProgress::ended);
  CHECK(outcome(marks[3]) == StreamProgress::failed);
  CHECK(device.take_disk_traffic() == DiskTraffic{.writes = 3, .written = 3 * well});
  device.free(buffers[1], sizeof value, disk);
}

TEST_CASE("of copies that fail before a mark the first is told", "[runtime][disk_stream]") {
  WithDisk<NoDevice, RefusingFile> device{DiskOptions{.capacity = 1 << 20}};
  long value = 7;
  auto* const block = static_cast<std::byte*>(device.allocate(64, disk));
  for (std::size_t const at : {0U, 16U}) {
    void* const buffers[2] = {&value, block + at};
    char text[status_text_bytes] = {};
    REQUIRE(device.launch(of_disk, {copy_codelet, buffers, &badly}, text).ok());
  }
  char text[status_text_bytes] = {};
  std::uint64_t const mark = device.mark(of_disk);
  StreamProgress progress;
  do progress = device.query(of_disk, mark, text);
  while (progress == StreamProgress::running);
  CHECK(progress == StreamProgress::failed);
  CHECK(contains(text, "write 4 bytes at byte 0 of"));
  device.free(block, 64, disk);
}

TEST_CASE("addresses of a disk end with its capacity", "[runtime][disk_stream]") {
  constexpr std::size_t page = 4096;
  WithDisk<> device{DiskOptions{.capacity = 2 * page}};
  auto* const first = static_cast<std::byte*>(device.allocate(1, disk));
  CHECK(device.place_of(first) == disk);
  CHECK(device.place_of(first + 2 * page - 1) == disk);
  CHECK(device.place_of(first + 2 * page) == host);
  CHECK(device.place_of(first - 1) == host);
  device.free(first, 1, disk);
}
