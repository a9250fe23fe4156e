// SPDX-License-Identifier: BSD-3-Clause
// Tasks of bodies that go on whatever their bodies do meanwhile.

#include <atomic>
#include <chrono>
#include <span>
#include <thread>

#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/nesting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Whether a condition holds within 20 seconds; a longer wait is a hang.
template <class Condition> bool comes(Condition condition) {
  auto const late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > late) return false;
    std::this_thread::yield();
  }
  return true;
}

/// The other worker, which is held until a task of the body lets it go to sleep.
struct Scene {
  std::atomic<bool> held{false}, open{false}, ran{false};
};
Scene& scene_of(KernelCall const& call) { return **static_cast<Scene* const*>(call.arguments); }
constexpr Codelet hold_codelet{"hold",
                               +[](KernelCall const& call) noexcept -> Status {
                                 Scene& scene = scene_of(call);
                                 scene.held = true;
                                 while (!scene.open) std::this_thread::yield();
                                 return {};
                               },
                               nullptr, nullptr};
constexpr Codelet first_codelet{"first",
                                +[](KernelCall const& call) noexcept -> Status {
                                  scene_of(call).open = true;
                                  std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                  return {};
                                },
                                nullptr, nullptr};
constexpr Codelet second_codelet{"second",
                                 +[](KernelCall const& call) noexcept -> Status {
                                   scene_of(call).ran = true;
                                   return {};
                                 },
                                 nullptr, nullptr};

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

TEMPLATE_TEST_CASE("a task that another one of a body makes ready wakes a sleeping worker",
                   "[runtime][nesting]", Threads, Ring) {
  bool const asks = GENERATE(false, true);
  for (Hints const hints : {Hints{}, Hints{-1, 1}, Hints{-1, -1}, Hints{0, 0}, Hints{1, 0}}) {
    INFO("asks " << asks << ", worker " << hints.worker << ", priority " << hints.priority);
    TestType runtime(RuntimeOptions{2, true, false});
    Scene scene;
    Scene* const address = &scene;
    auto const arguments = std::as_bytes(std::span(&address, 1));
    runtime.submit({&hold_codelet, {}, arguments, {}, {}});
    REQUIRE(comes([&] { return scene.held.load(); }));
    bool ran = false;
    runtime.orchestrate([&](auto& nested) {
      Use<DataHandle> const write = writing(nested.allocate(sizeof(long)));
      Use<DataHandle> const read = reading(write.handle);
      Event const first = nested.submit({&first_codelet, std::span(&write, 1), arguments, {}, {}});
      nested.submit({&second_codelet, std::span(&read, 1), arguments, hints, {}});
      if (asks)
        (void)comes([&] { return nested.done(first); });
      else
        nested.wait(first);
      ran = comes([&] { return scene.ran.load(); });  // the body makes no call
    });
    runtime.wait_all();
    CHECK(ran);
  }
}

TEMPLATE_LIST_TEST_CASE("a body that sleeps calls a poll that another thread registers",
                        "[runtime][nesting]", NestingRuntimes) {
  TestType runtime(RuntimeOptions{.workers = 1});
  TokenKeeper keeper;
  std::thread other([&] {
    Completion const token = keeper.at(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the body may be asleep by then
    token.poll([](void*, Completion its) { return its.complete(), true; }, nullptr);
  });
  bool ended = false;
  runtime.orchestrate([&](auto& nested) {
    submit(nested, keep_codelet, {}, &keeper);
    nested.wait_all();
    ended = true;
  });
  runtime.wait_all();
  other.join();
  CHECK(ended);
}
