// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/support/workspaces.hh"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using support::Workspaces;

namespace {

Codelet codelet_of(std::size_t bytes) {
  return {"body", [](KernelCall const&) noexcept { return Status{}; }, nullptr, nullptr, bytes};
}

bool is_mapped(void* page) {
  unsigned char resident = 0;
  return mincore(page, 1, &resident) == 0;
}

/// Fails unless the body has whole pages of its own while it runs.
Status paint(KernelCall const& call) noexcept {
  auto* const bytes = static_cast<unsigned char*>(call.workspace);
  if (bytes == nullptr) return {"no workspace"};
  if (reinterpret_cast<std::uintptr_t>(bytes) % 64 != 0) return {"misaligned"};
  static std::atomic<unsigned char> bodies{0};
  unsigned char const mine = bodies++;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t at = 0; at < max_workspace_bytes; at += 4095) bytes[at] = mine;
    std::this_thread::yield();
    for (std::size_t at = 0; at < max_workspace_bytes; at += 4095)
      if (bytes[at] != mine) return {"another body wrote into the workspace"};
  }
  return {};
}
constexpr Codelet paint_codelet{"paint", &paint, nullptr, nullptr, max_workspace_bytes};

/// Submits as many independent bodies as it takes for all workers to run some.
template <class R> void paint_on(R& runtime) {
  std::vector<typename R::Handle> handles;
  for (int i = 0; i < 64; ++i) {
    handles.push_back(runtime.allocate(8, host, Lifetime::persistent));
    Use<typename R::Handle> const use[] = {{handles.back(), Access::write}};
    runtime.submit({&paint_codelet, use, {}, {}, {}});
  }
  runtime.wait_all();
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a runtime lends each body a workspace of its own", "[runtime][workspaces]",
                        test::AllRuntimes) {
  for (int const workers : test::worker_counts<TestType>()) {
    TestType runtime(RuntimeOptions{.workers = workers});
    STATIC_REQUIRE(LendingRuntime<TestType>);
    CHECK(runtime.workspace_bytes() == max_workspace_bytes);
    CHECK_NOTHROW(paint_on(runtime));
  }
}

TEMPLATE_TEST_CASE("a replayed body is lent a workspace", "[runtime][workspaces]", Serial, Ring,
                   test::DynamicRing) {
  TestType runtime(RuntimeOptions{});
  Use<Binding> const use[] = {{0, Access::write}};
  std::vector<Use<Binding>> many;
  for (std::uint32_t i = 0; i < 40; ++i) many.push_back({i, Access::write});
  ProgramTask const tasks[] = {{&paint_codelet, use, {}, {}, {}},
                               {&paint_codelet, many, {}, {}, {}}};
  auto const program = runtime.record(tasks, 40, {});
  std::vector<typename TestType::Handle> handles;
  for (int i = 0; i < 40; ++i) handles.push_back(runtime.allocate(8));
  runtime.replay(program, handles, {});
  CHECK_NOTHROW(runtime.wait_all());
}

TEST_CASE("adaptors pass workspaces on", "[runtime][workspaces]") {
  Check<Ring> checked(RuntimeOptions{.workers = 2});
  CHECK_NOTHROW(paint_on(checked));
  Check<test::Threads> over_engine(RuntimeOptions{.workers = 2});
  CHECK_NOTHROW(paint_on(over_engine));
  Record<Serial> recorded;
  CHECK_NOTHROW(paint_on(recorded));
  CHECK(lent_workspace_bytes(recorded) == max_workspace_bytes);
}

TEST_CASE("a runtime that says nothing lends nothing", "[runtime][workspaces]") {
  STATIC_REQUIRE_FALSE(LendingRuntime<RuntimeArchetype>);
  STATIC_REQUIRE_FALSE(LendingRuntime<Record<RuntimeArchetype>>);
  STATIC_REQUIRE_FALSE(LendingRuntime<Check<RuntimeArchetype>>);
  CHECK(lent_workspace_bytes(RuntimeArchetype{}) == 0);
}

