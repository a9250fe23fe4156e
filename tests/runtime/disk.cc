// SPDX-License-Identifier: BSD-3-Clause
// Memory on the disk: what is there, what is copied, and what a disk refuses.
#include "nntile/runtime/disk/disk.hh"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using detail::on_disk::UnnamedFile;

namespace {

DiskOptions const small{.capacity = 1 << 20};

template <class R>
Event copy(R& runtime, typename R::Handle from, typename R::Handle to,
           std::int64_t bytes = sizeof(long)) {
  return submit(runtime, copy_codelet, {{from, Access::read}, {to, Access::write}}, bytes);
}

/// A disk whose calls fail as they are told to: an errno, or less than was asked for.
struct Faults {
  int grow = 0, read = 0, write = 0;
  bool cut = false;  // the file loses its bytes before a read
};
Faults faults;
std::atomic<bool> closed{false};

class FaultyFile : public UnnamedFile {
 public:
  using UnnamedFile::UnnamedFile;
  int grow(std::uint64_t from, std::uint64_t to) noexcept {
    return faults.grow != 0 ? faults.grow : UnnamedFile::grow(from, to);
  }
  int read(std::byte* bytes, std::size_t count, std::uint64_t at) noexcept {
    if (faults.cut) (void)::ftruncate(descriptor(), static_cast<off_t>(at + count / 2));
    return faults.read != 0 ? faults.read : UnnamedFile::read(bytes, count, at);
  }
  int write(std::byte const* bytes, std::size_t count, std::uint64_t at) noexcept {
    while (closed) nntile::detail::yield_core();
    return faults.write != 0 ? faults.write : UnnamedFile::write(bytes, count, at);
  }
};
using Faulty = WithDisk<NoDevice, FaultyFile>;
using FaultyRuntimes = std::tuple<SerialOn<Faulty>, EngineOn<Faulty>, RingOn<Faulty>>;

/// Counts what it was given; while `closed`, no write ends.
struct Gated : Faulty {
  using Faulty::Faulty;
  Status launch(Stream stream, DeviceJob const& job, char* text) noexcept {
    ++launched;
    return Faulty::launch(stream, job, text);
  }
  std::atomic<int> launched{0};
};
using GatedRuntimes = std::tuple<SerialOn<Gated>, EngineOn<Gated>, RingOn<Gated>>;

/// The text of an error, of one line.
template <class Error, class F> std::string line_of(F f) {
  std::string const text = message_of<Error>(f);
  CHECK(text.find('\n') == std::string::npos);
  return text;
}

/// Files of this process that have no name any more.
int unnamed_files() {
  int count = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    auto const target = std::filesystem::read_symlink(entry.path(), error);
    count += contains(target.string(), "(deleted)");
  }
  return count;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("bytes go to the disk and come back", "[runtime][disk]", HostDiskRuntimes) {
  TestType runtime(RuntimeOptions{}, small);
  auto const source = cell(runtime, 5), result = cell(runtime);
  CHECK(runtime.device().disk_use().file == 0);
  auto const there = runtime.allocate(sizeof(long), disk);
  CHECK(runtime.device().disk_use().used == sizeof(long));
  copy(runtime, source, there);
  submit(runtime, step_codelet, {{source, Access::update}}, 2L);
  copy(runtime, there, result);
  CHECK(read(runtime, result) == 5);
  CHECK(read(runtime, source) == 17);
  runtime.wait(copy(runtime, there, result, 4));
  CHECK(runtime.device().take_disk_traffic() == DiskTraffic{1, 8, 2, 12});
  CHECK(runtime.device().take_disk_traffic() == DiskTraffic{});
  runtime.retire(there);
  runtime.wait_all();
  CHECK(runtime.device().disk_use().used == 0);
  CHECK(runtime.device().disk_use().file == 0);
  CHECK(runtime.device().disk_use().peak == sizeof(long));
}

TEMPLATE_LIST_TEST_CASE("a log has the copies of a disk, and what it holds", "[runtime][disk]",
                        HostDiskRuntimes) {
  DeviceLog log;
  {
    TestType runtime(RuntimeOptions{}, DiskOptions{.capacity = 1 << 20, .log = &log});
    auto const source = cell(runtime, 5), result = cell(runtime);
    auto const there = runtime.allocate(2 * sizeof(long), disk);
    submit(runtime, copy_codelet, {{source, Access::read}, {there, Access::write}},
           std::int64_t{sizeof(long)}, {"there", 3});
    copy(runtime, there, result, 4);
    runtime.wait_all();
    std::vector<LoggedJob> const jobs = log.jobs();
    REQUIRE(jobs.size() == 2);
    CHECK(jobs[0].tensor == "there");
    CHECK(jobs[0].tile == 3);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(jobs[i].stream == Stream{0, 0});
      CHECK(jobs[i].begin > 0);
      CHECK(jobs[i].end >= jobs[i].begin);
      CHECK((jobs[i].from == disk) == (i == 1));
      CHECK((jobs[i].to == disk) == (i == 0));
      CHECK((jobs[i].from == host) == (i == 0));
      CHECK(jobs[i].copied == (i == 0 ? 8 : 4));
    }
    CHECK(jobs[1].begin >= jobs[0].end);
    runtime.retire(there);
    runtime.wait_all();
  }
  std::vector<LoggedBytes> const memory = log.memory();
  REQUIRE(memory.size() == 2);
  CHECK(memory[0].place == disk);
  CHECK(memory[0].bytes == 2 * sizeof(long));
  CHECK(memory[1].bytes == 0);
}

