// SPDX-License-Identifier: BSD-3-Clause
// Task Bench: how small tasks may be before a runtime takes half of the machine. METG(50 %) and the
// cost of an empty task in nine patterns, on our runtimes, libgomp, oneTBB, StarPU and Taskflow.

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "bench/harness.hh"
#include "bench/process.hh"
#include "nntile/testing/taskbench/patterns.hh"
#include "nntile/testing/taskbench/sweep.hh"

namespace {

using namespace nntile;
using testing::EfficiencyPoint;
using Samples = std::vector<double>;

constexpr int width = 64;
constexpr int limit = 60;  // seconds that a rival may take for a pattern
constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// What a contender did with one pattern; `none` in rounds that it was not asked in.
struct Figures {
  Samples ns_per_task, metg_us;
  std::vector<std::vector<EfficiencyPoint>> curves;  // a round each
  double seconds = 0;                                // that the first round took

  /// Where a rival takes long, fewer rounds suffice.
  bool sits_out(int round) const { return seconds > 3 ? round > 0 : seconds > 1 && round % 3 != 0; }
};

/// One runtime. Each round starts its program anew.
struct Contender {
  std::string runtime;  // as records name it
  std::string program;
  std::vector<std::string> arguments;
  std::string needs;             // what its program is built with; empty for our own
  std::vector<Figures> of = {};  // patterns
  std::string late_in = {};      // a pattern that took more than `limit`
};

std::vector<Contender> contenders() {
  std::string const tbb = "Debian's libtbb-dev", taskflow = "-Dtaskflow=FOLDER",
                    starpu = "Debian's libstarpu-dev";
  return {{"serial", "taskbench_nntile", {"1", "serial"}, ""},
          {"ring", "taskbench_nntile", {"2", "ring"}, ""},
          {"ring_replay", "taskbench_nntile", {"2", "ring_replay"}, ""},
          {"libgomp", "taskbench_libgomp", {"2"}, "g++"},
          {"tbb", "taskbench_tbb", {"2", "flow"}, tbb},
          {"tbb_rerun", "taskbench_tbb", {"2", "flow", "rerun"}, tbb},
          {"tbb_group", "taskbench_tbb", {"2", "group"}, tbb},
          {"tbb_group_rerun", "taskbench_tbb", {"2", "group", "rerun"}, tbb},
          {"taskflow", "taskbench_taskflow", {"2"}, taskflow},
          {"taskflow_rerun", "taskbench_taskflow", {"2", "rerun"}, taskflow},
          {"starpu", "taskbench_nntile", {"2", "starpu"}, starpu},
          {"starpu_c", "taskbench_starpu_c", {"2"}, starpu}};
}

/// The folder of this program, where the others are.
std::string folder() {
  char path[4096];
  ssize_t const length = readlink("/proc/self/exe", path, sizeof path);
  std::string const self(path, length < 0 ? 0 : static_cast<std::size_t>(length));
  return self.substr(0, self.rfind('/') + 1);
}

/// Names that stand between commas, all of `known` where there are none. Ends the program for one
/// that is not known.
std::vector<std::string> chosen(std::string const& text, char const* what,
                                std::vector<std::string> const& known) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find(',', at), text.size());
    std::string const name = text.substr(at, end - at);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::fprintf(stderr, "no %s '%s'; there are", what, name.c_str());
      for (std::string const& each : known) std::fprintf(stderr, " %s", each.c_str());
      std::fputs("\n", stderr);
      std::exit(2);
    }
    names.push_back(name);
    at = end + 1;
  }
  return names.empty() ? known : names;
}

class Contest {
 public:
  Contest(bench::Records& records, std::vector<std::string> patterns,
          std::vector<std::string> const& runtimes, int steps)
      : records_(records), patterns_(std::move(patterns)), steps_(steps) {
    for (Contender& contender : contenders())
      if (std::find(runtimes.begin(), runtimes.end(), contender.runtime) != runtimes.end())
        all_.push_back(contender);
    for (Contender& contender : all_) contender.of.resize(patterns_.size());
  }

