// SPDX-License-Identifier: BSD-3-Clause
// Every plan of the suite is proved by passes/check.hh; here plans that are not right.
#include "nntile/graph/passes/check.hh"

#include <functional>

#include "nntile/graph/compile.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A plan of many slots that are used in turn, and what check says of it once it was changed.
class Corrupted {
 public:
  std::string operator()(std::function<void(PlanData&)> const& change) const {
    PlanData data = plan_;
    change(data);
    return message_of<PlanError>([&] { passes::check(data); });
  }
  PlanData const& plan() const { return plan_; }

  /// The first task whose use `wanted(use)` admits.
  std::uint32_t task(
      std::function<bool(PlannedTask const&, Use<BufferId> const&)> const& wanted) const {
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t)
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t]))
        if (wanted(plan_.tasks[t], use)) return t;
    return no_id;
  }

 private:
  PlanData plan_ = Plan(TinyGptGraph().graph, {.tile = 64}).data();
};

bool in_arena(PlanData const& plan, Use<BufferId> const& use) {
  return plan.buffers[use.handle].slot != no_id;
}

}  // namespace

TEST_CASE("a plan of the passes is right", "[graph][check]") {
  CHECK_NOTHROW(passes::check(Corrupted().plan()));
}

TEST_CASE("a plan whose lists do not fit together is refused", "[graph][check]") {
  Corrupted const corrupted;
  auto const says = [&](char const* text, std::function<void(PlanData&)> const& change) {
    INFO(text);
    CHECK(contains(corrupted(change), text));
  };
  says("has kernel 1000 of", [](PlanData& p) { p.tasks[3].kernel = 1000; });
  says("is one of tensor 100000 of", [](PlanData& p) { p.tasks[3].tensor = 100000; });
  says("has uses up to", [](PlanData& p) { p.tasks.back().first_use += 1; });
  says("uses buffer 1000000 of",
       [](PlanData& p) { p.uses[p.tasks[3].first_use].handle = 1000000; });
  says("has arguments up to byte", [](PlanData& p) { p.args.resize(p.args.size() - 8); });
  says("has the arguments of another task", [](PlanData& p) { p.tasks[4] = p.tasks[3]; });
  says("may write over more uses than it has", [](PlanData& p) { p.tasks[3].replaces = 0x8000; });
  says("bytes where it needs", [](PlanData& p) { p.buffers[5].bytes -= 64; });
  says("bytes where it has", [](PlanData& p) { ++p.buffers[5].tail; });
  says("buffer 5 is not that of tile", [](PlanData& p) { p.buffers[5].tile += 1; });
  says("which has no slot", [](PlanData& p) {
    for (PlannedBuffer& buffer : p.buffers) buffer.slot = no_id;
  });
  says("has slot", [](PlanData& p) { p.slots.pop_back(); });
  says("bytes has slot", [](PlanData& p) { p.slots[0].bytes = 0; });
  says("is not that of tile 0", [](PlanData& p) { p.tensors[0].first_buffer += 1; });
  says("flops, not", [](PlanData& p) { p.flops += 1; });
  says("bytes stored and", [](PlanData& p) { p.memory[0].stored += 64; });
  says("lacks rank 0 host", [](PlanData& p) { p.memory.clear(); });
}

TEST_CASE("a task and its tiles are at one location", "[graph][check]") {
  Corrupted const corrupted;
  CHECK(contains(corrupted([](PlanData& p) { p.tasks[3].location.rank = 2; }),
                 "runs at rank 2 host and uses"));
  CHECK(
      contains(corrupted([](PlanData& p) { p.slots[0].location.place = {Place::Kind::device, 1}; }),
               "at rank 0 device 1"));
}

TEST_CASE("a plan that uses tiles of another rank is refused", "[graph][check]") {
  auto const text = Corrupted()([](PlanData& p) {
    for (PlannedBuffer& buffer : p.buffers) buffer.location.rank = 1;
    for (PlannedSlot& slot : p.slots) slot.location.rank = 1;
    for (PlannedTask& task : p.tasks) task.location.rank = 1;
    for (MemoryReport& memory : p.memory) memory.location.rank = 1;
  });
  CHECK(contains(text, " at rank 1 host in the plan of rank 0"));
}

TEST_CASE("two dependent tasks in the wrong order are refused", "[graph][check]") {
  Corrupted const corrupted;
  std::uint32_t const chain = corrupted.task(
      [](PlannedTask const&, Use<BufferId> const& use) { return use.access == Access::update; });
  REQUIRE(chain != no_id);
  auto const text = corrupted([&](PlanData& p) { std::swap(p.tasks[chain], p.tasks[chain - 1]); });
  CHECK(contains(text, "that it must precede"));
}

TEST_CASE("a read of what nothing has written is refused", "[graph][check]") {
  Corrupted const corrupted;
  CHECK(contains(corrupted([](PlanData& p) {
                   for (PlannedTensor& tensor : p.tensors) tensor.attributes = {};
                 }),
                 "which nothing has written"));
}

TEST_CASE("a live range that overlaps another in its slot is refused", "[graph][check]") {
  Corrupted const corrupted;
  // All tiles in one slot, which is large enough: live ranges overlap at once.
  auto const text = corrupted([](PlanData& p) {
    for (PlannedBuffer& buffer : p.buffers)
      if (buffer.slot != no_id) buffer.slot = 0;
    p.memory[0].arena += (Index{1} << 30) - p.slots[0].bytes;
    p.slots[0].bytes = Index{1} << 30;
  });
  CHECK((contains(text, "was written in slot 0") || contains(text, "over its operand in slot 0")));
}

TEST_CASE("a first access to a slot that reads is refused", "[graph][check]") {
  Corrupted const corrupted;
  PlanData const& plan = corrupted.plan();
  auto const text = corrupted([&](PlanData& p) {
    for (Use<BufferId>& use : p.uses)
      if (in_arena(plan, use) && use.access == Access::write) use.access = Access::update;
  });
  CHECK(contains(text, "is update, not write"));
}

TEST_CASE("a result over an operand that its op does not give up is refused", "[graph][check]") {
  Corrupted const corrupted;
  CHECK(contains(corrupted([](PlanData& p) {
                   for (PlannedTask& task : p.tasks) task.replaces = 0;
                 }),
                 "over its operand in slot"));
}
