// SPDX-License-Identifier: BSD-3-Clause
// Handles, locks and adopted memory.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {
void count(void* state) noexcept { ++*static_cast<std::atomic<int>*>(state); }
template <class Value> std::span<std::byte> bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
}  // namespace

TEMPLATE_TEST_CASE("memory is aligned to 64 bytes, huge and empty buffers included",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  TestType runtime;
  for (std::size_t const bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{9} << 20}) {
    auto const handle = runtime.allocate(bytes);
    auto const span = runtime.lock(handle, Access::write);
    CHECK(span.size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(span.data()) % 64 == 0);
    runtime.unlock(handle);
  }
}

TEMPLATE_TEST_CASE("too much memory throws OutOfMemory that names the bytes", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  CHECK(contains(message_of<OutOfMemory>([&] { runtime.allocate(SIZE_MAX / 2 + 1); }),
                 "9223372036854775808"));
}

TEMPLATE_TEST_CASE("a place other than the host throws ValueError", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  CHECK_THROWS_AS(runtime.allocate(8, {Place::Kind::device, 0}, Lifetime::persistent), ValueError);
}

TEMPLATE_TEST_CASE("reading, updating or accumulating into an unwritten buffer throws",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const handle = cell(runtime);
  for (Access const access : {Access::read, Access::update, Access::accumulate}) {
    CHECK_THROWS_AS(submit(runtime, step_codelet, {{handle, access}}), LifetimeError);
    CHECK_THROWS_AS(runtime.lock(handle, access), LifetimeError);
  }
  CHECK_THROWS_AS(submit(runtime, step_codelet, {{handle, Access::write}, {handle, Access::read}}),
                  LifetimeError);
}

