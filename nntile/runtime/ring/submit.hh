#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Submission of tasks into slots.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/ring/wiring.hh"

namespace nntile::detail::ring {

/// The submitter of one domain.
template <class Policy> class Submitter {
  using Hot = HotSlot<Policy>;
  using Groups = support::Groups;

 public:
  Submitter(Domain<Policy>& domain, Driver<Policy>& driver)
      : machine_(domain.machine), domain_(domain), driver_(driver), wiring_(domain, driver) {}

  Wiring<Policy> const& wiring() const { return wiring_; }

  /// Submits a task and returns its sequence. Throws what BufferTable::bind does, and
  /// std::bad_alloc; nothing is submitted then.
  std::uint64_t submit(Task<DataHandle> const& task) {
    std::size_t const count = task.uses.size();
    Use<support::Buffer*> few[usual_operands];
    void* few_pointers[usual_operands];
    if (count <= usual_operands) [[likely]]
      return submit(task, {few, count}, few_pointers);
    uses_.resize(count);
    pointers_.resize(count);
    return submit(task, uses_, pointers_.data());
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

  std::uint64_t submit(Task<DataHandle> const& task, std::span<Use<support::Buffer*>> uses,
                       void** pointers) {
    typename Policy::Trace::Submission trace(machine_.trace);
    if (!machine_.table.bind(task, uses.data(), pointers)) [[unlikely]]
      return submit_unusual(task, uses, pointers, trace);
    return submit_plain(task, uses, pointers, Groups::none, false, trace);
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
    if (task.codelet->cpu == nullptr)
      return submit_pending(task, uses, pointers,
                            [=](Pending<Policy>& pending) { pending.groups = groups; });
    return submit_plain(task, uses, pointers, groups, support::names_parts(uses), trace);
  }

 private:
  /// Inlined, as are its parts: the rare case must not cost the usual one calls.
  [[gnu::always_inline]] std::uint64_t submit_plain(Task<DataHandle> const& task,
                                                    std::span<Use<support::Buffer*> const> uses,
                                                    void* const* pointers, Groups groups,
                                                    bool parts,
                                                    typename Policy::Trace::Submission& trace) {
    auto const [level, worker] = place(task.hints, task);
    std::size_t const bytes = Payload::block_bytes(uses.size(), task.arguments.size());
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    wiring_.collect(uses, groups, parts);
    trace.reached(SubmitStep::lookup);
    std::byte* const block = bytes == 0 ? nullptr : take_block(bytes);
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    bool const accumulates = groups == Groups::claimed;
    Hot& slot =
        domain_.window.open(accumulates ? SlotKind::claiming : SlotKind::task, level, worker, 1);
    if (accumulates) slot.runs_as = SlotKind::task;
    ColdSlot& cold = domain_.window.cold(slot.id);
    cold.work = task.codelet;
    cold.tensor = task.label.tensor;
    slot.spilled = block != nullptr;
    if (block == nullptr) {
      slot.operands = static_cast<std::uint8_t>(uses.size());
      slot.argument_bytes = static_cast<std::uint8_t>(Payload::padded(task.arguments.size()));
      Payload::put(cold, task.arguments, uses, pointers, task.label.tile);
    } else {
      Payload::put_block(cold, block, task.arguments, uses, pointers, task.label.tile);
    }
    wiring_.note(uses, reference_to(ticket), ticket, groups, parts);
    trace.reached(SubmitStep::payload);
    wiring_.publish(slot);
    trace.ended(sequence, task.codelet, in_use());
    return sequence;
  }

 public:
  /// A task that ends after its body has returned, likewise; fill(pending) adds to it.
  template <class Fill>
  std::uint64_t submit_pending(Task<DataHandle> const& task,
                               std::span<Use<support::Buffer*> const> uses, void* const* pointers,
                               Fill fill) {
    Pending<Policy>& pending = domain_.pending.take();
    try {
      pending.uses.assign(uses.begin(), uses.end());
      pending.pointers.assign(pointers, pointers + uses.size());
      pending.arguments.assign(task.arguments.begin(), task.arguments.end());
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
    if (worker != -1 && !domain_.is_root())
      throw ValueError(concat("submit: '", codelet->name,
                              "' names a kind of workers inside another task, whose body must be "
                              "able to run it while it waits: name it for the outer task"));
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
  std::vector<Use<support::Buffer*>> uses_;
  std::vector<void*> pointers_;
};

}  // namespace nntile::detail::ring
