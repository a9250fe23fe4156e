// SPDX-License-Identifier: BSD-3-Clause
// What the serial runtime has of its own. What it shares is in buffers, marks, tokens, and the
// battery.
#include "nntile/runtime/serial/serial.hh"

#include <vector>

#include "nntile/runtime/regions.hh"
#include "nntile/runtime/serial/nest.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("serial has run a task when submit returns", "[runtime][serial]") {
  Serial runtime;
  long value = 1;
  auto const a = runtime.adopt(std::as_writable_bytes(std::span(&value, 1)));
  Event const event = submit(runtime, step_codelet, {{a, Access::update}}, 4L);
  CHECK(value == 7);
  CHECK(runtime.done(event));
}

TEST_CASE("serial is one worker and refuses to be more", "[runtime][serial]") {
  CHECK(Serial(RuntimeOptions{1, false, false}).workers().cpu == 1);
  CHECK(Serial(RuntimeOptions{}).workers().cpu == 1);
  for (int const workers : {-1, 0, 2, 1025}) {
    RuntimeOptions const options{workers, false, false};
    CHECK(
        contains(message_of<ValueError>([&] { Serial const runtime(options); }), concat(workers)));
  }
  CHECK_THROWS_AS(Serial(RuntimeOptions{1, true, false}), ValueError);
}

TEST_CASE("serial runs tasks with more operands than it keeps on the stack", "[runtime][serial]") {
  static constexpr Codelet last{"last",
                                +[](KernelCall const& call) noexcept -> Status {
                                  cell_of(call, 99) = cell_of(call, 98) + 1;
                                  return {};
                                },
                                nullptr, nullptr};
  Serial runtime;
  std::vector<Use<DataHandle>> uses;
  for (long i = 0; i < 99; ++i) uses.push_back({cell(runtime, i), Access::read});
  uses.push_back({cell(runtime), Access::write});
  runtime.wait(runtime.submit({&last, uses, {}, {}, {}}));
  CHECK(read(runtime, uses.back().handle) == 99);
}

TEST_CASE("serial queues behind a token what names its buffers, and nothing else",
          "[runtime][serial]") {
  Serial runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1), b = cell(runtime, 1);
  submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  Event const other = submit(runtime, step_codelet, {{b, Access::update}}, 1L);
  CHECK(runtime.done(other));
  Event const both = submit(runtime, step_codelet, {{a, Access::update}, {b, Access::update}}, 1L);
  Event const behind = submit(runtime, step_codelet, {{b, Access::update}}, 1L);
  CHECK_FALSE(runtime.done(both));
  CHECK_FALSE(runtime.done(behind));  // it would pass a task that is queued
  keeper.at(0).complete();
  CHECK_FALSE(runtime.done(behind));  // which runs one task a time
  CHECK(runtime.done(both));
  CHECK(runtime.done(behind));
  CHECK(read(runtime, b) == 13);
}

TEST_CASE("in serial a buffer does not wait for what its record was before", "[runtime][serial]") {
  Serial runtime;
  TokenKeeper keeper;
  auto const whole = cell(runtime, 1);
  auto const held = runtime.region(whole, {0, 4, {}});
  DataHandle const ended[] = {runtime.region(whole, {0, 1, {}}), runtime.region(whole, {1, 1, {}})};
  submit(runtime, keep_codelet, {{held, Access::update}}, &keeper);
  for (DataHandle const region : ended) runtime.retire(region);
  (void)runtime.region(whole, {4, 4, {}});  // ends the records of both
  auto const other = runtime.allocate(sizeof(long));
  CHECK((other.index == ended[0].index || other.index == ended[1].index));
  Event const behind = submit(runtime, keep_codelet, {{other, Access::write}}, &keeper);
  CHECK(keeper.count() == 2);
  keeper.at(0).complete();
  CHECK_FALSE(runtime.done(behind));
  keeper.at(1).complete();
  runtime.wait_all();
}

TEST_CASE("in serial a task that submits passes no open one", "[runtime][serial]") {
  Serial runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1), b = cell(runtime, 1);
  bool begun = false;
  submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  Event const outer = runtime.orchestrate(
      [&begun, b](auto& nested) {
        begun = true;
        submit(nested, step_codelet, {{b, Access::update}}, 1L);
      },
      Use<DataHandle>{b, Access::update});
  Event const behind = submit(runtime, step_codelet, {{b, Access::update}}, 1L);
  for (int i = 0; i < 10; ++i) CHECK_FALSE((runtime.done(outer) || runtime.done(behind)));
  CHECK_FALSE(begun);
  keeper.at(0).complete();
  runtime.wait_all();
  CHECK(begun);
  CHECK(read(runtime, b) == 13);
}

TEST_CASE("serial copies what it queues", "[runtime][serial]") {
  Serial runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  {
    std::vector<long> arguments{5};
    std::vector<Use<DataHandle>> uses{{a, Access::update}};
    runtime.submit({&step_codelet, uses, std::as_bytes(std::span(arguments)), {}, {}});
    arguments[0] = -1;
    uses[0].handle = {};
  }
  keeper.at(0).complete();
  CHECK(read(runtime, a) == 8);
}

TEST_CASE("serial throws when a task submits to it or waits", "[runtime][serial]") {
  static constexpr Codelet nested{"nested",
                                  +[](KernelCall const& call) noexcept -> Status {
                                    auto& runtime = **static_cast<Serial* const*>(call.arguments);
                                    try {
                                      runtime.wait_all();
                                    } catch (LifetimeError const&) {
                                      try {
                                        (void)runtime.submit({&put_codelet, {}, {}, {}, {}});
                                      } catch (LifetimeError const&) {
                                        return {};
                                      }
                                    }
                                    return {"it did not throw"};
                                  },
                                  nullptr, nullptr};
  Serial runtime;
  submit(runtime, nested, {}, &runtime);
  runtime.wait_all();
}

TEST_CASE("one serial runtime may drive another inside a task", "[runtime][serial]") {
  static constexpr Codelet inner{"inner",
                                 +[](KernelCall const& call) noexcept -> Status {
                                   Serial runtime;
                                   cell_of(call, 0) = read(runtime, cell(runtime, 11L));
                                   return {};
                                 },
                                 nullptr, nullptr};
  Serial runtime;
  auto const a = cell(runtime);
  submit(runtime, inner, {{a, Access::write}});
  CHECK(read(runtime, a) == 11);
}

TEST_CASE("an event of serial that never was is finished when it is the default one",
          "[runtime][serial]") {
  Serial runtime;
  CHECK(runtime.done({}));
  runtime.wait({});
}