TEMPLATE_LIST_TEST_CASE("copies of a disk keep their order", "[runtime][disk]", HostDiskRuntimes) {
  TestType runtime(RuntimeOptions{}, small);
  auto const source = cell(runtime, 1);
  std::vector<DataHandle> there, results;
  for (int i = 0; i < 12; ++i) {
    there.push_back(runtime.allocate(sizeof(long), disk));
    results.push_back(cell(runtime));
  }
  for (int round = 0; round < 10; ++round)
    for (std::size_t i = 0; i < there.size(); ++i) {
      copy(runtime, source, there[i]);
      submit(runtime, step_codelet, {{source, Access::update}}, 1L);
      copy(runtime, there[i], results[i]);
      if (i % 5 == 4) copy(runtime, there[i], source);  // takes the step back
    }
  long expected = 1, of_last = 0;
  for (int round = 0; round < 10; ++round)
    for (std::size_t i = 0; i < there.size(); ++i) {
      of_last = expected;
      expected = i % 5 == 4 ? expected : affine(expected, 3, 1);
    }
  CHECK(read(runtime, source) == expected);
  CHECK(read(runtime, results.back()) == of_last);
}

TEMPLATE_TEST_CASE("an adaptor gives the devices of its runtime", "[runtime][disk]",
                   Check<BasicSerial<WithDisk<>>>, Transcribe<BasicSerial<WithDisk<>>>) {
  TestType runtime(RuntimeOptions{}, small);
  CHECK(&runtime.device() == &runtime.inner().device());
}

