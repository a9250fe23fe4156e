// SPDX-License-Identifier: BSD-3-Clause
// Runs that are written down, and repeated on other runtimes.
#include "nntile/testing/transcript.hh"

#include <algorithm>
#include <array>
#include <cstring>

#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/tile/tile.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/testing/counters.hh"

using namespace nntile;
using namespace nntile::test;
using nntile::testing::first_difference;
using nntile::testing::TaskResult;
using CallKind = TranscribedCall::Kind;

namespace {

using counting::counters, counting::join_codelet, counting::own, counting::step_codelet;

std::vector<io::NamedCodelet> const& known() {
  static std::vector<io::NamedCodelet> const codelets = testing::kernel_codelets();
  return codelets;
}

Status wrong_join(KernelCall const& call) noexcept {
  auto const of = [&](int i) { return *static_cast<std::uint64_t*>(call.buffers[i]); };
  *static_cast<std::uint64_t*>(call.buffers[2]) = of(0) == 3 ? 0 : 5 * of(0) + of(1) + 1;
  return {};
}
constexpr Codelet wrong_codelet{"join", wrong_join};

Transcript gelu_of_gemm(std::vector<float>& result) {
  Transcribe<Ring> runtime(RuntimeOptions{.workers = 2});
  {
    Tile<float, Transcribe<Ring>> a(runtime, {4, 3}, "a"), b(runtime, {3, 5}, "b"),
        c(runtime, {4, 5}, "c"), y(runtime, {4, 5}, "y");
    std::vector<float> values(15);
    for (std::size_t i = 0; i < 15; ++i) values[i] = 0.25f * static_cast<float>(i) - 1;
    a.write(std::span(values).first(12));
    b.write(values);
    for (int i = 0; i < 3; ++i) {
      gemm({}, a, b, c);
      gelutanh(c, y);
    }
    result = y.read();
  }
  runtime.wait_all();
  return runtime.transcript();
}

/// Adds 1 to both bytes of a strided region, which are 8 apart, and the number of the call.
Status raise(KernelCall const& call) noexcept {
  auto* const bytes = static_cast<unsigned char*>(call.buffers[0]);
  for (int i : {0, 8}) bytes[i] = static_cast<unsigned char>(2 * bytes[i] + 1);
  return {};
}
Status wrong_raise(KernelCall const& call) noexcept {
  static_cast<unsigned char*>(call.buffers[0])[8] ^= 1;
  return raise(call);
}
constexpr Codelet raise_codelet{"raise", raise}, wrong_raise_codelet{"raise", wrong_raise};
std::vector<io::NamedCodelet> const with_raise{
    {"a step", &step_codelet}, {"join%", &join_codelet}, {"raise", &raise_codelet}};

/// Counters of 8 bytes, 0 to 3, in one buffer: a region each, and one of a byte of 2 and of 3.
template <class R> Transcript regions_of(R& runtime) {
  auto const whole = runtime.allocate(32), other = runtime.allocate(8);
  auto const half = runtime.region(whole, {16, 16, {}});
  auto const a = runtime.region(whole, {0, 8, {}}), b = runtime.region(whole, {8, 8, {}}),
             c = runtime.region(half, {0, 8, {}}), d = runtime.region(half, {8, 8, {}}),
             bytes = runtime.region(half, {3, 1, {{2, 8}}});
  auto const put = [&](auto const& to, unsigned value) {
    auto const span = runtime.lock(to, Access::write);
    std::fill(span.begin(), span.end(), std::byte(value));
    runtime.unlock(to);
  };
  put(a, 0);
  put(b, 1);
  put(half, 2);
  put(other, 0);
  using U = Use<typename R::Handle>;
  auto const call = [&](Codelet const& codelet, auto... uses) {
    U const list[] = {uses...};
    return runtime.submit({&codelet, list, {}, {}, {"whole", 1}});
  };
  call(step_codelet, U{a, Access::update});                                         // 0
  call(step_codelet, U{b, Access::update});                                         // 1
  call(step_codelet, U{other, Access::update});                                     // 2
  call(raise_codelet, U{bytes, Access::update});                                    // 3
  call(join_codelet, U{a, Access::read}, U{b, Access::read}, U{c, Access::write});  // 4
  call(step_codelet, U{d, Access::update});                                         // 5
  auto const locked = runtime.lock(bytes, Access::update);
  locked.front() = locked.back();
  runtime.unlock(bytes);
  call(join_codelet, U{c, Access::read}, U{d, Access::read}, U{other, Access::write});  // 6
  call(step_codelet, U{half, Access::update});                                          // 7
  runtime.wait_all();
  runtime.retire(bytes);
  runtime.retire(whole);
  return runtime.transcript();
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a transcript of tiles gives the same results on every runtime",
                        "[testing][transcript]", AllRuntimes) {
  std::vector<float> values;
  Transcript const run = gelu_of_gemm(values);
  Transcript const loaded = io::transcript_of(io::transcript_text(run, known()), "text", known());
  Serial serial;
  auto const expected = testing::run(run, serial);
  REQUIRE(expected.size() == 6);
  CHECK(expected.back().hashes[0] == io::hash64(std::as_bytes(std::span(values))));
  TestType runtime;
  CHECK(testing::run(loaded, runtime) == expected);
  CHECK(testing::run(loaded, runtime) == expected);  // and may be used again
}

TEST_CASE("failures, scopes and host writes are repeated", "[testing][transcript]") {
  Transcribe<Ring> ring(RuntimeOptions{.workers = 2});
  Transcribe<Serial> recorder;
  Transcript const run = counters(ring);
  CHECK(run == counters(recorder));
  Transcript const loaded = io::transcript_of(io::transcript_text(run, own), "text", own);
  CHECK(loaded == run);
  Serial serial;
  auto const results = testing::run(loaded, serial);
  auto const hash = [](std::uint64_t value) {
    return io::hash64(std::as_bytes(std::span(&value, 1)));
  };
  REQUIRE(results.size() == 7);
  CHECK(results[1].hashes == std::vector{hash(2)});
  CHECK(results[2].hashes == std::vector{hash(3)});
  CHECK(results[3].hashes == std::vector{hash(5 * 2 + 0x0707070707070708u + 1)});
  CHECK(results[4].hashes == std::vector<std::uint64_t>{0});
  CHECK(results[5].hashes == std::vector<std::uint64_t>{0});
  CHECK(results[6].hashes == std::vector{hash(13)});
}

TEST_CASE("the first task that differs is named, with what it depends on",
          "[testing][transcript]") {
  Transcribe<Serial> runtime;
  auto const a = runtime.allocate(8), b = runtime.allocate(8), c = runtime.allocate(8),
             d = runtime.allocate(8), e = runtime.allocate(8);
  for (auto const& handle : {a, b, c, e}) {
    auto const bytes = runtime.lock(handle, Access::write);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    runtime.unlock(handle);
  }
  auto const step_of = [&](auto const& handle) {
    Use<Transcribe<Serial>::Handle> const uses[] = {{handle, Access::update}};
    runtime.submit({&step_codelet, uses, {}, {}, {}});
  };
  auto const join_of = [&](auto const& x, auto const& y, auto const& z) {
    Use<Transcribe<Serial>::Handle> const uses[] = {
        {x, Access::read}, {y, Access::read}, {z, Access::write}};
    runtime.submit({&join_codelet, uses, {}, {}, {"sum", 2}});
  };
  step_of(a);        // 0
  step_of(b);        // 1
  step_of(c);        // 2, of no interest
  join_of(a, b, d);  // 3: overwritten
  join_of(e, b, d);  // 4: 2
  step_of(d);        // 5: 3
  join_of(d, e, a);  // 6: 16
  step_of(e);        // 7: behind what matters
  join_of(a, b, d);  // 8: 82
  step_of(b);        // 9
  Transcript const run = runtime.transcript();
  Transcript wrong = run;
  for (TranscribedCall& call : wrong.calls)
    if (call.codelet == &join_codelet) call.codelet = &wrong_codelet;
  Serial serial;
  Ring ring;
  auto const right = testing::run(run, serial);
  CHECK_FALSE(first_difference(run, right, testing::run(run, ring)));
  auto const difference = first_difference(run, right, testing::run(wrong, ring));
  REQUIRE(difference);
  CHECK(difference->task == 6);
  CHECK(difference->operand == 2);
  CHECK(to_string(*difference) ==
        "task 6, join of tensor 'sum', tile 2, left other bytes in operand 2");

  Transcript const& part = difference->reduced;
  CHECK(part.tasks() == 4);  // 1, 4, 5, 6
  auto const of_part = testing::run(part, serial);
  CHECK(of_part == std::vector{right[1], right[4], right[5], right[6]});
  Transcript const saved = io::transcript_of(io::transcript_text(part, own), "text", own);
  CHECK(saved == part);
  CHECK(testing::run(saved, ring) == of_part);
  auto const allocates = std::ranges::count_if(
      part.calls, [](TranscribedCall const& call) { return call.kind == CallKind::allocate; });
  CHECK(allocates == 4);  // a, b, d, e
  CHECK(contains(message_of<ValueError>([&] { (void)slice(run, 10); }),
                 "slice: task 10 of a transcript of 10 tasks"));
  CHECK(contains(message_of<ValueError>([&] { (void)first_difference(run, right, {}); }),
                 "results of 10 and 0 tasks of a transcript with 10"));
}

TEMPLATE_TEST_CASE("regions are repeated by their bytes alone", "[testing][transcript]", Serial,
                   Threads, Ring) {
  Transcribe<Ring> ring(RuntimeOptions{.workers = 2});
  Transcribe<Serial> recorder;
  Transcript const run = regions_of(ring);
  CHECK(run == regions_of(recorder));
  Transcript const loaded =
      io::transcript_of(io::transcript_text(run, with_raise), "text", with_raise);
  CHECK(loaded == run);
  Serial serial;
  auto const expected = testing::run(loaded, serial);
  REQUIRE(expected.size() == 8);
  TestType runtime;
  CHECK(testing::run(loaded, runtime) == expected);

  std::uint64_t const a = 1, b = 0x0101010101010102, c = 5 * a + b + 1,
                      d = 0x0202020202020202 + 0x03000000 + 1;
  auto const hash = [](std::uint64_t value) {
    return io::hash64(std::as_bytes(std::span(&value, 1)));
  };
  CHECK(expected[0].hashes == std::vector{hash(a)});
  CHECK(expected[4].hashes == std::vector{hash(c)});
  CHECK(expected[5].hashes == std::vector{hash(d)});
  std::uint64_t const mask = 0xff000000, patched = (c & ~mask) | (d & mask);
  CHECK(expected[6].hashes == std::vector{hash(5 * patched + d + 1)});
}

TEMPLATE_TEST_CASE("a buffer that ends by a region of all of it ends once where it is repeated",
                   "[testing][transcript]", Serial, Ring) {
  Transcript run;
  {
    Transcribe<TestType> runtime;
    std::uint64_t value = 1;
    auto const buffer = runtime.adopt(std::as_writable_bytes(std::span(&value, 1)));
    auto const whole = runtime.region(buffer, {0, 4, {{2, 4}}});
    Use<typename Transcribe<TestType>::Handle> const use[] = {{whole, Access::update}};
    runtime.submit({&step_codelet, use, {}, {}, {}});
    runtime.retire(whole);
    runtime.wait_all();
    run = runtime.transcript();
  }
  TestType again;
  auto const results = testing::run(run, again);
  REQUIRE(results.size() == 1);
  CHECK(results[0].hashes.at(0) != 0);
}

TEST_CASE("an empty buffer that ends by a region ends once where it is repeated",
          "[testing][transcript]") {
  Transcribe<Serial> runtime;
  runtime.retire(runtime.region(runtime.adopt(std::span<std::byte>()), {0, 0, {}}));
  Serial again;
  CHECK_NOTHROW(testing::run(runtime.transcript(), again));
}

TEST_CASE("a region is unlocked under whatever handle it was asked for", "[testing][transcript]") {
  Transcribe<Serial> runtime;
  auto const buffer = runtime.allocate(16);
  auto const first = runtime.region(buffer, {0, 8, {}}),
             second = runtime.region(buffer, {0, 8, {}});
  for (int round = 0; round < 2; ++round) {
    auto const bytes = runtime.lock(first, Access::write);
    std::fill(bytes.begin(), bytes.end(), std::byte(7 + round));
    runtime.unlock(second);
  }
  (void)runtime.lock(first, Access::read);
  runtime.unlock(first);
  auto const calls = runtime.transcript().calls;
  REQUIRE(calls.size() == 6);
  CHECK(calls[3].contents == std::vector<std::byte>(8, std::byte{7}));
  CHECK(calls[4].contents == std::vector<std::byte>(8, std::byte{8}));
  CHECK(calls[5].kind == CallKind::read);
}

TEST_CASE("the first task that differs in a region is reduced to what its bytes depend on",
          "[testing][transcript]") {
  Transcribe<Serial> recorder;
  Transcript const run = regions_of(recorder);
  Transcript wrong = run;
  for (TranscribedCall& call : wrong.calls)
    if (call.codelet == &raise_codelet) call.codelet = &wrong_raise_codelet;
  Serial serial;
  auto const right = testing::run(run, serial);
  auto const first = first_difference(run, right, testing::run(wrong, serial));
  REQUIRE(first);
  CHECK(first->task == 3);
  CHECK(first->reduced.tasks() == 1);  // none has written its bytes before
  auto const needed = [&](std::size_t task) {
    Transcript const part = slice(run, task);
    Transcript const saved =
        io::transcript_of(io::transcript_text(part, with_raise), "text", with_raise);
    CHECK(saved == part);
    Ring ring(RuntimeOptions{.workers = 2});
    auto const results = testing::run(saved, ring);
    CHECK(results.back() == right[task]);
    return results.size();
  };
  CHECK(needed(4) == 3);  // 0, 1 and itself: it overwrites all that 3 left there
  CHECK(needed(5) == 2);  // 3, and itself
  CHECK(needed(6) == 6);  // 0 and 1 for 4, 3 for 5, and itself
  CHECK(needed(7) == 6);
}

TEST_CASE("what a task accesses in no order is not looked at", "[testing][transcript]") {
  Transcribe<Ring> ring(RuntimeOptions{.workers = 2});
  auto const a = ring.allocate(8), b = ring.allocate(8);
  for (auto const& handle : {a, b}) {
    auto const bytes = ring.lock(handle, Access::write);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    ring.unlock(handle);
  }
  Use<Transcribe<Ring>::Handle> const uses[] = {{a, Access::update}, {b, Access::unordered}};
  ring.submit({&step_codelet, uses, {}, {}, {}});
  ring.wait_all();
  std::uint64_t const one = 1;
  std::uint64_t const left = io::hash64(std::as_bytes(std::span(&one, 1)));
  CHECK(testing::run(ring.transcript(), ring.inner())[0].hashes ==
        std::vector{left, std::uint64_t{0}});
}

TEST_CASE("a task that writes some bytes alone is reduced with what left the others",
          "[testing][transcript]") {
  static constexpr Codelet half{"half", +[](KernelCall const& call) noexcept -> Status {
                                  auto const at =
                                      *static_cast<unsigned char const*>(call.arguments);
                                  std::memset(static_cast<std::byte*>(call.buffers[0]) + at, at, 4);
                                  return {};
                                }};
  Transcribe<Serial> recorder;
  Use<Transcribe<Serial>::Handle> const uses[] = {{recorder.allocate(8), Access::write_disjoint}};
  static constexpr unsigned char begins[] = {0, 4};
  for (unsigned char const& at : begins)
    recorder.submit({&half, uses, std::as_bytes(std::span(&at, 1)), {}, {}});
  recorder.wait_all();
  Transcript const run = recorder.transcript(), part = slice(run, 1);
  CHECK(part.tasks() == 2);
  Serial serial;
  CHECK(testing::run(part, serial).back() == testing::run(run, serial)[1]);
}

TEST_CASE("a transcript that no runtime can run ends in an error, and the runtime goes on",
          "[testing][transcript]") {
  std::string const head = "nntile transcript 1\n";
  auto const run = [&](std::string const& calls) {
    std::string const text = head + calls;
    std::uint64_t const hash = io::hash64(std::as_bytes(std::span(text)));
    char digits[17];
    std::snprintf(digits, sizeof digits, "%llx", static_cast<unsigned long long>(hash));
    auto const count = std::ranges::count(calls, '\n');
    Transcript const transcript =
        io::transcript_of(text + concat("end ", count, ' ', digits, '\n'), "run", own);
    Ring ring(RuntimeOptions{.workers = 2});
    std::string const message = message_of<Error>([&] { testing::run(transcript, ring); });
    std::uint64_t value = 0;
    auto const handle = ring.adopt(std::as_writable_bytes(std::span(&value, 1)));
    Use<DataHandle> const uses[] = {{handle, Access::update}};
    ring.submit({&step_codelet, uses, {}, {}, {}});
    ring.wait_all();
    return message;
  };
  CHECK(contains(run("allocate 8 persistent\nretire 0\nretire 0\n"), "retire"));
  CHECK(contains(run("allocate 8 persistent\nwrite 0 00\n"),
                 "1 bytes are written to buffer 0, which has 8"));
  CHECK(contains(run("allocate 8 persistent\nregion 0 4 8 -\n"), "region"));
  CHECK(contains(run("allocate 8 persistent\nregion 0 0 1 2x4\nwrite 1 000000\n"),
                 "3 bytes are written to buffer 1, which has 2"));
  CHECK(contains(message_of<ValueError>([] {
                   Transcribe<Serial> recorder,
                       without;  // it takes no addresses, and so is none of regions
                   (void)recorder.region(recorder.allocate(8), {0, 4, {}});
                   testing::run(recorder.transcript(), without);
                 }),
                 "it has regions, and this runtime has none"));
  CHECK(contains(run("allocate 8 step\n"), "scope"));
  CHECK(contains(run("close_scope step\n"), "scope"));
  CHECK(contains(run("adopt w 0000000000000000\nallocate 8 persistent\n"
                     "submit a%20step u0 -1 0 -1 1 0 - -1 -\n"
                     "submit a%20step u1 -1 0 -1 1 0 - -1 -\n"),
                 "nothing has written"));
}
