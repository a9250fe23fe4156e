// SPDX-License-Identifier: BSD-3-Clause
// The PTO calls as a program in C makes them: dependences, scopes, outputs, states, completion.
#include "nntile/runtime/ring/pto.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/pto_program.hh"
#include "tests/support/catch.hh"

using namespace nntile::test;

TEST_CASE("a chain of tasks over a given output is in order", "[runtime][pto]") {
  for (int const workers : {1, 2, 8}) {
    PtoProgram const pto(workers);
    std::int32_t const first = pto.submit(PtoProgram::set, {{PARAM_OUTPUT, nullptr, 8}}, 1);
    REQUIRE(first == 0);
    void* const cell = pto->task_descriptors[first].packed_buffer_base;
    REQUIRE(cell != nullptr);
    for (int i = 0; i < 1000; ++i) pto.submit(PtoProgram::step, {{PARAM_INOUT, cell, 8}});
    CHECK(pto_wait_all(pto) == PTO_OK);
    CHECK(*static_cast<long*>(cell) == PtoProgram::stepped(1, 1000));
  }
}

TEST_CASE("an output waits for earlier readers and writers", "[runtime][pto]") {
  PtoProgram const pto(2);
  long x = 1, seen[64] = {};
  for (long& place : seen) {
    pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &place, 8}});
    pto.submit(PtoProgram::set, {{PARAM_OUTPUT, &x, 8}}, 1 + (&place - seen) + 1);
  }
  CHECK(pto_wait_all(pto) == PTO_OK);
  for (long i = 0; i < 64; ++i) CHECK(seen[i] == i + 1);
}

TEST_CASE("each implicit output has an address that stays the caller's", "[runtime][pto]") {
  PtoProgram const pto(1, 2);
  TaskParam params[] = {pto.value(7), pto.output(8), pto.output(8)};
  std::int32_t const id = pto_submit_task(pto, PtoProgram::set_two, WORKER_CPU, params, 3);
  REQUIRE(id >= 0);
  void *const a = params[1].address, *const b = params[2].address;
  CHECK(a != b);
  CHECK(pto->task_descriptors[id].packed_buffer_base == a);
  CHECK(params[1].buffer == nullptr);  // submitted once more it asks for other outputs
  REQUIRE(pto_submit_task(pto, PtoProgram::set_two, WORKER_CPU, params, 3) >= 0);
  REQUIRE(pto_submit_task(pto, PtoProgram::set_two, WORKER_CPU, params, 3) == id);  // comes round
  CHECK(params[1].address != a);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(*static_cast<long*>(a) == 7);
  CHECK(*static_cast<long*>(b) == 8);
}

TEST_CASE("a scope ends what it was given, and the memory comes back", "[runtime][pto]") {
  PtoProgram const pto(2, 0, 4096);
  long sum = 0;
  for (int i = 0; i < 1000; ++i) {
    pto_scope_begin(pto);
    void* const outer = pto_alloc(pto, 1024);
    pto.submit(PtoProgram::set, {{PARAM_OUTPUT, outer, 8}}, i);
    pto_scope_begin(pto);
    TaskParam copy[] = {{PARAM_INPUT, outer, 8, {}, {}}, pto.output(1024)};
    REQUIRE(pto_submit_task(pto, PtoProgram::copy, WORKER_VECTOR, copy, 2) >= 0);
    pto.submit(PtoProgram::add, {{PARAM_INPUT, copy[1].address, 8}, {PARAM_ACCUMULATE, &sum, 8}});
    pto_scope_end(pto);
    pto_scope_end(pto);
  }
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(sum == 999 * 1000 / 2);
}

TEST_CASE("pto_free leaves a buffer to the tasks that name it", "[runtime][pto]") {
  PtoProgram const pto(2, 0, 2048);
  pto_scope_begin(pto);
  long sum = 0;
  for (int i = 0; i < 200; ++i) {  // the heap has room for one of them
    void* const buffer = pto_alloc(pto, 1536);
    REQUIRE(buffer != nullptr);
    pto.submit(PtoProgram::set, {{PARAM_OUTPUT, buffer, 1536}}, i);
    pto.submit(PtoProgram::add, {{PARAM_INPUT, buffer, 8}, {PARAM_INOUT, &sum, 8}});
    pto_free(pto, buffer);
  }
  pto_scope_end(pto);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(sum == 199 * 200 / 2);
}

TEST_CASE("an inner scope's memory comes back while the outer one is open", "[runtime][pto]") {
  PtoProgram const pto(2, 0, 4096);
  long sum = 0;
  pto_scope_begin(pto);
  void* const outer = pto_alloc(pto, 2048);
  pto.submit(PtoProgram::set, {{PARAM_OUTPUT, outer, 2048}}, 1);
  for (int i = 0; i < 100; ++i) {
    pto_scope_begin(pto);
    void* const inner = pto_alloc(pto, 3072);
    REQUIRE(inner != nullptr);
    pto.submit(PtoProgram::copy, {{PARAM_INPUT, outer, 8}, {PARAM_OUTPUT, inner, 3072}});
    pto.submit(PtoProgram::add, {{PARAM_INPUT, inner, 8}, {PARAM_INOUT, &sum, 8}});
    pto_scope_end(pto);
  }
  pto_scope_end(pto);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(sum == 100);
}

