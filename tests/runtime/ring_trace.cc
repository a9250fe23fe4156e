// SPDX-License-Identifier: BSD-3-Clause
// What a ring's trace sees: each body once, each dependence, the steps of submissions.
#include "nntile/runtime/ring/trace.hh"

#include <bitset>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/ring/trace_report.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;

namespace {

using TracedRing = BasicRing<RingTracePolicy>;

Status nothing(KernelCall const&) noexcept { return {}; }
constexpr Codelet empty{"empty", nothing, nullptr, nullptr};

/// Calls `hook` once, where an allocation is noted.
struct HookedTrace : RingTrace {
  using RingTrace::RingTrace;
  std::function<void()> hook;

  void allocated(Lifetime lifetime, std::size_t bytes, std::size_t used) {
    RingTrace::allocated(lifetime, bytes, used);
    if (auto const call = std::exchange(hook, {})) call();
  }
};
struct HookedPolicy : RingPolicy {
  using Trace = HookedTrace;
};

struct Submitted {
  std::vector<std::vector<Use<DataHandle>>> tasks;
  std::vector<std::uint64_t> sequences;
};

/// Submits random tasks of up to five operands, or of some to all buffers, most of them read, so
/// that writers meet more readers than a slot has edges.
Submitted submit_some(TracedRing& ring, std::vector<DataHandle> const& buffers,
                      std::minstd_rand& random, int count, bool wide = false) {
  Submitted result;
  for (int t = 0; t < count; ++t) {
    std::vector<Use<DataHandle>> uses;
    std::size_t const operands = wide ? 8 + random() % 9 : random() % 6;
    std::size_t const first = random() % buffers.size();
    for (std::size_t o = 0; o < operands; ++o) {
      std::size_t const draw = random() % (wide ? 96 : 12);
      Access const access = draw == 0                ? Access::write
                            : draw == 1              ? Access::update
                            : wide && draw % 16 == 2 ? Access::write_disjoint
                                                     : Access::read;
      uses.push_back({buffers[(first + 5 * o) % buffers.size()], access});
    }
    result.sequences.push_back(ring.submit({&empty, uses, {}, {}, {}}).sequence);
    result.tasks.push_back(uses);
  }
  return result;
}

/// Whether two tasks touch a common buffer that one of them writes, and not both other bytes.
bool conflict(std::vector<Use<DataHandle>> const& a, std::vector<Use<DataHandle>> const& b) {
  for (auto const& x : a)
    for (auto const& y : b)
      if (x.handle == y.handle && (writes(x.access) || writes(y.access)) &&
          (x.access != Access::write_disjoint || y.access != Access::write_disjoint))
        return true;
  return false;
}

std::vector<DataHandle> allocate_some(TracedRing& ring, std::size_t count) {
  std::vector<DataHandle> buffers;
  for (std::size_t b = 0; b < count; ++b) {
    buffers.push_back(ring.allocate(64));
    ring.lock(buffers.back(), Access::write);
    ring.unlock(buffers.back());
  }
  return buffers;
}

}  // namespace

TEST_CASE("the default trace takes no room", "[runtime][ring][trace]") {
  CHECK(std::is_empty_v<RingNoTrace>);
  CHECK(std::is_empty_v<RingNoTrace::Submission>);
}

