// SPDX-License-Identifier: BSD-3-Clause
// The runtime over a StarPU that has CUDA, as far as it shows without a device: nntile_starpu
// compiled for such a build, and what StarPU says of its devices told by the test.
#include <starpu.h>
#include <stdlib.h>

#include <atomic>

#include "nntile/core/computation.hh"
#include "nntile/runtime/starpu/starpu.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

int asked = -1;      // devices, when StarPU was started last
unsigned there = 0;  // devices that it finds
int stream_of_worker = 0;

std::atomic<void*> stream{nullptr};
std::atomic<starpu_codelet*> codelet{nullptr};
Status on_host(KernelCall const& call) noexcept {
  codelet = starpu_task_get_current()->cl;
  *static_cast<long*>(call.buffers[0]) = 1;
  return {};
}
Status on_device(KernelCall const& call, void* given) noexcept {
  stream = given;
  *static_cast<long*>(call.buffers[0]) = 2;
  return {};
}

}  // namespace

extern "C" {

int __real_starpu_init(starpu_conf* conf);
int __wrap_starpu_init(starpu_conf* conf) {
  if (conf != nullptr) asked = conf->ncuda;
  return __real_starpu_init(conf);
}
unsigned __wrap_starpu_cuda_worker_get_count() { return there; }
// The last workers of the host stand in for those of devices.
unsigned __real_starpu_worker_get_ids_by_type(starpu_worker_archtype type, int* ids, unsigned most);
unsigned __wrap_starpu_worker_get_ids_by_type(starpu_worker_archtype type, int* ids,
                                              unsigned most) {
  if (type != STARPU_CUDA_WORKER) return __real_starpu_worker_get_ids_by_type(type, ids, most);
  int all[STARPU_NMAXWORKERS];
  unsigned const count =
      __real_starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, all, STARPU_NMAXWORKERS);
  for (unsigned i = 0; i < there; ++i) ids[i] = all[count - 1 - i % count];
  return there;
}
cudaStream_t starpu_cuda_get_local_stream() {
  return reinterpret_cast<cudaStream_t>(&stream_of_worker);
}

}  // extern "C"

TEST_CASE("StarPU is asked for the devices of the options, or of the environment",
          "[cuda][on_starpu]") {
  unsetenv("STARPU_NCUDA");
  there = 0;
  CHECK(StarPU().workers().cuda == 0);
  CHECK(asked == 0);
  there = 2;
  {
    StarPU const runtime({.workers = 1}, {.devices = 2});
    CHECK(asked == 2);
    CHECK(runtime.workers().cuda == 2);
    CHECK(runtime.workers().cpu == 1);
    CHECK(StarPU().workers().cuda == 2);
    CHECK(contains(message_of<ValueError>([] { StarPU other({}, {.devices = 1}); }),
                   "devices=1, but another object runs StarPU with 2"));
  }
  setenv("STARPU_NCUDA", "1", 1);
  there = 1;
  CHECK(StarPU().workers().cuda == 1);
  CHECK(asked == 1);
  there = 2;
  CHECK(StarPU({}, {.devices = 2}).workers().cuda == 2);
  CHECK(asked == 2);
  unsetenv("STARPU_NCUDA");
}

TEST_CASE("devices that the machine has not are refused in one line", "[cuda][on_starpu]") {
  there = 1;
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::string const text = message_of<DeviceError>([] { StarPU runtime({}, {.devices = 3}); });
    CHECK(contains(text, "StarPU: devices=3, and 1 started: "));
    CHECK(text.find('\n') == text.npos);
    CHECK(starpu_is_initialized() == 0);
  }
  CHECK(StarPU({}, {.devices = 1}).workers().cuda == 1);
}

TEST_CASE("a task runs on the device that its hint names, where there is one",
          "[cuda][on_starpu]") {
  static std::atomic<int> ran_on{-1};
  static constexpr auto note = +[](KernelCall const&) noexcept -> Status {
    ran_on = starpu_worker_get_id();
    return {};
  };
  static constexpr Codelet both{"noted", note, on_device}, host_alone{"host", note};
  there = 1;
  StarPU runtime({.workers = 2}, {.devices = 1});
  int ids[STARPU_NMAXWORKERS];
  REQUIRE(__real_starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, ids, STARPU_NMAXWORKERS) == 2);
  DataHandle const buffer = runtime.allocate(sizeof(long));
  auto const run = [&](Codelet const& codelet, Hints const& hints) {
    Use<DataHandle> const uses[] = {{buffer, Access::write}};
    runtime.wait(runtime.submit({&codelet, uses, {}, hints, {}}));
    return ran_on.load();
  };
  for (int round = 0; round < 20; ++round) {
    CHECK(run(both, {.device = 0}) == ids[1]);
    CHECK(run(both, {.worker = 2}) == ids[1]);
    CHECK(run(both, {.worker = 0, .device = 0}) == ids[0]);
    CHECK(run(both, {.device = 1}) >= 0);
    CHECK(run(host_alone, {.device = 0}) >= 0);
  }
}

TEST_CASE("an entry for devices is given the stream of StarPU's worker", "[cuda][on_starpu]") {
  static constexpr Computation computation{"both"};
  static constexpr Codelet both{"both", on_host, on_device, nullptr, 0, &computation};
  there = 1;
  StarPU runtime({.workers = 1}, {.devices = 1});
  DataHandle const buffer = runtime.allocate(sizeof(long));
  auto const run = [&] {
    Use<DataHandle> const uses[] = {{buffer, Access::write}};
    runtime.wait(runtime.submit({&both, uses, {}, {}, {}}));
    long value;
    std::memcpy(&value, runtime.lock(buffer, Access::read).data(), sizeof value);
    runtime.unlock(buffer);
    return value;
  };
  CHECK(run() == 1);
  // A worker of the host stands in for that of the device.
  starpu_codelet& of_both = *codelet.load();
  REQUIRE(of_both.cuda_funcs[0] != nullptr);
  std::swap(of_both.cpu_funcs[0], of_both.cuda_funcs[0]);
  CHECK(run() == 2);
  CHECK(stream == &stream_of_worker);
  std::swap(of_both.cpu_funcs[0], of_both.cuda_funcs[0]);
}
