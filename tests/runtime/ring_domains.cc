// SPDX-License-Identifier: BSD-3-Clause
// Several domains on one machine, into which the driving thread submits in turn.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/child_domain.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/interrupted_atomic.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::detail::ring;

namespace {

/// Queues, deques and windows are as small as can be: all of them fill, and queues grow.
struct TinyPolicy : RingPolicy {
  struct Sizes : RingSizes {
    // Bodies are tiny, every one or every second of them:
    static constexpr std::uint32_t timed_every = 1;
    static constexpr std::int64_t tiny_ns = std::int64_t{1} << 40;
    static constexpr std::uint32_t most_rounds = 32;
    static constexpr std::uint32_t window = 2;
    static constexpr std::uint32_t deque = 2;
    static constexpr std::uint32_t argument_bytes = 256;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 100;  // ids wrap
  };
};

/// A ring without its front.
template <class Policy = RingPolicy> struct Stage {
  /// With a driver of its own no gate can hold the test.
  explicit Stage(int count, bool own_driver = false)
      : machine(RuntimeOptions{count, own_driver, false}) {}
  ~Stage() { root.wait_for_everything(); }

  Machine<Policy> machine;
  Submission<Policy> root{machine.root};
  std::deque<long> cells;
  detail::ring::Workers<Policy> workers{machine};

  DataHandle cell(long value = 0) {
    long& added = cells.emplace_back(value);
    return root.driver.reclaim().begin([&] {
      return machine.table.adopt(std::as_writable_bytes(std::span(&added, 1)), host, {});
    });
  }
  long& value(std::size_t cell) { return cells[cell]; }
};

/// A task of a domain, or of the root.
template <class Domain>
std::uint64_t task(Domain& domain, Codelet const& codelet, std::vector<Use<DataHandle>> const& uses,
                   long value = 0) {
  return domain.submit({&codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}});
}

/// Holds `gate` tasks until it is opened, by the test or by an `open` task.
using Gate = std::atomic<bool>;
Gate& gate_of(KernelCall const& call) { return **static_cast<Gate* const*>(call.arguments); }
constexpr Codelet gate_codelet{"gate",
                               +[](KernelCall const& call) noexcept -> Status {
                                 while (!gate_of(call)) std::this_thread::yield();
                                 return {};
                               },
                               nullptr, nullptr};
constexpr Codelet open_codelet{"open",
                               +[](KernelCall const& call) noexcept -> Status {
                                 gate_of(call) = true;
                                 return {};
                               },
                               nullptr, nullptr};
constexpr Codelet look_codelet{"look", +[](KernelCall const&) noexcept -> Status { return {}; },
                               nullptr, nullptr};

template <class Domain>
std::uint64_t gate_task(Domain& domain, Codelet const& codelet, Gate& gate,
                        std::vector<Use<DataHandle>> const& uses = {}) {
  Gate* const address = &gate;
  return domain.submit({&codelet, uses, std::as_bytes(std::span(&address, 1)), {}, {}});
}

/// Something that happens once, before the next operation of an atomic.
struct Interrupt {
  static inline std::function<void()> function{};
  static void before(Operation, std::size_t, std::memory_order) {
    if (auto const called = std::exchange(function, {})) called();
  }
  static void after(Operation, std::size_t, std::memory_order) {}
};
struct InterruptedPolicy : RingPolicy {
  template <class T> using Atomic = InterruptedAtomic<T, Interrupt>;
};

}  // namespace

TEST_CASE("domains that are submitted into in turn each keep their order", "[runtime][ring]") {
  for (int workers : {1, 2, 4, 8}) {
    Stage<TinyPolicy> stage(workers);
    std::vector<DataHandle> handles;
    for (int i = 0; i < 6; ++i) handles.push_back(stage.cell(i));
    long expected[6] = {0, 1, 2, 3, 4, 5};
    ChildDomain<TinyPolicy> a(stage.machine), b(stage.machine, 16);
    for (long t = 0; t < 400; ++t)
      for (auto [domain, first] : {std::pair{&a, 0}, std::pair{&b, 3}}) {
        auto const x = static_cast<std::size_t>(first + t % 3);
        auto const y = static_cast<std::size_t>(first + (t + 1) % 3);
        (void)task(*domain, step_codelet, {{handles[x], Access::update}}, t);
        expected[x] = affine(expected[x], 3, t);
        for (int reader = 0; reader < 10; ++reader)  // more than a slot has edges
          (void)task(*domain, look_codelet, {{handles[x], Access::read}});
        (void)task(*domain, copy_cell_codelet,
                   {{handles[y], Access::write}, {handles[x], Access::read}}, 1);
        expected[y] = affine(expected[x], 1, 1);
      }
    a.wait_all();
    b.wait_all();
    for (std::size_t i = 0; i < 6; ++i) CHECK(stage.value(i) == expected[i]);
  }
}

