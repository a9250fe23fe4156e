// SPDX-License-Identifier: BSD-3-Clause
// A ring in a process that was forked after it was made.

#include <memory>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/forked.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a forked child may destroy the ring, and any call there throws", "[runtime][ring]") {
  bool const busy = GENERATE(false, true), own_driver = GENERATE(false, true);
  TokenKeeper keeper;
  HeldThreads held;
  auto ring = std::make_unique<Ring>(RuntimeOptions{3, own_driver, false});
  auto const a = cell(*ring, 1);
  Event const first = submit(*ring, keep_codelet, {{a, Access::update}}, &keeper);
  (void)keeper.at(0);
  held.hold(*ring, own_driver ? 3 : 2);
  if (busy)
    for (int i = 0; i < 500; ++i) submit(*ring, step_codelet, {{cell(*ring, 1), Access::update}});
  int const right = in_child([&] {
    int count = 0;
    count +=
        refused_in_child("submit", [&] { submit(*ring, step_codelet, {{a, Access::update}}); });
    count += refused_in_child("wait", [&] { ring->wait(first); });
    count += refused_in_child("done", [&] { (void)ring->done(first); });
    count += refused_in_child("lock", [&] { (void)ring->lock(a, Access::read); });
    count += refused_in_child("retire", [&] { ring->retire(a); });
    count += refused_in_child("wait_all", [&] { ring->wait_all(); });
    count += refused_in_child("waiting_for", [&] { (void)ring->waiting_for(); });
    ring.reset();
    return count;
  });
  CHECK(right == 7);
  held.let_go();
  keeper.at(0).complete();
  ring->wait(first);
  CHECK(read(*ring, a) == 1);
}

TEST_CASE("a forked child goes on with a ring that has no threads", "[runtime][ring]") {
  Ring ring(RuntimeOptions{1, false, false});
  auto const a = cell(ring, 2);
  CHECK(in_child([&] { return static_cast<int>(read(ring, a)); }) == 2);
  CHECK(read(ring, a) == 2);
}
