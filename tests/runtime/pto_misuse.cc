// SPDX-License-Identifier: BSD-3-Clause
// Bad input to the PTO calls: a code and words, nothing submitted, the runtime usable afterwards.
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/ring/pto.h"
#include "nntile/runtime/support/aligned.hh"
#include "tests/runtime/pto_errors.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

using namespace nntile::test;

TEST_CASE("every call takes a runtime that is NULL", "[runtime][pto_misuse]") {
  long x = 0;
  TaskParam param{PARAM_INPUT, &x, 8, {}, nullptr};
  CHECK(pto_alloc(nullptr, 8) == nullptr);
  pto_free(nullptr, &x);
  pto_scope_begin(nullptr);
  CHECK(pto_submit_task(nullptr, 0, 0, &param, 1) == -PTO_NO_RUNTIME);
  pto_scope_end(nullptr);
  pto_task_complete(nullptr, 0);
  CHECK(pto_task_fail(nullptr, 0, 1, "why") == PTO_NO_RUNTIME);
  CHECK(pto_register_kernel(nullptr, 0, "k", nullptr, nullptr) == PTO_NO_RUNTIME);
  CHECK(pto_register_async_kernel(nullptr, 0, "k", nullptr, nullptr) == PTO_NO_RUNTIME);
  CHECK(pto_destroy(nullptr) == PTO_NO_RUNTIME);
  CHECK(pto_adopt(nullptr, &x, 8) == PTO_NO_RUNTIME);
  CHECK(pto_wait(nullptr, 0) == PTO_NO_RUNTIME);
  CHECK(pto_wait_all(nullptr) == PTO_NO_RUNTIME);
  CHECK(pto_task_state(nullptr, 0) == -PTO_NO_RUNTIME);
  CHECK(pto_last_error(nullptr) == PTO_NO_RUNTIME);
  CHECK(std::string(pto_error_message(nullptr)) == "the runtime is NULL");
  pto_clear_error(nullptr);
  CHECK(std::string(pto_code_name(99)) == "?");
  CHECK(std::string(pto_state_name(-1)) == "?");
}

TEST_CASE("a runtime that cannot be made says why", "[runtime][pto_misuse]") {
  auto const refused = [](PtoOptions const& options) {
    PtoError error{};
    CHECK(pto_create(&options, &error) == nullptr);
    CHECK(error.code == PTO_BAD_VALUE);
    CHECK(pto_create(&options, nullptr) == nullptr);
    return std::string(error.message);
  };
  CHECK_THAT(refused({-1, 0, 0, 0, 0, 0}), Catch::Contains("-1 workers where 1 to 1024"));
  CHECK_THAT(refused({1, -5, 0, 0, 0, 0}), Catch::Contains("max_tasks of -5"));
  CHECK_THAT(refused({2, 0, 0, 2, 1, 0}), Catch::Contains("2 workers of kind cube and 1"));
  CHECK_THAT(refused({2, 0, 0, -1, 0, 0}), Catch::Contains("-1 workers of kind cube"));
  PtoError error{PTO_INTERNAL, "old"};
  Runtime* const rt = pto_create(nullptr, &error);
  CHECK(error.code == PTO_OK);
  CHECK(pto_destroy(rt) == PTO_OK);
}

TEST_CASE("kernels and worker types that are not there", "[runtime][pto_misuse]") {
  PtoProgram const pto(2, 0, 0, 0, 1);
  long x = 0;
  check_refused(pto, 77, {{PARAM_OUTPUT, &x, 8}}, PTO_BAD_VALUE, "no kernel has id 77");
  check_refused(pto, -1, {}, PTO_BAD_VALUE, "no kernel has id -1");
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, &x, 8}}, 0, WORKER_CUBE) == -PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "no worker serves type 0");
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, &x, 8}}, 0, 3) == -PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "no worker type is 3");
  PtoKernel const kernel = [](PtoCall const*) -> std::int32_t { return 0; };
  CHECK(pto_register_kernel(pto, PtoProgram::add, "other", kernel, nullptr) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "is kernel add's");
  CHECK(pto_register_kernel(pto, PTO_MAX_KERNELS, "other", kernel, nullptr) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "id 65536 where 0 to 65535");
  CHECK(pto_register_kernel(pto, 900, "other", nullptr, nullptr) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "has no function");
  CHECK(pto_register_kernel(pto, 900, nullptr, kernel, nullptr) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "has no name");
  check_refused(pto, 900, {}, PTO_BAD_VALUE, "no kernel has id 900");
}

