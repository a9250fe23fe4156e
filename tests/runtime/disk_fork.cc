// SPDX-License-Identifier: BSD-3-Clause
// Memory on the disk, in a child of the process that has it.
#include <memory>

#include "nntile/runtime/disk/disk.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/forked.hh"
#include "tests/support/catch.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

DiskOptions const small{.capacity = 1 << 20};
char const* const refusal = "it is a parent process's";

template <class R> Event copy(R& runtime, typename R::Handle from, typename R::Handle to) {
  std::int64_t const bytes = sizeof(long);
  return submit(runtime, copy_codelet, {{from, Access::read}, {to, Access::write}}, bytes);
}

/// A runtime without threads, which a child process may go on with, and a value on its disk.
struct OnDisk {
  using R = SerialOn<WithDisk<>>;
  std::unique_ptr<R> runtime = std::make_unique<R>(RuntimeOptions{}, small);
  DataHandle here = cell(*runtime, 5), result = cell(*runtime);
  DataHandle there = runtime->allocate(sizeof(long), disk);

  OnDisk() { runtime->wait(copy(*runtime, here, there)); }
  long value() {
    copy(*runtime, there, result);
    return read(*runtime, result);
  }
};

}  // namespace

TEST_CASE("a child process leaves the disk to its parent", "[runtime][disk]") {
  HeldThreads held;
  auto runtime = std::make_unique<RingOn<WithDisk<>>>(RuntimeOptions{.workers = 2}, small);
  auto const here = cell(*runtime, 5), result = cell(*runtime);
  auto const there = runtime->allocate(sizeof(long), disk);
  runtime->wait(copy(*runtime, here, there));
  held.hold(*runtime, 1);
  CHECK(in_child([&] {
          runtime.reset();
          if (sanitized) return 1;  // the thread sanitizer starts no thread there
          WithDisk<> other(small);
          return other.allocate(8, disk) == nullptr ? 0 : 1;
        }) == 1);
  auto device = std::make_unique<WithDisk<>>(small);
  (void)device->allocate(8, disk);
  CHECK(in_child([&] {
          device.reset();
          return 1;
        }) == 1);
  held.let_go();
  copy(*runtime, there, result);
  CHECK(read(*runtime, result) == 5);
}

TEST_CASE("a child process that ends or retires memory of the disk leaves the bytes there",
          "[runtime][disk]") {
  OnDisk of;
  CHECK(in_child([&] {
          of.runtime.reset();
          return 1;
        }) == 1);
  CHECK(of.value() == 5);
  CHECK(in_child([&] {
          of.runtime->retire(of.there);
          of.runtime->wait_all();
          return 1;
        }) == 1);
  auto const more = of.runtime->allocate(sizeof(long), disk);  // the file does not grow anew
  copy(*of.runtime, of.here, more);
  CHECK(of.value() == 5);
}

TEST_CASE("a child process copies and allocates nothing on its parent's disk", "[runtime][disk]") {
  OnDisk of;
  auto const refused = [](auto call) { return contains(message_of<Error>(call), refusal); };
  CHECK(in_child([&] {
          bool const read =
              refused([&] { of.runtime->wait(copy(*of.runtime, of.there, of.here)); });
          bool const allocated = refused([&] { (void)of.runtime->allocate(8, disk); });
          auto& device = of.runtime->device();
          bool const counts = device.disk_use().used == 0 && device.take_disk_traffic().writes == 0;
          return read + 2 * allocated + 4 * counts;
        }) == 7);
  CHECK(of.value() == 5);
  CHECK(of.runtime->device().disk_use().used == sizeof(long));
}

TEST_CASE("a child process fails what its parent was copying", "[runtime][disk]") {
  OnDisk of;
  auto& device = of.runtime->device();
  Stream const stream{0, 0};
  std::uint64_t const mark = device.mark(stream);
  CHECK(in_child([&] {
          char text[status_text_bytes];
          bool const failed = device.query(stream, mark, text) == StreamProgress::failed;
          return failed && contains(text, refusal) ? 1 : 0;
        }) == 1);
  char text[status_text_bytes];
  CHECK(device.query(stream, mark, text) == StreamProgress::ended);
}

TEST_CASE("a child process may have a disk where its parent used none", "[runtime][disk]") {
  SerialOn<WithDisk<>> runtime(RuntimeOptions{}, small);
  auto const here = cell(runtime, 5), result = cell(runtime);
  if (sanitized) return;  // the thread sanitizer starts no thread there
  CHECK(in_child([&] {
          auto const there = runtime.allocate(sizeof(long), disk);
          copy(runtime, here, there);
          copy(runtime, there, result);
          return static_cast<int>(read(runtime, result));
        }) == 5);
}
