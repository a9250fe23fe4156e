// SPDX-License-Identifier: BSD-3-Clause
// Failures across ranks: what they cancel is what they cancel on one rank, whatever overtakes what.
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nntile/comm/transfers.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/failing_job.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/graph/scattered.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Runs a job on one rank, or on its mesh, with failures in the tasks of these names.
template <class R>
Consequences run_failing(RandomParts const& job, PlanOptions const& options, LocalOptions local,
                         std::set<std::string> const& failing) {
  Consequences all;
  std::mutex mutex;
  all.texts.resize(static_cast<std::size_t>(ranks_of(options.mesh)));
  all.failed.resize(all.texts.size());
  if (options.mesh.empty()) {
    run_rank<WatchedRuntime<R>>(job, options, {}, failing, all, mutex);
    return all;
  }
  LocalWorld world(ranks_of(options.mesh), local);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    if (options.place.empty())
      run_rank<WatchedRuntime<R>>(job, options, link_of(transfers), failing, all, mutex);
    else
      run_rank<Places<WatchedRuntime<R>>>(job, options, link_of(transfers), failing, all, mutex);
    comm.barrier();
  });
  CHECK(thrown == std::vector<std::string>(thrown.size()));
  return all;
}

}  // namespace

// NNTILE_RANDOM_FAILURES (60) says how many, NNTILE_RANDOM_SEED (1) from which seed on.
TEST_CASE("failures in random graphs cancel what they cancel on one rank", "[comm][failures]") {
  std::uint64_t const count = setting("NNTILE_RANDOM_FAILURES", sanitized ? 20 : 60);
  std::uint64_t tried = 0, crossed = 0, cancelled = 0;
  for (std::uint64_t seed = setting("NNTILE_RANDOM_SEED", 1); tried < count; ++seed) {
    RandomParts job(seed);
    if (job.refusal() != "") continue;
    ++tried;
    INFO("seed " << seed << ", " << job.ranks() << " ranks\n" << job.drawn().listing());
    std::set<std::string> const failing = draw_failing(job);
    LocalOptions const local{
        .seed = seed, .most_delay = job.below(6), .eager_bytes = job.below(2) == 0 ? 0u : 4096u};
    Consequences const one = run_failing<Serial>(job, job.alone(), {}, failing);
    PlanOptions options = job.options();
    if (seed % 3 == 0)
      scatter(options, job.graph(), {host, device(0), device(0), device(1), disk},
              [&] { return static_cast<std::size_t>(job.below(1 << 20)); });
    Consequences const many = seed % 2 == 0 ? run_failing<Serial>(job, options, local, failing)
                                            : run_failing<Ring>(job, options, local, failing);
    CHECK(many.cancelled == one.cancelled);
    CHECK(contains(one.texts[0], "injected"));
    cancelled += one.cancelled.size();
    for (std::size_t rank = 0; rank < many.texts.size(); ++rank) {
      std::string const& text = many.texts[rank];
      INFO("rank " << rank << ": " << text);
      if (text.empty()) continue;
      CHECK(contains(text, "injected"));
      CHECK(contains(text, "of tensor '"));
      CHECK_FALSE(contains(text, "receive of tensor"));  // which fail for nothing of their own
      CHECK_FALSE(contains(text, "bytes came"));
      if (many.failed[rank] == 0 && contains(text, " failed and "))
        CHECK(contains(text, " 0 failed and "));
      if (!contains(text, "rank ")) continue;
      ++crossed;
      CHECK(contains(text, ": watched of tensor '"));
      CHECK(contains(text, ", tile "));
    }
  }
  if (std::getenv("NNTILE_RANDOM_FAILURES") != nullptr)
    std::printf("failures: %llu graphs, %llu tasks cancelled, %llu ranks told by another\n",
                static_cast<unsigned long long>(tried), static_cast<unsigned long long>(cancelled),
                static_cast<unsigned long long>(crossed));
  CHECK(crossed * 10 > tried);
}

