// SPDX-License-Identifier: BSD-3-Clause
// Transcripts made by hand: calls that are out of place, results of others, memory released late.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/testing/transcript.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using Made = TranscribedCall;
using CallKind = Made::Kind;

namespace {

constexpr Codelet nothing{"nothing", +[](KernelCall const&) noexcept { return Status{}; }};
Made const make{.kind = CallKind::allocate, .bytes = 8};
Made const task{.kind = CallKind::submit, .codelet = &nothing, .uses = {{0, Access::write}}};
Made const outer{.kind = CallKind::orchestrate, .uses = {{0, Access::write}}};
Made const end{.kind = CallKind::end_body};

/// What it is refused with where it is cut, written down and repeated.
std::string refused(std::vector<Made> const& calls) {
  Transcript const run{calls};
  std::vector<io::NamedCodelet> const known{{"nothing", &nothing}};
  Serial serial;
  std::string const text = message_of<ValueError>([&] { (void)slice(run, 0); });
  CHECK(text == message_of<ValueError>([&] { (void)testing::run(run, serial); }));
  CHECK(text == message_of<ValueError>([&] { (void)io::transcript_text(run, known); }));
  return text;
}

/// Releases what it adopted in the second wait_all behind the last task, as the law allows.
class LateRelease : public Forward<Serial> {
 public:
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    Adopted& adopted = adopted_.emplace_back(Adopted{release});
    return Forward::adopt(
        bytes, place,
        {[](void* its) noexcept { static_cast<Adopted*>(its)->waits = 2; }, &adopted});
  }
  void wait_all() {
    Forward::wait_all();
    for (Adopted& adopted : adopted_)
      if (adopted.waits != 0 && --adopted.waits == 0) {
        adopted.release();
        ++released;
      }
  }
  int released = 0;

 private:
  struct Adopted {
    Release release;
    int waits = 0;
  };
  std::deque<Adopted> adopted_;
};

/// A runtime that releases adopted memory in `release` alone, against the law.
class NoRelease : public Forward<Serial> {
 public:
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    releases_.push_back(release);
    return Forward::adopt(bytes, place, {});
  }
  void release() {
    for (Release const& each : releases_) each();
  }

 private:
  std::vector<Release> releases_;
};

}  // namespace

TEST_CASE("memory that is adopted lives until its release", "[testing][transcript]") {
  Made adopt{.kind = CallKind::adopt, .contents = std::vector<std::byte>(8)}, next = adopt;
  next.buffer = 1;
  LateRelease runtime;
  auto const results =
      testing::run({{adopt, next, task, {.kind = CallKind::retire, .buffer = 0}}}, runtime);
  CHECK(results.size() == 1);
  CHECK(runtime.released == 2);
}

TEST_CASE("a run ends with an error where what it adopts is not released",
          "[testing][transcript]") {
  Made const adopt{.kind = CallKind::adopt, .contents = std::vector<std::byte>(8)};
  NoRelease runtime;
  Transcript const run{{adopt, task}};
  CHECK(contains(
      message_of<Error>([&] { (void)testing::detail::RepeatedRun<NoRelease>(run, runtime, 0)(); }),
      "buffer 0, which it adopts, was retired, and its runtime has not released it in 0 ms"));
  runtime.release();  // frees the memory
}

TEST_CASE("a run makes no call on a runtime that waits for nothing", "[testing][transcript]") {
  static int ran;
  static constexpr Codelet counted{"counted",
                                   +[](KernelCall const&) noexcept { return ++ran, Status{}; }};
  Made const adopt{.kind = CallKind::adopt, .contents = std::vector<std::byte>(8)};
  Made count = task;
  count.codelet = &counted;
  Transcript const run{{adopt, count}};
  ran = 0;
  Serial serial;
  auto const locked = serial.allocate(8);
  (void)serial.lock(locked, Access::write);
  CHECK(contains(message_of<LifetimeError>([&] { (void)testing::run(run, serial); }), "locked"));
  serial.unlock(locked);
  Ring ring({.workers = 1});
  ring.pause();
  CHECK(contains(message_of<LifetimeError>([&] { (void)testing::run(run, ring); }), "paused"));
  ring.resume();
  ring.wait_all();
  CHECK(ran == 0);
  CHECK(testing::run(run, serial) == testing::run(run, ring));
  CHECK(ran == 2);
}

TEST_CASE("a wait for a task that is not there is refused", "[testing][transcript]") {
  auto const wait = [](std::uint32_t number) {
    return Made{.kind = CallKind::wait, .task = number};
  };
  std::string const why = ", which no call before it in its body submits";
  CHECK(refused({make, task, wait(1)}) == "transcript: call 2 waits for task 1" + why);
  CHECK(contains(refused({make, wait(0), task}), why));
  CHECK(contains(refused({make, outer, task, wait(1'000'000), end}), why));
  CHECK(contains(refused({make, outer, task, end, wait(1)}), "call 4 waits for task 1" + why));
  CHECK(contains(refused({make, task, outer, wait(0), end}), why));
}

TEST_CASE("a buffer that is not made, or not the next one, is refused", "[testing][transcript]") {
  Made far = make, other = task, read{.kind = CallKind::read, .buffer = 1};
  far.buffer = other.uses[0].handle = 4'000'000'000;
  CHECK(contains(refused({far, other}), "call 0 makes buffer 4000000000 where the next one is 0"));
  CHECK(contains(refused({make, make, task}), "call 1 makes buffer 0 where the next one is 1"));
  CHECK(contains(refused({make, task, read}), "call 2 names buffer 1 where 1 are made"));
  CHECK(contains(refused({make, other}), "call 1 names buffer 4000000000 where 1 are made"));
  Made inner = make;
  inner.buffer = 1;
  CHECK(contains(refused({make, outer, inner, end, read}),
                 "call 4 names buffer 1, which was made in a body that has ended"));
}

TEST_CASE("a task without a codelet, and a body without an end, are refused",
          "[testing][transcript]") {
  Made none = task;
  none.codelet = nullptr;
  CHECK(contains(refused({make, none}), "call 1 submits no codelet"));
  CHECK(contains(refused({make, outer, task}), "the body of call 1 has no end"));
}

TEST_CASE("results of another transcript are not compared", "[testing][transcript]") {
  Transcript const run{{make, task}};
  Serial serial;
  auto const own = testing::run(run, serial);
  CHECK(contains(message_of<ValueError>([&] { (void)testing::first_difference(run, own, {{}}); }),
                 "1 and 0 results of task 0, which writes more operands"));
}