TEST_CASE("parameters that cannot be", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  long x[4] = {};
  int const step = PtoProgram::step;
  check_refused(pto, step, {{PARAM_INOUT, x, 0}}, PTO_BAD_VALUE, "names no byte");
  check_refused(pto, step, {{PARAM_OUTPUT, nullptr, 0}}, PTO_BAD_VALUE, "0 bytes");
  check_refused(pto, step, {{PARAM_INPUT, nullptr, 8}}, PTO_BAD_VALUE, "the address is NULL");
  check_refused(pto, step, {{PARAM_INOUT, nullptr, 0, {x, 8, 0, 0, 0}}}, PTO_BAD_VALUE,
                "names no byte");
  check_refused(pto, step, {{PARAM_INOUT, x, 8, {x, 0, 8, 0, 0}}}, PTO_BAD_VALUE,
                "a buffer and a region");
  check_refused(pto, step, {{PARAM_INOUT, x, SIZE_MAX}}, PTO_BAD_VALUE,
                "parameter 0 (PARAM_INOUT): region: more than 2^63");
  check_refused(pto, step, {{PARAM_INOUT, nullptr, 0, {x, 0, 8, SIZE_MAX, 2}}}, PTO_BAD_VALUE,
                "more than 2^63");
  check_refused(pto, step, {{PARAM_INOUT, reinterpret_cast<void*>(SIZE_MAX - 4), 8}}, PTO_BAD_VALUE,
                "beyond all addresses");
  check_refused(pto, step, {{PARAM_INOUT, nullptr, 0, {x, SIZE_MAX, 8, 0, 0}}}, PTO_BAD_VALUE,
                "beyond all addresses");
  check_refused(pto, step, {{static_cast<ParamType>(5), x, 8}}, PTO_BAD_VALUE, "unknown type");
  check_refused(pto, step, {{static_cast<ParamType>(7), x, 8}}, PTO_BAD_VALUE, "parameter 0");
  check_refused(pto, step, {{PARAM_INOUT, x, 8}, {PARAM_REPEAT, nullptr, 0}}, PTO_BAD_VALUE,
                "parameter 1 (PARAM_REPEAT): 0 times");
  check_refused(pto, step, {{PARAM_REPEAT, nullptr, 1}, {PARAM_REPEAT, nullptr, 2}}, PTO_BAD_VALUE,
                "parameter 1 (PARAM_REPEAT): 2 times where one count");
  check_refused(pto, step, {{PARAM_REPEAT, nullptr, 2}, {PARAM_REPEAT, nullptr, 2}}, PTO_BAD_VALUE,
                "parameter 1 (PARAM_REPEAT)");
  check_refused(pto, step, {{PARAM_REPEAT, nullptr, std::size_t{1} << 29}}, PTO_BAD_VALUE,
                "536870912 times");
  CHECK(pto_submit_task(pto, step, WORKER_CPU, nullptr, 1) == -PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "1 parameters at NULL");
  std::vector<TaskParam> many(65, TaskParam{PARAM_INPUT, x, 8, {}, nullptr});
  CHECK(pto_submit_task(pto, step, WORKER_CPU, many.data(), 65) == -PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "65 parameters where 0 to 64");
  CHECK(pto_submit_task(pto, step, WORKER_CPU, many.data(), -1) == -PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "-1 parameters");
  many.pop_back();
  CHECK(pto_submit_task(pto, PtoProgram::step, WORKER_CPU, many.data(), 64) >= 0);
  CHECK(pto_wait_all(pto) == PTO_OK);
}