TEST_CASE("a step has more tasks than slots and ids inside one scope", "[runtime][pto]") {
  PtoProgram const pto(2, 100);
  pto_scope_begin(pto);
  void* const cell = pto_alloc(pto, 8);
  pto.submit(PtoProgram::set, {{PARAM_OUTPUT, cell, 8}}, 1);
  for (int i = 0; i < 40000; ++i)
    REQUIRE(pto.submit(PtoProgram::step, {{PARAM_INOUT, cell, 8}}) < 100);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(*static_cast<long*>(cell) == PtoProgram::stepped(1, 40000));
  pto_scope_end(pto);
}

TEST_CASE("parts of memory of one's own follow each other", "[runtime][pto]") {
  PtoProgram const pto(2);
  std::vector<long> data(64, 1);
  REQUIRE(pto_adopt(pto, data.data(), data.size() * sizeof(long)) == PTO_OK);
  for (std::size_t i = 1; i < data.size(); ++i)  // each adds its left neighbour to itself
    pto.submit(PtoProgram::add, {{PARAM_INPUT, &data[i - 1], 8},
                                 {PARAM_INOUT, nullptr, 0, {data.data(), i * 8, 8, 0, 0}}});
  CHECK(pto_wait_all(pto) == PTO_OK);
  for (std::size_t i = 0; i < data.size(); ++i) CHECK(data[i] == static_cast<long>(i + 1));
}

TEST_CASE("tasks wait for those alone that share bytes with them", "[runtime][pto]") {
  PtoProgram const pto(1);
  std::vector<long> data(64, 0);  // 8 x 8, row-major
  REQUIRE(pto_adopt(pto, data.data(), data.size() * sizeof(long)) == PTO_OK);
  auto const column = [&](std::size_t j) {
    return PtoProgram::Param{PARAM_INOUT, nullptr, 0, {data.data(), 8 * j, 8, 8, 64}};
  };
  auto const row = [&](std::size_t i) { return PtoProgram::Param{PARAM_INOUT, &data[8 * i], 64}; };
  auto const state = [&](std::int32_t id) { return pto_task_state(pto, id); };
  std::int32_t const gate = pto.submit(PtoProgram::begin, {column(3)});
  CHECK(state(pto.submit(PtoProgram::step, {column(2)})) == PTO_TASK_READY);
  CHECK(state(pto.submit(PtoProgram::step, {{PARAM_INOUT, &data[4], 8}})) == PTO_TASK_READY);
  std::int32_t const crossing = pto.submit(PtoProgram::step, {row(5)});
  CHECK(state(crossing) == PTO_TASK_PENDING);
  std::int32_t const twice = pto.submit(PtoProgram::add, {row(6), row(7)});
  CHECK(state(twice) == PTO_TASK_PENDING);
  CHECK(pto_wait(pto, pto.submit(PtoProgram::set, {{PARAM_OUTPUT, nullptr, 8}}, 1)) == PTO_OK);
  pto_task_complete(pto, gate);
  CHECK(state(crossing) == PTO_TASK_READY);
  CHECK(state(gate) == PTO_TASK_COMPLETED);  // they use what it wrote
  CHECK(pto_wait(pto, crossing) == PTO_OK);
  CHECK(pto_wait(pto, twice) == PTO_OK);
  CHECK(state(gate) == PTO_TASK_CONSUMED);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(pto_last_error(pto) == PTO_OK);
}

TEST_CASE("a repeated kernel runs as blocks of one task", "[runtime][pto]") {
  PtoProgram const pto(2);
  long blocks[10] = {};
  std::int32_t const id = pto.submit(
      PtoProgram::note_block, {{PARAM_OUTPUT, blocks, sizeof blocks}, {PARAM_REPEAT, nullptr, 10}});
  CHECK(pto_wait(pto, id) == PTO_OK);
  for (long i = 0; i < 10; ++i) CHECK(blocks[i] == 100 * 10 + i + 1);
}

TEST_CASE("blocks of one task run at one time, and it ends with the last", "[runtime][pto]") {
  PtoProgram const pto(2);
  std::vector<long> blocks(500, 0);
  std::size_t const bytes = blocks.size() * sizeof(long);
  pto.submit(PtoProgram::note_block,
             {{PARAM_INOUT, blocks.data(), bytes}, {PARAM_REPEAT, nullptr, 500}});
  pto.submit(PtoProgram::note_block,
             {{PARAM_INOUT, blocks.data(), bytes}, {PARAM_REPEAT, nullptr, 300}});
  pto.submit(PtoProgram::meet,
             {{PARAM_INOUT, nullptr, 0, {&blocks[400], 0, 8, 0, 0}}, {PARAM_REPEAT, nullptr, 2}});
  CHECK(pto_wait_all(pto) == PTO_OK);
  for (long i = 0; i < 500; ++i) {
    long const second = i < 300 ? 100 * 300 + i + 1 : i == 400 ? 2 : 0;
    CHECK(blocks[static_cast<std::size_t>(i)] == 100 * 500 + i + 1 + second);
  }
}

