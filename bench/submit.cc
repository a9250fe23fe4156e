// SPDX-License-Identifier: BSD-3-Clause
// Cost of a task from its submission to its end: 20,000 empty ones on each runtime of ours, and on
// libgomp, oneTBB, Taskflow and StarPU.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "bench/clock.hh"
#include "bench/harness.hh"
#include "bench/process.hh"

namespace {

using namespace nntile;
using Samples = std::vector<double>;

constexpr char const* cases[] = {"independent", "chain", "three_handles"};

/// One runtime with one number of workers. Each round starts its program anew.
struct Contender {
  std::string runtime;  // as records name it; "_1" behind it: one worker
  std::string program;
  std::vector<std::string> arguments;
  std::string package;  // what it is built with; empty for our own
  struct Figures {
    Samples wall, cpu;      // all samples
    Samples round_medians;  // of wall
  };
  Figures of[3] = {};
  bool timed_alone = false;  // submission, too
  std::vector<Samples> latencies = {};
};

/// Fields of submit_latency.hh.
struct LatencyMetric {
  char const* name;
  char const* unit;
};
constexpr LatencyMetric latency_metrics[] = {
    {"submit_median", "ns"},         {"submit_p99", "ns"},
    {"submit_p999", "ns"},           {"submit_max", "ns"},
    {"blocked_share", "share"},      {"submit_cycles", "cycles"},
    {"submit_cold_cycles", "cycles"}};

std::vector<Contender> contenders() {
  std::string const tbb = "Debian's libtbb-dev", taskflow = "-Dtaskflow=FOLDER";
  std::vector<Contender> all{{"serial", "submit_nntile", {"1", "serial"}, ""}};
  for (std::string const workers : {"1", "2"}) {
    std::string const tail = workers == "1" ? "_1" : "";
    for (std::string const ours : {"ring", "ring_replay"})
      all.push_back({ours + tail, "submit_nntile", {workers, ours}, "", {}, ours == "ring"});
    all.push_back(
        {"starpu" + tail, "submit_nntile", {workers, "starpu"}, "Debian's libstarpu-dev"});
    all.push_back({"starpu_c" + tail, "submit_starpu_c", {workers}, "Debian's libstarpu-dev"});
    all.push_back({"libgomp" + tail, "submit_libgomp", {workers}, "g++"});
    all.push_back({"tbb" + tail, "submit_tbb", {workers}, tbb});
    all.push_back({"tbb_rerun" + tail, "submit_tbb", {workers, "rerun"}, tbb});
    all.push_back({"taskflow" + tail, "submit_taskflow", {workers}, taskflow});
    all.push_back({"taskflow_rerun" + tail, "submit_taskflow", {workers, "rerun"}, taskflow});
  }
  return all;
}

/// The folder of this program, where the others are.
std::string folder() {
  char path[4096];
  ssize_t const length = readlink("/proc/self/exe", path, sizeof path);
  std::string const self(path, length < 0 ? 0 : static_cast<std::size_t>(length));
  return self.substr(0, self.rfind('/') + 1);
}

/// Numbers of an answer.
Samples numbers(std::optional<std::string> const& answer) {
  Samples result;
  char const* at = answer ? answer->c_str() : "";
  for (char* end; *at != 0; at = end) {
    double const number = std::strtod(at, &end);
    if (end == at) break;
    result.push_back(number);
  }
  return result;
}

/// Pairs of wall and CPU time; empty if the program has no answer.
std::vector<std::pair<double, double>> ask(bench::Process& process, char const* which,
                                           int samples) {
  auto const answer = process.ask(concat(which, " ", samples));
  if (answer && *answer == "wrong") {
    std::fprintf(stderr, "wrong: a run of %s broke a dependence\n", which);
    std::exit(1);
  }
  Samples const all = numbers(answer);
  std::vector<std::pair<double, double>> result;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) result.emplace_back(all[i], all[i + 1]);
  return result;
}

