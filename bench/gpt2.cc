// SPDX-License-Identifier: BSD-3-Clause
// A training step of GPT-2's smallest model, as a share of the machine's peak, over runtimes and
// beside PyTorch and llm.c.

#include <unistd.h>

#include <cinttypes>
#include <filesystem>
#include <functional>

#include "bench/gpt2_step.hh"
#include "bench/harness.hh"
#include "bench/peak.hh"
#include "bench/process.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif

namespace {

using namespace nntile;
using Samples = std::vector<double>;

constexpr int cores = 2;

struct Rivals {
  std::string python;  // an interpreter that finds torch
  std::string llmc;    // a built train_gpt2
  std::string script;
};

struct Case {
  char const* name;
  Index batch, seq;
  int rounds;
  int quick_rounds;  // 0: not in a quick run
};

/// One way to run a step: returns the seconds that it took, or nothing once it has failed.
struct Contender {
  std::string name;
  std::function<std::optional<double>()> step;
  Samples seconds = {};
};

template <class Run>
Contender timed(std::string name, std::shared_ptr<Run> run, float (Run::*step)() = &Run::execute) {
  return {std::move(name), [run, step]() -> std::optional<double> {
            double const begin = bench::seconds();
            (*run.*step)();
            return bench::seconds() - begin;
          }};
}

/// A PyTorch process that makes a step when it is asked to; none where it cannot.
std::optional<Contender> torch(Rivals const& rivals, Case const& of, bool compiled) {
  std::vector<std::string> command{rivals.python, rivals.script, std::to_string(of.batch),
                                   std::to_string(of.seq), std::to_string(cores)};
  if (compiled) command.push_back("--compile");
  std::vector<std::string> environment{"OMP_WAIT_POLICY=passive"};
  char const* const allocator = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
  if (access(allocator, R_OK) == 0) environment.push_back(concat("LD_PRELOAD=", allocator));
  auto process = std::make_shared<bench::Process>(command, environment);
  if (!process->read()) return std::nullopt;
  return Contender{compiled ? "torch_compiled" : "torch_eager",
                   [process]() -> std::optional<double> {
                     auto const answer = process->ask("step");
                     if (!answer) return std::nullopt;
                     return std::strtod(answer->c_str(), nullptr);
                   }};
}

/// Whole runs of llm.c's trainer, which makes its own steps of batch 4 and sequence 64.
Samples llmc_steps(std::string const& program) {
  std::filesystem::path const path = std::filesystem::absolute(program);
  bench::Process process({"sh", "-c",
                          concat("cd '", path.parent_path().string(),
                                 "' && OMP_NUM_THREADS=", cores, " '", path.string(), "' 2>&1")});
  Samples result;
  while (auto const line = process.read()) {
    auto const at = line->find("took ");
    if (at == line->npos) continue;
    result.push_back(std::strtod(line->c_str() + at + 5, nullptr) * 1e-3);
    if (result.size() >= 6) break;
  }
  if (result.size() > 1) result.erase(result.begin());  // the first one touches fresh memory
  return result;
}

Samples ratio(Samples const& above, Samples const& below) {
  Samples result;
  for (std::size_t i = 0; i < std::min(above.size(), below.size()); ++i)
    result.push_back(above[i] / below[i]);
  return result;
}

double median(Samples const& samples) { return bench::quantile(samples, 0.5); }

/// The speedup that these ops can reach on this machine: each scales with the resource that bounds
/// it.
double possible_speedup(Profile const& profile, double peak, double triad, double peak_scaling,
                        double triad_scaling) {
  double one = 0, two = 0;
  for (auto const& row : profile.rows()) {
    bool const computes =
        static_cast<double>(row.cost.flops) / peak >= static_cast<double>(row.cost.bytes) / triad;
    one += row.seconds;
    two += row.seconds / (computes ? peak_scaling : triad_scaling);
  }
  return one / two;
}

class Gpt2Bench {
 public:
  Gpt2Bench(bench::Records& records, Rivals rivals)
      : records_(records), rivals_(std::move(rivals)), triad_(cores) {
    isa_ = bench::isa_of(records.options());
    long const cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (cache > 0) planner_.machine.cache = cache;
    planner_.machine.workers = cores;
  }

