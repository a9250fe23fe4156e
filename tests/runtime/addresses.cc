// SPDX-License-Identifier: BSD-3-Clause
// Buffers and regions by their addresses.
#include <cstring>
#include <deque>
#include <thread>

#include "nntile/runtime/regions.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using RegionRuntimes = std::tuple<Serial, Threads, Ring>;

/// The address of a buffer, as a lock shows it.
template <class R> std::byte* address_of(R& runtime, DataHandle handle) {
  std::byte* const address = runtime.lock(handle, Access::write).data();
  runtime.unlock(handle);
  return address;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a buffer reached by handle and by address is one buffer",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  TestType runtime;
  runtime.open_scope(Lifetime::step);
  long memory[3] = {1, 2, 3};
  auto const adopted = runtime.adopt(std::as_writable_bytes(std::span(memory)));
  for (auto const buffer :
       {adopted, runtime.allocate(24), runtime.allocate(24, host, Lifetime::step)}) {
    std::byte* const address = address_of(runtime, buffer);
    CHECK(runtime.find(address) == buffer);
    CHECK(runtime.find(address + 23) == buffer);
    CHECK(!(runtime.find(address + 24) == buffer));
    CHECK(runtime.region_at(address, {0, 24, {}}) == buffer);
    CHECK(runtime.region_at(address, {0, 24, {}}) == buffer);
    auto const middle = runtime.region(buffer, {8, 8, {}});
    CHECK(runtime.region_at(address + 8, {0, 8, {}}) == middle);
    CHECK(runtime.region_at(address, {8, 8, {}}) == middle);
    auto const ends = runtime.region_at(address, {0, 8, {{2, 16}}});
    CHECK(ends == runtime.region(buffer, {0, 8, {{2, 16}}}));
    CHECK(ends == runtime.region_at(address, {0, 8, {{2, 16}}}));
    CHECK(!(ends == runtime.region_at(address, {0, 8, {}})));
    // By address to write, by handle to update, by address to read.
    test::submit(runtime, put_codelet,
                 {{runtime.region_at(address + 8, {0, 8, {}}), Access::write}}, 4);
    test::submit(runtime, step_codelet, {{middle, Access::update}}, 1);
    auto const result = cell(runtime);
    test::submit(
        runtime, copy_cell_codelet,
        {{result, Access::write}, {runtime.region_at(address + 8, {0, 8, {}}), Access::read}}, 0);
    CHECK(test::read(runtime, result) == 13);
    runtime.retire(buffer);
    CHECK(runtime.find(address) == DataHandle{});
    CHECK(contains(message_of<LifetimeError>([&] { runtime.region_at(address, {0, 24, {}}); }),
                   "region_at: no buffer of this runtime holds the first byte"));
  }
}