/// False if the program is missing or dies.
bool run(Contender& contender, std::string const& where, int samples) {
  std::vector<std::string> command{where + contender.program};
  if (access(command[0].c_str(), X_OK) != 0) return false;
  command.insert(command.end(), contender.arguments.begin(), contender.arguments.end());
  bench::Process process(command, {"STARPU_SILENT=1"});
  for (int which = 0; which < 3; ++which) {
    // Where a task takes microseconds, fewer samples suffice.
    Contender::Figures& figures = contender.of[which];
    double const before = figures.wall.empty() ? 0 : figures.wall[0];
    auto const pairs = ask(process, cases[which], before > 5000 ? 1 : before > 1000 ? 2 : samples);
    if (pairs.empty()) return false;
    Samples walls;
    for (auto const& [wall, cpu] : pairs) {
      walls.push_back(wall);
      figures.cpu.push_back(cpu);
    }
    figures.wall.insert(figures.wall.end(), walls.begin(), walls.end());
    figures.round_medians.push_back(bench::quantile(walls, 0.5));
  }
  if (contender.timed_alone) {
    contender.latencies.push_back(numbers(process.ask("latency 1")));
    return contender.latencies.back().size() == std::size(latency_metrics);
  }
  return true;
}

/// Submission alone, and how far its rarest calls lie from the usual one.
void report_latencies(bench::Records& records, Contender const& contender) {
  char const* const of = "three_of_4096";
  for (std::size_t field = 0; field < std::size(latency_metrics); ++field) {
    Samples samples;
    for (Samples const& round : contender.latencies) samples.push_back(round[field]);
    records.add(of, contender.runtime, latency_metrics[field].name, latency_metrics[field].unit,
                samples);
  }
  Samples ratios;
  for (Samples const& round : contender.latencies) ratios.push_back(round[2] / round[0]);
  records.add(of, contender.runtime, "submit_p999_over_median", "ratio", ratios);
}

/// Records how many times faster `ours` is, round by round.
void compare(bench::Records& records, std::vector<Contender> const& all, std::string const& ours,
             std::vector<std::string> const& rivals) {
  auto const find = [&](std::string const& name) -> Contender const* {
    for (Contender const& contender : all)
      if (contender.runtime == name) return &contender;
    return nullptr;
  };
  for (std::string const tail : {"_1", ""})
    for (std::string const& rival : rivals)
      for (int which = 0; which < 3; ++which) {
        auto const* const their = find(rival + tail);
        if (their == nullptr) continue;
        records.add_ratio(cases[which], ours + tail, "times_" + rival,
                          their->of[which].round_medians,
                          find(ours + tail)->of[which].round_medians);
      }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Records records(
      "submit",
      bench::parse(argc, argv,
                   "Nanoseconds a task from the first submission to the end of the last, "
                   "20,000 empty tasks; names that end in _1 have one worker, others "
                   "two. Each runtime runs in a process of its own, in turn. three_of_4096: "
                   "submission alone, a call that waits for room left out."));
  bool const quick = records.options().quick;
  int const rounds = quick ? 3 : 9, samples = quick ? 3 : 7;
  std::string const where = folder();
  std::vector<Contender> all = contenders();
  double const ghz = bench::core_ghz();
  for (int round = 0; round < rounds; ++round)
    for (auto at = all.begin(); at != all.end();) {
      if (run(*at, where, samples)) {
        ++at;
        continue;
      }
      if (at->package.empty()) {
        std::fprintf(stderr, "%s does not run\n", at->program.c_str());
        return 1;
      }
      std::printf("no %s: it was not built, or does not run; it needs %s\n", at->runtime.c_str(),
                  at->package.c_str());
      at = all.erase(at);
    }
  for (int which = 0; which < 3; ++which)
    for (Contender const& contender : all) {
      records.add(cases[which], contender.runtime, "ns_per_task", "ns", contender.of[which].wall);
      records.add(cases[which], contender.runtime, "cpu_ns_per_task", "ns",
                  contender.of[which].cpu);
      if (!contender.package.empty()) continue;
      Samples cycles;
      for (double const wall : contender.of[which].wall) cycles.push_back(wall * ghz);
      records.add(cases[which], contender.runtime, "cycles", "cycles", cycles);
    }
  for (Contender const& contender : all)
    if (contender.timed_alone) report_latencies(records, contender);
  records.add("machine", "core", "clock", "GHz", {ghz});
  compare(records, all, "ring", {"starpu", "starpu_c", "libgomp", "tbb", "taskflow"});
  compare(records, all, "ring_replay",
          {"ring", "starpu_c", "libgomp", "tbb", "tbb_rerun", "taskflow_rerun"});
  return 0;
}
