// SPDX-License-Identifier: BSD-3-Clause
// Tasks of bodies that go on whatever their bodies do meanwhile.

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/nesting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Whether a condition comes to hold; a hang is told from that after 20 seconds.
template <class Condition> bool comes(Condition condition) {
  auto const late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > late) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEMPLATE_TEST_CASE("bodies on all workers that ask done again and again end their tasks",
                   "[runtime][nesting]", Threads, Ring) {
  TestType runtime(RuntimeOptions{2, true, false});
  std::atomic<int> begun{0}, ended{0};
  for (int body = 0; body < 2; ++body)
    runtime.orchestrate([&](auto& nested) {
      ++begun;
      if (!comes([&] { return begun == 2; })) return;
      auto const target = nested.allocate(sizeof(long));
      Event const event = submit(nested, put_codelet, {writing(target)}, 1);
      ended += comes([&] { return nested.done(event); });
    });
  runtime.wait_all();
  CHECK(ended == 2);
}
