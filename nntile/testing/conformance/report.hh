#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The result of the battery, check by check.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "nntile/core/error.hh"

namespace nntile::testing {

/// One check over all configurations (numbers of workers, kinds of driver) that it ran in.
struct CheckResult {
  std::string name;  // a sentence of the law
  int runs = 0;
  int failures = 0;
  std::string problem;  // of the first failure: what went wrong, configuration and seed; or why it
                        // was left out

  bool passed() const { return runs > 0 && failures == 0; }
  bool left_out() const { return runs == 0; }
  /// It had not begun when the battery ended.
  bool not_reached() const { return runs == 0 && problem.empty(); }
};

/// One number of workers and one kind of driver.
struct ConfigurationResult {
  std::string name;  // "2 workers, own driver"
  int failures = 0;
  std::string refused;  // the error with which the runtime refused it, if it did
};

/// All checks, from the elementary to the composite: each stands behind those whose sentence it
/// builds upon, so that the first that failed is the most specific.
struct Report {
  std::vector<CheckResult> checks;
  std::vector<ConfigurationResult> configurations;  // that were begun
  std::vector<ConfigurationResult> refused;
  std::string hang;  // check, configuration and step that did not end; "" if all did

  /// Whether something ran, and nothing failed or hung.
  bool passed() const { return failed() == 0 && hang.empty() && checks.size() > left_out(); }
  std::size_t failed() const {
    return count([](auto const& check) { return check.failures > 0; });
  }
  std::size_t left_out() const {
    return count([](auto const& check) { return check.left_out(); });
  }
  std::size_t not_reached() const {
    return count([](auto const& check) { return check.not_reached(); });
  }
  /// The most specific check that failed, or nullptr.
  CheckResult const* first_failed() const {
    for (auto const& check : checks)
      if (check.failures > 0) return &check;
    return nullptr;
  }
  /// The check of that name, or nullptr.
  CheckResult const* find(std::string const& name) const {
    for (auto const& check : checks)
      if (check.name == name) return &check;
    return nullptr;
  }

 private:
  template <class Condition> std::size_t count(Condition condition) const {
    return static_cast<std::size_t>(std::count_if(checks.begin(), checks.end(), condition));
  }
};

namespace detail {

/// "the most specific check that failed: its problem; 12 other checks failed, too".
inline std::string headline(Report const& report) {
  CheckResult const* const first = report.first_failed();
  if (first != nullptr) {
    std::size_t const others = report.failed() - 1;
    return concat("FAILED: ", first->name, ": ", first->problem, "; ", others,
                  others == 1 ? " other check" : " other checks", " failed\n");
  }
  if (!report.configurations.empty() || report.refused.empty()) return {};
  return concat("FAILED: no configuration can be built; ", report.refused.front().name, ": '",
                report.refused.front().refused, "'\n");
}

/// " [1 worker] [2 workers: 3 failed]".
inline std::string list(std::vector<ConfigurationResult> const& configurations) {
  std::string text;
  for (auto const& one : configurations)
    text += concat(" [", one.name,
                   one.failures > 0 ? concat(": ", one.failures, " failed") : std::string(), "]");
  return text;
}

}  // namespace detail

/// The most specific failure in a line, what hangs, the failed checks, then one line of counts;
/// with `all`, every check.
inline std::string to_string(Report const& report, bool all = false) {
  std::string text = detail::headline(report);
  if (!report.hang.empty()) text += concat("HANGS: ", report.hang, "\n");
  for (auto const& check : report.checks) {
    if (!all && check.failures == 0) continue;
    text += concat(check.not_reached() ? "[not reached] "
                   : check.left_out()  ? "[left out] "
                   : check.passed()    ? "[passed]   "
                                       : "[FAILED]   ",
                   check.name);
    if (check.failures > 0)
      text +=
          concat(" (", check.failures, " of ", check.runs, " runs)\n             ", check.problem);
    else if (check.left_out() && !check.not_reached())
      text += concat(": ", check.problem);
    text += '\n';
  }
  std::size_t const missed = report.not_reached();
  text +=
      concat(report.checks.size() - report.failed() - report.left_out(), " checks passed, ",
             report.failed(), " failed, ", report.left_out() - missed, " left out, ",
             missed == 0 ? std::string() : concat(missed, " not reached, "), "in ",
             report.configurations.size(), " configurations:", detail::list(report.configurations));
  return text + "\n";
}

}  // namespace nntile::testing
