// SPDX-License-Identifier: BSD-3-Clause
// PTO calls for which memory runs short: a code and words, nothing changed, the call good again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "nntile/runtime/ring/pto.h"
#include "tests/runtime/pto_errors.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"

using namespace nntile::test;

namespace {

/// Lets each allocation of a call fail in turn, each on a runtime of its own: prepare(pto), then
/// call(pto), whose PtoCode is looked at; then it is called again, and must pass.
template <class Prepare, class Call> void starve(Prepare prepare, Call call) {
  bool more = allocations_are_counted();
  for (long count = 0; more; ++count) {
    CAPTURE(count);
    PtoProgram const pto(1);
    prepare(pto);
    REQUIRE(pto_last_error(pto) == PTO_OK);
    (void)fail_allocation_after(count);
    std::int32_t const code = call(pto);
    more = fail_allocation_after(-1) < 0;
    CHECK(pto_last_error(pto) == code);
    if (code != PTO_OK) {
      CHECK(more);
      CHECK(std::string(pto_code_name(code)) == "PTO_OUT_OF_MEMORY");
      CHECK_FALSE(std::string(pto_error_message(pto)).empty());
      pto_clear_error(pto);
      CHECK(call(pto) == PTO_OK);
    }
    CHECK(pto_wait_all(pto) == PTO_OK);
    check_error(pto, PTO_OK, "");
  }
}
template <class Call> void starve(Call call) {
  starve([](PtoProgram const&) {}, call);
}
/// The PtoCode of a submission, without memory of the test's own.
template <std::size_t count>
std::int32_t submit(PtoProgram const& pto, std::int32_t kernel, TaskParam (&&params)[count]) {
  std::int32_t const id = pto_submit_task(pto, kernel, WORKER_CPU, params, int{count});
  return id < 0 ? -id : std::int32_t{PTO_OK};
}
TaskParam param(ParamType type, void* buffer, std::size_t size, TaskRegion const& region = {}) {
  return {type, buffer, size, region, nullptr};
}

}  // namespace

TEST_CASE("a runtime for which memory runs short is not made", "[runtime][pto_memory]") {
  bool more = allocations_are_counted();
  for (long count = 0; more; ++count) {
    CAPTURE(count);
    PtoError error{PTO_INTERNAL, "old"};
    (void)fail_allocation_after(count);
    PtoOptions const options{1, 64, 0, 0, 0, 16};
    Runtime* const rt = pto_create(&options, &error);
    more = fail_allocation_after(-1) < 0;
    CHECK((rt == nullptr) == (error.code != PTO_OK));
    CHECK((rt == nullptr) == !std::string(error.message).empty());
    if (rt == nullptr) {
      CHECK(error.code == PTO_OUT_OF_MEMORY);
    } else {
      CHECK(pto_destroy(rt) == PTO_OK);
    }
  }
}

TEST_CASE("a kernel for which memory runs short is registered by the next call",
          "[runtime][pto_memory]") {
  PtoKernel const kernel = [](PtoCall const*) -> std::int32_t { return 0; };
  static constexpr char name[] = "a name for which a string takes memory";
  starve(
      [=](PtoProgram const& pto) { return pto_register_kernel(pto, 5000, name, kernel, nullptr); });
  starve([=](PtoProgram const& pto) {
    return pto_register_async_kernel(pto, 5000, name, kernel, nullptr);
  });
}

TEST_CASE("a buffer for which memory runs short is given by the next call",
          "[runtime][pto_memory]") {
  auto const alloc = [](PtoProgram const& pto) {
    return pto_alloc(pto, 64) != nullptr ? std::int32_t{PTO_OK} : pto_last_error(pto);
  };
  starve(alloc);
  starve([](PtoProgram const& pto) { pto_scope_begin(pto); }, alloc);
  static long x[2];
  starve([](PtoProgram const& pto) { return pto_adopt(pto, x, sizeof x); });
}

TEST_CASE("scopes and buffers end where memory runs short", "[runtime][pto_memory]") {
  starve([](PtoProgram const& pto) {
    pto_scope_begin(pto);
    return pto_last_error(pto);
  });
  static void* buffer = nullptr;
  auto const plain = [](PtoProgram const& pto) {
    pto_scope_begin(pto);
    buffer = pto_alloc(pto, 64);
    (void)pto.submit(PtoProgram::set, {{PARAM_OUTPUT, buffer, 8}}, 1);
  };
  starve(plain, [](PtoProgram const& pto) {
    pto_free(pto, buffer);
    return pto_last_error(pto);
  });
  starve(plain, [](PtoProgram const& pto) {
    pto_scope_end(pto);
    return pto_last_error(pto);
  });
}

TEST_CASE("a task for which memory runs short is submitted by the next call",
          "[runtime][pto_memory]") {
  static long x[8], y;
  auto const adopt = [](PtoProgram const& pto) { (void)pto_adopt(pto, x, sizeof x); };
  starve([](PtoProgram const& pto) {
    return submit(pto, PtoProgram::step, {param(PARAM_INOUT, x, 8)});
  });
  starve(adopt, [](PtoProgram const& pto) {
    return submit(pto, PtoProgram::copy,
                  {param(PARAM_INPUT, &x[2], 8), param(PARAM_OUTPUT, &y, 8),
                   param(PARAM_OUTPUT, nullptr, 64)});
  });
  starve(adopt, [](PtoProgram const& pto) {
    return submit(pto, PtoProgram::step, {param(PARAM_INOUT, nullptr, 0, {x, 0, 8, 2, 32})});
  });
  starve([](PtoProgram const& pto) {
    return submit(pto, PtoProgram::note_block,
                  {param(PARAM_INOUT, x, 64), param(PARAM_REPEAT, nullptr, 4)});
  });
  starve([](PtoProgram const& pto) {
    return submit(pto, PtoProgram::finish, {param(PARAM_OUTPUT, &y, 8)});
  });
}

TEST_CASE("tasks end and are waited for where memory runs short", "[runtime][pto_memory]") {
  bool more = allocations_are_counted();
  for (long count = 0; more; ++count) {
    CAPTURE(count);
    PtoProgram const pto(1);
    static long x, y = 7, z;
    std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
    std::int32_t const other = pto.submit(PtoProgram::set, {{PARAM_OUTPUT, &z, 8}}, 1);
    CHECK(pto_wait(pto, other) == PTO_OK);  // and the first has begun
    std::int32_t const user =
        pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &y, 8}});
    (void)fail_allocation_after(count);
    std::int32_t const ended =
        pto_task_fail(pto, gate, 3, "words for which a string takes memory from the system");
    // Without memory to note which task failed, that one did is what pto_wait_all says.
    std::int32_t const waited = pto_wait(pto, user);
    std::int32_t const all = pto_wait_all(pto);
    more = fail_allocation_after(-1) < 0;
    CHECK(ended == PTO_OK);
    CHECK(y == 7);
    CHECK((all == PTO_TASK_FAILED || all == PTO_OUT_OF_MEMORY));
    CHECK_FALSE(std::string(pto_error_message(pto)).empty());
    CHECK(pto_task_state(pto, user) >= PTO_TASK_COMPLETED);
    (void)pto_wait_all(pto);  // what was not reported
    check_error(pto, waited == PTO_OUT_OF_MEMORY ? PTO_OUT_OF_MEMORY : PTO_TASK_FAILED, "");
  }
}
