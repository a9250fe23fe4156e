// SPDX-License-Identifier: BSD-3-Clause
// The conformance battery, whose buffers lie in all places.
#include "nntile/testing/conformance.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedOptions;
using testing::EmulatedUnifiedDevice;
using testing::Scattered;

namespace {

using UnifiedRuntimes = std::tuple<Scattered<SerialOn<EmulatedUnifiedDevice>>,
                                   Scattered<EngineOn<EmulatedUnifiedDevice>>,
                                   Scattered<RingOn<EmulatedUnifiedDevice>>>;

}  // namespace

TEMPLATE_LIST_TEST_CASE("the battery passes with buffers on devices",
                        "[testing][device_conformance]", UnifiedRuntimes) {
  int const devices = GENERATE(1, 2, 4);
  if (sanitized && devices != 2) return;  // they take ten times as long
  CAPTURE(devices);
  auto const report = testing::conformance(
      [=](RuntimeOptions const& options) {
        return TestType(options,
                        EmulatedOptions{.devices = devices, .seed = 7, .longest_delay_ns = 20'000});
      },
      {.max_workers = 2, .rounds = 1, .heavy = false, .only = sanitized ? "random" : ""});
  INFO(to_string(report));
  CHECK(report.passed());
}