TEST_CASE("a domain with a full window holds up no other", "[runtime][ring]") {
  Stage<TinyPolicy> stage(2, true);
  DataHandle const one = stage.cell(), other = stage.cell();
  ChildDomain<TinyPolicy> held(stage.machine), free(stage.machine);
  Gate gate = false;
  (void)gate_task(held, gate_codelet, gate, {{one, Access::update}});
  for (long t = 0; t < 7; ++t) (void)task(held, step_codelet, {{one, Access::update}}, t);
  CHECK(held.domain().window.full());
  for (long t = 0; t < 100; ++t) (void)task(free, step_codelet, {{other, Access::update}}, t);
  std::uint64_t const opened = gate_task(free, open_codelet, gate, {{other, Access::update}});
  held.wait_all();
  free.wait(opened);
  CHECK(stage.value(0) == (((((1 * 3 + 2) * 3 + 3) * 3 + 4) * 3 + 5) * 3 + 6));
}

TEST_CASE("a wait for an event of one domain waits for no other", "[runtime][ring]") {
  for (int workers : {1, 2, 8}) {
    Stage<> stage(workers);
    DataHandle const one = stage.cell(), other = stage.cell();
    ChildDomain<RingPolicy> a(stage.machine), b(stage.machine);
    TokenKeeper keeper;
    TokenKeeper* const address = &keeper;
    Use<DataHandle> const uses[] = {{one, Access::update}};
    std::uint64_t const kept =
        a.submit({&keep_codelet, uses, std::as_bytes(std::span(&address, 1)), {}, {}});
    std::uint64_t const behind = task(a, step_codelet, {{one, Access::update}}, 5);
    b.wait(task(b, put_codelet, {{other, Access::write}}, 7));
    CHECK(stage.value(1) == 7);
    while (workers == 1 && stage.machine.tokens.outstanding() == 0) (void)a.done(kept);
    Completion token = keeper.at(0);
    CHECK(!a.done(kept));
    CHECK(!a.done(behind));
    token.complete({});
    a.wait(behind);
    a.wait(kept);                  // its body may still be about to return
    CHECK(stage.root.over(kept));  // the root's submitter may look, and waits for its own
    CHECK(stage.value(0) == 5);
  }
}

TEST_CASE("tasks of two domains on one buffer are ordered by waits", "[runtime][ring]") {
  for (int workers : {1, 2, 8}) {
    Stage<TinyPolicy> stage(workers);
    DataHandle const ball = stage.cell();
    ChildDomain<TinyPolicy> a(stage.machine), b(stage.machine);
    long expected = 0;
    for (long t = 0; t < 200; ++t) {
      auto& domain = t % 2 == 0 ? a : b;
      domain.wait(task(domain, step_codelet, {{ball, Access::update}}, t));
      expected = affine(expected, 3, t);
    }
    CHECK(stage.value(0) == expected);
  }
}

TEST_CASE("a number that is used again counts on, so that old events stay ended",
          "[runtime][ring]") {
  Stage<> stage(2, true);
  DataHandle const handle = stage.cell();
  std::uint64_t old, last = 0;
  std::uint32_t number;
  {
    ChildDomain<RingPolicy> first(stage.machine);
    number = first.number();
    old = task(first, put_codelet, {{handle, Access::write}}, 1);
  }
  for (int round = 0; round < 20; ++round) {  // many rounds of the window
    ChildDomain<RingPolicy> again(stage.machine);
    REQUIRE(again.number() == number);
    Gate gate = false;
    std::uint64_t const held = gate_task(again, gate_codelet, gate, {{handle, Access::update}});
    CHECK(held > last);
    CHECK(held > old);
    CHECK(again.done(old));
    CHECK(!again.done(held));
    again.wait(old);
    last = task(again, step_codelet, {{handle, Access::update}}, 0);
    gate = true;
    again.wait(last);
    CHECK(again.done(held));
  }
  CHECK(stage.value(0) == 1 * 3486784401);  // 3^20
  ChildDomain<RingPolicy> larger(stage.machine, 64);
  CHECK(larger.number() != number);
  ChildDomain<RingPolicy> same(stage.machine), next(stage.machine);
  CHECK(same.number() == number);
  CHECK(next.number() != number);
}

