#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What the battery found, check by check.

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
  std::string problem;  // of the first failure: configuration, seed and what went wrong; or why it
                        // was left out

  bool passed() const { return runs > 0 && failures == 0; }
  bool left_out() const { return runs == 0; }
};

/// All checks in the order in which they ran.
struct Report {
  std::vector<CheckResult> checks;
  std::vector<std::string> configurations;

  /// Whether something ran and nothing failed.
  bool passed() const { return failed() == 0 && checks.size() > left_out(); }
  std::size_t failed() const {
    std::size_t count = 0;
    for (auto const& check : checks) count += check.failures > 0;
    return count;
  }
  std::size_t left_out() const {
    std::size_t count = 0;
    for (auto const& check : checks) count += check.left_out();
    return count;
  }
  /// The check of that name, or nullptr.
  CheckResult const* find(std::string const& name) const {
    for (auto const& check : checks)
      if (check.name == name) return &check;
    return nullptr;
  }
};

/// The failed checks, then one line of counts; with `all`, every check.
inline std::string to_string(Report const& report, bool all = false) {
  std::string text;
  for (auto const& check : report.checks) {
    if (!all && check.failures == 0) continue;
    text += concat(check.left_out() ? "[left out] "
                   : check.passed() ? "[passed]   "
                                    : "[FAILED]   ",
                   check.name);
    if (check.failures > 0)
      text +=
          concat(" (", check.failures, " of ", check.runs, " runs)\n             ", check.problem);
    else if (check.left_out())
      text += concat(": ", check.problem);
    text += '\n';
  }
  text += concat(report.checks.size() - report.failed() - report.left_out(), " checks passed, ",
                 report.failed(), " failed, ", report.left_out(), " left out, in ",
                 report.configurations.size(), " configurations:");
  for (auto const& configuration : report.configurations) text += concat(" [", configuration, "]");
  return text + "\n";
}

}  // namespace nntile::testing
