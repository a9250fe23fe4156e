// SPDX-License-Identifier: BSD-3-Clause
// A task has ended, for whoever asks, before a task that waits for it can run: where the thread
// that ran its body is delayed behind that, too.

#include <atomic>
#include <thread>

#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Holds the thread that runs the body of the next task, right behind that body.
class HoldingTrace : public RingNoTrace {
 public:
  using RingNoTrace::RingNoTrace;
  struct Submission : RingNoTrace::Submission {
    explicit Submission(HoldingTrace& trace) : RingNoTrace::Submission(trace) {}
  };

  void hold_next() {
    let_go_ = false;
    armed_ = true;
  }
  void wait_until_held() const {
    while (!held_) std::this_thread::yield();
  }
  void let_go() {
    let_go_ = true;
    while (held_) std::this_thread::yield();
  }

  void begin(int worker, std::uint64_t, Codelet const&) {
    if (armed_.exchange(false)) worker_ = worker;
  }
  void end(int worker, std::uint64_t) {
    if (worker_ != worker) return;
    worker_ = -1;
    held_ = true;
    while (!let_go_) std::this_thread::yield();
    held_ = false;
  }

 private:
  std::atomic<bool> armed_{false}, held_{false}, let_go_{false};
  std::atomic<int> worker_{-1};
};
struct HoldingPolicy : RingPolicy {
  using Trace = HoldingTrace;
};
using HoldingRing = BasicRing<HoldingPolicy>;

Status no_block(KernelCall const&, Block) noexcept { return {}; }
constexpr BlockCodelet in_two_blocks = in_blocks<&no_block>("in_two_blocks");

/// Submits a first task by submit_first(), ends it by end_first() while the thread of its body is
/// held, and waits for a second that updates the same cell; whether the first one is done then.
template <class R, class SubmitFirst, class EndFirst>
bool ends_first(HoldingTrace& trace, R& runtime, DataHandle target, SubmitFirst submit_first,
                EndFirst end_first) {
  trace.hold_next();
  Event const first = submit_first();
  trace.wait_until_held();
  Event const second = submit(runtime, step_codelet, {{target, Access::update}}, 1L);
  end_first();
  runtime.wait(second);
  bool const ended = runtime.done(first);
  trace.let_go();
  return ended;
}
/// The same for a token.
template <class R>
bool token_ends_first(HoldingTrace& trace, R& runtime, DataHandle target,
                      Access access = Access::update) {
  Gate gate;
  return ends_first(
      trace, runtime, target,
      [&] { return submit(runtime, wait_codelet, {{target, access}}, &gate); },
      [&] { gate.token.complete(); });
}
constexpr auto by_itself = [] {};

}  // namespace

TEST_CASE("an asynchronous task is done before a task behind it runs", "[runtime][ring][ends]") {
  for (Access const access : {Access::update, Access::accumulate}) {
    HoldingRing ring({.workers = 2, .own_driver = true});
    DataHandle const target = cell(ring, 1);
    ring.wait_all();
    CHECK(token_ends_first(ring.trace(), ring, target, access));
  }
}

TEST_CASE("a task of blocks is done before a task behind it runs", "[runtime][ring][ends]") {
  HoldingRing ring({.workers = 2, .own_driver = true});
  DataHandle const target = cell(ring, 1);
  ring.wait_all();
  Use<DataHandle> const uses[] = {{target, Access::update}};
  CHECK(ends_first(
      ring.trace(), ring, target, [&] { return submit_blocks(ring, in_two_blocks, 2, uses, {}); },
      by_itself));
}

TEST_CASE("a task that submits is done before a task behind it runs", "[runtime][ring][ends]") {
  for (int const tasks : {0, 1}) {
    HoldingRing ring({.workers = 2, .own_driver = true});
    DataHandle const target = cell(ring, 1);
    ring.wait_all();
    auto const body = [=](auto& nested) {
      for (int i = 0; i < tasks; ++i) submit(nested, step_codelet, {{target, Access::update}}, 1L);
    };
    auto const orchestrate = [&] {
      return ring.orchestrate(body, Use<DataHandle>{target, Access::update});
    };
    CHECK(ends_first(ring.trace(), ring, target, orchestrate, by_itself));
  }
}

TEST_CASE("tasks of a body are done before tasks behind them run", "[runtime][ring][ends]") {
  HoldingRing ring({.workers = 2, .own_driver = true});
  DataHandle const target = cell(ring, 1);
  ring.wait_all();
  bool token = false, nest = false;
  auto const body = [&](auto& nested) {
    token = token_ends_first(ring.trace(), nested, target);
    auto const orchestrate = [&] {
      return nested.orchestrate([](auto&) {}, Use<DataHandle>{target, Access::update});
    };
    nest = ends_first(ring.trace(), nested, target, orchestrate, by_itself);
  };
  ring.wait(ring.orchestrate(body, Use<DataHandle>{target, Access::update}));
  CHECK(token);
  CHECK(nest);
}
