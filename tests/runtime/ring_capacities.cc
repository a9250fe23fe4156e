// SPDX-License-Identifier: BSD-3-Clause
// Rings that have all their room from construction on, and what they count where they have not.
#include "nntile/runtime/ring/capacities.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nntile/runtime/regions.hh"
#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/scope.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

RuntimeOptions workers(int count) { return {count, false, false}; }

/// Tokens of asynchronous tasks, which take no memory.
struct OpenTokens {
  std::array<Completion, 128> tokens;
  std::size_t count = 0;
  void complete(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) tokens[i].complete();
  }
};
constexpr Codelet open_codelet{"open", nullptr, nullptr,
                               +[](KernelCall const& call, Completion token) noexcept -> Status {
                                 auto& open = **static_cast<OpenTokens* const*>(call.arguments);
                                 open.tokens[open.count++] = token;
                                 return {};
                               }};
constexpr Codelet polled_codelet{
    "polled", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      token.poll(+[](void*, Completion of) { return of.complete(), true; }, nullptr);
      cell_of(call, 0) = 1;
      return {};
    }};
constexpr Codelet sum_codelet{"sum",
                              +[](KernelCall const& call) noexcept -> Status {
                                cell_of(call, 0) += value_of(call);
                                return {};
                              },
                              nullptr, nullptr};

constexpr Codelet noop_codelet{"noop", +[](KernelCall const&) noexcept -> Status { return {}; },
                               nullptr, nullptr};
Status do_nothing(KernelCall const&, Block) noexcept { return {}; }

template <class R>
Event submit_wide(R& ring, std::span<DataHandle const> cells, std::size_t operands) {
  std::array<Use<DataHandle>, 40> uses;
  for (std::size_t i = 0; i < operands; ++i) uses[i] = {cells[i], Access::update};
  long const one = 1;
  return ring.submit(
      {&sum_codelet, {uses.data(), operands}, std::as_bytes(std::span(&one, 1)), {}, {}});
}

template <class R> std::vector<DataHandle> cells_of(R& ring, std::size_t count) {
  std::vector<DataHandle> cells;
  for (std::size_t i = 0; i < count; ++i) {
    cells.push_back(ring.allocate(sizeof(long)));
    std::memset(ring.lock(cells.back(), Access::write).data(), 0, sizeof(long));
    ring.unlock(cells.back());
  }
  return cells;
}

/// Submits so many asynchronous tasks at a time, and ends the younger half first.
template <class R> void run_tokens(R& ring, DataHandle cell, std::size_t at_a_time) {
  OpenTokens open;
  Event last;
  for (std::size_t i = 0; i < at_a_time; ++i) {
    last = submit(ring, open_codelet, {}, &open);
    submit(ring, sum_codelet, {{cell, Access::update}}, 1L);
  }
  while (open.count < at_a_time) (void)ring.done(last);
  open.complete(at_a_time / 2, at_a_time);
  open.complete(0, at_a_time / 2);
}

constexpr Codelet end_codelet{"end", nullptr, nullptr,
                              +[](KernelCall const&, Completion token) noexcept -> Status {
                                token.complete();
                                return {};
                              }};

/// A chain of tasks, one of which is asynchronous.
RingProgram chain(std::size_t length) {
  std::vector<ProgramTask> tasks(length);
  static constexpr Use<Binding> both[] = {{0, Access::update}, {1, Access::update}};
  static constexpr long one = 1;
  for (std::size_t t = 0; t < length; ++t) {
    tasks[t].codelet = t == length / 2 ? &end_codelet : &sum_codelet;
    tasks[t].uses = both;
    tasks[t].arguments = std::as_bytes(std::span(&one, 1));
  }
  ProgramParameter const parameter{static_cast<std::uint32_t>(length - 1), 0, 0, sizeof(long)};
  return Ring::record(tasks, 2, {&parameter, 1});
}

}  // namespace

TEST_CASE("with room for operands and arguments tasks take none", "[runtime][ring_capacities]") {
  constexpr std::size_t widest = 32;
  Ring ring(workers(1), {.buffers = 64, .operands = widest, .argument_bytes = sizeof(long)});
  auto const cells = cells_of(ring, widest + 1);
  AllocationCount const allocations;
  for (std::size_t i = 0; i < 200; ++i) (void)submit_wide(ring, cells, 1 + i % widest);
  for (std::size_t i = 0; i < 40; ++i)
    (void)submit(ring, sum_codelet, {{cells[i % widest], Access::accumulate}}, 1L);
  ring.wait_all();
  CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == 0);
  (void)submit_wide(ring, cells, widest + 1);
  CHECK(ring.stats().growths.operands > 0);
}

