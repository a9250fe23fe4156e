// SPDX-License-Identifier: BSD-3-Clause
// PTO tasks that end otherwise than by returning 0: completed, failed and cancelled from outside.
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/ring/pto.h"
#include "tests/runtime/pto_errors.hh"
#include "tests/support/catch.hh"

using nntile::cancelled_mark;
using namespace nntile::test;

TEST_CASE("tasks are completed once, by those who may", "[runtime][pto_failures]") {
  PtoProgram const pto(1);
  long x = 0;
  std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
  pto_task_complete(pto, gate);
  CHECK(pto_last_error(pto) == PTO_BAD_LIFETIME);
  CHECK_THAT(pto_error_message(pto),
             Catch::Contains("has not begun") && Catch::Contains("unless it was cancelled"));
  pto_clear_error(pto);
  std::int32_t const plain = pto.submit(PtoProgram::set, {{PARAM_OUTPUT, nullptr, 8}}, 1);
  CHECK(pto_wait(pto, plain) == PTO_OK);
  pto_task_complete(pto, gate);
  check_error(pto, PTO_OK, "");
  pto_task_complete(pto, gate);
  check_error(pto, PTO_BAD_LIFETIME, "was completed before");
  pto_task_complete(pto, plain);
  check_error(pto, PTO_BAD_LIFETIME, "ends when its kernel returns");
  for (std::int32_t const id : {-3, 4711, 1 << 30}) {
    pto_task_complete(pto, id);
    check_error(pto, PTO_BAD_VALUE, "no task has id " + std::to_string(id));
    CHECK(pto_wait(pto, id) == PTO_BAD_VALUE);
    CHECK(pto_task_state(pto, id) == -PTO_BAD_VALUE);
    check_error(pto, PTO_BAD_VALUE, "pto_wait: no task has id");
  }
}

TEST_CASE("a kernel that fails cancels what needs it", "[runtime][pto_failures]") {
  PtoProgram const pto(2);
  long x = 0, y = 0;
  auto const broken = [&](std::int32_t kernel, std::string const& words) {
    std::int32_t const id = pto.submit(kernel, {{PARAM_OUTPUT, &x, 8}});
    std::int32_t const user =
        pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &y, 8}});
    CHECK(pto_wait(pto, id) == PTO_TASK_FAILED);
    CHECK(pto_wait(pto, user) == PTO_TASK_FAILED);
    CHECK(pto_wait_all(pto) == PTO_TASK_FAILED);
    CHECK(pto_task_state(pto, user) >= PTO_TASK_COMPLETED);
    check_error(pto, PTO_TASK_FAILED, words);
  };
  // Memory that failed tasks named is forgotten, too.
  long pair[2] = {};
  pto.submit(PtoProgram::fail, {{PARAM_OUTPUT, &pair[0], 8}});
  CHECK(pto_wait_all(pto) == PTO_TASK_FAILED);
  pto_clear_error(pto);
  CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, pair, 16}}) >= 0);
  CHECK(pto_wait_all(pto) == PTO_OK);
  broken(PtoProgram::fail, "kernel fail returned 3 in block 0 of 1");
  broken(PtoProgram::speak, "the disk is full");
  broken(PtoProgram::raise, "raised");
}

TEST_CASE("words of failures number tasks as submitted, from 1", "[runtime][pto_failures]") {
  PtoProgram const pto(2);
  long x = 0;
  CHECK(pto.submit(4711, {{PARAM_OUTPUT, &x, 8}}) < 0);  // refused, so it has no number
  pto_clear_error(pto);
  for (std::size_t const blocks : {1u, 4u, 1u}) {
    std::int32_t const id =
        pto.submit(PtoProgram::fail, {{PARAM_REPEAT, nullptr, blocks}, {PARAM_OUTPUT, &x, 8}});
    REQUIRE(id >= 0);
    CHECK(pto_wait_all(pto) == PTO_TASK_FAILED);
    CHECK_THAT(pto_error_message(pto),
               Catch::Contains("fail (task " + std::to_string(id + 1) + ") failed"));
    pto_clear_error(pto);
  }
}

TEST_CASE("a task is failed by a call, and what needs it is cancelled", "[runtime][pto_failures]") {
  for (int const workers : {1, 2}) {
    PtoProgram const pto(workers);
    long x = 0, y = 7;
    std::string const endless(400, 'e');
    std::string const faked = std::string(1, cancelled_mark) + "faked";
    struct {
      std::int32_t code;
      char const* message;
      std::string words;
    } const cases[] = {{5, nullptr, "failed with code 5"},
                       {-5, "", "failed with code -5"},
                       {1, "the disk is full", "the disk is full"},
                       {1, endless.c_str(), endless.substr(0, 191)},
                       {1, faked.c_str(), "faked"}};
    for (auto const& one : cases) {
      std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
      std::int32_t const user =
          pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &y, 8}});
      while (pto_task_state(pto, gate) != PTO_TASK_RUNNING) {
        long z = 0;  // a lone driver runs tasks where it waits
        CHECK(pto_wait(pto, pto.submit(PtoProgram::set, {{PARAM_OUTPUT, &z, 8}}, 1)) == PTO_OK);
      }
      std::thread([&] { CHECK(pto_task_fail(pto, gate, one.code, one.message) == PTO_OK); }).join();
      CHECK(pto_wait(pto, gate) == PTO_TASK_FAILED);
      CHECK_THAT(pto_error_message(pto), Catch::Contains("begin") && Catch::Contains(one.words));
      CHECK(pto_wait(pto, user) == PTO_TASK_FAILED);
      CHECK(y == 7);
      CHECK(pto_wait_all(pto) == PTO_TASK_FAILED);
      check_error(pto, PTO_TASK_FAILED, one.words);
      CHECK(pto_task_fail(pto, gate, 1, nullptr) == PTO_BAD_LIFETIME);
      check_error(pto, PTO_BAD_LIFETIME, "pto_task_fail: task");
    }
  }
}