TEST_CASE("tasks run on workers of their type", "[runtime][pto]") {
  PtoProgram const pto(3, 0, 0, 1, 1);
  std::uint64_t threads[3] = {};
  for (std::int32_t const type : {WORKER_CUBE, WORKER_VECTOR, WORKER_CPU})
    for (int i = 0; i < 50; ++i)
      REQUIRE(pto.submit(PtoProgram::note_thread, {{PARAM_INOUT, &threads[type], 8}}, 0, type) >=
              0);
  CHECK(pto_wait_all(pto) == PTO_OK);
  for (std::uint64_t const thread : threads) CHECK(thread != 1);  // each type by one thread alone
  CHECK(threads[WORKER_CPU] == PtoProgram::this_thread());
  CHECK(threads[WORKER_CUBE] != threads[WORKER_VECTOR]);
}

TEST_CASE("an id comes free where the caller alone serves the type", "[runtime][pto]") {
  long x = 1;
  PtoProgram pto(2, 1, 0, 1);
  for (int i = 0; i < 3; ++i) CHECK(pto.submit(PtoProgram::step, {{PARAM_INOUT, &x, 8}}) == 0);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(x == PtoProgram::stepped(1, 3));
}

TEST_CASE("a task goes through the five states", "[runtime][pto]") {
  PtoProgram const pto(1);
  long x = 0, y = 0;
  auto const name = [&](std::int32_t id) {
    return std::string(pto_state_name(pto_task_state(pto, id)));
  };
  std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
  std::int32_t const use =
      pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &y, 8}});
  std::int32_t const last =
      pto.submit(PtoProgram::copy, {{PARAM_INPUT, &y, 8}, {PARAM_OUTPUT, nullptr, 8}});
  std::int32_t const other = pto.submit(PtoProgram::set, {{PARAM_OUTPUT, nullptr, 8}});
  CHECK(name(gate) == "READY");
  CHECK(name(use) == "PENDING");
  CHECK(pto_wait(pto, other) == PTO_OK);  // meanwhile the gate's kernel has begun
  CHECK(name(gate) == "RUNNING");
  CHECK(name(use) == "PENDING");
  CHECK(name(other) == "COMPLETED");  // tasks before it have not ended
  pto_task_complete(pto, gate);
  CHECK(name(gate) == "COMPLETED");
  CHECK(name(use) == "READY");
  CHECK(pto_wait(pto, use) == PTO_OK);
  CHECK(name(gate) == "CONSUMED");
  CHECK(name(use) == "COMPLETED");
  CHECK(pto_wait(pto, last) == PTO_OK);
  CHECK(name(use) == "CONSUMED");
  CHECK(name(other) == "CONSUMED");
  CHECK(pto_last_error(pto) == PTO_OK);
}

TEST_CASE("a task is completed from another thread", "[runtime][pto]") {
  for (int const workers : {1, 2}) {
    PtoProgram const pto(workers);
    long x = 0, y = 0;
    std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
    pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &y, 8}});
    std::thread other([&] {
      while (!pto.begun()) std::this_thread::yield();
      x = 5;
      pto_task_complete(pto, gate);
    });
    CHECK(pto_wait_all(pto) == PTO_OK);
    other.join();
    CHECK(y == 5);
  }
}

TEST_CASE("an asynchronous kernel may complete its own task", "[runtime][pto]") {
  PtoProgram const pto(1);
  long x = 0, y = 0;
  pto.submit(PtoProgram::finish, {{PARAM_OUTPUT, &x, 8}});
  pto.submit(PtoProgram::copy, {{PARAM_INPUT, &x, 8}, {PARAM_OUTPUT, &y, 8}});
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(pto_last_error(pto) == PTO_OK);
  CHECK(y == 9);
}

TEST_CASE("ten thousand tasks pass one that is not complete", "[runtime][pto]") {
  PtoProgram const pto(2, 16);
  long x = 0, y = 0;
  std::int32_t const gate = pto.submit(PtoProgram::begin, {{PARAM_OUTPUT, &x, 8}});
  for (int i = 0; i < 10000; ++i) {
    std::int32_t const id = pto.submit(PtoProgram::step, {{PARAM_INOUT, &y, 8}});
    REQUIRE(id >= 0);
    REQUIRE(id != gate);
  }
  CHECK(pto_task_state(pto, gate) == PTO_TASK_RUNNING);
  pto_task_complete(pto, gate);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(y == PtoProgram::stepped(0, 10000));
}