TEST_CASE("a failure is named by its domain and reported there", "[runtime][ring]") {
  Stage<> stage(2);
  DataHandle const one = stage.cell(), other = stage.cell();
  ChildDomain<RingPolicy> a(stage.machine), b(stage.machine);
  std::uint64_t const broken = task(b, fail_codelet, {{one, Access::write}});
  std::uint64_t const cancelled = task(b, step_codelet, {{one, Access::update}});
  std::uint64_t const fine = task(a, put_codelet, {{other, Access::write}}, 3);
  std::string const name = concat("(task 1 of domain ", b.number(), ") failed: it broke");
  CHECK(contains(message_of<TaskError>([&] { b.wait(broken); }), name));
  CHECK(contains(message_of<TaskError>([&] { b.wait(cancelled); }), "was cancelled: "));
  a.wait(fine);
  a.wait_all();
  std::uint64_t const root = task(stage.root.submitter, fail_codelet, {{other, Access::write}});
  stage.root.wait_for_everything();
  CHECK(contains(message_of<TaskError>([&] { b.wait_all(); }),
                 "of the other tasks 0 failed and 1 were cancelled"));
  b.wait_all();
  CHECK(contains(message_of<TaskError>([&] { stage.machine.failures.throw_if_failed(root); }),
                 "(task 1) failed"));
  CHECK(stage.machine.failures.unreported() == 1);
}

TEST_CASE("queues have room for the ready tasks of all domains", "[runtime][ring]") {
  for (int workers : {2, 8}) {
    Stage<TinyPolicy> stage(workers, true);
    Gate gate = false;
    std::deque<ChildDomain<TinyPolicy>> domains;
    for (int w = 0; w < workers; ++w) {  // so that no worker takes what comes then
      domains.emplace_back(stage.machine);
      (void)gate_task(domains.back(), gate_codelet, gate);
    }
    std::atomic<int> ran = 0;
    std::atomic<int>* const address = &ran;
    static constexpr Codelet count_codelet{
        "count",
        +[](KernelCall const& call) noexcept -> Status {
          ++**static_cast<std::atomic<int>* const*>(call.arguments);
          return {};
        },
        nullptr, nullptr};
    auto const all_at_work = [&] {
      std::uint64_t count = 0;
      for (std::uint32_t w = 0; w < stage.machine.scheduler.workers(); ++w)
        count += stage.machine.scheduler.worker(w).executed.load();
      return count == stage.machine.scheduler.workers();
    };
    while (!all_at_work()) std::this_thread::yield();
    for (int d = 0; d < 200; ++d) {
      domains.emplace_back(stage.machine);
      for (int t = 0; t < 8; ++t)
        (void)domains.back().submit({&count_codelet,
                                     {},
                                     std::as_bytes(std::span(&address, 1)),
                                     {d % 3 == 0 ? d % workers : -1, d % 2},
                                     {}});
    }
    CHECK(ran == 0);
    gate = true;
    for (auto& domain : domains) domain.wait_all();
    CHECK(ran == 1600);
  }
}

TEST_CASE("no task is lost where a queue is replaced amid its push", "[runtime][ring]") {
  for (int at = 0, left = -1; left < 0; ++at) {
    Scheduler<InterruptedPolicy> scheduler(1, 2);
    left = at;
    std::function<void()> const interrupt = [&] {
      if (left-- == 0)
        scheduler.reserve(14);
      else
        Interrupt::function = interrupt;
    };
    Interrupt::function = interrupt;
    scheduler.push_shared(slot_task(3, 5), normal_level);
    Interrupt::function = {};
    CHECK(scheduler.any(0));
    CHECK(scheduler.next(0) == slot_task(3, 5));
    CHECK(!scheduler.any(0));
    CHECK(scheduler.next(0) == no_task);
  }
}

TEST_CASE("the only worker takes its own tasks in order, those of outside too, also amid growth",
          "[runtime][ring]") {
  Scheduler<RingPolicy> scheduler(1, 2, true);
  std::uint32_t given = 0, taken = 0;
  auto const give = [&](std::uint32_t count) {
    for (; count-- != 0; ++given)
      REQUIRE(scheduler.push_lone(slot_task(given / 1024, given % 1024), normal_level));
  };
  auto const take = [&](std::uint32_t count) {
    for (; count-- != 0; ++taken)
      REQUIRE(scheduler.next(0) == slot_task(taken / 1024, taken % 1024));
  };
  for (int round = 0; round < 5; ++round) {  // so that the cells in use begin anywhere
    give(3);
    take(2);
    give(1);
    take(2);
  }
  give(3);
  scheduler.reserve(1000);
  give(1999);
  take(1);
  CHECK(scheduler.any(0));
  CHECK_FALSE(scheduler.push_lone(slot_task(7, 7), normal_level + 1));
  scheduler.push_shared(slot_task(7, 7), normal_level);  // a token's consumer
  CHECK(scheduler.next(0) == slot_task(7, 7));
  take(2001);
  CHECK(!scheduler.any(0));
  CHECK(scheduler.next(0) == no_task);
  Scheduler<RingPolicy> two(2, 2);
  CHECK_FALSE(two.push_lone(slot_task(7, 7), normal_level));
}

