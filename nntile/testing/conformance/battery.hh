#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Runs the checks in every configuration of a runtime, and keeps the report while they run.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nntile/testing/conformance/activity.hh"
#include "nntile/testing/conformance/check_basics.hh"
#include "nntile/testing/conformance/check_callbacks.hh"
#include "nntile/testing/conformance/check_capacity.hh"
#include "nntile/testing/conformance/check_completion.hh"
#include "nntile/testing/conformance/check_failure.hh"
#include "nntile/testing/conformance/check_lifetimes.hh"
#include "nntile/testing/conformance/check_nesting.hh"
#include "nntile/testing/conformance/check_order.hh"
#include "nntile/testing/conformance/check_pause.hh"
#include "nntile/testing/conformance/check_random.hh"
#include "nntile/testing/conformance/check_read_only.hh"
#include "nntile/testing/conformance/check_regions.hh"
#include "nntile/testing/conformance/check_replay.hh"
#include "nntile/testing/conformance/check_storage.hh"
#include "nntile/testing/conformance/check_wakeups.hh"
#include "nntile/testing/conformance/check_workers.hh"
#include "nntile/testing/conformance/crash.hh"
#include "nntile/testing/conformance/report.hh"
#include "nntile/testing/conformance/trial.hh"
#include "nntile/testing/conformance/watchdog.hh"
#include "nntile/testing/conformance/watched.hh"

namespace nntile::testing {

/// Options of the battery.
struct ConformanceOptions {
  /// Configurations have 1, 2, 4, ... workers and this many, as far as the runtime can be built
  /// with them.
  int max_workers = 8;
  /// Whether to try a driver that executes tasks itself, and one that only waits.
  bool helping_driver = true;
  bool own_driver = true;
  /// Scales the numbers of programs and tasks; 1 takes a second or so for each configuration.
  int rounds = 2;
  std::uint64_t seed = 1;
  /// Whether to run the checks of up to 10^5 tasks.
  bool heavy = true;
  /// Checks whose name does not contain this are not run.
  std::string only{};
  /// Whether to end at the first check that fails.
  bool stop_at_failure = false;
  /// Called before each check, with configuration and name.
  std::function<void(std::string const&)> progress{};
  /// Action on a runtime that hangs: by default, write the report so far to stderr and end
  /// the process. `Watchdog::off()` leaves it to the caller.
  Watchdog watchdog{};
  /// Whether a signal that ends the process first names the check on stderr. Not for a runtime that
  /// handles such signals itself, as one that moves pages does.
  bool name_crashes = true;
};

/// All checks, each behind those whose sentence it builds upon: the order of Report::checks.
inline std::vector<NamedCheck> all_checks() {
  std::vector<NamedCheck> all;
  for (auto const& topic :
       {checks::basics(), checks::order(), checks::storage(), checks::read_only(),
        checks::lifetimes(), checks::completion(), checks::wakeups(), checks::failure(),
        checks::capacity(), checks::workers(), checks::callbacks(), checks::pause(),
        checks::replay(), checks::nesting(), checks::regions(), checks::random()})
    all.insert(all.end(), topic.begin(), topic.end());
  return all;
}

namespace detail {

/// One call of `conformance`.
class Battery {
 public:
  Battery(Factory const& make, ConformanceOptions const& options)
      : options_(options), checks_(all_checks()), make_([&](RuntimeOptions const& one) {
          return std::make_unique<Watched>(make, one, calls_);
        }) {
    std::erase_if(checks_, [&](NamedCheck const& check) {
      return (check.heavy && !options.heavy) ||
             std::string(check.name).find(options.only) == std::string::npos;
    });
    for (auto const& check : checks_) report_.checks.push_back({check.name, 0, 0, {}});
  }

  Report run() {
    if (options_.name_crashes) crash_.emplace();
    {
      WatchdogThread const watchdog(
          options_.watchdog, [this] { return activity(); },
          [this](double seconds) { hung(seconds); });
      auto const possible = configurations();
      int most = 0;
      for (auto const& one : possible) most = std::max(most, *one.workers);
      for (auto const& one : possible) run_in(one, std::min(2, most));
    }
    return std::move(report_);
  }

 private:
  static std::string name_of(RuntimeOptions const& options) {
    return concat(options.workers.value_or(0), options.workers == 1 ? " worker" : " workers",
                  options.own_driver ? ", own driver" : "");
  }