  void run(Case const& of) {
    bool const quick = records_.options().quick;
    int const rounds = quick ? of.quick_rounds : of.rounds;
    if (rounds == 0) return;
    bench::Gpt2Step const exact({}, of.seq, of.batch);
    bench::Gpt2Step const fast({}, of.seq, of.batch, {.mode = Mode::fast});
    BindOptions const bind{.isa = isa_};
    PlanOptions overlapped = planner_;
    overlapped.double_buffered = {"tokens", "labels"};
    auto const ring = std::make_shared<bench::BoundStep<Ring>>(
        exact, RuntimeOptions{.workers = cores}, overlapped, bind);
    auto const ring_1 = std::make_shared<bench::BoundStep<Ring>>(
        exact, RuntimeOptions{.workers = 1}, planner_, BindOptions{.isa = isa_, .trace = true});
    std::vector<Contender> all{timed("ring", ring), timed("ring_1", ring_1)};
    all.push_back(timed("ring_overlap", ring, &bench::BoundStep<Ring>::execute_while_binding));
    all.push_back(timed("serial", std::make_shared<bench::BoundStep<Serial>>(
                                      exact, RuntimeOptions{}, PlanOptions{.tile = 0}, bind)));
#ifdef NNTILE_HAVE_STARPU
    all.push_back(timed("starpu", std::make_shared<bench::BoundStep<StarPU>>(
                                      exact, RuntimeOptions{.workers = cores}, planner_, bind)));
#endif
    if (!quick)
      all.push_back(
          timed("ring_fast", std::make_shared<bench::BoundStep<Ring>>(
                                 fast, RuntimeOptions{.workers = cores}, planner_, bind)));
    check(*ring, *ring_1);
    if (!rivals_.python.empty())
      for (bool const compiled : {false, true}) {
        if (compiled && quick) continue;
        if (auto contender = torch(rivals_, of, compiled))
          all.push_back(std::move(*contender));
        else
          std::printf(
              "%s: no PyTorch %s: '%s' cannot run it; pip install torch in a virtual "
              "environment and name its interpreter with --torch\n",
              of.name, compiled ? "(compiled)" : "(eager)", rivals_.python.c_str());
      }
    else
      std::printf(
          "%s: no PyTorch: pip install torch in a virtual environment and name its "
          "interpreter with --torch\n",
          of.name);
    measure(all, rounds);
    report(of, all, ring->run().plan(), *ring_1);
  }

 private:
  /// Both make the same step, and it learns.
  static void check(bench::BoundStep<Ring>& a, bench::BoundStep<Ring>& b) {
    float const first = a.execute();
    if (first != b.execute() || first < 10.5f || first > 11.5f || !(a.execute() < first) ||
        !(b.execute() < first)) {
      std::fprintf(stderr, "wrong: the first loss is %g\n", static_cast<double>(first));
      std::exit(1);
    }
  }

  void measure(std::vector<Contender>& all, int rounds) {
    peak_.clear();
    for (int round = -1; round < rounds; ++round) {  // the first is a warm-up
      Rates const rates{bench::fma_peak(isa_, 1), bench::fma_peak(isa_, cores), triad_(1),
                        triad_(cores)};
      if (round >= 0) peak_.push_back(rates);
      for (Contender& contender : all) {
        auto const seconds = contender.step();
        if (round >= 0 && seconds) contender.seconds.push_back(*seconds);
      }
    }
  }

  static Samples const* find(std::vector<Contender> const& all, char const* name) {
    for (Contender const& contender : all)
      if (contender.name == name && !contender.seconds.empty()) return &contender.seconds;
    return nullptr;
  }