TEST_CASE("a message of the wrong size fails its receive, and what needs it on other ranks",
          "[comm][failures]") {
  int injected = 0;
  for (std::uint64_t seed = 1; injected < (sanitized ? 40 : 200); ++seed) {
    RandomParts const job(seed);
    if (!job.refusal().empty()) continue;
    int const ranks = job.ranks();
    for (int from = 0; from < ranks; ++from)
      for (PlannedTraffic const& with : traffic(Plan(job.graph(), job.options(), from)))
        for (std::int64_t number = 0; number < with.sent; number += 3) {
          INFO("seed " << seed << ", message " << number << " from " << from << " to "
                       << with.peer);
          LocalWorld world(ranks, {.seed = seed, .most_delay = 3});
          world.change_size(from, with.peer, number, 12);
          Consequences all;
          std::mutex mutex;
          all.texts.resize(static_cast<std::size_t>(ranks));
          all.failed.resize(static_cast<std::size_t>(ranks));
          auto const thrown = on_ranks(world, [&](LocalComm& comm) {
            Transfers transfers(comm);
            if (seed % 2 == 0)
              run_rank<WatchedRuntime<Serial>>(job, job.options(), link_of(transfers), {}, all,
                                               mutex);
            else
              run_rank<WatchedRuntime<Ring>>(job, job.options(), link_of(transfers), {}, all,
                                             mutex);
            comm.barrier();
          });
          CHECK(thrown == std::vector<std::string>(thrown.size()));
          std::string const& text = all.texts[static_cast<std::size_t>(with.peer)];
          CHECK(contains(text, concat("receive of message ", number, " from rank ", from,
                                      ": 12 bytes came, ")));
          CHECK(contains(text, "receive of tensor '"));
          for (std::string const& other : all.texts) {
            INFO(other);
            CHECK((other.empty() || contains(other, "12 bytes came")));
            CHECK_FALSE(contains(other, "\n"));
          }
          ++injected;
        }
  }
}

TEST_CASE("messages that no tags are left for are refused on all ranks", "[comm][failures]") {
  std::uint64_t seed = 1;
  auto const sends = [](RandomParts const& job) {
    return job.refusal().empty() && !traffic(Plan(job.graph(), job.options(), 0)).empty();
  };
  while (!sends(RandomParts(seed))) ++seed;
  RandomParts const job(seed);
  LocalWorld world(job.ranks());
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    (void)transfers.reserve(comm.tag_bound());  // all but one
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    (void)compile_part(job.graph(), store, job.options());
  });
  for (std::string const& text : thrown) {
    CHECK(
        contains(text, "numbers of messages, but 1 are left of those up to the tag bound, 32767"));
    CHECK_FALSE(contains(text, "\n"));
  }
}

TEST_CASE("a mesh that is not the communicator's size is refused on all ranks",
          "[comm][failures]") {
  LogicalGraph graph("layer");
  gelutanh(graph.input({.shape = {8}, .axes = "batch"}, "x")).named("y").mark_output();
  for (int const size : {1, 2, 4}) {
    LocalWorld world(3);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Serial runtime;
      TensorStore<Serial> store(runtime, link_of(transfers));
      (void)compile_part(graph, store, {.mesh = {{"data", size}}, .rules = ddp()});
    });
    for (std::string const& text : thrown)
      CHECK(text ==
            concat("plan 'layer': a mesh of ", size, " ranks, and the store's communicator ",
                   "has 3: give PlanOptions::mesh 3 in all, or the store a communicator of ",
                   size));
  }
}

TEST_CASE("a rank that lacks memory while it binds or gathers keeps none waiting",
          "[comm][failures]") {
  LogicalGraph graph("a graph whose name no small string holds");
  std::string const name = "a state whose name no small string holds";
  scale({.alpha = 2}, graph.state({.shape = {4}}, name)).named("y").mark_output();
  PlanOptions options{.tile = 2, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view, Index tile) { return static_cast<int>(tile % 2); };
  bool const binds = GENERATE(true, false);
  bool more = allocations_are_counted();
  for (long count = 0; more; ++count) {
    INFO("allocation " << count << " fails");
    LocalWorld world(2);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      Serial runtime;
      TensorStore<Serial> store(runtime, link_of(transfers));
      auto const plan = plan_part(graph, store, options);
      std::optional<CompiledGraph<Serial>> step;
      auto const bind = [&] { (void)step.emplace(plan, store); };
      if (!binds) bind();
      if (!binds) store.write(name, std::span<float const>(std::vector<float>(4, 1)));
      std::exception_ptr failure;
      if (comm.rank() == 1) (void)fail_new_after(count);
      try {
        binds ? bind() : (void)store.gather<float>(name);
      } catch (...) {
        failure = std::current_exception();
      }
      if (comm.rank() == 1) more = fail_new_after(-1) < 0;
      if (failure != nullptr) std::rethrow_exception(failure);
    });
    INFO(thrown[0]);
    CHECK((thrown[0] == "" || contains(thrown[0], "rank 1: ") ||
           contains(thrown[0], "rank 1 lacks memory")));
    CHECK((thrown[1] == "") == !more);
  }
}
