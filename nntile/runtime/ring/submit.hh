#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Submission of tasks into slots.

#include <cstdint>
#include <span>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/ring/wiring.hh"

namespace nntile::detail::ring {

/// The submitter of one domain.
template <class Policy> class Submitter {
  using Hot = HotSlot<Policy>;
  using Groups = support::Groups;

 public:
  Submitter(Domain<Policy>& domain, Driver<Policy>& driver)
      : machine_(domain.machine), domain_(domain), driver_(driver), wiring_(domain, driver) {
    wiring_.prepare(usual_operands);
  }

  Wiring<Policy> const& wiring() const { return wiring_; }

  /// Submits a task and returns its sequence. Throws what BufferTable::bind does, and
  /// std::bad_alloc; nothing is submitted then.
  [[gnu::noinline]] std::uint64_t submit(Task<DataHandle> const& task) {
    std::size_t const count = task.uses.size();
    if (count > usual_operands) [[unlikely]]
      return submit_many(task);
    Use<support::Buffer*> uses[usual_operands];
    void* pointers[usual_operands];
    BufferUsers* users[usual_operands];
    bool crowded = false;
    typename Policy::Trace::Submission trace(machine_.trace);
    auto const found = [&](std::size_t i, std::uint32_t index) {
      users[i] = &driver_.reclaim().users_of(index);
      crowded |= Wiring<Policy>::is_crowded(task.uses[i].access, *users[i]);
    };
    if (!machine_.table.bind(task, uses, pointers, found)) [[unlikely]]
      return submit_unusual(task, {uses, count}, pointers, trace);
    return submit_usual(task, {uses, count}, pointers, users, crowded, trace);
  }

  /// Submits a pending task, whose body is filled in. Returns the first of its sequences.
  std::uint64_t submit_pending(Pending<Policy>& pending, Hints const& hints,
                               std::uint64_t sequences = 1) {
    typename Policy::Trace::Submission trace(machine_.trace);
    auto const [level, worker] = place(hints, pending.body);
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    bool const parts = support::names_parts(pending.body.uses);
    wiring_.collect(pending.body.uses, pending.groups, parts);
    trace.reached(SubmitStep::lookup);
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    Hot& slot = domain_.window.open(pending.claims() ? SlotKind::claiming : SlotKind::pending,
                                    level, worker, sequences);
    slot.runs_as = SlotKind::pending;
    domain_.window.cold(slot.id).work = &pending;
    pending.domain = &domain_;
    pending.worker = worker;
    pending.body.sequence = sequence;
    if (pending.flight != nullptr) pending.flight->begin(pending, sequence);
    domain_.pending.open(pending, sequence);
    wiring_.note(pending.body.uses, reference_to_pending(pending.index), ticket, pending.groups,
                 parts);
    for (Use<support::Buffer*> const& use : pending.body.uses) driver_.reclaim().hold(*use.handle);
    trace.reached(SubmitStep::payload);
    wiring_.publish(slot);
    trace.ended(sequence, pending.body.codelet, in_use());
    return sequence;
  }

 private:
  static constexpr std::size_t usual_operands = 16;
  struct Placement {
    std::uint8_t level;
    std::int16_t worker;
  };

  [[gnu::noinline]] std::uint64_t submit_many(Task<DataHandle> const& task) {
    typename Policy::Trace::Submission trace(machine_.trace);
    uses_.resize(task.uses.size());
    pointers_.resize(task.uses.size());
    (void)machine_.table.bind(task, uses_.data(), pointers_.data());
    return submit_unusual(task, uses_, pointers_.data(), trace);
  }

 public:
  /// One whose operands were looked up: asynchronous, or one that does more than read, write and
  /// update, or names parts of buffers, or is of a body. In a child domain tasks that accumulate
  /// are in order.
  [[gnu::noinline]] std::uint64_t submit_unusual(Task<DataHandle> const& task,
                                                 std::span<Use<support::Buffer*> const> uses,
                                                 void* const* pointers,
                                                 typename Policy::Trace::Submission& trace) {
    Groups const groups = support::groups_of(uses, domain_.is_root());
    if (groups == Groups::claimed) machine_.claims.prepare(uses);
    if (machine_.ends_later(*task.codelet, uses))
      return submit_pending(task, uses, pointers,
                            [=](Pending<Policy>& pending) { pending.groups = groups; });
    bool const parts = support::names_parts(uses);
    auto const [level, worker] = place(task.hints, task);
    std::size_t const bytes = Payload::block_bytes(uses.size(), task.arguments.size());
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    wiring_.collect(uses, groups, parts);
    trace.reached(SubmitStep::lookup);
    std::byte* const block = bytes == 0 ? nullptr : take_block(bytes);
    bool const claims = groups == Groups::claimed;
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    Hot& slot = fill(task, uses, pointers, {level, worker}, block,
                     claims ? SlotKind::claiming : SlotKind::task, [](std::size_t) {});
    if (claims) slot.runs_as = SlotKind::task;
    wiring_.note(uses, reference_to(ticket), ticket, groups, parts);
    trace.reached(SubmitStep::payload);
    wiring_.publish(slot);
    trace.ended(sequence, task.codelet, in_use());
    return sequence;
  }

 private:
  /// Any other, in one function: no part of it may cost a call.
  [[gnu::always_inline]] std::uint64_t submit_usual(Task<DataHandle> const& task,
                                                    std::span<Use<support::Buffer*> const> uses,
                                                    void* const* pointers,
                                                    BufferUsers* const* users, bool crowded,
                                                    typename Policy::Trace::Submission& trace) {
    Placement const placement = place(task.hints, task);
    std::size_t const bytes = Payload::block_bytes(uses.size(), task.arguments.size());
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    wiring_.collect_usual(uses, users, crowded);
    trace.reached(SubmitStep::lookup);
    std::byte* const block = bytes == 0 ? nullptr : take_block(bytes);
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    Reference const self = reference_to(ticket);
    Hot& slot = fill(task, uses, pointers, placement, block, SlotKind::task, [&](std::size_t i) {
      Wiring<Policy>::note_usual(uses[i], *users[i], self, ticket);
    });
    trace.reached(SubmitStep::payload);
    wiring_.publish(slot);
    trace.ended(sequence, task.codelet, in_use());
    return sequence;
  }

  /// Opens the next slot and writes the task there, or in `block`. Calls each(i) for each operand.
  template <class Each>
  [[gnu::always_inline]] Hot& fill(Task<DataHandle> const& task,
                                   std::span<Use<support::Buffer*> const> uses,
                                   void* const* pointers, Placement placement, std::byte* block,
                                   SlotKind kind, Each&& each) {
    Hot& slot = domain_.window.open(kind, placement.level, placement.worker, 1);
    ColdSlot& cold = domain_.window.cold(slot.id);
    cold.work = task.codelet;
    cold.tensor = task.label.tensor;
    slot.spilled = block != nullptr;
    if (block == nullptr) [[likely]] {
      slot.operands = static_cast<std::uint8_t>(uses.size());
      slot.argument_bytes = static_cast<std::uint8_t>(Payload::padded(task.arguments.size()));
      Payload::put(cold, task.arguments, uses, pointers, task.label.tile, each);
    } else {
      Payload::put_block(cold, block, task.arguments, uses, pointers, task.label.tile);
      for (std::size_t i = 0; i < uses.size(); ++i) each(i);
    }
    return slot;
  }

 public:
  /// A task that ends after its body has returned, likewise; fill(pending) adds to it.
  template <class Fill>
  std::uint64_t submit_pending(Task<DataHandle> const& task,
                               std::span<Use<support::Buffer*> const> uses, void* const* pointers,
                               Fill fill) {
    Pending<Policy>& pending = domain_.pending.take();
    try {
      pending.uses.assign(uses);
      pending.pointers.assign(std::span(pointers, uses.size()));
      pending.arguments.assign(task.arguments);
      pending.body = {
          task.codelet, 0, pending.uses, pending.pointers.data(), pending.arguments.data(),
          task.label};
      fill(pending);
      return submit_pending(pending, task.hints);
    } catch (...) {
      domain_.pending.give_back(pending);
      throw;
    }
  }

  /// Slots that are not free yet.
  std::uint64_t in_use() const { return domain_.window.head() - domain_.window.watermark(); }

  /// The queue of a task with these hints, prepared. Throws ValueError for a kind of workers of
  /// which there is none.
  template <class Named>
  [[gnu::always_inline]] Placement place(Hints const& hints, Named const& task) {
    if (hints.priority == 0 && hints.worker == -1) [[likely]]
      return {normal_level, -1};
    Placement const result{level_of(hints.priority), worker_of(hints, task.codelet)};
    machine_.scheduler.prepare(result.level, result.worker);
    return result;
  }
  [[gnu::noinline]] std::int16_t worker_of(Hints const& hints, Codelet const* codelet) const {
    if (hints.worker > any_of(WorkerKind::cpu)) {
      bool const known = static_cast<std::uint32_t>(hints.worker) < machine_.scheduler.workers();
      return static_cast<std::int16_t>(known ? hints.worker : -1);
    }
    std::int16_t const worker = machine_.kinds.place(hints.worker, codelet->name);
    if (worker != -1 && !domain_.is_root() && worker != domain_.outer_worker)
      throw ValueError(concat("submit: '", codelet->name,
                              "' names a kind of workers inside another task, whose body must be "
                              "able to run it while it waits: name it for the outer task, too"));
    return worker;
  }

  /// Room for a payload. Comes after `collect`, whose joins would take the slot that it is for.
  std::byte* take_block(std::size_t bytes) {
    std::byte* block = nullptr;
    driver_.block_until(
        [&] {
          driver_.reclaim().collect();
          block = driver_.reclaim().take(bytes);
          return block != nullptr;
        },
        [this] { return driver_.oldest(); });
    return block;
  }

  Machine<Policy>& machine_;
  Domain<Policy>& domain_;
  Driver<Policy>& driver_;
  Wiring<Policy> wiring_;
  DynamicArray<Use<support::Buffer*>> uses_;
  DynamicArray<void*> pointers_;
};

}  // namespace nntile::detail::ring