TEST_CASE("room for tokens takes memory in proportion", "[runtime][ring_capacities]") {
  auto const bytes_of = [](std::uint32_t tokens) {
    AllocationCount const allocations;
    Ring const ring(workers(1), {.tokens = tokens});
    return allocations.bytes();
  };
  if (!allocations_are_counted()) return skip("a sanitizer owns malloc");
  std::size_t const few = bytes_of(2000), many = bytes_of(8000);
  CHECK(many < 5 * few);
}

TEST_CASE("tasks whose operands fit into a slot need no room of their own",
          "[runtime][ring_capacities]") {
  static constexpr std::size_t fit = detail::ring::Payload::inline_operands;
  std::size_t const operands = fit + GENERATE(0u, 1u);
  Ring ring(workers(1), {.buffers = fit + 1, .tokens = 1});
  auto const cells = cells_of(ring, operands);
  std::vector<Use<DataHandle>> uses;
  for (DataHandle const cell : cells) uses.push_back({cell, Access::update});
  for (Codelet const* const codelet : {&noop_codelet, &end_codelet})
    (void)ring.submit({codelet, uses, {}, {}, {}});
  ring.wait_all();
  RingGrowths const growths = ring.stats().growths;
  CHECK((growths.operands == 0) == (operands == fit));
  CHECK((growths.tokens == 0) == (operands == fit));
}

TEST_CASE("with room for operands there is room for all that they wait for",
          "[runtime][ring_capacities]") {
  constexpr std::size_t widest = 32;
  Ring ring(workers(1), {.buffers = widest, .operands = widest, .argument_bytes = 8});
  auto const cells = cells_of(ring, widest);
  (void)submit_wide(ring, cells, widest);
  ring.wait_all();
  AllocationCount const allocations;
  ring.pause();
  for (DataHandle const cell : cells)
    for (int i = 0; i < 8; ++i) (void)submit(ring, noop_codelet, {{cell, Access::read}}, 0L);
  (void)submit_wide(ring, cells, widest);
  ring.resume();
  ring.wait_all();
  CHECK(ring.stats().growths.sum() == 0);
  CHECK(allocations.calls() == 0);
}

TEST_CASE("with room for tokens asynchronous tasks take none", "[runtime][ring_capacities]") {
  std::uint32_t const tokens = GENERATE(1u, 8u, 50u);
  Ring ring(workers(1), {.buffers = 2, .argument_bytes = 16, .tokens = tokens});
  auto const cells = cells_of(ring, 1);
  AllocationCount const allocations;
  for (int i = 0; i < 20; ++i) run_tokens(ring, cells[0], tokens);
  ring.wait_all();
  for (int i = 0; i < 20; ++i) {
    for (std::uint32_t k = 0; k < tokens; ++k)
      (void)submit(ring, polled_codelet, {{cells[0], Access::update}}, 1L);
    ring.wait_all();
  }
  CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == 0);
  run_tokens(ring, cells[0], 2 * tokens + 2);
  ring.wait_all();
  CHECK(ring.stats().growths.tokens > 0);
}

TEST_CASE("tokens that end out of order leave room", "[runtime][ring_capacities]") {
  constexpr std::size_t tokens = 30;
  Ring ring(workers(1), {.argument_bytes = 16, .tokens = tokens});
  OpenTokens open;
  std::array<Completion, tokens> held;
  std::size_t oldest = 0, newest = 0, started = 0;
  AllocationCount const allocations;
  for (int round = 0; round < 100; ++round) {
    Event last;
    while (newest - oldest < tokens) last = submit(ring, open_codelet, {}, &open), ++newest;
    while (started + open.count < newest) (void)ring.done(last);
    for (std::size_t i = 0; i < open.count; ++i) held[started++ % tokens] = open.tokens[i];
    open.count = 0;
    for (int i = 0; i < 14; ++i) held[oldest++ % tokens].complete();
  }
  CHECK(ring.stats().growths.sum() == 0);
  CHECK(allocations.calls() == 0);
  while (oldest < newest) held[oldest++ % tokens].complete();
}

TEST_CASE("tokens that other threads end leave room", "[runtime][ring_capacities]") {
  constexpr int at_a_time = 8, rounds = 300;
  Ring ring(workers(3), {.buffers = 2, .argument_bytes = 16, .tokens = at_a_time});
  auto const cells = cells_of(ring, 1);
  for (int i = 0; i < rounds; ++i) {
    for (int k = 0; k < at_a_time; ++k)
      (void)submit(ring, end_codelet, {{cells[0], k % 2 == 0 ? Access::read : Access::update}}, 1L);
    ring.wait_all();
  }
  CHECK(ring.stats().growths.sum() == 0);
}