  /// Asks every contender once. False if one of our own does not run.
  bool round(int number, int rounds) {
    for (auto at = all_.begin(); at != all_.end();) {
      std::fprintf(stderr, "round %d of %d, %4.0f s: %s\n", number + 1, rounds,
                   bench::seconds() - began_, at->runtime.c_str());
      if (run(*at, number)) {
        ++at;
        continue;
      }
      if (at->needs.empty()) return false;
      if (at->late_in.empty())
        std::printf("skipped %s: it was not built, or does not run; it needs %s\n",
                    at->runtime.c_str(), at->needs.c_str());
      else
        std::printf("left out %s: %s took more than %d s here; --patterns names others\n",
                    at->runtime.c_str(), at->late_in.c_str(), limit);
      at = all_.erase(at);
    }
    return true;
  }

  void report() {
    for (std::size_t p = 0; p <= patterns_.size(); ++p)
      for (Contender const& contender : all_) {
        add(p, contender.runtime, "ns_per_task", "ns", rounds(contender, p, &Figures::ns_per_task));
        add(p, contender.runtime, "metg50_us", "us", rounds(contender, p, &Figures::metg_us));
      }
    compare("ring", "times_starpu", {"starpu", "starpu_c"});
    compare("ring", "times_libgomp", {"libgomp"});
    compare("ring", "times_tbb", {"tbb", "tbb_group"});
    compare("ring", "times_taskflow", {"taskflow"});
    compare("ring_replay", "times_starpu", {"starpu", "starpu_c"});
    compare("ring_replay", "times_libgomp", {"libgomp"});
    compare("ring_replay", "times_tbb", {"tbb_rerun", "tbb_group_rerun"});
    compare("ring_replay", "times_taskflow", {"taskflow_rerun"});
    for (std::size_t p = 0; p < patterns_.size(); ++p)
      for (Contender const& contender : all_) add_curve(p, contender);
  }

 private:
  /// False if the program is missing or dies.
  bool run(Contender& contender, int number) {
    bool const quick = records_.options().quick;
    std::vector<std::string> command{folder() + contender.program};
    if (access(command[0].c_str(), X_OK) != 0) return false;
    command.insert(command.end(), contender.arguments.begin(), contender.arguments.end());
    bench::Process process(command, {"STARPU_SILENT=1"});
    for (std::size_t p = 0; p < patterns_.size(); ++p) {
      Figures& figures = contender.of[p];
      bool const skipped = !contender.needs.empty() && figures.sits_out(number);
      figures.ns_per_task.push_back(none);
      figures.metg_us.push_back(none);
      if (skipped) continue;
      double const asked = bench::seconds();
      auto const answer = process.ask(concat(patterns_[p], " ", width, " ", steps_,
                                             quick ? " 0.3 1 0.5 1 2" : " 60 3 0.25 0.5 1 2 4"),
                                      contender.needs.empty() ? 0 : limit);
      if (process.is_late()) contender.late_in = patterns_[p];
      if (answer && answer->rfind("wrong", 0) == 0) {
        std::fprintf(stderr, "%s: %s\n", contender.runtime.c_str(), answer->c_str());
        std::exit(1);
      }
      if (!answer || !read(*answer, figures)) return false;
      if (number == 0) figures.seconds = bench::seconds() - asked;
    }
    return true;
  }
  /// Of an answer of rivals/taskbench.hh; false if it is none.
  static bool read(std::string const& answer, Figures& figures) {
    Samples numbers;
    char const* at = answer.c_str();
    for (char* end; *at != 0; at = end) {
      numbers.push_back(std::strtod(at, &end));
      if (end == at) return false;
    }
    if (numbers.size() < 3 || numbers.size() % 2 == 0) return false;
    std::vector<EfficiencyPoint>& curve = figures.curves.emplace_back();
    for (std::size_t i = 1; i < numbers.size(); i += 2)
      curve.push_back({numbers[i], numbers[i + 1]});
    figures.ns_per_task.back() = numbers[0];
    figures.metg_us.back() = testing::metg(curve).value_or(none) * 1e-3;
    return true;
  }

  /// Round by round of one pattern, or behind the last of them the geometric mean of all.
  Samples rounds(Contender const& contender, std::size_t p, Samples Figures::* figure) const {
    if (p < patterns_.size()) return contender.of[p].*figure;
    Samples means((contender.of[0].*figure).size());
    for (std::size_t round = 0; round < means.size(); ++round) {
      double logs = 0;
      for (Figures const& figures : contender.of) logs += std::log((figures.*figure)[round]);
      means[round] = std::exp(logs / static_cast<double>(patterns_.size()));
    }
    return means;
  }
  std::string name(std::size_t p) const { return p < patterns_.size() ? patterns_[p] : "geomean"; }

