// SPDX-License-Identifier: BSD-3-Clause
// The heaps of tasks that submit, on a ring, without room: who waits, who fails, and with which
// error.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "tests/runtime/nesting_heaps.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

template <class N> Handle scratch(N& nested, std::size_t bytes) {
  return nested.allocate(bytes, host, Lifetime::scratch);
}

}  // namespace

TEST_CASE("a deadlock in a body names scope, buffer, bytes and a capacity that would do",
          "[runtime][nesting_heaps]") {
  on_rings(bodies(1024, OnFull::wait), [](Ring& ring) {
    std::string text;
    int opened = 0;
    Handle const result = cell(ring, 1);
    auto const body = [&, result](auto& nested) {
      opened = __LINE__ + 1;
      auto outer = scope(nested, Lifetime::scratch);
      Handle const first = outer.allocate(400);
      submit(nested, copy_cell_codelet, {writing(first), reading(result)}, 1);
      {
        auto inner = scope(nested, Lifetime::scratch);
        Handle const second = inner.allocate(100);
        submit(nested, copy_cell_codelet, {writing(second), reading(first)}, 1);
      }
      text = message_of<DeadlockError>([&] { scratch(nested, 600); });
      submit(nested, copy_cell_codelet, {writing(result), reading(first)}, 1);
    };
    ring.wait(ring.orchestrate(body, updating(result)));
    INFO(text);
    for (std::string const& piece :
         {std::string("no room for 600 bytes (scratch) inside orchestrate (task "),
          std::string("every task of its body has ended"), concat("nesting_full_heaps.cc:", opened),
          std::string(" of domain "), std::string("(400 bytes, scratch)"),
          std::string("used 576, available 448, capacity 1024"), std::string("128 belong"),
          std::string("1856 bytes would do (RingCapacities::bodies)")})
      CHECK(contains(text, piece));
    CHECK(read(ring, result) == 3);

    Event const fails = ring.orchestrate(
        [](auto& nested) {
          auto own = scope(nested, Lifetime::scratch);
          (void)own.allocate(640);
          (void)own.allocate(640);
        },
        updating(result));
    CHECK(contains(message_of<TaskError>([&] { ring.wait(fails); }), "no room for 640 bytes"));
    CHECK_THROWS_AS(ring.wait_all(), TaskError);
    ring.orchestrate(Rounds{10, 0, 640, cell(ring, 1)});
    CHECK_THROWS_AS(ring.wait_all(), TaskError);  // it had not declared the cell
    CHECK(ring.stats().bodies.used == 0);
  });
  on_rings(bodies(1856, OnFull::wait), [](Ring& ring) {
    run(ring, [](auto& nested) {
      auto own = scope(nested, Lifetime::scratch);
      (void)own.allocate(400);
      nested.retire(own.allocate(100));
      (void)own.allocate(600);
    });
  });
}

TEST_CASE("dead bytes of a body behind one that it keeps are no deadlock",
          "[runtime][nesting_heaps]") {
  on_rings(bodies(1024, OnFull::wait), [](Ring& ring) {
    std::string text;
    run(ring, [&](auto& nested) {
      auto own = scope(nested, Lifetime::scratch);
      (void)own.allocate(64);
      nested.retire(own.allocate(640));
      try {
        (void)own.allocate(512);
      } catch (DeadlockError const&) {
        text = "a deadlock";
      } catch (OutOfMemory const& error) {
        text = error.what();
      }
    });
    INFO(text);
    CHECK(contains(text, "nesting_full_heaps.cc:"));
    CHECK(contains(text, "(64 bytes, scratch)"));
  });
}

TEST_CASE("a heap of a body that fails does so at once, though tasks would make room",
          "[runtime][nesting_heaps]") {
  Ring ring(RuntimeOptions{.workers = 2}, bodies(1024, OnFull::fail));
  std::atomic<bool> open{false};
  std::string texts[2];
  run(ring, [&](auto& nested) {
    std::atomic<bool>* const gate = &open;
    auto own = scope(nested, Lifetime::scratch);
    Handle const held = own.allocate(640);
    submit(nested, gate_codelet, {writing(held)}, gate);
    nested.retire(held);
    texts[0] = message_of<OutOfMemory>([&] { own.allocate(640); });
    open = true;
    nested.wait_all();
    CHECK_NOTHROW(own.allocate(640));
    texts[1] = message_of<OutOfMemory>([&] { own.allocate(1025); });
  });
  CHECK(contains(texts[0], "holds up the others until its tasks have ended"));
  CHECK(
      contains(texts[1], "1025 bytes (scratch) are more than the capacity of their heap inside "));
  CHECK(contains(texts[1], "make it 1088 at least (RingCapacities::bodies)"));
}

TEST_CASE("a verdict in a body waits for tokens", "[runtime][nesting_heaps]") {
  on_rings(bodies(1024, OnFull::wait), [](Ring& ring) {
    TokenKeeper keeper;
    TokenKeeper* const its = &keeper;
    std::atomic<bool> completed{false};
    bool waited = false;
    Event const outer = ring.orchestrate([&](auto& nested) {
      auto own = scope(nested, Lifetime::scratch);
      Handle const held = own.allocate(640);
      submit(nested, keep_codelet, {writing(held)}, its);
      nested.retire(held);
      (void)own.allocate(640);
      waited = completed;
    });
    std::thread completes([&] {
      Completion const token = keeper.at(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      completed = true;
      token.complete();
    });
    CHECK_NOTHROW(ring.wait(outer));
    completes.join();
    CHECK(waited);
    ring.wait_all();
  });
}

TEST_CASE("heaps of bodies that may not grow need a capacity", "[runtime][nesting_heaps]") {
  for (OnFull const on_full : {OnFull::wait, OnFull::fail})
    CHECK(contains(message_of<ValueError>([&] { Ring ring({.workers = 1}, bodies(0, on_full)); }),
                   "RingCapacities::bodies"));
}