TEST_CASE("tasks of blocks find their room", "[runtime][ring_capacities]") {
  Ring ring(workers(1), {.buffers = 2, .argument_bytes = 64, .tokens = 4});
  auto const cells = cells_of(ring, 1);
  static constexpr BlockCodelet codelet = in_blocks<&do_nothing>("blocks");
  AllocationCount const allocations;
  for (int i = 0; i < 50; ++i) {
    Use<DataHandle> const use{cells[0], Access::update};
    (void)submit_blocks(ring, codelet, 3, std::span(&use, 1), {}, {});
    if (i % 4 == 3) ring.wait_all();
  }
  ring.wait_all();
  CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == 0);
}

TEST_CASE("with room for replays they take none", "[runtime][ring_capacities]") {
  RingProgram const small = chain(3), large = chain(100);
  std::uint32_t const in_flight = GENERATE(1u, 5u);
  Ring ring(
      workers(1),
      {.buffers = 8, .replays = in_flight, .program = larger(small.capacity(), large.capacity())});
  auto const cells = cells_of(ring, 2);
  AllocationCount const allocations;
  for (long i = 0; i < 200; ++i) {
    (void)ring.replay(i % 3 == 0 ? small : large, cells, std::as_bytes(std::span(&i, 1)));
    if (static_cast<std::uint32_t>(i) % in_flight == 0) ring.wait_all();
  }
  ring.wait_all();
  CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == 0);
  long const zero = 0;
  (void)ring.replay(chain(150), cells, std::as_bytes(std::span(&zero, 1)));
  ring.wait_all();
  CHECK(ring.stats().growths.replays > 0);
}

TEST_CASE("with room for regions making them takes none", "[runtime][ring_capacities]") {
  constexpr std::size_t buffers = 3, each = 10;
  Ring ring(workers(1), {.step = {1 << 16, OnFull::fail},
                         .records = 2 * buffers,
                         .buffers = 2 * buffers * each + 1,
                         .operands = 6,
                         .argument_bytes = 8});
  ring.reserve_regions({.regions = 2 * buffers * each,
                        .overlaps = 3,
                        .buffers = buffers + 1,
                        .regions_each = 2 * each,
                        .runs = 2 * each});
  RingGrowths const first = ring.stats().growths;
  AllocationCount const allocations;
  for (int round = 0; round < 50; ++round) {
    auto const step = scope(ring, Lifetime::step);
    for (std::size_t b = 0; b < buffers; ++b) {
      DataHandle const whole = ring.allocate(64 * each, host, Lifetime::step);
      std::byte* const begin = ring.address(whole);
      for (std::size_t i = 0; i < each; ++i) {
        auto const tile = ring.region(whole, {64 * i, 32, {}});
        auto const strided = ring.region(whole, {64 * i + 32, 8, {{2, 16}}});
        CHECK(ring.region_at(begin + 64 * i, {0, 32, {}}) == tile);
        (void)submit(ring, put_codelet, {{tile, Access::write}}, 1L);
        (void)submit(ring, put_codelet, {{strided, Access::write}}, 1L);
        (void)submit(ring, sum_codelet, {{tile, Access::update}}, 1L);
        if (i % 3 == 0) ring.retire(strided);
      }
      ring.wait_all();
    }
  }
  CHECK(allocations.calls() == 0);
  CHECK(ring.stats().growths.sum() == first.sum());
  auto const step = scope(ring, Lifetime::step);
  for (std::size_t b = 0; b < buffers; ++b) {
    DataHandle const whole = ring.allocate(64 * 4 * each, host, Lifetime::step);
    for (std::size_t i = 0; i < 4 * each; ++i) (void)ring.region(whole, {64 * i, 32, {}});
  }
  CHECK(ring.stats().growths.regions > first.regions);
}

