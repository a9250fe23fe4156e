// SPDX-License-Identifier: BSD-3-Clause
// Programs that the ring has recorded, against the same tasks in order.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/ring_program.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct TinyPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = 2;
    static constexpr std::uint32_t deque = 2;
    static constexpr std::uint32_t argument_bytes = 256;
    static constexpr std::uint32_t flights = 2;
    static constexpr std::uint32_t most_kept = 1;  // every task lets another go before it
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 5;
  };
};
using TinyRing = BasicRing<TinyPolicy>;

/// Cells of a ring and what they should hold.
template <class R> struct Cells {
  R& ring;
  std::vector<DataHandle> handles;
  std::vector<std::uint64_t> expected;

  Cells(R& runtime, std::uint32_t count) : ring(runtime) {
    for (std::uint32_t c = 0; c < count; ++c) {
      handles.push_back(ring.allocate(sizeof(std::uint64_t)));
      expected.push_back(0);
      if (c % 2 != 0) continue;
      expected.back() = scramble(c, 7);
      auto const span = ring.lock(handles.back(), Access::write);
      std::memcpy(span.data(), &expected.back(), sizeof(std::uint64_t));
      ring.unlock(handles.back());
    }
  }
  bool as_expected() {
    for (std::size_t c = 0; c < handles.size(); ++c) {
      std::uint64_t value = 0;
      try {
        std::memcpy(&value, ring.lock(handles[c], Access::read).data(), sizeof value);
        ring.unlock(handles[c]);
      } catch (LifetimeError const&) {  // nothing has written it
      }
      if (value != expected[c]) return false;
    }
    return true;
  }
};

std::vector<std::uint64_t> block_for(RandomProgram& program) {
  std::vector<std::uint64_t> block(program.tasks().size());
  for (auto& salt : block) salt = program.random();
  return block;
}

/// Replays a program several times without waiting in between, on two sets of cells.
template <class R> bool replays_match(R& ring, RandomProgram drawn, int rounds) {
  auto const program = ring.record(drawn.tasks(), drawn.bindings(), drawn.parameters());
  Cells<R> one(ring, drawn.bindings()), two(ring, drawn.bindings());
  for (int round = 0; round < rounds; ++round)
    for (auto* cells : {&one, &two}) {
      auto block = block_for(drawn);
      ring.replay(program, cells->handles, std::as_bytes(std::span(block)));
      drawn.run(cells->expected, block);
      std::fill(block.begin(), block.end(), 0);  // replay has copied it
    }
  ring.wait_all();
  return one.as_expected() && two.as_expected();
}

RuntimeOptions options_of(int workers, bool own_driver) { return {workers, own_driver, false}; }

long value_in(Ring& ring, DataHandle handle) { return read(ring, handle); }

/// A program of one task: first = second + 5.
RingProgram record_copy(Ring& ring) {
  Use<Binding> const uses[] = {{0, Access::write}, {1, Access::read}};
  long const value = 5;
  ProgramTask const task{
      &copy_cell_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {"sum", 3}};
  ProgramParameter const parameter{0, 0, 0, sizeof(long)};
  return ring.record({&task, 1}, 2, {&parameter, 1});
}

}  // namespace

TEST_CASE("a replay leaves what its tasks would have left in order", "[runtime][ring]") {
  int const workers = GENERATE(1, 2, 3, 8);
  bool const own_driver = GENERATE(false, true);
  bool const priorities = GENERATE(false, true);
  Ring ring(options_of(workers, own_driver));
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    REQUIRE(replays_match(ring, RandomProgram(seed, 300, 20, 4, priorities), 5));
}

TEST_CASE("a replay runs tasks with more operands than fit on the stack", "[runtime][ring]") {
  Ring ring(options_of(3, false));
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    REQUIRE(replays_match(ring, RandomProgram(seed, 100, 40, 30), 3));
}

TEST_CASE("wide and narrow programs replay in order", "[runtime][ring]") {
  Ring ring(options_of(GENERATE(1, 2, 4), false));
  REQUIRE(replays_match(ring, RandomProgram(1, 2000, 3, 3), 2));
  REQUIRE(replays_match(ring, RandomProgram(2, 20000, 5000, 3), 2));
  REQUIRE(replays_match(ring, RandomProgram(3, 1, 1, 1), 50));
  REQUIRE(replays_match(ring, RandomProgram(4, 0, 1, 1), 3));
}