TEST_CASE("a body that sleeps looks for tokens behind its announcement", "[runtime][ring]") {
  struct Alone final : Family<TinyPolicy> {
    using Family::Family;
    void close() noexcept override {}
    bool grow() noexcept override { return false; }
  };
  Machine<TinyPolicy> machine(RuntimeOptions{2, false, false});
  ChildDomain<TinyPolicy> child(machine);
  Alone family(machine.families);
  family.inner = &child.domain();
  bool announced = false;
  machine.sleep(
      family,
      [&]() -> std::int64_t {
        CHECK(announced);
        machine.bodies.wake_all();  // as who opens a token does
        return announced ? -1 : 0;
      },
      [&] {
        announced = true;
        return false;
      });
}

TEST_CASE("sleepers look again where memory runs short amid the growth of queues",
          "[runtime][ring]") {
  long last = 0;  // allocations of a growth, or the one that fails
  for (bool const fails : {false, true}) {
    Machine<TinyPolicy> machine(RuntimeOptions{2, false, false});
    machine.scheduler.prepare(level_of(highest_priority), -1);
    machine.scheduler.push_shared(slot_task(0, 1), normal_level);
    machine.parking.announce();
    long const passing = fails ? last - 1 : 1000;
    (void)fail_new_after(passing);
    bool failed = false;
    try {
      (void)machine.domains.take(256);
    } catch (std::bad_alloc const&) {
      failed = true;
    }
    last = passing - fail_new_after(-1);
    CHECK(failed == (fails && allocations_are_counted()));
    REQUIRE_FALSE(machine.parking.anyone_sleeps());  // it has a permit
    machine.parking.sleep();
    CHECK(machine.scheduler.next(1) == slot_task(0, 1));
    if (!allocations_are_counted()) return;
  }
}

TEST_CASE("a queue that is kept stays where there is no memory to take it", "[runtime][ring]") {
  if (!allocations_are_counted()) return;
  auto const starves = [](long passing, auto call) {
    (void)fail_new_after(passing);
    bool failed = false;
    try {
      call();
    } catch (std::bad_alloc const&) {
      failed = true;
    }
    (void)fail_new_after(-1);
    return failed;
  };
  for (long passing = 0;; ++passing) {
    Scheduler<RingPolicy> scheduler(2, 64);
    scheduler.reserve_queues(2);
    scheduler.prepare(level_of(1), -1);
    if (!starves(passing, [&] { scheduler.reserve(64); })) break;  // perhaps one queue has grown
    while (starves(0, [&] { scheduler.prepare(level_of(2), -1); }))
      scheduler.prepare(level_of(2), -1);
    scheduler.push_shared(slot_task(0, 1), level_of(2));
    CHECK(scheduler.next(1) == slot_task(0, 1));
  }
}

TEST_CASE("queues grow where the growth before has lacked memory", "[runtime][ring]") {
  if (!allocations_are_counted()) return;
  Scheduler<RingPolicy> scheduler(2, 64);
  bool failed = false;
  (void)fail_new_after(0);
  try {
    scheduler.reserve(32);
  } catch (std::bad_alloc const&) {
    failed = true;
  }
  (void)fail_new_after(-1);
  CHECK(failed);
  scheduler.reserve(32);
  for (std::uint32_t slot = 0; slot < 180; ++slot)  // there is room for 128 without
    scheduler.push_shared(slot_task(0, slot), normal_level);
  for (std::uint32_t slot = 0; slot < 180; ++slot) CHECK(scheduler.next(1) == slot_task(0, slot));
}

TEST_CASE("domains with more slots than a queue has room for are refused", "[runtime][ring]") {
  Scheduler<RingPolicy> scheduler(1, 4096);
  CHECK(contains(message_of<OutOfMemory>([&] { scheduler.reserve(1u << 22); }),
                 "ring: domains with 4096 slots are in use, and of 4194304 there are not 4194304"));
  scheduler.reserve(8);
}

TEST_CASE("an event of a domain that never was is refused", "[runtime][ring]") {
  Ring ring({.workers = 1});
  Event const event{&ring, EventName{5, 1}.pack()};
  CHECK(contains(message_of<LifetimeError>([&] { ring.wait(event); }), "was never given"));
  CHECK(contains(message_of<LifetimeError>([&] { (void)ring.done(event); }), "was never given"));
}