TEST_CASE("with room for priorities, named workers and kinds they take none",
          "[runtime][ring_capacities]") {
  bool const kinds = GENERATE(false, true);
  int const count = GENERATE(1, 3);
  if (kinds && count == 1) return;
  WorkerKinds const served = kinds ? WorkerKinds{.cube = 1, .vector = 1} : WorkerKinds{};
  std::vector<int> names{-1, 0, count - 1};
  if (kinds) names = {-1, any_of(WorkerKind::cpu), any_of(WorkerKind::cube), count - 1};
  auto const growths = [&](RingCapacities const& capacities) {
    Ring ring(workers(count), capacities, served);
    auto const cells = cells_of(ring, 8);
    AllocationCount const allocations;
    for (int round = 0; round < 3; ++round)
      for (int priority = -3; priority <= 6; ++priority)
        for (int const name : names)
          for (Codelet const* const codelet : {&sum_codelet, &end_codelet}) {
            Use<DataHandle> const use{cells[static_cast<std::size_t>(priority + 3) % 8],
                                      Access::update};
            Hints const hints{.worker = name, .priority = priority};
            long const one = 1;
            (void)ring.submit({codelet, {&use, 1}, std::as_bytes(std::span(&one, 1)), hints, {}});
            if (codelet == &end_codelet) ring.wait_all();
          }
    ring.wait_all();
    RingGrowths const all = ring.stats().growths;
    if (all.sum() == 0) CHECK(allocations.calls() == 0);
    CHECK(all.sum() == all.queues);
    return all.queues;
  };
  RingCapacities capacities{.priorities = 7,
                            .named_workers = true,
                            .buffers = 8,
                            .argument_bytes = sizeof(long),
                            .tokens = 1};
  CHECK(growths(capacities) == 0);
  capacities.priorities = 100;
  CHECK(growths(capacities) == 0);
  capacities.priorities = 3;
  CHECK(growths(capacities) > 0);
  capacities.priorities = 0;
  capacities.named_workers = false;
  // Of all workers, of two kinds but for the three queues that each ring of three keeps, inboxes.
  CHECK(growths(capacities) == (kinds ? 7 + 2 * 8 - 3 + 1 : count == 1 ? 7 + 1 : 7 + 2));
}

TEST_CASE("a ring without capacities counts what it takes", "[runtime][ring_capacities]") {
  Ring ring(workers(1));
  CHECK(ring.stats().growths.sum() == 0);
  auto const cells = cells_of(ring, 2);
  CHECK(ring.stats().growths.buffers > 0);
  run_tokens(ring, cells[0], 3);
  ring.wait_all();
  CHECK(ring.stats().growths.tokens > 0);
  CHECK(ring.stats().growths.replays == 0);
  long const zero = 0;
  RingProgram const program = chain(3);
  (void)ring.replay(program, cells, std::as_bytes(std::span(&zero, 1)));
  ring.wait_all();
  RingGrowths const first = ring.stats().growths;
  CHECK(first.replays > 0);
  (void)ring.replay(program, cells, std::as_bytes(std::span(&zero, 1)));
  ring.wait_all();
  CHECK(ring.stats().growths.sum() == first.sum());
}

TEST_CASE("more replays than there are flights are refused", "[runtime][ring_capacities]") {
  CHECK(message_of<ValueError>([] { Ring(workers(1), {.replays = 65}); }) ==
        "ring: 65 replays in flight where 64 are possible");
}

TEST_CASE("room beyond the machine's memory is refused before any is taken",
          "[runtime][ring_capacities]") {
  auto const refused = [](RingCapacities const& capacities) {
    return message_of<OutOfMemory>([&] { Ring const ring(workers(1), capacities); });
  };
  std::string const text = concat("and the machine has ", support::physical_memory(), " bytes");
  std::uint32_t const most = UINT32_MAX;
  CHECK(contains(refused({.buffers = most}),
                 "RingCapacities::buffers of 4294967295 need 240 bytes each, " + text));
  CHECK(contains(refused({.tokens = most}),
                 "RingCapacities::tokens of 4294967295 need 1000 bytes each, " + text));
  CHECK(contains(refused({.argument_bytes = most, .tokens = 1u << 20}),
                 "RingCapacities::tokens of 1048576"));
  CHECK(contains(refused({.operands = most, .tokens = 1u << 20}),
                 "RingCapacities::tokens of 1048576"));
  if (std::size_t const count = support::physical_memory() / 104 + 1; count < most) {
    auto const operands = static_cast<std::uint32_t>(count);
    CHECK(contains(refused({.operands = operands}),
                   concat("RingCapacities::operands of ", count, " need 104 bytes each, " + text)));
    CHECK(contains(refused({.replays = 1, .program = {.bindings = operands}}),
                   concat("RingCapacities::program.bindings of ", count)));
  }
  CHECK(contains(refused({.records = 1u << 31}),
                 "RingCapacities::records of 2147483648 need 240 bytes each, " + text));
  CHECK(contains(refused({.replays = 64, .program = {.prepared = 1u << 30}}),
                 "RingCapacities::program.prepared of all replays of 68719476736"));
  CHECK(
      contains(refused({.replays = 64, .program = {.tasks = 1u << 31}}),
               "RingCapacities::program.tasks of all replays of 137438953472 need 16 bytes each"));
  CHECK(contains(refused({.replays = 1, .program = {.varying = SIZE_MAX}}),
                 "RingCapacities::replays of 1 need 18446744073709551615 bytes each"));
  CHECK(contains(refused({.replays = 64, .program = {.lines = most}}),
                 "RingCapacities::program.lines of all replays of 274877906880"));
}
