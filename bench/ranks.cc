// SPDX-License-Identifier: BSD-3-Clause
// A training step of GPT-2's smallest model on two ranks of one worker, beside one rank of two
// workers with the same canonical groups, and beside PyTorch: processes in turn, in one run. And
// what a simulation of both says, of the same minute's kernels and messages.

#include <unistd.h>

#include <memory>
#include <sstream>

#include "bench/gpt2_step.hh"
#include "bench/harness.hh"
#include "bench/process.hh"
#include "bench/ranks_cases.hh"
#include "nntile/graph/simulate_job.hh"
#include "nntile/runtime/ring/ring.hh"

namespace {

using namespace nntile;
using Samples = std::vector<double>;

double time_step(bench::BoundStep<Ring>& step, float& loss) {
  double const begin = bench::seconds();
  loss = step.execute();
  return bench::seconds() - begin;
}

/// Simulates a case on two ranks and on one, each time with what the step before took.
class Simulated {
 public:
  Simulated(bench::RanksCase const& of, bench::Gpt2Step const& step, Plan const& plan)
      : plan_(plan), one_(job_tasks(std::span(&plan, 1))) {
    PlanOptions options{.tile = 512};
    options.mesh = of.mesh;
    options.rules = of.rules;
    two_ = job_tasks(step.graph, options);
  }

  void add(std::span<TaskTime const> times, std::string const& link) {
    ClusterModel cluster;
    std::istringstream words(link);
    words >> cluster.link.latency;
    std::string bandwidth;  // may be inf
    words >> bandwidth >> cluster.link.overhead >> cluster.link.overhead_per_byte;
    cluster.link.bandwidth = std::strtod(bandwidth.c_str(), nullptr);
    cluster.kernels.add(plan_, times);
    cluster.rank.workers = 2;
    one.push_back(simulate(one_, cluster).elapsed);
    cluster.rank.workers = 1;
    two.push_back(simulate(two_, cluster).elapsed);
  }

  Samples one, two;