TEST_CASE("memory that is not as a task needs it", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  long x[8] = {}, y = 0;
  void* const unwritten = pto_alloc(pto, 64);
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, unwritten, 8}}) == -PTO_BAD_LIFETIME);
  CHECK(pto_task_state(pto, 0) == -PTO_BAD_VALUE);  // the first id is still to be given
  pto_clear_error(pto);
  check_refused(pto, PtoProgram::step, {{PARAM_INOUT, unwritten, 8}}, PTO_BAD_LIFETIME,
                "nothing has written");
  check_refused(pto, PtoProgram::step, {{PARAM_INOUT, static_cast<char*>(unwritten) + 60, 8}},
                PTO_BAD_VALUE, "partly outside of the buffer");
  CHECK(pto.submit(PtoProgram::set, {{PARAM_OUTPUT, &x[2], 32}}, 1) >= 0);
  CHECK(pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x[1], 16}, {PARAM_OUTPUT, &y, 8}}) ==
        -PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "name all of it by pto_adopt");
  CHECK(pto_adopt(pto, x, sizeof x) == PTO_OK);  // what tasks had named was forgotten
  CHECK(pto_adopt(pto, &x[7], 64) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "shares bytes with the buffer");
  CHECK(pto_adopt(pto, nullptr, 8) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "the address is NULL");
  CHECK(pto_adopt(pto, &y, 0) == PTO_BAD_VALUE);
  check_error(pto, PTO_BAD_VALUE, "names no byte");
  CHECK(pto_alloc(pto, 0) == nullptr);
  check_error(pto, PTO_BAD_VALUE, "0 bytes");
  CHECK(pto_alloc(pto, SIZE_MAX / 2) == nullptr);
  check_error(pto, PTO_OUT_OF_MEMORY, "allocate");
}

TEST_CASE("a buffer is freed once, and not used after", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  for (bool const in_scope : {false, true}) {
    if (in_scope) pto_scope_begin(pto);
    auto* const buffer = static_cast<char*>(pto_alloc(pto, 256));
    void* const neighbour = pto_alloc(pto, 256);
    CHECK(pto.submit(PtoProgram::set, {{PARAM_OUTPUT, buffer, 256}}, 1) >= 0);
    pto_free(pto, buffer + 8);
    check_error(pto, PTO_BAD_VALUE, "inside of the buffer");
    pto_free(pto, buffer);
    CHECK(pto_last_error(pto) == PTO_OK);
    pto_free(pto, buffer);
    check_error(pto, PTO_BAD_LIFETIME, "pto_free: the buffer at");
    check_refused(pto, PtoProgram::step, {{PARAM_INOUT, buffer, 8}}, PTO_BAD_LIFETIME, "has ended");
    check_refused(pto, PtoProgram::step, {{PARAM_INOUT, buffer + 128, 8}}, PTO_BAD_LIFETIME,
                  "has ended");
    if (in_scope) {
      pto_scope_end(pto);
      check_refused(pto, PtoProgram::set, {{PARAM_OUTPUT, neighbour, 8}}, PTO_BAD_LIFETIME,
                    "or its scope was");
      pto_free(pto, neighbour);
      check_error(pto, PTO_BAD_LIFETIME, "has ended");
    }
  }
  long x = 0;
  pto_free(pto, &x);
  check_error(pto, PTO_BAD_LIFETIME, "of no buffer that is known");
  pto_free(pto, nullptr);
  check_error(pto, PTO_BAD_LIFETIME, "of no buffer that is known");
}

TEST_CASE("memory of one's own is known until it is freed or all has ended",
          "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  long x[2] = {};
  CHECK(pto.submit(PtoProgram::set, {{PARAM_OUTPUT, x, 8}}, 1) >= 0);
  pto_free(pto, x);
  check_refused(pto, PtoProgram::step, {{PARAM_INOUT, x, 16}}, PTO_BAD_LIFETIME, "by pto_adopt");
  CHECK(pto_adopt(pto, x, 16) == PTO_OK);
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, x, 16}}) >= 0);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, &x[1], 8}}) >= 0);  // adopted: known as before
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(x[0] == PtoProgram::stepped(1, 1));
}

TEST_CASE("a refused task leaves nothing behind", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  long x[4] = {};
  for (int i = 0; i < 3; ++i) {
    CHECK(pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x[1], 8},
                                        {PARAM_OUTPUT, nullptr, 64},
                                        {PARAM_INPUT, nullptr, 8}}) == -PTO_BAD_VALUE);
  }
  pto_clear_error(pto);
  // What it named first is unknown again, so that more of it may be named at once.
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, x, sizeof x}}) == 0);
  CHECK(pto_wait_all(pto) == PTO_OK);
}

