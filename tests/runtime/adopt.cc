// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <atomic>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/runtime_ref.hh"
#include "nntile/runtime/support/adopted_ranges.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;
using support::AdoptedRanges;

namespace {

template <class Bytes> std::span<std::byte> part(Bytes& bytes, std::size_t at, std::size_t count) {
  return std::span<std::byte>(bytes).subspan(at, count);
}
template <class Bytes>
std::span<std::byte const> const_part(Bytes& bytes, std::size_t at, std::size_t count) {
  return part(bytes, at, count);
}
Release counter(std::atomic<int>& count) {
  return {[](void* state) noexcept { ++*static_cast<std::atomic<int>*>(state); }, &count};
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("spans overlap where all are const", "[runtime][adopt]", AllRuntimes) {
  TestType runtime;
  alignas(64) std::array<std::byte, 256> bytes{};
  (void)runtime.adopt(const_part(bytes, 0, 128));
  (void)runtime.adopt(const_part(bytes, 8, 128));
  std::string const text =
      message_of<ValueError>([&] { (void)runtime.adopt(part(bytes, 100, 100)); });
  CHECK(contains(text, "adopt: the 100 bytes overlap buffer "));
  CHECK(contains(text, "(128 bytes, adopted)"));
  (void)runtime.adopt(part(bytes, 136, 64));
  CHECK_THROWS_AS(runtime.adopt(const_part(bytes, 0, 137)), ValueError);
  CHECK_THROWS_AS(runtime.adopt(part(bytes, 199, 57)), ValueError);
  (void)runtime.adopt(part(bytes, 200, 56));
  (void)runtime.adopt(part(bytes, 210, 0));
}

TEMPLATE_LIST_TEST_CASE("what writes const bytes is refused, and what reads them runs",
                        "[runtime][adopt]", AllRuntimes) {
  TestType runtime;
  long const values[2] = {5, 6};
  auto const handle = runtime.adopt(std::as_bytes(std::span(values)));
  auto const result = cell(runtime);
  test::submit(runtime, copy_cell_codelet, {{result, Access::write}, {handle, Access::read}}, 1);
  CHECK(test::read(runtime, result) == 6);
  for (Access const access : {Access::write, Access::update, Access::accumulate}) {
    CHECK(contains(
        message_of<ValueError>([&] { test::submit(runtime, step_codelet, {{handle, access}}, 1); }),
        "operand 0 (" + std::string(name_of(access)) + "): buffer "));
    CHECK(contains(message_of<ValueError>([&] { (void)runtime.lock(handle, access); }),
                   "is read-only: it was adopted as const bytes"));
  }
  CHECK(test::read(runtime, handle) == 5);
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("memory is adopted again once its handle has ended", "[runtime][adopt]",
                        AllRuntimes) {
  TestType runtime;
  alignas(64) std::array<std::byte, 64> bytes{};
  for (int i = 0; i < 5; ++i) {
    std::atomic<int> released{0};
    auto const handle = runtime.adopt(part(bytes, 0, 64), host, counter(released));
    test::submit(runtime, step_codelet, {{handle, Access::update}}, 1);
    runtime.retire(handle);
    while (released == 0) runtime.wait_all();
  }
  for (int i = 0; i < 5; ++i) {
    auto const handle = runtime.adopt(part(bytes, 0, 64));
    test::submit(runtime, step_codelet, {{handle, Access::update}}, 1);
    runtime.wait_and_retire(handle);
  }
}

/// Models ReadOnlyRuntime alone, beside Runtime.
struct Bare {
  using Handle = Ring::Handle;
  explicit Bare(RuntimeOptions const& options) : ring(options) {}
  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    return ring.allocate(bytes, place, lifetime);
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) {
    return ring.adopt(bytes, place, release);
  }
  Handle adopt(std::span<std::byte const> bytes, Place place, Release release) {
    return ring.adopt(bytes, place, release);
  }
  void retire(Handle handle) { ring.retire(handle); }
  Event submit(Task<Handle> const& task) { return ring.submit(task); }
  void wait(Event event) { ring.wait(event); }
  bool done(Event event) { return ring.done(event); }
  void wait_all() { ring.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) { return ring.lock(handle, access); }
  void unlock(Handle handle) { ring.unlock(handle); }
  Workers workers() const { return ring.workers(); }
  Ring ring;
};
static_assert(ReadOnlyRuntime<Bare> && !LinkedRuntime<Bare>);

TEMPLATE_TEST_CASE("the end of who lends const memory waits for its readers", "[runtime][adopt]",
                   Ring, Check<Ring>, Transcribe<Ring>, Record<Check<Ring>>, Bare) {
  static constexpr Codelet look{"look", +[](KernelCall const& call) noexcept -> Status {
                                  **static_cast<bool* const*>(call.arguments) = true;
                                  return {};
                                }};
  TestType runtime(RuntimeOptions{.workers = 1});  // which runs nothing before it is waited for
  long const value = 7;
  RuntimeRef<TestType> const lender(runtime);
  auto const handle = runtime.adopt(std::as_bytes(std::span(&value, 1)), host, {});
  bool has_read = false;
  test::submit(runtime, look, {{handle, Access::read}}, &has_read);
  lender.wait_and_retire(handle);
  CHECK(has_read);
}

TEST_CASE("adaptors take const bytes as their runtimes do", "[runtime][adopt]") {
  long const value = 7;
  auto const bytes = std::as_bytes(std::span(&value, 1));
  Record<Ring> recorded(RuntimeOptions{.workers = 1});
  Check<Serial> checked;
  CHECK(test::read(recorded, recorded.adopt(bytes)) == 7);
  auto const handle = checked.adopt(bytes);
  CHECK_THROWS_AS(checked.lock(handle, Access::write), ValueError);
  CHECK(recorded.counts().adopts == 1);
}

TEMPLATE_TEST_CASE("an adaptor does not follow memory that its runtime refuses", "[runtime][adopt]",
                   Check<Serial>, Transcribe<Serial>) {
  TestType runtime;
  auto* const nowhere = reinterpret_cast<std::byte*>(64);
  for (Place const place : {host, nntile::device(0)}) {
    std::span const bytes(place == host ? nullptr : nowhere, 8);
    CHECK_THROWS_AS(runtime.adopt(bytes, place), ValueError);
    CHECK_THROWS_AS(runtime.adopt(std::span<std::byte const>(bytes), place), ValueError);
  }
}

TEST_CASE("a replay that writes const bytes is refused", "[runtime][adopt]") {
  Ring runtime({.workers = 1});
  long const value = 7;
  auto const handle = runtime.adopt(std::as_bytes(std::span(&value, 1)));
  Use<Binding> const uses[] = {{0, Access::update}};
  ProgramTask const tasks[] = {{&step_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}}};
  auto const program = runtime.record(tasks, 1);
  Ring::Handle const bindings[] = {handle};
  CHECK(contains(message_of<ValueError>([&] { (void)runtime.replay(program, bindings); }),
                 "replay: binding 0 (update): buffer"));
}

TEST_CASE("ranges are found as by a look at each", "[runtime][adopt]") {
  struct Range {
    std::size_t at, count;
    bool writable;
  };
  std::mt19937 random(7);
  AdoptedRanges ranges;
  std::vector<std::byte> memory(2000);
  std::vector<std::optional<Range>> kept;
  std::size_t refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    auto const number = static_cast<std::uint32_t>(random() % 64);
    if (kept.size() <= number) kept.resize(number + 1);
    if (auto const range = std::exchange(kept[number], std::nullopt)) {
      ranges.remove(const_part(memory, range->at, range->count), range->writable, number);
      continue;
    }
    Range const range{random() % 1900, random() % 100, random() % 3 == 0};
    bool overlaps = false;
    for (auto const& other : kept)
      overlaps |= other && (other->writable || range.writable) && other->count != 0 &&
                  range.count != 0 && other->at < range.at + range.count &&
                  range.at < other->at + other->count;
    std::uint32_t const found =
        ranges.add(const_part(memory, range.at, range.count), range.writable, number);
    REQUIRE((found != AdoptedRanges::none) == overlaps);
    if (!overlaps) kept[number] = range;
    refused += overlaps ? 1 : 0;
  }
  CHECK(refused > 1000);
}