  void add(std::size_t p, std::string const& runtime, char const* metric, char const* unit,
           Samples samples) {
    samples.erase(std::remove_if(samples.begin(), samples.end(),
                                 [](double value) { return std::isnan(value); }),
                  samples.end());
    if (!samples.empty())
      records_.add(name(p), runtime, metric, unit, samples);
    else
      std::printf("%-28s %-14s %-22s none: no kernel reached 50 %%; is the machine busy?\n",
                  name(p).c_str(), runtime.c_str(), metric);
  }

  Contender const* find(std::string const& runtime) const {
    for (Contender const& contender : all_)
      if (contender.runtime == runtime) return &contender;
    return nullptr;
  }
  /// How many times less an empty task of ours costs than one of the best of `rivals`, round by
  /// round.
  void compare(std::string const& ours, char const* metric,
               std::vector<std::string> const& rivals) {
    Contender const* const mine = find(ours);
    for (std::size_t p = 0; mine != nullptr && p <= patterns_.size(); ++p) {
      Samples best(mine->of[0].ns_per_task.size(), none);
      for (std::string const& rival : rivals)
        if (Contender const* const their = find(rival)) {
          Samples const theirs = rounds(*their, p, &Figures::ns_per_task);
          for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::fmin(best[i], theirs[i]);
        }
      Samples const own = rounds(*mine, p, &Figures::ns_per_task);
      for (std::size_t i = 0; i < best.size(); ++i) best[i] /= own[i];
      if (!std::all_of(best.begin(), best.end(), [](double ratio) { return std::isnan(ratio); }))
        add(p, ours, metric, "ratio", best);
    }
  }
  /// Efficiency against the size of tasks, for the picture.
  void add_curve(std::size_t p, Contender const& contender) {
    auto const& curves = contender.of[p].curves;
    std::size_t points = curves.empty() ? 0 : curves[0].size();
    for (auto const& curve : curves) points = std::min(points, curve.size());
    for (std::size_t i = 0; i < points; ++i) {
      Samples sizes, efficiencies;
      for (auto const& curve : curves) {
        sizes.push_back(curve[i].task_ns * 1e-3);
        efficiencies.push_back(curve[i].efficiency);
      }
      records_.add_point(name(p), contender.runtime, "efficiency", "share", efficiencies, "task_us",
                         bench::quantile(sizes, 0.5));
    }
  }

  bench::Records& records_;
  std::vector<std::string> const patterns_;
  int const steps_;
  double const began_ = bench::seconds();
  std::vector<Contender> all_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> known;
  for (Contender const& contender : contenders()) known.push_back(contender.runtime);
  std::vector<std::string> const patterns =
      chosen(bench::take_option(argc, argv, "--patterns"), "pattern",
             {testing::pattern_names.begin(), testing::pattern_names.end()});
  std::vector<std::string> const runtimes =
      chosen(bench::take_option(argc, argv, "--runtimes"), "runtime", known);
  bench::Records records(
      "taskbench",
      bench::parse(
          argc, argv,
          "Task Bench (Slaughter et al., SC 2020): nine patterns of 64 tasks a step, 1,000 steps "
          "(--quick: 100), each task checking its inputs. ns_per_task: from the first submission "
          "to the end of the last of empty tasks; metg50_us: the smallest duration of a task, "
          "kernel and share of the runtime, at which two workers do half of what they do without "
          "a runtime. serial has one worker. Names that end in _replay and _rerun: recorded or "
          "built before. Each runtime runs in a process of its own, in turn; one that takes over 3 "
          "s "
          "for a pattern runs it in the first round alone, and a rival that takes over 60 s is "
          "left "
          "out. Rounds are told on standard error.\n"
          "Also takes --patterns A,B and --runtimes A,B."));
  bool const quick = records.options().quick;
  Contest contest(records, patterns, runtimes, quick ? 100 : 1000);
  int const rounds = quick ? 2 : 7;
  for (int round = 0; round < rounds; ++round)
    if (!contest.round(round, rounds)) {
      std::fputs("taskbench_nntile does not run\n", stderr);
      return 1;
    }
  contest.report();
  return 0;
}
