// SPDX-License-Identifier: BSD-3-Clause
// Transcripts of runs whose tasks submit tasks that cannot be made, read or repeated.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "tests/support/message.hh"
#include "tests/testing/nesting_run.hh"

using namespace nntile;
using namespace nntile::test;
using CallKind = TranscribedCall::Kind;

TEST_CASE("a transcript is not read while a body may add to it",
          "[testing][transcript_nesting_refused]") {
  Transcribe<Ring> ring(RuntimeOptions{.workers = 2, .own_driver = true});
  std::atomic<bool> go = false;
  auto const a = ring.allocate(8);
  Event const outer = ring.orchestrate(
      [&](auto& nested) {
        while (!go) std::this_thread::yield();
        call(nested, put_word, 1, writing(a));
      },
      writing(a));
  CHECK(contains(message_of<LifetimeError>([&] { (void)ring.transcript(); }),
                 "transcript: 1 tasks that submit have not ended: wait for them first"));
  go = true;
  ring.wait(outer);
  CHECK(ring.transcript().tasks() == 2);
}

TEST_CASE("a task that submits is refused where none does, before anything runs",
          "[testing][transcript_nesting_refused]") {
  Transcribe<Serial> recorder;
  Transcript const run = failures_of(recorder);
  Record<Check<Serial>> runtime;
  CHECK(message_of<ValueError>([&] { (void)testing::run(run, runtime); }) ==
        "transcript: it has tasks that submit, and those of this runtime do not");
  CHECK(runtime.counts() == CallCounts{});
}

TEST_CASE("a transcript with bodies that was cut or changed is refused",
          "[testing][transcript_nesting_refused]") {
  Transcribe<Serial> recorder;
  std::string const text = io::transcript_text(failures_of(recorder), known);
  auto const refused = [&](std::string const& changed) {
    return message_of<FormatError>([&] { (void)io::transcript_of(changed, "run", known); });
  };
  auto const closed = [](std::string const& cut) {
    std::uint64_t const hashed = io::hash64(std::as_bytes(std::span(cut)));
    char digits[17];
    std::snprintf(digits, sizeof digits, "%llx", static_cast<unsigned long long>(hashed));
    return cut + concat("end ", std::ranges::count(cut, '\n') - 1, ' ', digits, '\n');
  };
  CHECK(io::transcript_of(closed(text.substr(0, text.find("end "))), "run", known).tasks() == 15);
  int depth = 0;
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1) {
    std::string const cut = text.substr(0, at);
    CHECK(contains(refused(cut), "cut: it has no line 'end'"));
    if (depth != 0)
      CHECK(contains(refused(closed(cut)), concat(depth, " bodies have no end_body")));
    else
      (void)io::transcript_of(closed(cut), "run", known);
    if (text.substr(at).starts_with("orchestrate ")) ++depth;
    if (text.substr(at).starts_with("end_body ")) --depth;
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(contains(refused(changed), "'run', line "));
  }

  auto const line = [&](std::string const& calls, char version = '2') {
    return refused(concat("nntile transcript ", version, "\nallocate 8 persistent\n", calls, '\n'));
  };
  std::string const task = " -1 0 -1 1 0 - -1", outer = "orchestrate w0" + task + '\n';
  CHECK(contains(line("end_body ran -"), "no body is open here"));
  CHECK(contains(line(outer, '1'), "'orchestrate' is no call of version 1"));
  CHECK(contains(line("end_body ran -", '1'), "'end_body' is no call of version 1"));
  CHECK(contains(line(outer, '4'), "not a transcript of version 1 to 3"));
  CHECK(contains(line(outer + "end 2 0"), "1 bodies have no end_body, the last that of task 0"));
  for (std::string const call : {"adopt w 00", "region 0 0 8 -"})
    CHECK(contains(line(outer + call), "is no call of a body, as that of task 0"));
  CHECK(contains(line("allocate 8 persistent\n" + outer + "retire 1"),
                 "buffer 1 is no operand of task 0, in whose body this stands, nor made there"));
  CHECK(contains(line("allocate 8 persistent\n" + outer + "submit put r0,u1" + task + " -"),
                 "buffer 1 is no operand of task 0"));
  CHECK(contains(line(outer + "allocate 8 persistent\n" + outer + "retire 1"),
                 "buffer 1 is no operand of task 1"));
  CHECK(contains(line(outer + "allocate 8 persistent\nend_body ran -\nretire 1"),
                 "buffer 1 was made in a body, which has ended"));
  CHECK(contains(line(outer + "submit put w0" + task + " -\nend_body ran -\nwait 1"),
                 "task 1 was not submitted here"));
  CHECK(contains(line(outer + "wait 0"), "task 0 was not submitted here"));
  CHECK(contains(line(outer + "wait 1"), "task 1 of 1 so far"));
  CHECK(contains(line(outer + "end_body"), "outcome is missing"));
  CHECK(contains(line(outer + "end_body ran"), "cause is missing"));
  CHECK(contains(line(outer + "end_body gone -"), "'gone' is none of ran, threw, none"));
  CHECK(contains(line(outer + "end_body ran x"), "a body has a cause if it threw, and else none"));
  CHECK(contains(line(outer + "end_body threw -"), "a body has a cause if it threw"));
  CHECK(contains(line(outer + "wait_all\nend_body none -"),
                 "the body of task 0 makes calls, and did not run"));
  CHECK(contains(line("orchestrate w0 -1"), "priority is missing"));
}