TEMPLATE_LIST_TEST_CASE("an address names the buffer that is there now",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  TestType runtime;
  runtime.open_scope(Lifetime::step);
  struct Live {
    DataHandle handle;
    std::byte* address;
    std::size_t bytes;
  };
  std::deque<Live> live;
  std::uint32_t random = 7;
  for (int i = 0; i < 3'000; ++i) {
    random = random * 1664525u + 1013904223u;
    std::size_t const bytes = 1 + (random >> 8) % 300;
    Lifetime const lifetime = (random >> 20) % 3 == 0 ? Lifetime::persistent : Lifetime::step;
    auto const handle = runtime.allocate(bytes, host, lifetime);
    live.push_back({handle, address_of(runtime, handle), bytes});
    if (live.size() > 40) {
      runtime.retire(live.front().handle);
      live.pop_front();
    }
    Live const& one = live[(random >> 4) % live.size()];
    REQUIRE(runtime.find(one.address + (random >> 10) % one.bytes) == one.handle);
    REQUIRE(runtime.region_at(one.address, {0, one.bytes, {}}) == one.handle);
  }
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("the first look for an address may come while buffers end",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  for (int round = 0; round < 5; ++round) {
    TestType runtime;
    auto const kept = runtime.allocate(1);
    for (int i = 0; i < 1'000; ++i) (void)runtime.allocate(1);  // so that the search is long
    for (int i = 0; i < 200; ++i) {
      auto const buffer = runtime.allocate(2 * sizeof(long));
      test::submit(runtime, put_codelet, {{runtime.region(buffer, {0, 8, {}}), Access::write}}, 1L);
      test::submit(runtime, put_codelet, {{buffer, Access::write}}, 1L);
      runtime.retire(buffer);
    }
    CHECK(runtime.find(&round) == DataHandle{});
    CHECK(runtime.find(address_of(runtime, kept)) == kept);
  }
}

TEMPLATE_LIST_TEST_CASE("an address that is known names no buffer that another thread dropped",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  TestType runtime;
  long memory[2] = {1, 2};
  auto const buffer = runtime.adopt(std::as_writable_bytes(std::span(memory)));
  for (int look = 0; look < 2; ++look)
    CHECK(runtime.region_at(memory, {0, sizeof memory, {}}) == buffer);
  std::thread([&] { runtime.link()->drop(buffer, false); }).join();
  CHECK_THROWS_AS(runtime.region_at(memory, {0, sizeof memory, {}}), LifetimeError);
}

TEMPLATE_LIST_TEST_CASE("an address that is known names no part of a buffer that was retired",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  TestType runtime;
  long memory[2] = {1, 2};
  auto const buffer = runtime.adopt(std::as_writable_bytes(std::span(memory)));
  auto const part = runtime.region_at(memory, {0, sizeof memory[0], {}});
  CHECK(runtime.region_at(memory, {0, sizeof memory[0], {}}) == part);
  runtime.wait_and_retire(buffer);
  CHECK_THROWS_AS(runtime.region_at(memory, {0, sizeof memory[0], {}}), LifetimeError);
}

TEST_CASE("an address names no part of a buffer whose scope closed before its tasks ended",
          "[runtime][regions][addresses]") {
  Ring ring;
  ring.open_scope(Lifetime::step);
  std::byte* const address = address_of(ring, ring.allocate(16, host, Lifetime::step));
  auto const part = ring.region_at(address, {0, 8, {}});
  ring.pause();
  test::submit(ring, step_codelet, {{part, Access::update}}, 1);
  ring.close_scope(Lifetime::step);
  CHECK_THROWS_AS(ring.region_at(address, {0, 8, {}}), LifetimeError);
  ring.resume();
  ring.wait_all();
}

TEMPLATE_LIST_TEST_CASE("an address without bytes is not one that the map has never seen",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  TestType runtime;
  long memory = 1;
  auto const buffer = runtime.adopt(std::as_writable_bytes(std::span(&memory, 1)));
  CHECK(runtime.region_at(&memory, {0, sizeof memory, {}}) == buffer);
  CHECK_THROWS_AS(runtime.region_at(nullptr, {0, 0, {}}), LifetimeError);
}

TEMPLATE_LIST_TEST_CASE("memory of a buffer that the runtime allocated is not adopted",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  TestType runtime;
  runtime.open_scope(Lifetime::step);
  for (Lifetime const lifetime : {Lifetime::persistent, Lifetime::step}) {
    auto const buffer = runtime.allocate(64, host, lifetime);
    std::byte* const address = address_of(runtime, buffer);
    CHECK(contains(message_of<ValueError>([&] { runtime.adopt({address + 8, 8}); }),
                   "adopt: the 8 bytes overlap "));
    CHECK_THROWS_AS(runtime.adopt(std::span<std::byte const>(address + 8, 8)), ValueError);
    test::submit(runtime, put_codelet, {{buffer, Access::write}}, 4);
    CHECK(test::read(runtime, buffer) == 4);
  }
}

TEMPLATE_LIST_TEST_CASE("a retired buffer is not found while its tasks run",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  static constexpr Codelet show{"show",
                                +[](KernelCall const& call) noexcept -> Status {
                                  void* const address = call.buffers[0];
                                  std::memcpy(call.buffers[1], &address, sizeof address);
                                  return {};
                                },
                                nullptr, nullptr};
  TokenKeeper keeper;
  TestType runtime;
  auto const buffer = runtime.allocate(sizeof(long)), kept = runtime.allocate(sizeof(void*));
  submit(runtime, show, {{buffer, Access::write}, {kept, Access::write}});
  Event const last = submit(runtime, keep_codelet, {{buffer, Access::update}}, &keeper);
  void* address;
  std::memcpy(&address, runtime.lock(kept, Access::read).data(), sizeof address);
  runtime.unlock(kept);
  runtime.retire(buffer);
  CHECK(runtime.find(address) == DataHandle{});
  CHECK_THROWS_AS(runtime.region_at(address, {0, 4, {}}), LifetimeError);
  while (keeper.count() == 0) (void)runtime.done(last);
  keeper.at(0).complete();
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("const memory that begins with a buffer by address has a region there",
                        "[runtime][regions][addresses]", RegionRuntimes) {
  for (bool const long_first : {true, false}) {
    TestType runtime;
    long const memory[2] = {1, 2};
    auto const all = std::as_bytes(std::span(memory));
    DataHandle const first = runtime.adopt(all.first(long_first ? 16 : 8));
    DataHandle const second = runtime.adopt(all.first(long_first ? 8 : 16));
    DataHandle const whole = long_first ? first : second;
    (void)runtime.region_at(memory, {0, 8, {}});
    (void)runtime.region(whole, {8, 8, {}});
    DataHandle const begin = runtime.region(whole, {0, 8, {}});
    CHECK_FALSE((begin == first || begin == second));
    CHECK(read(runtime, begin) == 1);
  }
}

TEST_CASE("room for regions beyond the machine's memory is refused",
          "[runtime][regions][addresses]") {
  Serial runtime;
  auto const refused = [&](RegionRoom const& room) {
    return message_of<OutOfMemory>([&] { runtime.reserve_regions(room); });
  };
  std::size_t const many = (std::size_t{1} << 61) + 1;
  CHECK(contains(refused({.regions = 1, .overlaps = SIZE_MAX}),
                 "reserve_regions: overlaps of 18446744073709551615 need 16 bytes each, and the "
                 "machine has "));
  CHECK(contains(refused({.regions = many}), "reserve_regions: regions of "));
  CHECK(contains(refused({.buffers = many}), "reserve_regions: buffers of "));
  CHECK(contains(refused({.buffers = 1, .regions_each = many}), "regions_each of "));
  CHECK(contains(refused({.buffers = 1, .runs = many}), "runs of "));
  runtime.reserve_regions({.regions = 4, .buffers = 2});
}