TEST_CASE("replays queue up where a ring is tiny", "[runtime][ring]") {
  TinyRing ring(options_of(GENERATE(1, 2, 5), GENERATE(false, true)));
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    REQUIRE(replays_match(ring, RandomProgram(seed, 50, 12, 4, seed % 2 == 0), 20));
}

TEST_CASE("several programs share the flights of a ring", "[runtime][ring]") {
  TinyRing ring(options_of(3, false));
  RandomProgram small(1, 20, 8, 3), large(2, 200, 8, 3, true);
  auto const first = ring.record(small.tasks(), 8), second = ring.record(large.tasks(), 8);
  Cells<TinyRing> cells(ring, 8), others(ring, 8);
  for (int round = 0; round < 30; ++round) {
    ring.replay(first, cells.handles);
    ring.replay(second, others.handles);
    ring.replay(second, cells.handles);
    small.run(cells.expected, {});
    large.run(others.expected, {});
    large.run(cells.expected, {});
  }
  REQUIRE(cells.as_expected());
  REQUIRE(others.as_expected());
}

TEST_CASE("tasks and replays order each other by their buffers", "[runtime][ring]") {
  Ring ring(options_of(GENERATE(1, 2, 4), false));
  auto const program = record_copy(ring);
  auto const a = cell(ring, 1), b = cell(ring), c = cell(ring);
  for (long round = 0; round < 35; ++round) {
    DataHandle const there[] = {b, a}, on[] = {c, b};
    ring.replay(program, there, std::as_bytes(std::span(&round, 1)));  // b = a + round
    submit(ring, step_codelet, {{b, Access::update}}, 1L);             // b = 3 b + 1
    ring.replay(program, on, std::as_bytes(std::span(&round, 1)));     // c = b + round
    submit(ring, copy_cell_codelet, {{a, Access::write}, {c, Access::read}}, -4 * round);
  }
  long expected = 1;
  for (int round = 0; round < 35; ++round) expected = 3 * expected + 1;
  REQUIRE(value_in(ring, a) == expected);
}

TEST_CASE("a replay that only reads leaves a later writer waiting for it", "[runtime][ring]") {
  Ring ring(options_of(2, false));
  TokenKeeper tokens;
  TokenKeeper* const keeper = &tokens;
  Use<Binding> const use[] = {{0, Access::read}};
  ProgramTask const task{&keep_codelet, use, std::as_bytes(std::span(&keeper, 1)), {}, {}};
  auto const program = ring.record({&task, 1}, 1);
  DataHandle const bound[] = {cell(ring, 1)};
  Event const replay = ring.replay(program, bound);
  Event const reader =
      submit(ring, copy_cell_codelet, {{cell(ring), Access::write}, {bound[0], Access::read}}, 0L);
  Event const writer = submit(ring, put_codelet, {{bound[0], Access::write}}, 2L);
  ring.wait(reader);
  Completion const token = tokens.at(0);
  REQUIRE(!ring.done(replay));
  REQUIRE(!ring.done(writer));
  token.complete();
  REQUIRE(value_in(ring, bound[0]) == 2);
}

TEST_CASE("tasks pass a replay whose token is open", "[runtime][ring]") {
  Ring ring(options_of(GENERATE(1, 2), false));
  TokenKeeper tokens;
  TokenKeeper* const keeper = &tokens;
  ProgramTask const task{&keep_codelet, {}, std::as_bytes(std::span(&keeper, 1)), {}, {}};
  Event const replay = ring.replay(ring.record({&task, 1}, 0), {});
  auto const a = cell(ring, 0);
  for (int i = 0; i < 20000; ++i) submit(ring, step_codelet, {{a, Access::update}}, 0L);
  ring.wait(submit(ring, step_codelet, {{a, Access::update}}, 0L));
  REQUIRE(!ring.done(replay));
  tokens.at(0).complete();
  ring.wait(replay);
  REQUIRE(ring.stats().outstanding == 0);
}

