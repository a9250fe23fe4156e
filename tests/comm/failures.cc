// SPDX-License-Identifier: BSD-3-Clause
// Failures across ranks: what they cancel is what they cancel on one rank, whatever overtakes what.
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/run_parts.hh"
#include "tests/graph/random_parts.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Wraps the body of each task that a CPU runs: notes that it ran, and fails where asked.
struct Watched {
  Codelet const* own = nullptr;
  void const* arguments = nullptr;
  bool fails = false;
  bool ran = false;
};
constexpr Codelet watched_codelet{.name = "watched",
                                  .cpu = +[](KernelCall const& call) noexcept -> Status {
                                    Watched* its = nullptr;
                                    std::memcpy(&its, call.arguments, sizeof its);
                                    its->ran = true;
                                    if (its->fails) return {"injected"};
                                    KernelCall own = call;
                                    own.arguments = its->arguments;
                                    return its->own->cpu(own);
                                  },
                                  .workspace = max_workspace_bytes};

/// An R whose tasks, numbered in the order of their submission, are watched.
template <class R> class WatchedRuntime : public Forward<R> {
 public:
  using Forward<R>::Forward;
  using Handle = typename Forward<R>::Handle;

  Event submit(Task<Handle> const& task) {
    if (next_ >= tasks.size() || task.codelet->cpu == nullptr) {
      ++next_;
      return Forward<R>::submit(task);
    }
    Watched* const its = &tasks[next_++];
    its->own = task.codelet;
    its->arguments = task.arguments.data();  // the plan's
    Task<Handle> watched = task;
    watched.codelet = &watched_codelet;
    watched.arguments = std::as_bytes(std::span(&its, 1));
    return Forward<R>::submit(watched);
  }

  std::vector<Watched> tasks;  // sized before the run

 private:
  std::size_t next_ = 0;
};

/// An op's task by what it does: node, tile and arguments.
std::string name_of_task(Plan const& plan, PlannedTask const& task) {
  auto const args = plan.args(task);
  std::string name = concat(plan.kernels()[task.kernel].name, " ", task.node, " ",
                            plan.tensors()[task.tensor].name, " ", task.tile, " ");
  return name.append(reinterpret_cast<char const*>(args.data()), args.size());
}

/// What failures led to.
struct Consequences {
  std::set<std::string> cancelled;  // tasks of ops, by name
  std::vector<std::string> texts;   // of each rank: what execute() and wait_all() threw
  std::vector<int> failed;          // of each rank: its tasks that failed themselves
};

template <class R>
void run_rank(RandomParts const& job, PlanOptions const& options, RankLink const& link,
              std::set<std::string> const& failing, Consequences& all, std::mutex& mutex) {
  WatchedRuntime<R> runtime(
      RuntimeOptions{.workers = std::is_same_v<R, Serial> ? 1 : 1 + link.rank % 2});
  TensorStore<WatchedRuntime<R>> store(runtime, link);
  auto step = compile_any(job.graph(), store, options, {.replay = false});
  for (auto const& stored : store.tensors()) {
    if (!stored->spec.attributes.persistent && !stored->spec.attributes.external) continue;
    Index const count = element_count(stored->spec.tiling.shape());
    std::vector<double> const zeros(static_cast<std::size_t>(count));
    store.write_bytes(*stored, reinterpret_cast<std::byte const*>(zeros.data()));
  }
  Plan const& plan = step.plan();
  runtime.tasks.resize(plan.tasks().size());
  for (std::size_t t = 0; t < plan.tasks().size(); ++t)
    runtime.tasks[t].fails = failing.contains(name_of_task(plan, plan.tasks()[t]));
  std::string text;
  try {
    step.execute();
  } catch (TaskError const& error) {
    text = error.what();
  }
  try {
    runtime.wait_all();
  } catch (TaskError const& error) {
    text += concat(" | ", error.what());
  }
  std::lock_guard const guard(mutex);
  for (std::size_t t = 0; t < plan.tasks().size(); ++t)
    if (plan.kernels()[plan.tasks()[t].kernel].kind == KernelKind::op && !runtime.tasks[t].ran)
      all.cancelled.insert(name_of_task(plan, plan.tasks()[t]));
  all.texts[static_cast<std::size_t>(link.rank)] = text;
  for (Watched const& task : runtime.tasks)
    all.failed[static_cast<std::size_t>(link.rank)] += task.ran && task.fails ? 1 : 0;
}

/// Runs a job on one rank, or on its mesh, with failures in the tasks of these names.
template <class R>
Consequences run_failing(RandomParts const& job, PlanOptions const& options, LocalOptions local,
                         std::set<std::string> const& failing) {
  Consequences all;
  std::mutex mutex;
  all.texts.resize(static_cast<std::size_t>(ranks_of(options.mesh)));
  all.failed.resize(all.texts.size());
  if (options.mesh.empty()) {
    run_rank<R>(job, options, {}, failing, all, mutex);
    return all;
  }
  LocalWorld world(ranks_of(options.mesh), local);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    run_rank<R>(job, options, link_of(transfers), failing, all, mutex);
    comm.barrier();
  });
  CHECK(thrown == std::vector<std::string>(thrown.size()));
  return all;
}

}  // namespace

// NNTILE_RANDOM_FAILURES (60) says how many, NNTILE_RANDOM_SEED (1) from which seed on.
TEST_CASE("failures in random graphs cancel what they cancel on one rank", "[comm][failures]") {
  auto const setting = [](char const* name, std::uint64_t otherwise) {
    char const* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  std::uint64_t const count = setting("NNTILE_RANDOM_FAILURES", sanitized ? 20 : 60);
  std::uint64_t tried = 0, crossed = 0, cancelled = 0;
  for (std::uint64_t seed = setting("NNTILE_RANDOM_SEED", 1); tried < count; ++seed) {
    RandomParts job(seed);
    if (job.refusal() != "") continue;
    ++tried;
    INFO("seed " << seed << ", " << job.ranks() << " ranks\n" << job.drawn().listing());
    Plan const whole(job.graph(), job.alone());
    std::set<std::string> failing;
    for (int failures = 1 + job.below(3); failures > 0; --failures)
      failing.insert(name_of_task(whole, whole.tasks()[static_cast<std::size_t>(
                                             job.below(static_cast<int>(whole.tasks().size())))]));
    LocalOptions const local{
        .seed = seed, .most_delay = job.below(6), .eager_bytes = job.below(2) == 0 ? 0u : 4096u};
    Consequences const one = run_failing<Serial>(job, job.alone(), {}, failing);
    Consequences const many = seed % 2 == 0
                                  ? run_failing<Serial>(job, job.options(), local, failing)
                                  : run_failing<Ring>(job, job.options(), local, failing);
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
              run_rank<Serial>(job, job.options(), link_of(transfers), {}, all, mutex);
            else
              run_rank<Ring>(job, job.options(), link_of(transfers), {}, all, mutex);
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
  LocalWorld world(job.ranks(), {.tag_bound = 0});
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    (void)compile_part(job.graph(), store, job.options());
  });
  for (std::string const& text : thrown) {
    CHECK(contains(text, "numbers of messages, but 1 are left of those up to the tag bound, 0"));
    CHECK_FALSE(contains(text, "\n"));
  }
}