TEMPLATE_LIST_TEST_CASE("a codelet that needs more than is lent is refused",
                        "[runtime][workspaces]", test::AllRuntimes) {
  TestType runtime(RuntimeOptions{.workers = 1});
  auto const greedy = codelet_of(max_workspace_bytes + 1);
  auto const handle = runtime.allocate(8);
  Use<typename TestType::Handle> const use[] = {{handle, Access::write}};
  CHECK_THROWS_AS(runtime.submit({&greedy, use, {}, {}, {}}), ValueError);
  CHECK_NOTHROW(runtime.wait_all());
}

TEST_CASE("a program with a codelet that needs more than is lent is refused",
          "[runtime][workspaces]") {
  auto const greedy = codelet_of(max_workspace_bytes + 1);
  ProgramTask const tasks[] = {{&greedy, {}, {}, {}, {}}};
  CHECK_THROWS_AS(Serial().record(tasks, 0), ValueError);
  CHECK_THROWS_AS(Ring().record(tasks, 0), ValueError);
}

TEST_CASE("asynchronous entries are given no workspace", "[runtime][workspaces]") {
  static constexpr Codelet async{"async", nullptr, nullptr,
                                 +[](KernelCall const& call, Completion token) noexcept -> Status {
                                   token.complete({call.workspace == nullptr ? nullptr : "given"});
                                   return {};
                                 },
                                 4096};
  test::Threads runtime;
  runtime.submit({&async, {}, {}, {}, {}});
  CHECK_NOTHROW(runtime.wait_all());
}

TEST_CASE("a loan is for codelets that need one", "[runtime][workspaces]") {
  Workspaces workspaces(1);
  CHECK(Workspaces::Loan(workspaces, codelet_of(0)).block() == nullptr);
  CHECK(Workspaces::Loan(workspaces, Codelet{"async", nullptr, nullptr, nullptr, 1}).block() ==
        nullptr);
  CHECK(Workspaces::Loan(workspaces, codelet_of(1)).block() != nullptr);
}

TEST_CASE("loans beyond the blocks are mapped, and unmapped", "[runtime][workspaces]") {
  auto const codelet = codelet_of(1);
  Workspaces workspaces(65);
  std::set<void*> taken;
  std::vector<std::unique_ptr<Workspaces::Loan>> loans;
  for (int i = 0; i < 67; ++i) {
    loans.push_back(std::make_unique<Workspaces::Loan>(workspaces, codelet));
    std::memset(loans.back()->block(), i, max_workspace_bytes / 64);
    taken.insert(loans.back()->block());
  }
  CHECK(taken.size() == 67);
  void* const last = loans.back()->block();
  CHECK(is_mapped(last));
  loans.clear();
  CHECK_FALSE(is_mapped(last));
}

TEST_CASE("blocks that were given back are lent again", "[runtime][workspaces]") {
  auto const codelet = codelet_of(1);
  Workspaces workspaces(65);
  std::set<void*> blocks;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Workspaces::Loan>> loans;
    for (int i = 0; i < 65; ++i) {
      loans.push_back(std::make_unique<Workspaces::Loan>(workspaces, codelet));
      blocks.insert(loans.back()->block());
    }
  }
  CHECK(blocks.size() == 65);
}

TEST_CASE("workspaces are unmapped with their runtime", "[runtime][workspaces]") {
  void* first = nullptr;
  {
    Workspaces const workspaces(4);
    first = workspaces[0];
    CHECK(workspaces[3] == static_cast<std::byte*>(first) + 3 * max_workspace_bytes);
    CHECK(is_mapped(workspaces[3]));
  }
  CHECK_FALSE(is_mapped(first));
}

TEST_CASE("threads never share a loan", "[runtime][workspaces]") {
  Workspaces workspaces(3);  // fewer than threads
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        Workspaces::Loan const loan(workspaces, paint_codelet);
        failures += !paint({nullptr, nullptr, nullptr, loan.block()}).ok();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a thread is lent the block that it had last time", "[runtime][workspaces]") {
  Workspaces workspaces(100);
  auto const codelet = codelet_of(1);
  void* const first = Workspaces::Loan(workspaces, codelet).block();
  CHECK(Workspaces::Loan(workspaces, codelet).block() == first);
}

TEST_CASE("workspaces that cannot be mapped are an error", "[runtime][workspaces]") {
  if (test::sanitized) return test::skip("sanitizers reserve address space");
  std::string const text = test::message_of<OutOfMemory>([] { Workspaces(1u << 28); });
  CHECK(text.find("268435456") != std::string::npos);
}