  void report(Case const& of, std::vector<Contender> const& all, Plan const& plan,
              bench::BoundStep<Ring>& ring_1) {
    std::string const name = concat(of.name, "_exact");
    Samples const& ours = *find(all, "ring");
    Samples const& one = *find(all, "ring_1");
    auto const flops = static_cast<double>(plan.flops());
    for (Contender const& contender : all) {
      bool const fast = contender.name == "ring_fast";
      std::string const in = fast ? concat(of.name, "_fast") : name;
      std::string const runtime = fast ? "ring" : contender.name;
      if (contender.seconds.empty() || contender.name == "ring_overlap") continue;
      Samples tokens, share;
      for (std::size_t i = 0; i < contender.seconds.size(); ++i) {
        tokens.push_back(static_cast<double>(of.batch * of.seq) / contender.seconds[i]);
        bool const single = contender.name == "ring_1" || contender.name == "serial";
        share.push_back(flops / contender.seconds[i] / (single ? peak_[i].fma_1 : peak_[i].fma));
      }
      records_.add(in, runtime, "tokens_per_second", "1/s", tokens);
      records_.add(in, runtime, "fraction_of_fma_peak", "1", share);
    }
    // Seconds of a step with the next batch copied in meanwhile, over those of a step alone.
    records_.add(name, "ring", "times_overlap", "ratio", ratio(*find(all, "ring_overlap"), ours));
    records_.add(name, "ring", "speedup_2_workers", "ratio", ratio(one, ours));
    Profile profile;
    profile.add(ring_1.run().plan(), ring_1.run().times());
    Samples share;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      Rates const& r = peak_[i];
      share.push_back(
          one[i] / ours[i] /
          possible_speedup(profile, r.fma_1, r.triad_1, r.fma / r.fma_1, r.triad / r.triad_1));
    }
    records_.add(name, "ring", "scaling_share", "ratio", share);
    records_.add(name, "ring", "tiling_tax", "ratio", ratio(one, *find(all, "serial")));
    auto const& memory = plan.memory();
    records_.add(
        name, "plan", "arena_over_bound", "ratio",
        {static_cast<double>(memory.arena) / static_cast<double>(memory.arena_lower_bound)});
    records_.add(name, "plan", "arena_lower_bound", "MB",
                 {static_cast<double>(memory.arena_lower_bound) * 1e-6});
    if (auto const* starpu = find(all, "starpu"))
      records_.add(name, "ring", "times_starpu", "ratio", ratio(*starpu, ours));
    if (auto const* fast = find(all, "ring_fast"))
      records_.add(name, "ring", "times_fast", "ratio", ratio(*fast, ours));
    Samples const* best = nullptr;
    for (char const* rival : {"torch_eager", "torch_compiled"})
      if (auto const* samples = find(all, rival))
        if (best == nullptr || median(*samples) < median(*best)) best = samples;
    if (best != nullptr) records_.add(name, "ring", "times_torch", "ratio", ratio(*best, ours));
    // Whole runs of its trainer take minutes.
    if (!rivals_.llmc.empty() && !records_.options().quick && of.batch == 4 && of.seq == 64) {
      Samples const theirs = llmc_steps(rivals_.llmc);
      if (theirs.empty())
        std::printf("%s: '%s' printed no step\n", of.name, rivals_.llmc.c_str());
      else
        records_.add(name, "ring", "times_llmc", "ratio", {median(theirs) / median(ours)});
    }
  }

  struct Rates {
    double fma_1, fma, triad_1, triad;
  };

  bench::Records& records_;
  Rivals rivals_;
  bench::Triad triad_;
  Isa isa_;
  PlanOptions planner_;
  std::vector<Rates> peak_;
};

}  // namespace

int main(int argc, char** argv) {
  Rivals const rivals{bench::take_option(argc, argv, "--torch"),
                      bench::take_option(argc, argv, "--llmc"),
                      NNTILE_BENCH_SOURCE "/rivals/gpt2_torch.py"};
  bench::Records records(
      "gpt2", bench::parse(argc, argv,
                           "A training step of GPT-2's smallest model on two cores. Also takes "
                           "--torch PYTHON, an interpreter that finds torch, and --llmc PROGRAM, "
                           "a built train_gpt2.",
                           true));
  Gpt2Bench bench(records, rivals);
  for (Case const& of : {Case{"124m_b4_t64", 4, 64, 9, 3}, Case{"124m_b1_t1024", 1, 1024, 5, 0}})
    bench.run(of);
  return 0;
}
