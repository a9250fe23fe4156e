// SPDX-License-Identifier: BSD-3-Clause
// Runtimes on CUDA devices: without one, an error in one line; with one, the bits of the host.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/cuda.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance.hh"
#include "nntile/testing/device.hh"
#include "tests/cuda/missing_device.hh"
#include "tests/runtime/thread_executor.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/skip.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using CudaRuntimes = std::tuple<BasicSerial<Cuda>, Engine<ThreadExecutor, Cuda>, CudaRing>;

}  // namespace

TEMPLATE_LIST_TEST_CASE("without a device a runtime is refused in one line", "[cuda][device]",
                        CudaRuntimes) {
  if (missing_device().empty()) return skip("this machine has a device");
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::string const text = message_of<DeviceError>([] { TestType runtime; });
    CHECK(text == missing_device());
    CHECK(text.starts_with("Cuda: "));
    CHECK(text.find('\n') == text.npos);
  }
  Ring ring;  // the process goes on
  ring.wait_all();
}

TEST_CASE("numbers of devices and lanes are checked", "[cuda][device]") {
  CHECK(message_of<ValueError>([] { Cuda const devices({.devices = -1}); }) ==
        "Cuda: -1 devices; 0 takes all");
  if (!missing_device().empty()) return skip(missing_device());
  CHECK(message_of<ValueError>([] { Cuda const devices({.lanes = 0}); }) ==
        "Cuda: 0 lanes; there must be at least 1");
  CHECK(message_of<DeviceError>([] { Cuda const devices({.devices = 1000}); }).find("1000") !=
        std::string::npos);
}

TEMPLATE_LIST_TEST_CASE("a training step on a device has the bits of the host", "[cuda][device]",
                        CudaRuntimes) {
  if (!missing_device().empty()) return skip(missing_device());
  TinyGptGraph const of;
  Serial serial;
  TinyGptRun expected(serial, of, {.tile = 64});
  float const loss = expected.train(3);
  for (bool const replay : {false, true}) {
    TestType runtime;
    TinyGptRun run(runtime, of, {.tile = 64, .place = {{.place = device(0)}}}, {.replay = replay});
    CHECK(run.train(3) == loss);
    CHECK(run.parameters() == expected.parameters());
  }
}

TEST_CASE("fast numerics on a device train nearly as exact ones do, and again alike",
          "[cuda][device]") {
  if (!missing_device().empty()) return skip(missing_device());
  PlanOptions const options{.tile = 64, .place = {{.place = device(0)}}};
  TinyGptGraph const exact, fast({.numerics = {.mode = Mode::fast}});
  CudaRing runtime;
  float const expected = TinyGptRun(runtime, exact, options).train(3);
  TinyGptRun first(runtime, fast, options), second(runtime, fast, options);
  float const loss = first.train(3);
  CHECK(std::fabs(loss - expected) < 1e-3f * expected);
  CHECK(second.train(3) == loss);
  CHECK(second.parameters() == first.parameters());
}