TEMPLATE_LIST_TEST_CASE("the host touches no memory of the disk", "[runtime][disk]",
                        HostDiskRuntimes) {
  TestType runtime(RuntimeOptions{}, small);
  auto const there = runtime.allocate(sizeof(long), disk);
  for (Access const access : {Access::read, Access::write, Access::update})
    CHECK(contains(line_of<ValueError>([&] { (void)runtime.lock(there, access); }),
                   "lives on the disk, where the host cannot look: copy it"));
  CHECK(contains(
      line_of<ValueError>([&] { submit(runtime, put_codelet, {{there, Access::write}}, 1L); }),
      "names memory of the disk, which only holds values: copy it to the host first"));
  auto const other = runtime.allocate(sizeof(long), disk), here = cell(runtime, 3);
  copy(runtime, here, there);
  CHECK(contains(line_of<ValueError>([&] { copy(runtime, there, other); }),
                 "copies from disk to disk"));
  std::vector<std::byte> values(64);
  CHECK(contains(line_of<ValueError>([&] { (void)runtime.adopt(std::span(values), disk); }),
                 "as memory of the disk, and they are memory of the host"));
  auto& device = runtime.device();
  auto* const its = static_cast<std::byte*>(device.allocate(64, disk));
  CHECK(contains(line_of<ValueError>([&] { (void)runtime.adopt(std::span(its, 64)); }),
                 "as memory of the host, and they are memory of the disk"));
  CHECK(contains(line_of<ValueError>([&] { check_followed(device, "write", "x", its); }),
                 "memory of the disk, which the host cannot follow"));
  // A system call says EFAULT where a read instruction would fault.
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  CHECK(::write(ends[1], its, 1) == -1);
  CHECK(errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  auto const adopted = runtime.adopt(std::span(its, 64), disk), result = cell(runtime);
  copy(runtime, here, adopted);
  copy(runtime, adopted, result);
  CHECK(read(runtime, result) == 3);
  runtime.wait_and_retire(adopted);
  device.free(its, 64, disk);
}

TEST_CASE("a disk has the places that its runtime says", "[runtime][disk]") {
  SerialOn<WithDisk<>> alone(RuntimeOptions{}, small);
  for (Place const place : {device(0), pinned, Place{Place::Kind::disk, 1}})
    CHECK(contains(line_of<ValueError>([&] { (void)alone.allocate(8, place); }),
                   "this runtime has memory on the host and on the disk"));
  SerialOn<EmulatedWithDisk> beside(RuntimeOptions{}, small);
  CHECK(contains(line_of<ValueError>([&] { (void)beside.allocate(8, device(1)); }),
                 "on the host, pinned, on 1 device, numbered from 0, and on the disk"));
  auto const there = beside.allocate(8, device(0)), stored = beside.allocate(8, disk);
  CHECK(contains(line_of<ValueError>([&] {
                   submit(beside, put_codelet, {{there, Access::write}}, 1L);
                   copy(beside, there, stored);
                 }),
                 "copies from device 0 to disk: copies of the disk are between it and the host"));
  CHECK(contains(line_of<ValueError>([&] {
                   copy(beside, cell(beside, 1), stored);
                   copy(beside, stored, there);
                 }),
                 "copies from disk to device 0"));
  for (DataHandle const buffer : {stored, there})
    CHECK(contains(line_of<ValueError>([&] {
                     submit(beside, copy_codelet, {{buffer, Access::write}}, std::int64_t{8});
                   }),
                   "names 1 buffers: a copy has two, its source and its target"));
}

TEMPLATE_LIST_TEST_CASE("blocks take gaps, and the file ends with the last", "[runtime][disk]",
                        HostDiskRuntimes) {
  TestType runtime(RuntimeOptions{}, DiskOptions{.capacity = 10 * 4096});
  std::vector<DataHandle> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(runtime.allocate(2 * 4096, disk));
  auto const file = [&] { return runtime.device().disk_use().file; };
  CHECK(file() == 8 * 4096);
  runtime.wait_and_retire(blocks[1]);
  CHECK(file() == 8 * 4096);
  CHECK(contains(line_of<OutOfMemory>([&] { (void)runtime.allocate(5 * 4096, disk); }),
                 "20480 bytes on the disk, where 24576 of 40960 bytes are taken; free some"));
  CHECK(
      contains(line_of<OutOfMemory>([&] { (void)runtime.allocate(4 * 4096, disk); }), "in pieces"));
  auto const a = runtime.allocate(4096, disk), b = runtime.allocate(1, disk);
  CHECK(file() == 8 * 4096);
  auto const c = runtime.allocate(0, disk);
  CHECK(file() == 9 * 4096);
  auto const here = cell(runtime, 4), result = cell(runtime);
  runtime.wait_and_retire(b);
  auto const d = runtime.allocate(sizeof(long), disk);  // where b was
  copy(runtime, here, d);
  copy(runtime, d, result);
  CHECK(read(runtime, result) == 4);
  for (DataHandle const handle : {c, blocks[3]}) runtime.wait_and_retire(handle);
  CHECK(file() == 6 * 4096);
  for (DataHandle const handle : {a, d, blocks[0], blocks[2]}) runtime.wait_and_retire(handle);
  CHECK(file() == 0);
  (void)runtime.allocate(10 * 4096, disk);
  CHECK(runtime.device().disk_use().peak == 10 * 4096);
}

TEMPLATE_LIST_TEST_CASE("a directory that takes no file is refused in one line", "[runtime][disk]",
                        HostDiskRuntimes) {
  auto const says = [](std::string const& directory) {
    TestType runtime(RuntimeOptions{}, DiskOptions{directory, 1 << 20});
    auto const text = line_of<DeviceError>([&] { (void)runtime.allocate(8, disk); });
    auto const here = cell(runtime, 1);  // and goes on
    CHECK(read(runtime, here) == 1);
    runtime.wait_all();
    return text;
  };
  CHECK(says("/nowhere/at/all") ==
        "make an unnamed file in '/nowhere/at/all': No such file or directory; check the path");
  CHECK(contains(says("/dev/null"), "make an unnamed file in '/dev/null': Not a directory"));
  auto const locked = std::filesystem::temp_directory_path() / concat("nntile_disk_", ::getpid());
  std::filesystem::create_directory(locked);
  REQUIRE(::chmod(locked.c_str(), 0500) == 0);
  if (::geteuid() != 0)
    CHECK(contains(says(locked.string()), "Permission denied; give this user access"));
  std::filesystem::remove(locked);
}

TEMPLATE_LIST_TEST_CASE("a full disk is an error where memory is allocated", "[runtime][disk]",
                        HostDiskRuntimes) {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  TestType runtime(RuntimeOptions{}, small);
  auto const first = runtime.allocate(4096, disk);
  rlimit limit = before;
  limit.rlim_cur = 3 * 4096;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  auto const text = line_of<OutOfMemory>([&] { (void)runtime.allocate(4 * 4096, disk); });
  auto const second = runtime.allocate(2 * 4096, disk);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(contains(text, "allocate: 16384 bytes on the disk, where 4096 of 1048576 bytes are taken"));
  CHECK(contains(text, "File too large; raise the limit of this process"));
  CHECK(runtime.device().disk_use().file == 3 * 4096);
  auto const here = cell(runtime, 6), result = cell(runtime);
  for (DataHandle const there : {first, second}) {
    copy(runtime, here, there);
    copy(runtime, there, result);
    CHECK(read(runtime, result) == 6);
  }
}

TEMPLATE_LIST_TEST_CASE("an error of the disk is the task's, with bytes, offset and path",
                        "[runtime][disk]", FaultyRuntimes) {
  faults = {};
  TestType runtime(RuntimeOptions{}, small);
  auto const here = cell(runtime, 9), result = cell(runtime);
  (void)runtime.allocate(4096, disk);
  for (auto const& [code, words] : {std::pair(ENOSPC, "No space left"), {EDQUOT, "quota"}}) {
    faults.grow = code;
    CHECK(contains(line_of<OutOfMemory>([&] { (void)runtime.allocate(8, disk); }), words));
  }
  faults.grow = EIO;
  CHECK(contains(line_of<DeviceError>([&] { (void)runtime.allocate(8, disk); }), "output error"));
  faults = {};
  auto const there = runtime.allocate(sizeof(long), disk);
  auto const fails = [&](Faults const& with, std::string const& words) {
    faults = {};
    copy(runtime, here, there);
    runtime.wait_all();
    faults = with;
    bool const writes = with.write != 0;
    Event const failed = writes ? copy(runtime, here, there) : copy(runtime, there, result);
    Event const behind = writes ? copy(runtime, there, result)
                                : submit(runtime, step_codelet, {{result, Access::update}}, 1L);
    auto const text = line_of<TaskError>([&] { runtime.wait(failed); });
    CHECK(contains(text, "copy_bytes"));
    CHECK(contains(text, words));
    CHECK(contains(text, "8 bytes at byte 4096 of an unnamed file in '"));
    CHECK_THROWS_AS(runtime.wait(behind), TaskError);
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    faults = {};
  };
  fails({.write = EIO}, "write 8 bytes");
  fails({.read = EIO}, "read 8 bytes");
  fails({.cut = true}, "the file ends before");
  copy(runtime, here, there);
  copy(runtime, there, result);
  CHECK(read(runtime, result) == 9);
}

TEMPLATE_LIST_TEST_CASE("a copy stays inside memory of the disk", "[runtime][disk]",
                        HostDiskRuntimes) {
  TestType runtime(RuntimeOptions{}, small);
  auto const here = runtime.allocate(128), there = runtime.allocate(64, disk);
  (void)runtime.allocate(64, disk);
  submit(runtime, put_codelet, {{here, Access::write}}, 3L);
  runtime.wait(copy(runtime, here, there, 64));
  Event const longer = copy(runtime, here, there, 65);
  CHECK(contains(line_of<TaskError>([&] { runtime.wait(longer); }), "that the disk does not have"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  runtime.wait(copy(runtime, here, there, 0));
}

TEMPLATE_LIST_TEST_CASE("memory of the disk that was freed is named by no copy", "[runtime][disk]",
                        HostDiskRuntimes) {
  TestType runtime(RuntimeOptions{}, small);
  auto& device = runtime.device();
  auto const here = cell(runtime, 1);
  (void)runtime.allocate(4096, disk);
  auto* const its = static_cast<std::byte*>(device.allocate(64, disk));
  auto const adopted = runtime.adopt(std::span(its, 64), disk);
  device.free(its, 64, disk);
  Event const copied = copy(runtime, here, adopted);
  CHECK(contains(line_of<TaskError>([&] { runtime.wait(copied); }), "that the disk does not have"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_LIST_TEST_CASE("a disk is given few copies at a time", "[runtime][disk]", GatedRuntimes) {
  faults = {};
  TestType runtime(RuntimeOptions{}, small);
  std::vector<DataHandle> here, there;
  for (int i = 0; i < 8; ++i) {
    here.push_back(cell(runtime, i));
    there.push_back(runtime.allocate(sizeof(long), disk));
  }
  closed = true;
  Event last{};
  for (std::size_t i = 0; i < 8; ++i) last = copy(runtime, here[i], there[i]);
  auto const& launched = runtime.device().launched;
  while (launched < copies_in_flight) (void)runtime.done(last);
  for (int i = 0; i < 100; ++i) (void)runtime.done(last);
  CHECK(launched == copies_in_flight);
  closed = false;
  runtime.wait_all();
  CHECK(launched == 8);
}

TEST_CASE("a disk runs what it was given in order, and says when it has", "[runtime][disk]") {
  WithDisk<> device(small);
  void* const block = device.allocate(sizeof(long), disk);
  constexpr int count = 50;
  std::int64_t const bytes = sizeof(long);
  std::vector<long> values(count), results(count);
  std::vector<std::uint64_t> marks;
  std::vector<void*> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<long>(i);
    buffers.insert(buffers.end(), {&values[i], block, block, &results[i]});
  }
  char text[status_text_bytes];
  auto const launch = [&](std::size_t first) {
    DeviceJob const job{copy_codelet, std::span<void* const>(buffers).subspan(first, 2), &bytes};
    CHECK(device.launch({0, 0}, job, text).ok());
  };
  for (std::size_t i = 0; i < count; ++i) {
    launch(4 * i);
    launch(4 * i + 2);
    marks.push_back(device.mark({0, 0}));
  }
  CHECK(marks.front() == 1);
  for (std::size_t i = 0; i < count; ++i) {
    while (device.query({0, 0}, marks[i], text) == StreamProgress::running) {
    }
    CHECK(results[i] == static_cast<long>(i));
  }
  CHECK(device.query({0, 0}, device.mark({0, 0}), text) == StreamProgress::ended);
  device.free(block, sizeof(long), disk);
}

TEST_CASE("a block goes to no gap that is too small", "[runtime][disk]") {
  WithDisk<> device(small);
  constexpr std::size_t page = 4096;
  std::vector<std::byte*> blocks;
  for (std::size_t const pages : {1U, 1U, 1U, 1U, 2U, 1U})
    blocks.push_back(static_cast<std::byte*>(device.allocate(pages * page, disk)));
  for (std::size_t const i : {0U, 2U, 4U}) device.free(blocks[i], 0, disk);
  CHECK(device.allocate(2 * page, disk) == blocks[4]);
  CHECK(device.allocate(2 * page, disk) == blocks[5] + page);
  CHECK(device.allocate(page, disk) == blocks[0]);
  CHECK(device.allocate(page, disk) == blocks[2]);
  CHECK(device.disk_use().file == 9 * page);
}

TEST_CASE("the file is gone with its runtime", "[runtime][disk]") {
  int const before = unnamed_files();
  std::optional<SerialOn<WithDisk<>>> runtime;
  runtime.emplace(RuntimeOptions{}, small);
  CHECK(unnamed_files() == before);
  (void)runtime->allocate(8, disk);
  CHECK(unnamed_files() == before + 1);
  runtime.reset();
  CHECK(unnamed_files() == before);
}

TEST_CASE("two runtimes have disks of their own", "[runtime][disk]") {
  auto const run = [](long value) {
    RingOn<WithDisk<>> runtime(RuntimeOptions{.workers = 2}, small);
    auto const here = cell(runtime, value), result = cell(runtime);
    auto const there = runtime.allocate(sizeof(long), disk);
    for (int i = 0; i < 50; ++i) {
      copy(runtime, here, there);
      copy(runtime, there, result);
    }
    return read(runtime, result);
  };
  long other = 0;
  std::thread thread([&] { other = run(8); });
  CHECK(run(7) == 7);
  thread.join();
  CHECK(other == 8);
}

TEST_CASE("a capacity beyond all addresses is refused with its bytes", "[runtime][disk]") {
  BasicSerial<WithDisk<>> runtime(RuntimeOptions{}, DiskOptions{.capacity = SIZE_MAX});
  CHECK(contains(message_of<OutOfMemory>([&] { (void)runtime.allocate(8, disk); }),
                 "disk: no address space of 18446744073709547520 bytes"));
}
