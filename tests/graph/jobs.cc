// SPDX-License-Identifier: BSD-3-Clause
// Whole jobs: all parts of a plan compute what one rank does, and none waits for ever.
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/graph/random_parts.hh"
#include "tests/support/catch.hh"
#include "tests/support/job_proof.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Two ranks that send each other values, with slots that serve several tiles.
struct SmallJob {
  LogicalGraph graph{"job"};
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};

  SmallJob() {
    Node x = graph.input({.shape = {64, 4}, .axes = "embed batch"}, "x");
    Node const w = graph.parameter({.shape = {64, 64}, .axes = "out embed"}, "w");
    for (int layer = 0; layer < 3; ++layer) x = gelutanh(gemm(w, x));
    sum_slice({.axis = 1}, x).named("sum").mark_output();
    options.mesh = {{"data", 2}};
    options.rules = fsdp();
  }
  /// The fault when one part is changed.
  template <class Change> std::string fault(std::size_t rank, Change change) const {
    std::vector<Plan> parts = parts_of(graph, options);
    PlanData part = std::move(parts[rank]).data();
    change(part);
    parts[rank] = Plan(std::move(part));
    return fault_of(graph, options, parts);
  }
};
KernelKind kind(PlanData const& plan, std::size_t task) {
  return plan.kernels[plan.tasks[task].kernel].kind;
}
/// The places of all tasks of a kind.
std::vector<std::size_t> all(PlanData const& plan, KernelKind wanted) {
  std::vector<std::size_t> found;
  for (std::size_t t = 0; t < plan.tasks.size(); ++t)
    if (kind(plan, t) == wanted) found.push_back(t);
  return found;
}
/// The next task that uses a transfer's tile; the number of tasks where there is none.
std::size_t next_user(PlanData const& plan, std::size_t transfer) {
  BufferId const tile = plan.uses_of(plan.tasks[transfer])[0].handle;
  for (std::size_t t = transfer + 1; t < plan.tasks.size(); ++t)
    for (Use<BufferId> const& use : plan.uses_of(plan.tasks[t]))
      if (use.handle == tile) return t;
  return plan.tasks.size();
}
/// Whether what a transfer moves has been there before the run.
bool is_given(PlanData const& plan, std::size_t transfer) {
  PlannedTensor const& its = plan.tensors[plan.tasks[transfer].tensor];
  return its.attributes.persistent || its.attributes.external;
}
void move(PlanData& plan, std::size_t from, std::size_t to) {
  PlannedTask const task = plan.tasks[from];
  plan.tasks.erase(plan.tasks.begin() + static_cast<std::ptrdiff_t>(from));
  plan.tasks.insert(plan.tasks.begin() + static_cast<std::ptrdiff_t>(to), task);
}

}  // namespace

TEST_CASE("parts of random graphs are one rank's graph, and come to an end", "[graph][jobs]") {
  int tried = 0;
  // Of the last ones a tile is sent again, and then written away from its home.
  std::vector<std::uint64_t> seeds(sanitized ? 60 : 200);
  std::iota(seeds.begin(), seeds.end(), 1u);
  seeds.insert(seeds.end(), {2391, 3054, 4795, 4906});
  for (std::uint64_t const seed : seeds) {
    INFO("seed " << seed);
    RandomParts const job(seed);
    if (job.refusal() != "") continue;
    CHECK(fault_of(job.graph(), job.options()) == "");
    ++tried;
  }
  CHECK(tried > (sanitized ? 36 : 120));
}

TEST_CASE("the proof of whole jobs notices what is wrong in one part", "[graph][jobs]") {
  SmallJob const job;
  REQUIRE(job.fault(0, [](PlanData&) {}) == "");
  std::vector<Plan> const parts = parts_of(job.graph, job.options);
  for (std::size_t const rank : {0u, 1u}) {
    PlanData const& part = parts[rank].data();
    auto const sends = all(part, KernelKind::send), receives = all(part, KernelKind::receive);
    REQUIRE((!sends.empty() && !receives.empty()));
    auto const without = [&](std::size_t task) {
      return job.fault(rank, [&](PlanData& of) {
        of.tasks.erase(of.tasks.begin() + static_cast<std::ptrdiff_t>(task));
      });
    };
    for (std::size_t t = 0; t < part.tasks.size(); ++t) CHECK(without(t) != "");
    auto const with_args = [&](std::size_t task, auto change) {
      return job.fault(rank, [&](PlanData& of) {
        TransferArgs args;
        std::byte* const at = of.args.data() + of.tasks[task].args;
        std::memcpy(&args, at, sizeof args);
        change(args);
        std::memcpy(at, &args, sizeof args);
      });
    };
    CHECK(with_args(sends[0], [](TransferArgs& args) { args.number = 7; }) != "");
    CHECK(with_args(receives[0], [](TransferArgs& args) { args.peer = 2; }) != "");
    CHECK(with_args(receives[0], [&](TransferArgs& args) {
            args.peer = static_cast<std::int32_t>(rank);
          }) != "");
    for (std::size_t const receive : receives) {  // behind its reader
      std::size_t const reader = next_user(part, receive);
      if (reader == part.tasks.size()) continue;
      CHECK(job.fault(rank, [&](PlanData& of) { move(of, receive, reader); }) != "");
    }
    for (std::size_t const send : sends)  // to the beginning
      if (!is_given(part, send))
        CHECK(job.fault(rank, [&](PlanData& of) { move(of, send, 0); }) != "");
    // One tile in another's slot.
    CHECK(job.fault(rank, [&](PlanData& of) {
      for (PlannedBuffer& buffer : of.buffers)
        if (buffer.slot != no_id) buffer.slot = 0;
    }) != "");
    CHECK(job.fault(rank, [&](PlanData& of) { of.messages = 0; }) != "");
  }
}

TEST_CASE("two ranks that receive before they send wait for ever, and the proof says so",
          "[graph][jobs]") {
  SmallJob const job;
  std::vector<Plan> parts = parts_of(job.graph, job.options);
  for (Plan& part : parts) {
    PlanData data = std::move(part).data();
    auto const receive = all(data, KernelKind::receive)[0];
    move(data, receive, 0);
    part = Plan(std::move(data));
  }
  CHECK(fault_of(job.graph, job.options, parts).find("wait") != std::string::npos);
}
