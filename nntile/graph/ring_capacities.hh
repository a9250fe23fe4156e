#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Capacities of a ring from a plan: all the room that its runs need.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/compiled.hh"
#include "nntile/graph/heaps.hh"
#include "nntile/runtime/ring/capacities.hh"
#include "nntile/runtime/ring/ready_task.hh"

namespace nntile {

namespace detail {

/// Counts what a plan's tasks need of a ring.
class RingNeeds {
 public:
  RingNeeds(Plan const& plan, BindOptions const& options) : plan_(plan), trace_(options.trace) {
    check_isa("ring_capacities", options.isa);
    Isa const isa = options.isa == Isa::best ? kernels::best() : options.isa;
    RankLink link;
    link.send = link.receive = &later;
    for (PlannedKernel const& kernel : plan.kernels()) {
      Codelet const* const codelet = find_codelet(kernel, isa, options.ops, link);
      codelets_.push_back(codelet->cpu == nullptr ? &later : &at_once);
    }
  }

  /// Of tasks that are submitted one by one, `runs` runs at a time.
  void add_tasks(RingCapacities& to, std::uint32_t runs) const {
    std::size_t pending = 0, bytes = 0, operands = 0;
    std::uint32_t levels = 0;
    for (PlannedTask const& task : plan_.tasks()) {
      bool const ends_later = codelet(task) == &later || names_device(task);
      pending += ends_later;
      bool const sends = plan_.kernels()[task.kernel].kind == KernelKind::send;  // in turn, perhaps
      operands = std::max<std::size_t>(operands, task.use_count + (sends ? 1u : 0u));
      bytes = std::max(bytes, argument_bytes(task));
      Hints const hints = plan_.hints(task);
      levels |= 1u << ring::level_of(hints.priority);
      to.named_workers |= hints.worker >= 0;
    }
    to.priorities = static_cast<std::uint32_t>(std::popcount(levels & ~(1u << ring::normal_level)));
    to.operands = static_cast<std::uint32_t>(operands);
    to.argument_bytes = static_cast<std::uint32_t>(bytes);
    to.tokens = all(runs, pending, "tokens");
    to.window = window(runs * plan_.tasks().size());
  }
  /// Of replays of the plan, which R records, by phases where it has some.
  template <class R> void add_replays(RingCapacities& to, std::uint32_t runs) const {
    BindingTable const bindings(plan_);
    auto const count = static_cast<std::uint32_t>(plan_.tasks().size());
    std::uint32_t parts = 0;
    auto const add = [&](std::uint32_t begin, std::uint32_t end) {
      ++parts;
      to.program = larger(to.program, program<R>(bindings, begin, end));
    };
    for (PlannedPhase const& phase : plan_.phases()) add(phase.begin, phase.end);
    if (parts == 0) add(0, count);
    to.replays = all(runs, parts, "replays");
    to.window = window(to.replays);
  }
  /// Of the buffers that a store keeps; of an input in the caller's memory those of `runs` runs and
  /// of two more bindings.
  void add_stored(RingCapacities& to, std::uint32_t runs) const {
    std::uint64_t buffers = std::uint64_t{to.buffers} + BindingTable(plan_).turns();
    for (PlannedTensor const& tensor : plan_.tensors())
      BindingTable::each_stored(plan_, tensor, [&](std::size_t) {
        buffers += tensor.storage == Storage::adopted           ? std::uint64_t{runs} + 2
                   : tensor.storage == Storage::double_buffered ? 2
                                                                : 1;
      });
    if (buffers > UINT32_MAX) fail_count(runs, "buffers");
    to.buffers = static_cast<std::uint32_t>(buffers);
  }

 private:
  static constexpr Codelet at_once{
      "at once", +[](KernelCall const&) noexcept -> Status { return {}; }, nullptr, nullptr};
  static constexpr Codelet later{
      "later", nullptr, nullptr,
      +[](KernelCall const&, Completion) noexcept -> Status { return {}; }};
  /// Slots that stay in the second-level cache; fewer than the least are no gain.
  static constexpr std::size_t most_slots = 4096, least_slots = 64;

