// SPDX-License-Identifier: BSD-3-Clause
// Slices of transcripts: the calls that a task's results depend on.
#include <vector>

#include "nntile/runtime/transcript.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using CallKind = TranscribedCall::Kind;

TEST_CASE("a slice keeps what a task in no order may read, or leave in its results",
          "[testing][transcript]") {
  static constexpr Codelet any{"any", nullptr, nullptr, nullptr};
  auto const task = [](std::vector<Use<std::uint32_t>> uses) {
    return TranscribedCall{.kind = CallKind::submit, .codelet = &any, .uses = std::move(uses)};
  };
  Transcript run;
  for (std::uint32_t buffer = 0; buffer < 2; ++buffer)
    run.calls.push_back({.kind = CallKind::allocate, .buffer = buffer, .bytes = 16});
  run.calls.push_back(task({{0, Access::write}}));
  run.calls.push_back(task({{0, Access::unordered}, {1, Access::write}}));
  run.calls.push_back(task({{1, Access::read}}));
  CHECK(slice(run, 1).tasks() == 2);
  CHECK(slice(run, 2).tasks() == 3);
}

TEST_CASE("a slice keeps the waits that accesses in no order may have their order by",
          "[testing][transcript]") {
  static constexpr Codelet any{"any", nullptr, nullptr, nullptr};
  auto const kinds_of = [](Access access, TranscribedCall const& wait) {
    auto const task = [](std::vector<Use<std::uint32_t>> uses) {
      return TranscribedCall{.kind = CallKind::submit, .codelet = &any, .uses = std::move(uses)};
    };
    Transcript run;
    for (std::uint32_t buffer = 0; buffer < 3; ++buffer)
      run.calls.push_back({.kind = CallKind::allocate, .buffer = buffer, .bytes = 16});
    run.calls.push_back(task({{0, access}}));
    run.calls.push_back(task({{2, Access::write}}));
    run.calls.push_back(wait);
    run.calls.push_back(task({{0, access}, {1, Access::write}}));
    std::vector<CallKind> kinds;
    for (TranscribedCall const& call : slice(run, 2).calls) kinds.push_back(call.kind);
    return kinds;
  };
  using enum TranscribedCall::Kind;
  for (TranscribedCall const& call :
       {TranscribedCall{.kind = wait, .task = 1}, TranscribedCall{.kind = wait_all},
        TranscribedCall{.kind = read, .buffer = 2}, TranscribedCall{.kind = write, .buffer = 2}}) {
    CHECK(kinds_of(Access::unordered, call) ==
          std::vector{allocate, allocate, submit, wait_all, submit});
    CHECK(kinds_of(Access::write_disjoint, call) ==
          std::vector{allocate, allocate, submit, submit});
  }
}

TEST_CASE("a slice of a transcript that names a buffer before any is made is refused",
          "[testing][transcript]") {
  static constexpr Codelet any{"any", nullptr, nullptr, nullptr};
  std::vector<Use<std::uint32_t>> const uses{{0, Access::read}};
  TranscribedCall const task{.kind = CallKind::submit, .codelet = &any, .uses = uses};
  TranscribedCall const make{.kind = CallKind::allocate, .buffer = 0, .bytes = 16};
  TranscribedCall const part{.kind = CallKind::region, .buffer = 0, .of = 1};
  for (Transcript const& run :
       {Transcript{{task}}, Transcript{{task, make}}, Transcript{{part, task}}})
    CHECK(contains(message_of<ValueError>([&] { (void)slice(run, 0); }), " names buffer "));
}
