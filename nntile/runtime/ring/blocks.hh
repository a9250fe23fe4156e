#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of many blocks: pending tasks whose blocks are run as ready tasks of their own.

#include "nntile/runtime/blocks.hh"
#include "nntile/runtime/ring/ring.hh"

namespace nntile {

namespace detail::ring {

/// Starts such a task, runs its blocks and ends it.
template <class Policy> struct Blocks {
  using Ranges = BlockRanges<Policy>;
  static_assert(max_blocks <= Ranges::most_blocks);

  /// Submits one into the root, whose codelet is a BlockCodelet. Throws what BufferTable::bind
  /// does.
  static std::uint64_t submit(Machine<Policy>& machine, Submitter<Policy>& submitter,
                              Task<DataHandle> const& task) {
    auto const [uses, pointers] = submitter.bind(task);
    support::Groups const groups = support::groups_of(uses, true);
    if (groups == support::Groups::claimed) machine.claims.prepare(uses);
    bool const own = machine.devices.own(uses);
    return submitter.submit_pending(task, uses, pointers, [=](Pending<Policy>& pending) {
      pending.groups = groups;
      if (!own) pending.start = &start;
    });
  }

 private:
  /// Opens the blocks, unless a mark cancels the task. Its slot is done then; where no range is
  /// free, this worker runs the blocks in order.
  static void start(Machine<Policy>& machine, std::uint32_t self, Pending<Policy>& task) {
    support::TaskBody const& body = task.body;
    if (machine.failures.any_marked() && machine.failures.cancel_if_marked(body))
      return machine.end_pending(task, self);
    std::uint32_t const count = BlockHeader::of(body.arguments).count;
    std::int16_t const worker = task.worker;  // the task may be over once its blocks are open
    if (machine.scheduler.open_blocks(task, count, worker, &run))
      return machine.wake_for(worker, count);
    (void)support::run_body(machine.failures, machine.tokens, body, nullptr,
                            machine.workspaces[self]);
    machine.end_pending(task, self);
  }

  /// Runs a block that the worker has claimed, and ends the task with the last one.
  static void run(Machine<Policy>& machine, std::uint32_t self, typename Ranges::Range& range,
                  std::uint32_t block) {
    Pending<Policy>& task = *range.task;
    support::TaskBody const& body = task.body;
    auto const& codelet = static_cast<BlockCodelet const&>(*body.codelet);
    machine.trace.begin(static_cast<int>(self), body.sequence, codelet);
    char text[status_text_bytes];
    void* const workspace = machine.workspaces[self];
    Status status{"no memory for a workspace"};
    if (workspace != nullptr || codelet.workspace == 0)
      status = run_block(codelet.block, {body.pointers, body.arguments, text, workspace}, block);
    support::DefaultFloatEnvironment::renew();
    machine.trace.end(static_cast<int>(self), body.sequence);
    if (!status.ok()) range.fail(block, status.error);
    if (!Ranges::end_block(range)) return;
    support::settle(machine.failures, body,
                    range.failed == Ranges::none_failed ? Status{} : Status{range.text});
    machine.scheduler.blocks.give_back(range);
    machine.end_pending(task, self);
  }
};

}  // namespace detail::ring

/// Makes rings a BlockRuntime.
template <class Policy> struct Blocking<BasicRing<Policy>> {
  static Event submit(BasicRing<Policy>& ring, Task<DataHandle> const& task) {
    typename BasicRing<Policy>::Inside const inside(ring, "submit");
    return {&ring, detail::ring::Blocks<Policy>::submit(ring.machine_, ring.root_.submitter, task)};
  }
};

}  // namespace nntile