TEMPLATE_TEST_CASE("a refused submission changes nothing", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const unwritten = cell(runtime), target = cell(runtime);
  CHECK_THROWS_AS(
      submit(runtime, copy_cell_codelet, {{target, Access::write}, {unwritten, Access::read}}),
      LifetimeError);
  CHECK_THROWS_AS(runtime.lock(target, Access::read), LifetimeError);  // still unwritten
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("the error of an unwritten operand names op, tensor, tile and operand",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const unwritten = cell(runtime), target = cell(runtime);
  std::string const text = message_of<LifetimeError>([&] {
    submit(runtime, copy_cell_codelet, {{target, Access::write}, {unwritten, Access::read}}, 0L,
           {"h1", 3});
  });
  for (auto const* const piece : {"copy", "'h1'", "tile 3", "operand 1", "read", "written"})
    CHECK(contains(text, piece));
}

TEMPLATE_TEST_CASE("a lock for write makes a buffer written", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const handle = cell(runtime);
  *reinterpret_cast<long*>(runtime.lock(handle, Access::write).data()) = 5;
  runtime.unlock(handle);
  submit(runtime, step_codelet, {{handle, Access::update}}, 2L);
  CHECK(read(runtime, handle) == 17);
}

TEMPLATE_TEST_CASE("while a handle is locked, naming it, retiring it and wait_all throw",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const handle = cell(runtime, 1);
  runtime.lock(handle, Access::read);
  CHECK(contains(
      message_of<LifetimeError>([&] { submit(runtime, put_codelet, {{handle, Access::write}}); }),
      "locked"));
  CHECK(contains(message_of<LifetimeError>([&] { runtime.retire(handle); }), "locked"));
  CHECK(contains(message_of<LifetimeError>([&] { runtime.wait_all(); }), "locked"));
  CHECK(contains(message_of<LifetimeError>([&] { runtime.lock(handle, Access::read); }), "locked"));
  runtime.unlock(handle);
  runtime.wait_all();
  CHECK_THROWS_AS(runtime.unlock(handle), LifetimeError);
}

TEMPLATE_TEST_CASE("a retired handle is void for every call", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const handle = cell(runtime, 1);
  runtime.retire(handle);
  CHECK(contains(message_of<LifetimeError>([&] { runtime.retire(handle); }), "retired"));
  CHECK(
      contains(message_of<LifetimeError>([&] { runtime.lock(handle, Access::read); }), "retired"));
  CHECK(contains(
      message_of<LifetimeError>([&] { submit(runtime, put_codelet, {{handle, Access::write}}); }),
      "retired"));
  auto const next = cell(runtime, 2);  // may reuse the record
  CHECK_FALSE(next == handle);
  CHECK_THROWS_AS(runtime.retire(handle), LifetimeError);
}

TEMPLATE_TEST_CASE("an empty handle and one of another runtime are distinguished",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  TestType runtime, other;
  auto const foreign = cell(other, 1);
  (void)cell(runtime, 1);
  CHECK(contains(message_of<LifetimeError>([&] { runtime.retire({}); }), "empty"));
  CHECK(contains(message_of<LifetimeError>([&] { runtime.lock(foreign, Access::read); }),
                 "another runtime"));
  CHECK(contains(message_of<LifetimeError>(
                     [&] { runtime.wait(submit(other, put_codelet, {{foreign, Access::write}})); }),
                 "another runtime"));
}

TEMPLATE_TEST_CASE("adopted memory is written, computed on in place, and released once",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  std::atomic<int> released{0};
  long value = 4;
  TestType runtime;
  auto const handle = runtime.adopt(bytes_of(value), host, {&count, &released});
  submit(runtime, step_codelet, {{handle, Access::update}}, 1L);
  runtime.retire(handle);
  runtime.wait_all();
  CHECK(value == 13);
  CHECK(released == 1);
}

TEMPLATE_TEST_CASE("memory retired under a waiting task is released after it", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  std::atomic<int> released{0};
  long value = 4;
  TokenKeeper keeper;
  TestType runtime;
  auto const handle = runtime.adopt(bytes_of(value), host, {&count, &released});
  submit(runtime, keep_codelet, {{handle, Access::update}}, &keeper);
  submit(runtime, step_codelet, {{handle, Access::update}}, 1L);
  runtime.retire(handle);
  CHECK(released == 0);
  std::thread completer([&] { keeper.at(0).complete(); });
  runtime.wait_all();
  completer.join();
  CHECK(released == 1);
  CHECK(value == 13);
}

TEMPLATE_TEST_CASE("destruction waits, and releases what was never retired", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  std::atomic<int> released{0};
  std::vector<long> values(100, 1);
  {
    TestType runtime;
    for (long& value : values) {
      auto const handle = runtime.adopt(bytes_of(value), host, {&count, &released});
      submit(runtime, step_codelet, {{handle, Access::update}}, 1L);
    }
  }
  CHECK(released == 100);
  CHECK(values == std::vector<long>(100, 4));
}

TEMPLATE_TEST_CASE("adopting a null pointer to bytes throws ValueError", "[runtime][buffers]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  CHECK_THROWS_AS(runtime.adopt({static_cast<std::byte*>(nullptr), 8}, host, {}), ValueError);
}

TEMPLATE_TEST_CASE("a number that is no access or lifetime is refused by its value",
                   "[runtime][buffers]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const handle = cell(runtime, 1);
  for (int const number : {6, 17, 255}) {
    auto const access = static_cast<Access>(number);
    CHECK(contains(
        message_of<ValueError>([&] { submit(runtime, put_codelet, {{handle, access}}, 2L); }),
        concat("operand 0 (?): ", number, " is no access")));
  }
  auto const lifetime = static_cast<Lifetime>(5);
  CHECK(message_of<ValueError>([&] { (void)runtime.open_scope(lifetime); }) ==
        "open_scope: 5 is no lifetime");
  CHECK_THROWS_AS(runtime.allocate(8, host, lifetime), LifetimeError);
  CHECK(read(runtime, handle) == 1);
}