// The region checker compares every pair of tasks. No task runs before all are submitted, so that
// each dependence needs an edge.
TEST_CASE("edges are those of all conflicting pairs, and no others", "[runtime][ring][trace]") {
  constexpr int count = 150;
  TracedRing ring({.workers = 1});
  auto const buffers = allocate_some(ring, 16);
  std::minstd_rand random(17);
  std::size_t edges = 0, surplus = 0, missing = 0, joins = 0;
  for (int round = 0; round < 100; ++round) {
    ring.trace().clear();
    ring.pause();
    bool const wide = round % 4 == 0;
    int const tasks = wide ? 40 : count;  // with their joins
    Submitted const submitted = submit_some(ring, buffers, random, tasks, wide);
    CHECK(ring.trace().bodies(0).empty());
    // What a task is behind, directly or not; joins are behind nothing of their own.
    std::map<std::uint64_t, std::bitset<count>> behind;
    std::map<std::uint64_t, std::size_t> position;
    for (std::size_t t = 0; t < submitted.tasks.size(); ++t) position[submitted.sequences[t]] = t;
    for (TracedEdge const& edge : ring.trace().edges()) {
      ++edges;
      bool const from_join = (edge.from & traced_join) != 0;
      joins += (edge.to & traced_join) != 0;
      behind[edge.to] |= behind[edge.from];
      if (from_join) continue;
      REQUIRE(position.count(edge.from) == 1);
      behind[edge.to].set(position[edge.from]);
      if ((edge.to & traced_join) == 0)
        surplus +=
            !conflict(submitted.tasks[position[edge.from]], submitted.tasks[position[edge.to]]);
    }
    for (std::size_t later = 0; later < submitted.tasks.size(); ++later)
      for (std::size_t earlier = 0; earlier < later; ++earlier)
        missing += conflict(submitted.tasks[earlier], submitted.tasks[later]) &&
                   !behind[submitted.sequences[later]][earlier];
    ring.resume();
    ring.wait_all();
  }
  CHECK(missing == 0);
  CHECK(surplus == 0);
  CHECK(joins > 100);
  CHECK(edges > 10'000);
}

TEST_CASE("each body is traced once, behind those that it waits for", "[runtime][ring][trace]") {
  for (bool const own_driver : {false, true}) {
    TracedRing ring({.workers = 2, .own_driver = own_driver});
    auto const buffers = allocate_some(ring, 16);
    std::minstd_rand random(18);
    Submitted const submitted = submit_some(ring, buffers, random, 3'000);
    ring.wait_all();
    std::map<std::uint64_t, TracedBody> bodies;
    for (int worker = 0; worker < 2; ++worker)
      for (TracedBody const& body : ring.trace().bodies(worker)) {
        CHECK(body.codelet == &empty);
        CHECK(body.worker == worker);
        CHECK(body.begin <= body.end);
        CHECK(bodies.emplace(body.sequence, body).second);
      }
    CHECK(bodies.size() == 3'000);
    for (TracedEdge const& edge : ring.trace().edges())
      if (bodies.count(edge.from) != 0 && bodies.count(edge.to) != 0)
        CHECK(bodies[edge.from].end <= bodies[edge.to].begin);
    REQUIRE(ring.trace().submissions().size() == 3'000);
    for (std::size_t t = 0; t < 3'000; ++t) {
      TracedSubmission const& task = ring.trace().submissions()[t];
      CHECK(task.sequence == submitted.sequences[t]);
      CHECK((task.in_window >= 1 && task.in_window <= RingSizes::window));
      std::int64_t before = task.begin;
      for (std::int64_t const ended : task.ended) CHECK(ended >= std::exchange(before, ended));
    }
    CHECK(ring.trace().dropped() == 0);
  }
}

TEST_CASE("a replay's bodies are traced, and itself as a submission", "[runtime][ring][trace]") {
  TracedRing ring({.workers = 1});
  auto const buffers = allocate_some(ring, 1);
  Use<Binding> const use[] = {{0, Access::update}};
  ProgramTask const tasks[] = {{&empty, use, {}, {}, {}}, {&empty, use, {}, {}, {}}};
  auto const program = ring.record(tasks, 1);
  Event const event = ring.replay(program, buffers);
  ring.wait(event);
  REQUIRE(ring.trace().bodies(0).size() == 2);
  CHECK(ring.trace().bodies(0)[0].sequence == event.sequence);
  CHECK(ring.trace().bodies(0)[1].sequence == event.sequence + 1);
  REQUIRE(ring.trace().submissions().size() == 1);
  CHECK(ring.trace().submissions()[0].codelet == nullptr);
}

TEST_CASE("a report adds up the steps of submissions", "[runtime][ring][trace]") {
  TracedRing ring({.workers = 1});
  CHECK(submit_report(ring.trace()) == "no task was submitted\n");
  auto const buffers = allocate_some(ring, 16);
  std::minstd_rand random(19);
  submit_some(ring, buffers, random, 1'000);  // more than a lone driver leaves unrun
  SubmitTimes const times = submit_times(ring.trace());
  CHECK(times.tasks == 1'000);
  CHECK(std::accumulate(times.steps, times.steps + submit_steps, std::int64_t{0}) == times.total);
  CHECK(times.helping > 0);
  CHECK(times.helping <= times.steps[static_cast<int>(SubmitStep::room)]);
  std::string const report = submit_report(ring.trace());
  for (char const* word : {"1000 tasks", "bind", "room", "helping", "lookup", "payload", "publish"})
    CHECK(report.find(word) != std::string::npos);
  ring.wait_all();
}

TEST_CASE("scopes are traced with what they held and the peak of their heap",
          "[runtime][ring][trace]") {
  TracedRing ring({.workers = 1});
  CHECK(scope_report(ring.trace()) == "no scope was opened\n");
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    ring.open_scope(Lifetime::step), line = __LINE__;
    auto const first = ring.allocate(64, host, Lifetime::step);
    ring.open_scope(Lifetime::scratch);
    (void)ring.allocate(1000, host, Lifetime::scratch);
    ring.open_scope(Lifetime::step);
    (void)ring.allocate(128, host, Lifetime::step);
    (void)ring.allocate(128, host, Lifetime::step);
    ring.close_scope(Lifetime::step);
    ring.close_scope(Lifetime::scratch);
    ring.retire(first);
    (void)ring.allocate(64, host, Lifetime::step);
    ring.close_scope(Lifetime::step);
  }
  auto const& scopes = ring.trace().scopes();
  REQUIRE(scopes.size() == 9);
  for (std::size_t i = 0; i < 9; i += 3) {
    TracedScope const &step = scopes[i], &scratch = scopes[i + 1], &inner = scopes[i + 2];
    CHECK((step.lifetime == Lifetime::step && step.site.line == line));
    CHECK((step.buffers == 2 && step.bytes == 128));
    CHECK((step.peak == 320 && inner.peak == 320));
    CHECK((inner.before == 64 && inner.buffers == 2 && inner.bytes == 256));
    CHECK((scratch.buffers == 1 && scratch.bytes == 1000 && scratch.peak == 1024));
    CHECK((step.opened <= scratch.opened && scratch.opened <= inner.opened));
    CHECK((inner.closed <= scratch.closed && scratch.closed <= step.closed && inner.closed != 0));
  }
  auto const sites = scope_memory(ring.trace());
  REQUIRE(sites.size() == 3);
  CHECK((sites[0].opened == 3 && sites[0].buffers == 6 && sites[0].bytes == 384));
  CHECK((sites[0].peak == 320 && sites[2].bytes == 768));
  std::string const report = scope_report(ring.trace());
  CHECK(report.find(concat("ring_trace.cc:", line)) != std::string::npos);
  ring.trace().clear();
  CHECK(ring.trace().heaps().empty());
}

TEST_CASE("scopes whose lines are not known are reported together", "[runtime][ring][trace]") {
  TracedRing ring({.workers = 1});
  for (int i = 0; i < 2; ++i) {
    ring.open_scope(Lifetime::step, {});
    ring.close_scope(Lifetime::step);
  }
  CHECK(scope_memory(ring.trace()).size() == 1);
  CHECK(scope_report(ring.trace()).find("?:0\n") != std::string::npos);
}

TEST_CASE("an allocation is noted before another thread may drive", "[runtime][ring][trace]") {
  BasicRing<HookedPolicy> ring({.workers = 1});
  ring.open_scope(Lifetime::step);
  for (int i = 0; i < 3; ++i) {  // slowly, and then quickly
    std::string text;
    ring.trace().hook = [&] {
      std::thread([&] {
        text =
            test::message_of<LifetimeError>([&] { (void)ring.allocate(64, host, Lifetime::step); });
      }).join();
    };
    (void)ring.allocate(64, host, Lifetime::step);
    CHECK(test::contains(text, "is inside allocate"));
  }
  ring.close_scope(Lifetime::step);
}