 private:
  Plan const& plan_;
  JobTasks one_, two_;
};

/// PyTorch's two processes of one thread, which share the batch; none where they cannot be started.
std::unique_ptr<bench::Process> torch(bench::RanksCase const& of, std::string const& python) {
  if (python.empty()) {
    std::printf(
        "%s: no PyTorch: pip install torch in a virtual environment and name its interpreter with "
        "--torch\n",
        of.name);
    return nullptr;
  }
  std::vector<std::string> environment{"OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive"};
  char const* const allocator = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
  if (access(allocator, R_OK) == 0) environment.push_back(concat("LD_PRELOAD=", allocator));
  auto process = std::make_unique<bench::Process>(
      std::vector<std::string>{python, NNTILE_BENCH_SOURCE "/rivals/ranks_torch.py",
                               std::to_string(of.batch), std::to_string(of.seq)},
      environment);
  if (process->read()) return process;
  std::printf("%s: no PyTorch: '%s' cannot run it\n", of.name, python.c_str());
  return nullptr;
}

/// Times what groups cost one rank.
void run_groups(bench::Records& records, bench::RanksCase const& of, int rounds) {
  bench::Gpt2Step const grouped({}, of.seq, of.batch, {.groups = of.groups});
  bench::Gpt2Step const plain({}, of.seq, of.batch);
  bench::BoundStep<Ring> with(grouped, {.workers = 2}, {.tile = 512});
  bench::BoundStep<Ring> without(plain, {.workers = 2}, {.tile = 512});
  float loss = 0;
  Samples ours, theirs;
  for (int round = -1; round < rounds; ++round) {
    double const first = time_step(with, loss), second = time_step(without, loss);
    if (round >= 0) ours.push_back(first), theirs.push_back(second);  // touched memory
  }
  records.add(of.name, "ring", "seconds_one_rank", "s", ours);
  records.add_ratio(of.name, "ring", "groups_cost", ours, theirs);
}

/// Times one case; false where the ranks cannot be started, or have other bits.
bool run(bench::Records& records, bench::RanksCase const& of, std::string const& ranks,
         std::string const& python) {
  int const rounds = records.options().quick ? of.quick_rounds : of.rounds;
  if (of.mesh.empty()) return run_groups(records, of, rounds), true;
  bench::Process process({"mpiexec.mpich", "-n", "2", ranks, of.name});
  auto const traffic = process.read();
  if (!traffic) {
    std::fprintf(stderr, "%s: no ranks; mpiexec.mpich -n 2 %s %s says why\n", of.name,
                 ranks.c_str(), of.name);
    return false;
  }
  bool const rival = of.rules == ddp();  // which is all that it has of these
  auto const theirs_process = rival ? torch(of, python) : nullptr;
  bench::Gpt2Step const grouped({}, of.seq, of.batch, {.groups = of.groups});
  bench::Gpt2Step const plain({}, of.seq, of.batch);
  bench::BoundStep<Ring> one(grouped, {.workers = 2}, {.tile = 512}, {.trace = true});
  bench::BoundStep<Ring> without(plain, {.workers = 2}, {.tile = 512});
  float loss = 0, other = 0;
  (void)time_step(one, loss);
  (void)time_step(without, other);
  Simulated simulated(of, grouped, one.run().plan());
  Samples ours, theirs, ungrouped, overlap, of_torch;
  bool equal = true;
  for (int round = 0; round < rounds; ++round) {
    theirs.push_back(time_step(one, loss));
    ungrouped.push_back(time_step(without, other));
    auto const link = process.ask("link");
    if (!link) return false;
    simulated.add(one.run().times(), *link);
    auto const answer = process.ask("step");
    if (!answer) return false;
    char* end = nullptr;
    ours.push_back(std::strtod(answer->c_str(), &end));
    equal = equal && std::strtof(end, &end) == loss;
    overlap.push_back(std::strtod(end, nullptr));
    if (theirs_process == nullptr) continue;
    auto const step = theirs_process->ask("step");
    if (!step) return false;
    of_torch.push_back(std::strtod(step->c_str(), nullptr));
  }
  if (!equal) std::fprintf(stderr, "%s: the ranks' losses have other bits\n", of.name);
  records.add(of.name, "ring", "seconds_two_ranks", "s", ours);
  records.add(of.name, "ring", "seconds_one_rank", "s", theirs);
  records.add_ratio(of.name, "ring", "ranks_share", theirs, ours);
  records.add_ratio(of.name, "ring", "groups_cost", theirs, ungrouped);
  records.add_ratio(of.name, "ring", "simulated_one_rank", simulated.one, theirs);
  records.add_ratio(of.name, "ring", "simulated_two_ranks", simulated.two, ours);
  Samples share, simulated_share;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    share.push_back(ours[i] / theirs[i]);
    simulated_share.push_back(simulated.two[i] / simulated.one[i]);
  }
  records.add_ratio(of.name, "ring", "simulated_ratio", simulated_share, share);
  records.add(of.name, "ring", "overlap", "1", overlap);
  if (!of_torch.empty()) {
    records.add(of.name, "torch_ddp", "seconds_two_ranks", "s", of_torch);
    records.add_ratio(of.name, "ring", "times_torch_ddp", of_torch, ours);
  }
  std::istringstream words(*traffic);
  double sent = 0, bound = 0;
  words >> sent >> bound;
  records.add(of.name, "ring", "sent_by_rank_0", "MB", {sent * 1e-6});
  records.add(of.name, "ring", "sent_over_share", "ratio", {2 * sent / bound});
  return equal;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const python = bench::take_option(argc, argv, "--torch");
  std::string const only = bench::take_option(argc, argv, "--case");
  auto const options =
      bench::parse(argc, argv,
                   "GPT-2 steps on two ranks of MPI and on one. Also takes --torch PYTHON, an "
                   "interpreter that finds torch, and --case NAME, one of them.");
  std::string const self = argv[0];
  std::string const ranks = self.substr(0, self.rfind('/') + 1) + "ranks_mpi";
  bench::Records records("ranks", options);
  bool good = true;
  auto cases = bench::ranks_cases();
  std::erase_if(
      cases, [&](bench::RanksCase const& each) { return options.quick && each.quick_rounds == 0; });
  auto const chosen = [&](bench::RanksCase const& each) {
    return only.empty() || only == each.name;
  };
  bench::require_case("ranks", only, cases, chosen);
  for (bench::RanksCase const& each : cases)
    if (chosen(each)) good = run(records, each, ranks, python) && good;
  return good ? 0 : 1;
}
