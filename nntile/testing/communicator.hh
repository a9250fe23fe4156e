#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The law of comm/LAW.md as a battery that anyone runs on a communicator of their own.
//
// All ranks call it together, each with its own object:
//
//   auto const report = testing::communicator_conformance(comm);
//   if (!report.passed()) std::fputs(to_string(report).c_str(), stderr);
//   return report.passed() ? 0 : 1;
//
// A report is that of its rank: a message that does not arrive fails at both ends, or at one. The
// first line names the most specific check that failed; the others may follow from it. A request
// that does not end fails its check after `seconds`; a barrier that does not return hangs, so run
// it under a launcher with a limit of time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/testing/communicator/checks.hh"
#include "nntile/testing/communicator/subject.hh"
#include "nntile/testing/communicator/trial.hh"
#include "nntile/testing/conformance/report.hh"

namespace nntile::testing {

struct CommConformanceOptions {
  std::uint64_t seed = 1;
  int rounds = 3;         // of random messages, 60 each
  double seconds = 120;   // after which a request counts as lost
  std::string only = {};  // checks whose name does not contain this are not run
};

/// The report of one rank. Where a check has failed, requests may be open: destroy the communicator
/// before the report, which keeps their bytes.
struct CommReport : Report {
  KeptBytes bytes_in_flight;
};

/// Runs every check. Collective; open no requests meanwhile.
template <RequiredCommunicator C>
CommReport communicator_conformance(C& comm, CommConformanceOptions const& options = {}) {
  CommSubjectOf<C> subject(comm);
  CommReport report;
  std::string const name = concat("rank ", comm.rank(), " of ", comm.size());
  report.configurations.push_back({name, 0, {}});
  CommRequests requests;
  std::int64_t position = 0;
  for (CommCheck const& check : all_comm_checks()) {
    std::int64_t const at = position++;
    if (std::string(check.name).find(options.only) == std::string::npos) continue;
    CheckResult result{check.name, 1, 0, {}};
    KeptBytes bytes;
    CommTrial trial(subject, at, options.seed, options.rounds, options.seconds, bytes, requests);
    try {
      check.run(trial);
    } catch (Violation const& violation) {
      result.problem = violation.text;
    } catch (std::exception const& error) {
      result.problem = concat("threw '", error.what(), "'");
    } catch (...) {
      result.problem = "threw something that is no std::exception";
    }
    if (!result.problem.empty()) {
      result.failures = 1;
      result.problem += concat(" (", name, ", seed ", options.seed, ")");
      ++report.configurations.front().failures;
      for (auto& kept : bytes) report.bytes_in_flight.push_back(std::move(kept));
    }
    report.checks.push_back(std::move(result));
    try {
      comm.barrier();
    } catch (std::exception const& error) {
      report.hang = concat("after check '", check.name, "': barrier threw '", error.what(), "'");
      return report;
    } catch (...) {
      report.hang = concat("after check '", check.name,
                           "': barrier threw something that is no std::exception");
      return report;
    }
  }
  return report;
}

}  // namespace nntile::testing
