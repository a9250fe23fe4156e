// SPDX-License-Identifier: BSD-3-Clause
// Scopes that bodies open, written down and repeated there.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/testing/transcript.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;
using CallKind = TranscribedCall::Kind;

namespace {

using NestingRuntimes = std::tuple<Serial, DynamicRing, Threads, Ring>;

constexpr Codelet double_codelet{"double", +[](KernelCall const& call) noexcept -> Status {
                                   *static_cast<std::uint64_t*>(call.buffers[1]) =
                                       2 * *static_cast<std::uint64_t const*>(call.buffers[0]);
                                   return {};
                                 }};

template <class Target, class H> void double_of(Target& target, H from, H to) {
  Use<H> const uses[] = {{from, Access::read}, {to, Access::write}};
  target.submit({&double_codelet, uses, {}, {}, {}});
}

/// A body with scopes in one another, one of which it leaves open, and a body in one of them.
template <class R> Transcript scopes_of(R& runtime) {
  using H = typename R::Handle;
  H const a = runtime.allocate(8), b = runtime.allocate(8);
  auto const bytes = runtime.lock(a, Access::write);
  for (std::byte& each : bytes) each = std::byte{1};
  runtime.unlock(a);
  Use<H> const uses[] = {{a, Access::read}, {b, Access::write}};
  runtime.submit_nesting(
      [a, b](auto& nested) {
        nested.open_scope(Lifetime::step);
        H const outer = nested.allocate(8, host, Lifetime::step);
        double_of(nested, a, outer);
        nested.open_scope(Lifetime::scope);
        H const inner = nested.allocate(8, host, Lifetime::scope);
        Use<H> const both[] = {{outer, Access::read}, {inner, Access::write}};
        nested.submit_nesting(
            [outer, inner](auto& own) {
              own.open_scope(Lifetime::step);
              H const last = own.allocate(8, host, Lifetime::step);
              double_of(own, outer, last);
              double_of(own, last, inner);
            },
            both);
        double_of(nested, inner, b);
        nested.close_scope(Lifetime::scope);
        double_of(nested, outer, b);
        nested.close_scope(Lifetime::step);
      },
      uses);
  runtime.wait_all();
  return runtime.transcript();
}

/// Kinds and lifetimes of the calls that are no tasks of a plain codelet: those that look at
/// results are not in the original.
std::vector<std::tuple<CallKind, Lifetime>> frame_of(Transcript const& run) {
  std::vector<std::tuple<CallKind, Lifetime>> frame;
  for (TranscribedCall const& call : run.calls)
    if (call.kind != CallKind::submit && call.kind != CallKind::wait_all)
      frame.emplace_back(call.kind, call.lifetime);
  return frame;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("scopes of bodies are written down, and opened and closed again",
                        "[testing][transcript_scopes]", NestingRuntimes) {
  Transcribe<Serial> recorder;
  Transcript const run = scopes_of(recorder);
  auto const frame = frame_of(run);
  using enum TranscribedCall::Kind;
  std::vector<CallKind> kinds;
  for (auto const& [kind, lifetime] : frame) kinds.push_back(kind);
  CHECK(kinds == std::vector{allocate, allocate, write, orchestrate, open_scope, allocate,
                             open_scope, allocate, orchestrate, open_scope, allocate, end_body,
                             close_scope, close_scope, end_body});
  for (int const workers : worker_counts<TestType>()) {
    Transcribe<TestType> here(RuntimeOptions{.workers = workers});
    CHECK(scopes_of(here) == run);
    Transcribe<TestType> again(RuntimeOptions{.workers = workers});
    auto const results = testing::run(run, again);
    CHECK(frame_of(again.transcript()) == frame);
    TestType plain(RuntimeOptions{.workers = workers});
    CHECK(testing::run(run, plain) == results);
  }
}

TEST_CASE("a body that uses a scope's buffer behind its end is refused where it is repeated",
          "[testing][transcript_scopes]") {
  Transcribe<Serial> recorder;
  Transcript run = scopes_of(recorder);
  // The inner scope closes where it is opened: its buffer has no scope.
  std::size_t open = 0;
  while (run.calls[open].kind != CallKind::open_scope ||
         run.calls[open].lifetime != Lifetime::scope)
    ++open;
  TranscribedCall close = run.calls[open];
  close.kind = CallKind::close_scope;
  run.calls.insert(run.calls.begin() + static_cast<std::ptrdiff_t>(open) + 1, close);
  Serial runtime;
  CHECK_THROWS_AS(testing::run(run, runtime), LifetimeError);
}
