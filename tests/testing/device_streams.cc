// SPDX-License-Identifier: BSD-3-Clause
// The emulated device by itself: addresses, streams, marks, memory that goes too early.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <thread>

#include "nntile/core/copy.hh"
#include "nntile/core/threads.hh"
#include "nntile/testing/device.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/forked.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedDevice;
using testing::EmulatedOptions;

namespace {

/// A job that waits until the test lets it go on.
struct Gate {
  std::atomic<bool> begun{false}, open{false};
};
constexpr Codelet gate_codelet{.name = "gate",
                               .cpu = +[](KernelCall const& call) noexcept -> Status {
                                 auto& gate = *static_cast<Gate*>(call.buffers[1]);
                                 gate.begun = true;
                                 while (!gate.open) nntile::detail::yield_core();
                                 cell_of(call, 0) = value_of(call);
                                 return {};
                               }};

/// One device with two lanes, and a job of one buffer on each.
struct Rig {
  EmulatedDevice device{EmulatedOptions{}};
  void* there = device.allocate(sizeof(long), nntile::device(0));
  long here = 1;
  void* const up[2] = {&here, there};
  void* const down[2] = {there, &here};
  void* const alone[1] = {there};
  long const value = 2;
  std::int64_t const bytes = sizeof(long);
  Gate gate;
  void* const gated[2] = {there, &gate};
  char text[status_text_bytes] = {};

  void launch(Codelet const& codelet, std::span<void* const> buffers, void const* arguments,
              Stream stream = {}) {
    REQUIRE(device.launch(stream, {codelet, buffers, arguments}, text).ok());
  }
  StreamProgress ended(std::uint64_t mark, Stream stream = {}) {
    StreamProgress progress;
    while ((progress = device.query(stream, mark, text)) == StreamProgress::running)
      nntile::detail::yield_core();
    return progress;
  }
};

}  // namespace

TEST_CASE("the host cannot follow an address of a device", "[testing][device_streams]") {
  Rig rig;
  CHECK(rig.device.memory().describe(rig.there) == "byte 0 of 8 bytes on device 0");
  CHECK(rig.device.memory().describe(&rig.here) == "no address of a device");
  auto const touches = [&] {
    (void)signal(SIGSEGV, SIG_DFL);
    (void)close(2);  // what a sanitizer would say of it
    *static_cast<long volatile*>(rig.there) = 1;
    return 0;
  };
  CHECK(in_child(touches) != 0);
}

TEST_CASE("jobs of a stream run in order, on the bytes behind their addresses",
          "[testing][device_streams]") {
  Rig rig;
  rig.launch(gate_codelet, rig.gated, &rig.value);
  rig.launch(step_codelet, rig.alone, &rig.value);
  rig.launch(copy_codelet, rig.down, &rig.bytes);
  std::uint64_t const mark = rig.device.mark({});
  CHECK(rig.device.query({}, mark, rig.text) == StreamProgress::running);
  rig.gate.open = true;
  CHECK(rig.ended(mark) == StreamProgress::ended);
  CHECK(rig.here == 8);
  CHECK(rig.device.mark({}) == mark + 1);
}

TEST_CASE("a stream that waits for a mark of another begins behind it",
          "[testing][device_streams]") {
  Rig rig;
  Stream const other{0, 1};
  rig.launch(gate_codelet, rig.gated, &rig.value);
  rig.device.wait(other, {}, rig.device.mark({}));
  rig.launch(copy_codelet, rig.down, &rig.bytes, other);
  nntile::detail::sleep_ns(1'000'000);
  rig.gate.open = true;
  CHECK(rig.ended(rig.device.mark(other), other) == StreamProgress::ended);
  CHECK(rig.here == 2);
}

TEST_CASE("a failure is that of the mark behind its job, and told once",
          "[testing][device_streams]") {
  Rig rig;
  std::uint64_t const before = rig.device.mark({});
  rig.launch(fail_codelet, rig.alone, &rig.value);
  std::uint64_t const mark = rig.device.mark({});
  rig.launch(put_codelet, rig.alone, &rig.value);
  std::uint64_t const behind = rig.device.mark({});
  CHECK(rig.ended(behind) == StreamProgress::ended);
  CHECK(rig.ended(mark) == StreamProgress::failed);
  CHECK(std::string(rig.text) == "it broke");
  CHECK(rig.ended(before) == StreamProgress::ended);
}

TEST_CASE("a job that names memory which was freed loses the device", "[testing][device_streams]") {
  Rig rig;
  rig.device.free(rig.there, sizeof(long), device(0));
  rig.launch(put_codelet, rig.alone, &rig.value);
  CHECK(rig.ended(rig.device.mark({})) == StreamProgress::failed);
  CHECK(std::string(rig.text) == "the devices are lost: put used memory that was freed");
}

TEST_CASE("a failure longer than its text is cut, and ends", "[testing][device_streams]") {
  Rig rig;
  std::string const name(status_text_bytes, 'n');
  Codelet long_named = put_codelet;
  long_named.name = name.c_str();
  std::fill(std::begin(rig.text), std::end(rig.text), 'x');
  rig.device.free(rig.there, sizeof(long), device(0));
  rig.launch(long_named, rig.alone, &rig.value);
  CHECK(rig.ended(rig.device.mark({})) == StreamProgress::failed);
  CHECK(rig.text[status_text_bytes - 2] == 'n');
  CHECK(rig.text[status_text_bytes - 1] == 0);
}

TEST_CASE("freeing memory that a job uses loses the device", "[testing][device_streams]") {
  Rig rig;
  rig.launch(gate_codelet, rig.gated, &rig.value);
  while (!rig.gate.begun) nntile::detail::yield_core();
  rig.device.free(rig.there, sizeof(long), device(0));
  rig.gate.open = true;
  CHECK(rig.ended(rig.device.mark({})) == StreamProgress::failed);
  CHECK_THROWS_AS(rig.device.allocate(8, device(0)), DeviceError);
}

TEST_CASE("a stream that waits for another one ends with the device", "[testing][device_streams]") {
  Gate gate;
  long cell = 0;
  long const value = 2;
  void* const gated[] = {&cell, &gate};
  std::thread opener;
  {
    EmulatedDevice device;
    Stream const other{0, 1};
    REQUIRE(device.launch(other, {gate_codelet, gated, &value}, nullptr).ok());
    device.wait(other, {}, device.mark({}));
    while (!gate.begun) nntile::detail::yield_core();
    opener = std::thread([&] {
      nntile::detail::sleep_ns(20'000'000);
      gate.open = true;
    });
  }
  opener.join();
  CHECK(cell == value);
}

TEST_CASE("a stream that gets no thread is a DeviceError", "[testing][device_streams]") {
  if (sanitized) return skip("a sanitizer needs more address space than is left");
  auto const refused = [] {
    constexpr rlim_t most = rlim_t{65} << 30;  // bytes; 2^36 are the addresses of the devices
    rlimit const limit{most, most};
    (void)setrlimit(RLIMIT_AS, &limit);
    try {
      EmulatedDevice const device({.lanes = 2'000});
    } catch (DeviceError const&) {
      return 0;
    } catch (OutOfMemory const&) {  // a sanitizer's own memory has taken the addresses
      return 0;
    } catch (...) {
    }
    return 1;
  };
  CHECK(in_child(refused) == 0);
}
