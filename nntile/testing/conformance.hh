#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The law of runtime/concept.hh as a battery that anyone runs on a runtime of their own.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/conformance/check_capacity.hh"
#include "nntile/testing/conformance/check_completion.hh"
#include "nntile/testing/conformance/check_failure.hh"
#include "nntile/testing/conformance/check_order.hh"
#include "nntile/testing/conformance/check_random.hh"
#include "nntile/testing/conformance/check_replay.hh"
#include "nntile/testing/conformance/check_storage.hh"
#include "nntile/testing/conformance/check_workers.hh"
#include "nntile/testing/conformance/report.hh"
#include "nntile/testing/conformance/subject.hh"
#include "nntile/testing/conformance/trial.hh"

namespace nntile::testing {

/// What the battery asks of a runtime.
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
  /// Called before each check, with configuration and name: the last call names a check that hangs.
  std::function<void(std::string const&)> progress{};
};

namespace detail {

using Factory = std::function<std::unique_ptr<Subject>(RuntimeOptions const&)>;

/// The checks whose name contains `part`.
inline std::vector<NamedCheck> checks_named(std::string const& part) {
  std::vector<NamedCheck> named;
  for (auto const& topic :
       {checks::order(), checks::storage(), checks::failure(), checks::completion(),
        checks::capacity(), checks::workers(), checks::random(), checks::replay()})
    for (NamedCheck const& check : topic)
      if (std::string(check.name).find(part) != std::string::npos) named.push_back(check);
  return named;
}

inline std::string name_of(RuntimeOptions const& options) {
  return concat(options.workers.value_or(0), options.workers == 1 ? " worker" : " workers",
                options.own_driver ? ", own driver" : "");
}

/// The configurations that can be built. What a runtime refuses with an error of the library is
/// left out.
inline std::vector<RuntimeOptions> configurations(Factory const& factory,
                                                  ConformanceOptions const& options) {
  std::vector<RuntimeOptions> possible;
  for (bool const own : {false, true}) {
    if (!(own ? options.own_driver : options.helping_driver)) continue;
    for (int workers = 1; workers <= options.max_workers;
         workers = workers < options.max_workers ? std::min(workers * 2, options.max_workers)
                                                 : workers + 1) {
      RuntimeOptions const candidate{.workers = workers, .own_driver = own};
      try {
        if (factory(candidate)->workers().cpu == workers) possible.push_back(candidate);
      } catch (Error const&) {
        break;  // this many is too many
      }
    }
  }
  return possible;
}

/// Empty when the check passes.
inline std::string problem_of(NamedCheck const& check, Trial const& trial) {
  try {
    check.run(trial);
    return {};
  } catch (Violation const& violation) {
    return violation.text;
  } catch (std::exception const& error) {
    return concat("threw '", error.what(), "'");
  }
}

inline void run_check(NamedCheck const& check, Trial const& trial, CheckResult& result) {
  try {
    std::string const problem = problem_of(check, trial);
    ++result.runs;
    if (problem.empty()) return;
    if (++result.failures == 1)
      result.problem = concat(problem, " (", name_of(trial.options), ", seed ", trial.seed, ")");
  } catch (LeftOut const& left_out) {
    if (result.problem.empty()) result.problem = left_out.reason;
  }
}

inline Report run_battery(Factory const& factory, ConformanceOptions const& options) {
  Report report;
  auto checks = checks_named(options.only);
  if (!options.heavy) std::erase_if(checks, [](NamedCheck const& check) { return check.heavy; });
  for (auto const& check : checks) report.checks.push_back({check.name, 0, 0, {}});
  auto const possible = configurations(factory, options);
  int most = 0;
  for (auto const& configuration : possible) most = std::max(most, *configuration.workers);
  for (auto const& configuration : possible) {
    report.configurations.push_back(name_of(configuration));
    Trial const trial{factory, configuration, options.seed, std::max(1, options.rounds)};
    for (std::size_t i = 0; i < checks.size(); ++i) {
      if (checks[i].heavy && configuration.workers != std::min(2, most)) continue;
      if (options.progress) options.progress(concat(name_of(configuration), ": ", checks[i].name));
      run_check(checks[i], trial, report.checks[i]);
    }
  }
  return report;
}

}  // namespace detail

/// Runs every check on runtimes that `make` builds from RuntimeOptions, in every configuration that
/// it can build. There is no time limit: a runtime that hangs hangs the battery, and `progress`
/// tells where.
template <class Make>
requires Runtime<std::invoke_result_t<Make&, RuntimeOptions const&>> Report
conformance(Make make, ConformanceOptions const& options = {}) {
  using R = std::invoke_result_t<Make&, RuntimeOptions const&>;
  return detail::run_battery(
      [&make](RuntimeOptions const& runtime_options) -> std::unique_ptr<Subject> {
        return std::make_unique<detail::SubjectOf<R>>(make, runtime_options);
      },
      options);
}

}  // namespace nntile::testing
