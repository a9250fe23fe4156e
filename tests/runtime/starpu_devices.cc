// SPDX-License-Identifier: BSD-3-Clause
// Tasks that have an entry for StarPU's devices, on a machine without them.
#ifdef NNTILE_HAVE_STARPU
#include <starpu.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "nntile/core/computation.hh"
#include "tests/runtime/starpu_tasks.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test::on_starpu;
using nntile::test::contains;
using nntile::test::message_of;

namespace {

std::atomic<void*> last_stream{nullptr};
std::atomic<starpu_codelet*> last_codelet{nullptr};
std::atomic<std::uint32_t> last_where{0};
Status note_where(KernelCall const& call) noexcept {
  starpu_task* const task = starpu_task_get_current();
  last_codelet = task->cl;
  last_where = static_cast<std::uint32_t>(task->where);
  return increment(call);
}
Status increment_on_device(KernelCall const& call, void* stream) noexcept {
  last_stream = stream;
  *static_cast<long*>(call.buffers[0]) += 100;
  return call.workspace == nullptr ? Status{} : Status{"lent memory of the host"};
}
Status fail_on_device(KernelCall const& call, void*) noexcept {
  std::strcpy(call.text, "no such shape");
  return {call.text};
}
Status end_token(KernelCall const&, Completion token) noexcept {
  starpu_task* const task = starpu_task_get_current();
  last_where = static_cast<std::uint32_t>(task->where);
  token.complete();
  return {};
}

}  // namespace

TEST_CASE("a task may run on a device where its codelet has such an entry", "[runtime][starpu]") {
  static constexpr Computation one{"one"};
  static constexpr Codelet both{"both", note_where, increment_on_device, nullptr, 0, &one},
      host_alone{"host", note_where, nullptr, nullptr, 0, &one},
      token{"token", nullptr, increment_on_device, end_token};
  StarPU runtime({.workers = 2});
  DataHandle const buffer = runtime.allocate(sizeof(long));
  submit(runtime, clear_codelet, {{buffer, Access::write}});
  runtime.wait(submit(runtime, both, {{buffer, Access::update}}));
  CHECK(last_where == (STARPU_CPU | STARPU_CUDA));
  starpu_codelet& codelet = *last_codelet.load();
  CHECK(codelet.where == (STARPU_CPU | STARPU_CUDA));
  CHECK(codelet.cpu_funcs[0] != nullptr);
  CHECK(codelet.cuda_funcs[0] != nullptr);
  CHECK(codelet.cuda_flags[0] == STARPU_CUDA_ASYNC);
  runtime.wait(submit(runtime, host_alone, {{buffer, Access::update}}));
  CHECK(last_where == STARPU_CPU);
  CHECK(last_codelet == &codelet);
  // What is not held by a token, and has no entry of the CPU's, would never end on a device.
  runtime.wait(submit(runtime, token, {{buffer, Access::update}}));
  CHECK(last_where == STARPU_CPU);
  CHECK(value_of(runtime, buffer) == 2);
}

TEST_CASE("a worker of a device runs the task's own entry on its stream", "[runtime][starpu]") {
  static constexpr Computation one{"one on a device"};
  static constexpr Codelet both{"both", note_where, increment_on_device, nullptr, 64, &one},
      fails{"fails", note_where, fail_on_device, nullptr, 0, &one};
  StarPU runtime({.workers = 2});
  DataHandle const buffer = runtime.allocate(sizeof(long)), other = runtime.allocate(sizeof(long));
  submit(runtime, clear_codelet, {{buffer, Access::write}});
  submit(runtime, clear_codelet, {{other, Access::write}});
  runtime.wait(submit(runtime, both, {{buffer, Access::update}}));
  // A worker of the host stands in for one of a device.
  starpu_codelet& codelet = *last_codelet.load();
  starpu_cpu_func_t const of_cpu = codelet.cpu_funcs[0];
  codelet.cpu_funcs[0] = codelet.cuda_funcs[0];
  last_stream = nullptr;
  for (int i = 0; i < 100; ++i) submit(runtime, both, {{buffer, Access::update}});
  CHECK(value_of(runtime, buffer) == 10'001);
  CHECK(last_stream != nullptr);
  Event const failed = submit(runtime, fails, {{other, Access::update}});
  Event const cancelled = submit(runtime, both, {{buffer, Access::update}, {other, Access::read}});
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(failed); }), "no such shape"));
  CHECK_THROWS_AS(runtime.wait(cancelled), TaskError);
  codelet.cpu_funcs[0] = of_cpu;
  submit(runtime, clear_codelet, {{buffer, Access::write}});
  submit(runtime, both, {{buffer, Access::update}});
  CHECK(value_of(runtime, buffer) == 1);
  submit(runtime, clear_codelet, {{other, Access::write}});
  try {
    runtime.wait_all();
  } catch (TaskError const&) {  // of the failures above
  }
}

#ifndef STARPU_USE_CUDA
TEST_CASE("devices that this build of StarPU cannot have are refused in one line",
          "[runtime][starpu]") {
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto const text = message_of<DeviceError>([] { StarPU runtime({}, {.devices = 2}); });
    CHECK(contains(text, "StarPU: devices=2, but this StarPU 1."));
    CHECK(contains(text, "was built without CUDA"));
    CHECK(text.find('\n') == text.npos);
  }
  {
    Variable const count("STARPU_NCUDA", "3");
    CHECK(contains(message_of<DeviceError>([] { StarPU runtime; }), "STARPU_NCUDA='3'"));
    CHECK(StarPU({}, {.devices = 0}).workers().cuda == 0);  // an option stands over it
  }
  for (char const* const none : {"0", ""}) {
    Variable const count("STARPU_NCUDA", none);
    CHECK(StarPU().workers().cuda == 0);
  }
  for (char const* const bad : {"two", "1x", "-1", "99999999999"}) {
    Variable const count("STARPU_NCUDA", bad);
    CHECK(contains(message_of<ValueError>([] { StarPU runtime; }), bad));
    CHECK(contains(message_of<ValueError>([] { StarPU runtime({}, {.devices = 0}); }), bad));
  }
  CHECK(contains(message_of<ValueError>([] { StarPU runtime({}, {.devices = -1}); }),
                 "devices=-1; 0 is none"));
  StarPU const first;
  CHECK(StarPU({}, {.devices = 0}).workers().cuda == 0);
  CHECK(contains(message_of<ValueError>([] { StarPU runtime({}, {.devices = 1}); }),
                 "devices=1, but another object runs StarPU with 0"));
}
#endif
#else
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

TEST_CASE("StarPU has no devices", "[runtime][starpu]") {
  nntile::test::skip("built without StarPU (-Dstarpu=disabled, or libstarpu-dev is not installed)");
}
#endif
