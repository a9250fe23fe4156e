// SPDX-License-Identifier: BSD-3-Clause
// The one Catch2 main of all test executables, for Catch2 2.13 and 3. A run in which every test
// case called nntile::test::skip() exits with 77, which Meson counts as skipped.
#include "tests/support/skip.hh"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
namespace {
using Listener = Catch::EventListenerBase;
}
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
namespace {
using Listener = Catch::TestEventListenerBase;
}
#endif

#include <cstdio>
#include <string>

namespace {

int cases_run = 0;
int cases_skipped = 0;
bool skipping = false;

struct CountSkipped : Listener {
  using Listener::Listener;
  void testCaseStarting(Catch::TestCaseInfo const&) override { skipping = false; }
  void testCaseEnded(Catch::TestCaseStats const&) override {
    ++cases_run;
    cases_skipped += skipping ? 1 : 0;
  }
};
CATCH_REGISTER_LISTENER(CountSkipped)

constexpr int meson_skipped = 77;  // exit status that Meson reads as "skipped"

}  // namespace

void nntile::test::skip(std::string const& reason) {
  skipping = true;
  std::printf("skipped: %s\n", reason.c_str());
}

int main(int argc, char** argv) {
  Catch::Session session;
  int const failed = session.run(argc, argv);
  if (failed != 0) return failed;
  if (session.configData().filenamesAsTags && cases_run == 0) {  // a test of the build has no cases
    std::printf("no test case was run\n");
    return 1;
  }
  return cases_run > 0 && cases_run == cases_skipped ? meson_skipped : 0;
}