TEST_CASE("a failed task cancels those after it in its program and beyond", "[runtime][ring]") {
  Ring ring(options_of(GENERATE(1, 4), false));
  Use<Binding> const first[] = {{0, Access::write}},
                     second[] = {{1, Access::write}, {0, Access::read}},
                     third[] = {{2, Access::write}};
  long const value = 7;
  auto const bytes = std::as_bytes(std::span(&value, 1));
  ProgramTask const tasks[] = {{&fail_codelet, first, {}, {}, {"h1", 3}},
                               {&copy_cell_codelet, second, bytes, {}, {"h2", 4}},
                               {&put_codelet, third, bytes, {}, {"h3", 5}}};
  auto const program = ring.record(tasks, 3);
  DataHandle const bound[] = {cell(ring), cell(ring), cell(ring)};
  Event const replay = ring.replay(program, bound);
  Event const after =
      submit(ring, copy_cell_codelet, {{cell(ring), Access::write}, {bound[1], Access::read}}, 0L);
  REQUIRE_THROWS_AS(ring.wait(replay), TaskError);
  REQUIRE_THROWS_AS(ring.wait(after), TaskError);
  REQUIRE_THROWS_WITH(ring.wait_all(), Catch::Matchers::Contains("broken of tensor 'h1', tile 3"));
  REQUIRE_THROWS_AS(ring.lock(bound[1], Access::read), TaskError);
  REQUIRE(value_in(ring, bound[2]) == 7);
}

TEST_CASE("a wait for a replay throws whichever of its tasks failed", "[runtime][ring]") {
  Ring ring(options_of(GENERATE(1, 4), false));
  int const failing = GENERATE(0, 1, 2);
  long const value = 7;
  std::vector<Use<Binding>> uses;
  for (std::uint32_t b = 0; b < 3; ++b) uses.push_back({b, Access::write});
  std::vector<ProgramTask> tasks;
  for (int t = 0; t < 3; ++t)
    tasks.push_back({t == failing ? &fail_codelet : &put_codelet,
                     std::span(uses).subspan(static_cast<std::size_t>(t), 1),
                     std::as_bytes(std::span(&value, 1)),
                     {},
                     {"h", t}});
  auto const program = ring.record(tasks, 3);
  DataHandle const bound[] = {cell(ring), cell(ring), cell(ring)};
  Event const before = submit(ring, put_codelet, {{cell(ring), Access::write}}, 0L);
  Event const replay = ring.replay(program, bound);
  Event const after = submit(ring, put_codelet, {{cell(ring), Access::write}}, 0L);
  ring.wait(before);
  REQUIRE_THROWS_WITH(ring.wait(replay),
                      Catch::Matchers::Contains(concat("tensor 'h', tile ", failing)));
  ring.wait(after);
  REQUIRE_THROWS_AS(ring.wait_all(), TaskError);
}

TEST_CASE("bindings that do not fit the recording are refused", "[runtime][ring]") {
  Ring ring(options_of(1, false));
  auto const program = record_copy(ring);
  long const value = 1;
  auto const block = std::as_bytes(std::span(&value, 1));
  auto const a = cell(ring, 1), b = cell(ring);
  DataHandle const alias[] = {a, a}, few[] = {a}, unwritten[] = {a, b}, good[] = {b, a},
                   empty[] = {b, {}};
  REQUIRE_THROWS_AS(ring.replay(program, alias, block), ValueError);
  REQUIRE_THROWS_AS(ring.replay(program, few, block), ValueError);
  REQUIRE_THROWS_AS(ring.replay(program, good, block.first(4)), ValueError);
  REQUIRE_THROWS_AS(ring.replay(RingProgram(), good, block), ValueError);
  REQUIRE_THROWS_AS(ring.replay(program, unwritten, block), LifetimeError);
  REQUIRE_THROWS_AS(ring.replay(program, empty, block), LifetimeError);
  ring.replay(program, good, block);
  REQUIRE(value_in(ring, b) == 2);
}

TEMPLATE_TEST_CASE("bindings of another size than was recorded are refused", "[runtime][ring]",
                   Ring, Serial) {
  TestType runtime(RuntimeOptions{.workers = 1});
  Use<Binding> const uses[] = {{0, Access::write}, {1, Access::read}};
  long const value = 1;
  ProgramTask const task{&copy_cell_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}};
  std::size_t const bytes[] = {sizeof(long), sizeof(long), 64};
  auto const sized = runtime.record({&task, 1}, bytes);
  auto const any = runtime.record({&task, 1}, 3);
  auto const source = cell(runtime, 4), target = cell(runtime), larger = runtime.allocate(16),
             unused = runtime.allocate(3);  // of the third no task says anything
  DataHandle const wrong[] = {larger, source, unused}, good[] = {target, source, unused};
  REQUIRE_THROWS_WITH(runtime.replay(sized, wrong),
                      Catch::Matchers::StartsWith("replay: binding 0 is buffer ") &&
                          Catch::Matchers::EndsWith(" where 8 bytes were recorded"));
  REQUIRE_THROWS_AS(runtime.lock(larger, Access::read), LifetimeError);  // nothing has run
  runtime.replay(sized, good);
  REQUIRE(read(runtime, target) == 5);
  runtime.replay(any, wrong);
  runtime.wait_all();
}