TEMPLATE_LIST_TEST_CASE("calls that no body can make end in their error, and the runtime goes on",
                        "[testing][transcript_nesting_refused]", NestingRuntimes) {
  using Call = TranscribedCall;
  TestType runtime;
  auto const refused = [&](Access access, std::vector<Call> const& inside) {
    Transcript run;
    run.calls.push_back({.kind = CallKind::allocate, .bytes = 8});
    run.calls.push_back({.kind = CallKind::submit,
                         .codelet = &put_word,
                         .uses = {{0, Access::write}},
                         .arguments = std::vector(8, std::byte{1})});
    run.calls.push_back({.kind = CallKind::orchestrate, .uses = {{0, access}}});
    run.calls.insert(run.calls.end(), inside.begin(), inside.end());
    run.calls.push_back({.kind = CallKind::end_body});
    std::string const text = message_of<Error>([&] { (void)testing::run(run, runtime); });
    auto const cell = runtime.allocate(8);
    runtime.orchestrate([cell](auto& nested) { call(nested, put_word, 3, writing(cell)); },
                        writing(cell));
    auto const bytes = runtime.lock(cell, Access::read);
    CHECK(bytes[0] == std::byte{3});
    runtime.unlock(cell);
    return text;
  };
  CHECK(contains(refused(Access::update, {{.kind = CallKind::retire, .buffer = 0}}),
                 "is an operand of"));
  CHECK(contains(
      refused(Access::read,
              {{.kind = CallKind::submit, .codelet = &step_word, .uses = {{0, Access::update}}}}),
      "was declared for read"));
  CHECK(contains(refused(Access::write, {{.kind = CallKind::read, .buffer = 0}}),
                 "nothing has written"));
  CHECK(contains(
      refused(Access::write,
              {{.kind = CallKind::write, .buffer = 0, .contents = std::vector(3, std::byte{})}}),
      "3 bytes are written to buffer 0, which has 8"));
  CHECK(contains(refused(Access::write, {{.kind = CallKind::adopt, .buffer = 1}}),
                 "is none of a body"));
  CHECK(contains(refused(Access::write, {{.kind = CallKind::retire, .buffer = 9}}),
                 "call 3 names buffer 9 where 1 are made"));
  CHECK(contains(refused(Access::write, {{.kind = CallKind::end_body}}), "ends no body"));
  CHECK(contains(refused(Access::write, {{.kind = CallKind::orchestrate}}), "has no end"));
}