TEST_CASE("a refused task that was given the memory of freed buffers leaves them freed",
          "[runtime][pto_misuse]") {
  PtoProgram const pto(1);
  std::vector<void*> buffers;
  for (int i = 0; i < 40; ++i) buffers.push_back(pto_alloc(pto, 3000));
  for (void* const buffer : buffers) pto_free(pto, buffer);
  std::vector<TaskParam> params(PTO_MAX_PARAMS - 1, PtoProgram::output(3000));
  params.push_back({PARAM_INPUT, nullptr, 8, {}, nullptr});
  CHECK(pto_submit_task(pto, PtoProgram::step, WORKER_CPU, params.data(), PTO_MAX_PARAMS) ==
        -PTO_BAD_VALUE);
  pto_clear_error(pto);
  for (void* const buffer : buffers)
    check_refused(pto, PtoProgram::step, {{PARAM_INOUT, static_cast<char*>(buffer) + 8, 8}},
                  PTO_BAD_LIFETIME, "has ended");
}

TEST_CASE("memory that a refused task was given is the caller's when malloc gives it next",
          "[runtime][pto_misuse]") {
  PtoProgram const pto(1);
  std::vector<TaskParam> params(PTO_MAX_PARAMS - 1, PtoProgram::output(3000));
  params.push_back({PARAM_INPUT, nullptr, 8, {}, nullptr});
  CHECK(pto_submit_task(pto, PtoProgram::step, WORKER_CPU, params.data(), PTO_MAX_PARAMS) ==
        -PTO_BAD_VALUE);
  pto_clear_error(pto);
  std::vector<std::vector<long>> own;
  for (int i = 0; i < 60; ++i) {
    own.emplace_back(375);
    CHECK(pto.submit(PtoProgram::set, {{PARAM_OUTPUT, own.back().data(), 8}}, 3) >= 0);
  }
  CHECK(pto_wait_all(pto) == PTO_OK);
}

TEST_CASE("scopes end as often as they begin", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  pto_scope_end(pto);
  check_error(pto, PTO_BAD_LIFETIME, "no scope is open");
  for (int i = 0; i < 5; ++i) pto_scope_begin(pto);
  for (int i = 0; i < 5; ++i) pto_scope_end(pto);
  CHECK(pto_last_error(pto) == PTO_OK);
  pto_scope_end(pto);
  check_error(pto, PTO_BAD_LIFETIME, "no scope is open");
  pto_scope_begin(pto);  // left open: ends with the runtime
  CHECK(pto_alloc(pto, 8) != nullptr);
}

TEST_CASE("memory that only its caller could free is a deadlock", "[runtime][pto_misuse]") {
  PtoProgram const pto(2, 0, 1024);
  pto_scope_begin(pto);
  CHECK(pto_alloc(pto, 4096) == nullptr);
  check_error(pto, PTO_OUT_OF_MEMORY, "make it 4096 at least (PtoOptions), or");
  CHECK(pto_alloc(pto, 1024) != nullptr);
  CHECK(pto_alloc(pto, 64) == nullptr);
  check_error(pto, PTO_DEADLOCK, "pto_scope_begin, depth:1");
  CHECK(pto.submit(PtoProgram::set, {{PARAM_OUTPUT, nullptr, 64}}, 1) == -PTO_DEADLOCK);
  check_error(pto, PTO_DEADLOCK, "no room for 64 bytes");
  pto_scope_end(pto);
  pto_scope_begin(pto);
  CHECK(pto_alloc(pto, 1024) != nullptr);
  pto_scope_end(pto);
}

TEST_CASE("a scope of more buffers than it has room for is refused with the option that gives more",
          "[runtime][pto_misuse]") {
  PtoProgram const pto(1, 0, 1u << 20);
  pto_scope_begin(pto);
  for (int i = 0; i < 1024; ++i) CHECK(pto_alloc(pto, 8) != nullptr);
  CHECK(pto_alloc(pto, 8) == nullptr);
  check_error(pto, PTO_DEADLOCK, "2048 would do (PtoOptions.max_buffers)");
  pto_scope_end(pto);
}