TEST_CASE("a recording checks its tasks", "[runtime][ring]") {
  Ring ring(options_of(1, false));
  Codelet const nothing{};
  Use<Binding> const beyond[] = {{2, Access::read}};
  ProgramTask const no_codelet{}, no_entry{&nothing, {}, {}, {}, {}},
      out{&put_codelet, beyond, {}, {}, {}}, fine{&put_codelet, {}, {}, {}, {}};
  ProgramParameter const wrong_task{1, 0, 0, 0}, wrong_byte{0, 0, 0, 1};
  for (auto const* task : {&no_codelet, &no_entry, &out})
    REQUIRE_THROWS_AS(ring.record({task, 1}, 2), ValueError);
  Use<Binding> const cast[] = {{1, Access::read}, {0, static_cast<Access>(9)}};
  ProgramTask const no_access{&put_codelet, cast, {}, {}, {}};
  REQUIRE_THROWS_WITH(ring.record({&no_access, 1}, 2),
                      Catch::Matchers::Contains("binding 0: 9 is no access"));
  REQUIRE_THROWS_AS(ring.record({&fine, 1}, 2, {&wrong_task, 1}), ValueError);
  REQUIRE_THROWS_AS(ring.record({&fine, 1}, 2, {&wrong_byte, 1}), ValueError);
}

TEST_CASE("a program may die while it is in flight", "[runtime][ring]") {
  Ring ring(options_of(3, false));
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomProgram drawn(seed, 10 * static_cast<std::uint32_t>(seed), 8, 3);
    Cells<Ring> cells(ring, 8);
    ring.replay(ring.record(drawn.tasks(), 8), cells.handles);
    drawn.run(cells.expected, {});
    REQUIRE(cells.as_expected());
  }
}

TEST_CASE("a bound buffer may be retired while its replay runs", "[runtime][ring]") {
  std::array<std::atomic<int>, 50> released{};
  {
    Ring ring(options_of(2, false));
    auto const program = record_copy(ring);
    std::vector<std::array<long, 8>> memory(released.size());
    for (std::size_t i = 0; i < released.size(); ++i) {
      long const value = 1;
      auto const add = [](void* state) noexcept {
        static_cast<std::atomic<int>*>(state)->fetch_add(1);
      };
      DataHandle const bound[] = {
          cell(ring),
          ring.adopt(std::as_writable_bytes(std::span(memory[i])), host, {add, &released[i]})};
      ring.replay(program, bound, std::as_bytes(std::span(&value, 1)));
      ring.retire(bound[0]);
      ring.retire(bound[1]);
    }
    ring.wait_all();
    for (auto const& times : released) REQUIRE(times.load() == 1);
  }
  for (auto const& times : released) REQUIRE(times.load() == 1);
}

TEMPLATE_TEST_CASE("a task that fails in a replay is named by its own number", "[runtime][replay]",
                   Serial, Ring) {
  TestType runtime;
  auto const a = cell(runtime);
  Use<Binding> const writes[] = {{0, Access::write}}, updates[] = {{0, Access::update}};
  long const value = 1;
  auto const bytes = std::as_bytes(std::span(&value, 1));
  ProgramTask const tasks[] = {{&put_codelet, writes, bytes, {}, {}},
                               {&step_codelet, updates, bytes, {}, {}},
                               {&fail_codelet, updates, bytes, {}, {}}};
  auto const program = runtime.record(tasks, 1, {});
  Event const before = submit(runtime, put_codelet, {{a, Access::write}}, 1L);
  DataHandle const bindings[] = {a};
  (void)runtime.replay(program, bindings, {});
  CHECK(contains(message_of<TaskError>([&] { runtime.wait_all(); }),
                 concat("broken (task ", before.sequence + 3, ") failed: it broke")));
}