  /// 1, 2, 4, ... and the most.
  std::vector<int> counts_of_workers() const {
    std::vector<int> counts;
    for (std::int64_t count = 1; count < options_.max_workers; count *= 2)
      counts.push_back(static_cast<int>(count));
    if (options_.max_workers >= 1) counts.push_back(options_.max_workers);
    return counts;
  }
  /// The configurations that can be built. What a runtime refuses with an exception is left out.
  std::vector<RuntimeOptions> configurations() {
    std::vector<RuntimeOptions> possible;
    for (bool const own : {false, true}) {
      if (!(own ? options_.own_driver : options_.helping_driver)) continue;
      bool any = false;
      for (int const workers : counts_of_workers()) {
        RuntimeOptions const candidate{.workers = workers, .own_driver = own};
        begin("a runtime can be built", candidate);
        try {
          auto const built = make_(candidate);
          replays_ = built->replays();
          scopes_ = built->has_scopes();
          any = true;
          if (built->workers().cpu == workers)
            possible.push_back(candidate);
          else
            refuse(candidate, concat("workers() says ", built->workers().cpu));
          continue;
        } catch (std::exception const& error) {
          refuse(candidate, error.what());
        } catch (...) {
          refuse(candidate, "threw something that is no std::exception");
        }
        if (any) break;  // this many is too many
      }
    }
    return possible;
  }
  void refuse(RuntimeOptions const& candidate, std::string reason) {
    std::lock_guard const hold(mutex_);
    report_.refused.push_back({name_of(candidate), 0, std::move(reason)});
  }

  void run_in(RuntimeOptions const& configuration, int heavy_workers) {
    {
      std::lock_guard const hold(mutex_);
      report_.configurations.push_back({name_of(configuration), 0, {}});
    }
    Trial const trial{make_,    configuration, options_.seed, std::max(1, options_.rounds),
                      replays_, scopes_};
    for (std::size_t i = 0; i < checks_.size(); ++i) {
      if (checks_[i].heavy && configuration.workers != heavy_workers) continue;
      if (options_.stop_at_failure && has_failed()) return;
      if (options_.progress)
        options_.progress(concat(name_of(configuration), ": ", checks_[i].name));
      begin(checks_[i].name, configuration);
      run_check(checks_[i], trial, report_.checks[i]);
    }
  }

  bool has_failed() {
    std::lock_guard const hold(mutex_);
    return report_.failed() != 0;
  }
  void begin(char const* check, RuntimeOptions const& configuration) {
    std::lock_guard const hold(mutex_);
    check_ = check;
    configuration_ = configuration;
    hung_ = false;
    if (crash_) crash_->write(concat("check '", check, "', ", name_of(configuration)));
  }

  void run_check(NamedCheck const& check, Trial const& trial, CheckResult& result) {
    std::string problem;
    std::string left_out;
    try {
      check.run(trial);
    } catch (Violation const& violation) {
      problem = violation.text;
    } catch (LeftOut const& reason) {
      left_out = reason.reason;
    } catch (std::exception const& error) {
      problem = concat("threw '", error.what(), "'");
    } catch (...) {
      problem = "threw something that is no std::exception";
    }
    std::lock_guard const hold(mutex_);
    if (hung_) return;  // counted
    if (left_out.empty())
      count(result, problem);
    else if (result.problem.empty())
      result.problem = left_out;
  }

  void count(CheckResult& result, std::string const& problem) {
    ++result.runs;
    if (problem.empty()) return;
    ++report_.configurations.back().failures;
    if (++result.failures == 1)
      result.problem =
          concat(problem, " (", name_of(configuration_), ", seed ", options_.seed, ")");
  }

  /// On the watchdog's thread.
  Activity activity() const {
    std::uint64_t const ended = ended_steps.load(std::memory_order_relaxed);
    std::uint64_t const begun = begun_steps.load(std::memory_order_relaxed);
    return {calls_.returned() + begun + ended, begun == ended};
  }
  /// Likewise.
  void hung(double seconds) {
    Report so_far;
    {
      std::lock_guard const hold(mutex_);
      std::string const where = calls_.where();
      hung_ = true;
      report_.hang = concat("check '", check_, "', ", name_of(configuration_), ": ", where,
                            ": no call returned for ", std::round(seconds), " seconds");
      for (CheckResult& result : report_.checks)
        if (result.name == check_) count(result, concat("hangs ", where));
      so_far = report_;
    }
    if (options_.watchdog.on_hang) options_.watchdog.on_hang(so_far);
  }

  ConformanceOptions const& options_;
  CallLogs calls_;
  std::vector<NamedCheck> checks_;
  Factory const make_;
  bool replays_ = false;
  bool scopes_ = false;
  std::mutex mutex_;  // guards what follows
  Report report_;
  std::string check_;
  RuntimeOptions configuration_;
  bool hung_ = false;
  std::optional<CrashNote> crash_;
};

}  // namespace detail

}  // namespace nntile::testing