TEST_CASE("more buffers than the machine has memory for are refused by their option's name",
          "[runtime][pto_misuse]") {
  PtoOptions const options{1, 0, 0, 0, 0, 1 << 24};
  std::size_t const at_least = 2500;  // bytes of the room for each, that of its task included
  if (nntile::support::physical_memory() / at_least >= std::size_t{1} << 24) return;
  PtoError error{};
  CHECK(pto_create(&options, &error) == nullptr);
  CHECK(error.code == PTO_OUT_OF_MEMORY);
  CHECK_THAT(std::string(error.message),
             Catch::Contains("PtoOptions.max_buffers of 16777216 need"));
}

TEST_CASE("a kernel may not drive the runtime", "[runtime][pto_misuse]") {
  for (int const workers : {1, 2}) {
    PtoProgram const pto(workers);
    long result[2] = {};
    std::int32_t const id = pto.submit(
        PtoProgram::call_back, {{PARAM_OUTPUT, &result[0], 8}, {PARAM_OUTPUT, &result[1], 8}});
    CHECK(pto_wait(pto, id) == PTO_OK);
    CHECK(result[0] == -PTO_BAD_LIFETIME);
    CHECK(result[1] == PTO_BAD_LIFETIME);
    check_error(pto, PTO_BAD_LIFETIME, "inside a task");
    pto_scope_end(pto);
    check_error(pto, PTO_BAD_LIFETIME, "no scope is open");  // the kernel's was refused
  }
}

TEST_CASE("two threads do not drive a runtime at once", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  long x = 0, y = 0;
  std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
  std::atomic<std::int32_t> other{0};
  std::thread thread([&] {
    while (other == 0) {  // until the driver is inside of pto_wait
      TaskParam step{PARAM_INOUT, &y, 8, {}, nullptr};
      std::int32_t const result = pto_submit_task(pto, PtoProgram::step, WORKER_CPU, &step, 1);
      if (result < 0) other = result;
    }
    while (!pto.begun()) std::this_thread::yield();
    pto_task_complete(pto, gate);
  });
  std::int32_t waited = PTO_WRONG_THREAD;
  while (waited == PTO_WRONG_THREAD) waited = pto_wait(pto, gate);  // the other came first
  thread.join();
  CHECK(waited == PTO_OK);
  CHECK(other == -PTO_WRONG_THREAD);
  check_error(pto, PTO_WRONG_THREAD, "one thread drives a runtime at a time");
}

TEST_CASE("the first error is kept", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  pto_scope_end(pto);
  CHECK(pto.submit(99, {}) == -PTO_BAD_VALUE);
  pto_free(pto, nullptr);
  check_error(pto, PTO_BAD_LIFETIME, "pto_scope_end");
}

TEST_CASE("an orchestration function that checks nothing goes on", "[runtime][pto_misuse]") {
  PtoProgram const pto(2);
  long x = 1;
  std::int32_t const none = pto.submit(99, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, nullptr, 8}});
  void* const output = pto->task_descriptors[none].packed_buffer_base;
  CHECK(output == nullptr);
  CHECK(pto.submit(PtoProgram::copy, {{PARAM_INPUT, output, 8}, {PARAM_OUTPUT, nullptr, 8}}) < 0);
  check_error(pto, PTO_BAD_VALUE, "no kernel has id 99");
}

TEST_CASE("a span may not cover what the runtime gives", "[runtime][pto_misuse]") {
  PtoProgram const pto(1);
  pto_scope_begin(pto);
  auto const first = reinterpret_cast<std::uintptr_t>(pto_alloc(pto, 64));
  // From behind the first buffer on, where the second is to lie.
  bool const adopted = pto_adopt(pto, reinterpret_cast<void*>(first + 64), 4096) == PTO_OK;
  bool const given = pto_alloc(pto, 64) != nullptr;
  CHECK(adopted != given);
  check_error(pto, PTO_BAD_VALUE, "");
  pto_scope_end(pto);
}