  static std::uint32_t window(std::size_t tasks) {
    return static_cast<std::uint32_t>(std::bit_ceil(std::clamp(tasks, least_slots, most_slots)));
  }
  [[noreturn, gnu::cold]] void fail_count(std::uint32_t runs, char const* what) const {
    throw ValueError(concat("ring_capacities: plan '", plan_.name(), "': ", runs,
                            " runs at a time take more than 2^32 - 1 ", what, "; give fewer"));
  }
  std::uint32_t all(std::uint32_t runs, std::size_t each, char const* what) const {
    std::uint32_t count = 0;
    if (__builtin_mul_overflow(runs, each, &count)) fail_count(runs, what);
    return count;
  }
  Codelet const* codelet(PlannedTask const& task) const { return codelets_[task.kernel]; }
  bool names_device(PlannedTask const& task) const {
    auto const uses = plan_.uses(task);
    return std::any_of(uses.begin(), uses.end(), [&](Use<BufferId> const& use) {
      return plan_.buffers()[use.handle].location.place != host;
    });
  }
  std::size_t argument_bytes(PlannedTask const& task) const {
    std::size_t const bytes = codelet(task) == &later ? sizeof(TransferCall) : 0;
    return std::max({bytes, plan_.args(task).size(), trace_ ? sizeof(TracedTask) : 0});
  }

  template <class R>
  ProgramCapacity program(BindingTable const& bindings, std::uint32_t begin,
                          std::uint32_t end) const {
    DynamicArray<Use<Binding>> uses;
    DynamicArray<std::size_t> ends;
    DynamicArray<ProgramTask> tasks;
    for (std::uint32_t t = begin; t < end; ++t) {
      bindings.each_use(plan_, t,
                        [&](std::uint32_t at, Access access) { uses.push_back({at, access}); });
      ends.push_back(uses.size());
    }
    std::size_t at = 0;
    for (std::size_t t = 0; t < ends.size(); at = ends[t++])
      tasks.push_back(
          {codelet(plan_.tasks()[begin + t]), {uses.data() + at, ends[t] - at}, {}, {}, {}});
    return R::record(tasks, bindings.size(), std::span<ProgramParameter const>{}).capacity();
  }

  Plan const& plan_;
  bool const trace_;
  DynamicArray<Codelet const*> codelets_;
};

}  // namespace detail

/// Room for the runs of a plan that is bound with these options, `runs` of them in flight at a
/// time, from the construction of its ring on:
///
///   auto const plan = std::make_shared<Plan const>(graph, PlanOptions{.tile = 256});
///   Ring ring({}, ring_capacities<Ring>(*plan));
///   TensorStore<Ring> store(ring);
///   CompiledGraph<Ring> step(plan, store);  // and ring.stats().growths stay 0
///
/// Room for several plans on one ring is together(ring_capacities<Ring>(init),
/// ring_capacities<Ring>(step)). What a program does besides is added to the fields: a Watch needs
/// three buffers and two tasks a tile. Cost: that of binding. Throws TypeError for a kernel that is
/// nowhere, ValueError (no such instruction set, no run, more than rings have room for).
template <class R>
RingCapacities ring_capacities(Plan const& plan, BindOptions const& options = {},
                               std::uint32_t runs = 1) {
  if (runs == 0)
    throw ValueError(
        concat("ring_capacities: plan '", plan.name(), "': room for 0 runs at a time; at least 1"));
  detail::RingNeeds const needs(plan, options);
  RingCapacities result;
  result.buffers = static_cast<std::uint32_t>(plan.slots().size());
  needs.add_stored(result, runs);
  if (options.replay)
    needs.add_replays<R>(result, runs);
  else
    needs.add_tasks(result, runs);
  return result;
}

/// The same for a program that submits the plan's tasks one by one, with its tiles in heaps.
inline RingCapacities ring_capacities(Plan const& plan, HeapPlan const& heaps,
                                      BindOptions const& options = {}) {
  detail::RingNeeds const needs(plan, options);
  RingCapacities result = heaps.capacities;
  needs.add_stored(result, 1);
  needs.add_tasks(result, 1);
  return result;
}

}  // namespace nntile
