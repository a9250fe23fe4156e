// SPDX-License-Identifier: BSD-3-Clause
// The conformance battery, whose buffers lie in all places.
#include <new>

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

/// Has no memory, and says so by another error than the law's.
struct Thrifty : EmulatedUnifiedDevice {
  using EmulatedUnifiedDevice::EmulatedUnifiedDevice;
  static inline Place::Kind where{};
  void* allocate(std::size_t bytes, Place place) {
    if (place.kind == where && bytes > std::size_t{1} << 40) throw std::bad_alloc();
    return EmulatedUnifiedDevice::allocate(bytes, place);
  }
};

}  // namespace

TEST_CASE("the battery asks each place for more than there is", "[testing][device_conformance]") {
  if (sanitized) return;  // they end the process there
  for (auto const kind : {Place::Kind::pinned, Place::Kind::device}) {
    Thrifty::where = kind;
    auto const report = testing::conformance(
        [](RuntimeOptions const& options) { return Scattered<SerialOn<Thrifty>>(options); },
        {.max_workers = 1, .only = "what cannot be allocated"});
    INFO(to_string(report));
    CHECK(report.failed() == 1);
  }
}

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