TEST_CASE("only what may be completed may be failed, and only with a code",
          "[runtime][pto_failures]") {
  PtoProgram const pto(1);
  long x = 0;
  std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
  CHECK(pto_task_fail(pto, gate, 3, "early") == PTO_BAD_LIFETIME);
  CHECK_THAT(pto_error_message(pto), Catch::Contains("has not begun"));
  pto_clear_error(pto);
  CHECK(pto_task_fail(pto, gate, 0, "well") == PTO_BAD_VALUE);
  CHECK_THAT(pto_error_message(pto), Catch::Contains("code 0, which stands for success"));
  pto_clear_error(pto);
  std::int32_t const plain = pto.submit(PtoProgram::set, {{PARAM_OUTPUT, nullptr, 8}}, 1);
  CHECK(pto_wait(pto, plain) == PTO_OK);
  CHECK(pto_task_fail(pto, plain, 3, "late") == PTO_BAD_LIFETIME);
  CHECK_THAT(pto_error_message(pto), Catch::Contains("ends when its kernel returns"));
  pto_clear_error(pto);
  CHECK(pto_task_fail(pto, 4711, 3, nullptr) == PTO_BAD_VALUE);
  CHECK_THAT(pto_error_message(pto), Catch::Contains("pto_task_fail: no task has id 4711"));
  pto_clear_error(pto);
  pto_task_complete(pto, gate);  // none of these has ended it
  CHECK(pto_task_fail(pto, gate, 3, "too late") == PTO_BAD_LIFETIME);
  check_error(pto, PTO_BAD_LIFETIME, "was completed before");
}

TEST_CASE("of completing and failing a task at once one counts", "[runtime][pto_failures]") {
  PtoProgram const pto(2);
  int failed = 0;
  for (int round = 0; round < 200; ++round) {
    std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, nullptr, 8}});
    while (pto_task_state(pto, gate) != PTO_TASK_RUNNING) std::this_thread::yield();
    std::int32_t code = PTO_INTERNAL;
    std::thread other([&] { code = pto_task_fail(pto, gate, 2, nullptr); });
    pto_task_complete(pto, gate);
    other.join();
    REQUIRE((code == PTO_OK || code == PTO_BAD_LIFETIME));
    pto_clear_error(pto);
    REQUIRE(pto_wait(pto, gate) == (code == PTO_OK ? PTO_TASK_FAILED : PTO_OK));
    failed += code == PTO_OK;
    (void)pto_wait_all(pto);
    pto_clear_error(pto);
  }
  CAPTURE(failed);
  check_error(pto, PTO_OK, "");
}

TEST_CASE("a part that is written well does not mend the others", "[runtime][pto_failures]") {
  PtoProgram const pto(2);
  long whole[2] = {}, y = 0;
  CHECK(pto_adopt(pto, whole, sizeof whole) == PTO_OK);
  pto.submit(PtoProgram::fail, {{PARAM_OUTPUT, &whole[0], 8}});
  pto.submit(PtoProgram::set, {{PARAM_OUTPUT, &whole[1], 8}}, 1);
  std::int32_t const reader =
      pto.submit(PtoProgram::copy, {{PARAM_INPUT, whole, 16}, {PARAM_OUTPUT, &y, 8}});
  CHECK(pto_wait(pto, reader) == PTO_TASK_FAILED);
  CHECK(pto_wait_all(pto) == PTO_TASK_FAILED);
}

TEST_CASE("a failure has the words of the block that failed", "[runtime][pto_failures]") {
  PtoProgram const pto(1);
  auto const second_fails = [](PtoCall const* call) -> std::int32_t {
    if (call->block == 0) (void)std::snprintf(call->message, 192, "all is well");
    return call->block == 0 ? 0 : 7;
  };
  CHECK(pto_register_kernel(pto, 900, "blocks", second_fails, nullptr) == PTO_OK);
  CHECK(pto_register_async_kernel(pto, 901, "starts", second_fails, nullptr) == PTO_OK);
  for (std::int32_t const kernel : {900, 901}) {
    CHECK(pto_wait(pto, pto.submit(kernel, {{PARAM_REPEAT, nullptr, 2}})) == PTO_TASK_FAILED);
    CHECK_THAT(pto_error_message(pto), Catch::Contains("returned 7 in block 1 of 2"));
    CHECK(pto_wait_all(pto) == PTO_TASK_FAILED);
    pto_clear_error(pto);
  }
}
