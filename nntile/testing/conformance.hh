#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The law of runtime/concept.hh as a battery that anyone runs on a runtime of their own.
//
// To run it, give it a callable that builds a runtime from RuntimeOptions:
//
//   auto const report = testing::conformance([](RuntimeOptions const& o) { return Mine(o); });
//   std::puts(to_string(report).c_str());
//   return report.passed() ? 0 : 1;
//
// It builds the runtime with 1, 2, 4, ... workers, with a driver that executes and one that only
// waits (a runtime that cannot throws ValueError from its constructor), and runs every check in
// each. Begin with {.max_workers = 2, .rounds = 1}; `only` runs the checks with a word in their
// name.
//
// To read the report: the first line names the most specific check that failed, what it saw,
// configuration and seed, and how many others failed; mend that one first. Checks stand from the
// elementary to the composite, so the others may follow from it. The name of a check is the
// sentence of runtime/LAW.md that was broken. "[program 7, step 31]" is a random program: it is the
// same each time, so a debugger can stop there. A check is left out where the runtime has not what
// it asks for (replay, scopes, a second worker); the report with `all` says why.
//
// If the runtime hangs, no thread can be taken out of it, so after 120 seconds in which no call
// returned, 20 where no task of the battery is under way either, the report so far is written to
// stderr, with check, configuration and the call that does not return, and the process ends with
// status 1. `watchdog` has the limits and the action; with Watchdog::off() a hang of the runtime is
// a hang of the battery. A debugger that stops the process does not set it off.
//
// If the runtime crashes (it freed memory that a task still uses, say), there is no report: the law
// that was broken is the check that is named on stderr, before the debugger, the sanitizer or the
// test framework says where. `name_crashes` = false leaves signals alone. An error that a sanitizer
// finds without a signal has no such line: let `progress` write each check before it runs.

#include <memory>
#include <type_traits>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/conformance/battery.hh"
#include "nntile/testing/conformance/report.hh"
#include "nntile/testing/conformance/subject.hh"

namespace nntile::testing {

/// Runs every check on runtimes that `make` builds from RuntimeOptions, in every configuration that
/// it can build. Where the runtime hangs, `options.watchdog` acts: by default it ends the process.
template <class Make>
requires RequiredRuntime<std::invoke_result_t<Make&, RuntimeOptions const&>>
Report conformance(Make make, ConformanceOptions const& options = {}) {
  using R = std::invoke_result_t<Make&, RuntimeOptions const&>;
  Factory const factory = [&make](RuntimeOptions const& one) -> std::unique_ptr<Subject> {
    return std::make_unique<detail::SubjectOf<R>>(make, one);
  };
  return detail::Battery(factory, options).run();
}

}  // namespace nntile::testing
