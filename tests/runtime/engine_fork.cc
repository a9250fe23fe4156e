// SPDX-License-Identifier: BSD-3-Clause
// An engine in a process that was forked after it was made.

#include <memory>
#include <span>
#include <type_traits>

#include "tests/runtime/codelets.hh"
#include "tests/runtime/forked.hh"
#include "tests/runtime/models.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEMPLATE_TEST_CASE("a forked child may destroy the engine, and any call there throws",
                   "[runtime][engine]", Alone, Four, Watched) {
  TokenKeeper keeper;
  HeldThreads held;
  auto engine = std::make_unique<TestType>();
  auto const a = cell(*engine, 1);
  static long released;
  released = 0;
  long mine[8] = {};
  (void)engine->adopt(std::as_writable_bytes(std::span(mine)), host,
                      {[](void*) noexcept { ++released; }, nullptr});
  Event const first = submit(*engine, keep_codelet, {{a, Access::update}}, &keeper);
  int const threads = engine->workers().cpu - (std::is_same_v<TestType, Watched> ? 0 : 1);
  if (threads > 0) (void)keeper.at(0);
  held.hold(*engine, threads);
  for (int i = 0; i < 200; ++i) submit(*engine, step_codelet, {{cell(*engine, 1), Access::update}});
  int const right = in_child([&] {
    int count = 0;
    count +=
        refused_in_child("submit", [&] { submit(*engine, step_codelet, {{a, Access::update}}); });
    count += refused_in_child("wait", [&] { engine->wait(first); });
    count += refused_in_child("done", [&] { (void)engine->done(first); });
    count += refused_in_child("lock", [&] { (void)engine->lock(a, Access::read); });
    count += refused_in_child("retire", [&] { engine->retire(a); });
    count += refused_in_child("wait_all", [&] { engine->wait_all(); });
    engine.reset();
    return released == 0 ? count : -1;
  });
  CHECK(right == 6);
  held.let_go();
  for (int i = 0; i < 1000; ++i) (void)engine->done(first);  // starts it, where no thread does
  keeper.at(0).complete();
  engine->wait(first);
  CHECK(read(*engine, a) == 1);
}