TEST_CASE("random calls do no harm", "[runtime][pto_misuse]") {
  for (unsigned seed = 1; seed <= (sanitized ? 80u : 200u); ++seed) {
    CAPTURE(seed);
    PtoOptions const options{seed % 2 == 0 ? 2 : 1,
                             seed % 3 == 0 ? 8 : 0,
                             seed % 5 == 0 ? 2048u : 0u,
                             seed % 4 == 0,
                             0,
                             0};
    Runtime* const rt = pto_create(&options, nullptr);
    PtoKernel const touch_nothing = [](PtoCall const* call) -> std::int32_t {
      return call->num_buffers == 3;
    };
    PtoKernel const complete = [](PtoCall const* call) -> std::int32_t {
      pto_task_complete(static_cast<Runtime*>(call->context), call->task_id);
      return 0;
    };
    pto_register_kernel(rt, 0, "touch_nothing", touch_nothing, nullptr);
    pto_register_async_kernel(rt, 1, "complete", complete, rt);
    std::mt19937 random(seed);
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    static char own[256];
    auto const base = reinterpret_cast<std::uintptr_t>(own);
    std::vector<std::uintptr_t> addresses{0, base, base + 64, base + 250, base + 256};
    std::size_t const sizes[] = {0, 1, 8, 64, 256, 4096, SIZE_MAX / 2, SIZE_MAX};
    auto const address = [&] {
      return reinterpret_cast<void*>(addresses[below(addresses.size())] + below(2) * below(70));
    };
    auto const size = [&] { return sizes[below(3) == 0 ? below(8) : 1 + below(4)]; };
    auto const id = [&] { return static_cast<std::int32_t>(below(12)) - 2; };
    for (int i = 0; i < 200; ++i) {
      switch (below(12)) {
        case 0:
          pto_scope_begin(rt);
          break;
        case 1:
          pto_scope_end(rt);
          break;
        case 2:
          if (void* const given = pto_alloc(rt, size() % 8192))
            addresses.push_back(reinterpret_cast<std::uintptr_t>(given));
          break;
        case 3:
          pto_free(rt, address());
          break;
        case 4:
          (void)pto_wait(rt, id());
          break;
        case 5:
          (void)pto_task_state(rt, id());
          break;
        case 6:
          if (below(2) == 0)
            pto_task_complete(rt, id());
          else
            (void)pto_task_fail(rt, id(), static_cast<std::int32_t>(below(3)), nullptr);
          break;
        case 7:
          if (below(4) == 0) (void)pto_adopt(rt, own + below(256), below(300));
          if (below(4) == 0) (void)pto_wait_all(rt);
          break;
        default: {
          TaskParam params[4];
          for (TaskParam& param : params) {
            bool const by_region = below(3) == 0;
            param = {static_cast<ParamType>(below(6)),
                     by_region ? nullptr : address(),
                     size(),
                     {},
                     nullptr};
            if (by_region) param.region = {address(), below(2) * size(), size(), below(4), size()};
            // What an output or a count may be, memory and time allow.
            if (param.buffer == nullptr || param.type == PARAM_REPEAT) param.size %= 8192;
          }
          std::int32_t const task = pto_submit_task(rt, static_cast<std::int32_t>(below(4)) - 1,
                                                    static_cast<std::int32_t>(below(4)), params,
                                                    static_cast<std::int32_t>(below(5)));
          if (task >= 0 && rt->task_descriptors[task].packed_buffer_base != nullptr)
            addresses.push_back(
                reinterpret_cast<std::uintptr_t>(rt->task_descriptors[task].packed_buffer_base));
        }
      }
      std::int32_t const code = pto_last_error(rt);
      REQUIRE(code >= PTO_OK);
      REQUIRE(code < PTO_INTERNAL);
      CAPTURE(pto_error_message(rt));
      if (below(8) == 0) pto_clear_error(rt);
    }
    (void)pto_wait_all(rt);
    pto_clear_error(rt);
    long x = 0;
    TaskParam param{PARAM_OUTPUT, &x, 8, {}, nullptr};
    CHECK(pto_adopt(rt, &x, 8) == PTO_OK);  // it may be where a span has ended
    CHECK(pto_submit_task(rt, 0, WORKER_CUBE, &param, 1) >= 0);
    CHECK(pto_wait_all(rt) == PTO_OK);
    CHECK(pto_destroy(rt) == PTO_OK);
  }
}
