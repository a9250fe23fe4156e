#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Submission of tasks into slots.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/wiring.hh"

namespace nntile::detail::ring {

/// The submitter of one domain.
template <class Policy> class Submitter {
  using Hot = HotSlot<Policy>;

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

  /// Submits a task that submits, which start() will run. Throws what BufferTable::bind does.
  std::uint64_t submit_nesting(NestingTask<DataHandle>&& task,
                               decltype(Pending<Policy>::start) start) {
    uses_.resize(task.uses.size());
    pointers_.resize(task.uses.size());
    machine_.table.bind({&support::nesting_codelet, task.uses, {}, task.hints, task.label},
                        uses_.data(), pointers_.data());
    return submit_nesting(std::move(task), uses_, pointers_.data(), start);
  }

  /// Submits a pending task, whose body is filled in. Returns the first of its sequences.
  std::uint64_t submit_pending(Pending<Policy>& pending, Hints const& hints,
                               std::uint64_t sequences = 1) {
    typename Policy::Trace::Submission trace(machine_.trace);
    auto const [level, worker] = place(hints);
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    wiring_.collect(pending.body.uses, pending.accumulates);
    trace.reached(SubmitStep::lookup);
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    Hot& slot = domain_.window.open(pending.accumulates ? SlotKind::claiming : SlotKind::pending,
                                    level, worker, sequences);
    slot.runs_as = SlotKind::pending;
    domain_.window.cold(slot.id).work = &pending;
    pending.domain = &domain_;
    pending.body.sequence = sequence;
    if (pending.flight != nullptr) pending.flight->begin(pending, sequence);
    domain_.pending.open(pending, sequence);
    wiring_.note(pending.body.uses, reference_to_pending(pending.index), ticket,
                 pending.accumulates);
    for (Use<support::Buffer*> const& use : pending.body.uses)
      ++driver_.reclaim().users(*use.handle).pending_count;
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
    return submit_plain(task, uses, pointers, false, trace);
  }

 public:
  /// One whose operands were looked up: asynchronous, or it accumulates, or it is of a body. In a
  /// child domain tasks that accumulate are in order, as those that submit are everywhere.
  [[gnu::noinline]] std::uint64_t submit_unusual(Task<DataHandle> const& task,
                                                 std::span<Use<support::Buffer*> const> uses,
                                                 void* const* pointers,
                                                 typename Policy::Trace::Submission& trace) {
    bool const accumulates = domain_.is_root() && support::accumulates(uses);
    if (accumulates) machine_.claims.prepare(uses);
    if (task.codelet->cpu == nullptr) return submit_asynchronous(task, uses, pointers, accumulates);
    return submit_plain(task, uses, pointers, accumulates, trace);
  }

 private:
  /// Inlined, as are its parts: the rare case must not cost the usual one calls.
  [[gnu::always_inline]] std::uint64_t submit_plain(Task<DataHandle> const& task,
                                                    std::span<Use<support::Buffer*> const> uses,
                                                    void* const* pointers, bool accumulates,
                                                    typename Policy::Trace::Submission& trace) {
    auto const [level, worker] = place(task.hints);
    std::size_t const bytes = Payload::block_bytes(uses.size(), task.arguments.size());
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    wiring_.collect(uses, accumulates);
    trace.reached(SubmitStep::lookup);
    std::byte* const block = bytes == 0 ? nullptr : take_block(bytes);
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
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
    wiring_.note(uses, reference_to(ticket), ticket, accumulates);
    trace.reached(SubmitStep::payload);
    wiring_.publish(slot);
    trace.ended(sequence, task.codelet, in_use());
    return sequence;
  }

 public:
  /// A task that submits, likewise; start() will run it.
  std::uint64_t submit_nesting(NestingTask<DataHandle>&& task,
                               std::span<Use<support::Buffer*> const> uses, void* const* pointers,
                               decltype(Pending<Policy>::start) start) {
    Pending<Policy>& pending = domain_.pending.take();
    try {
      pending.accumulates = false;
      pending.handles.clear();
      for (Use<DataHandle> const& use : task.uses) pending.handles.push_back(use.handle);
      pending.uses.assign(uses.begin(), uses.end());
      pending.pointers.assign(pointers, pointers + uses.size());
      pending.body = {&support::nesting_codelet, 0,       pending.uses,
                      pending.pointers.data(),   nullptr, task.label};
      pending.submits = std::move(task.body);
      pending.start = start;
      return submit_pending(pending, task.hints);
    } catch (...) {
      domain_.pending.give_back(pending);
      throw;
    }
  }

 private:
  std::uint64_t submit_asynchronous(Task<DataHandle> const& task,
                                    std::span<Use<support::Buffer*> const> uses,
                                    void* const* pointers, bool accumulates) {
    Pending<Policy>& pending = domain_.pending.take();
    try {
      pending.accumulates = accumulates;
      pending.uses.assign(uses.begin(), uses.end());
      pending.pointers.assign(pointers, pointers + uses.size());
      pending.arguments.assign(task.arguments.begin(), task.arguments.end());
      pending.body = {
          task.codelet, 0, pending.uses, pending.pointers.data(), pending.arguments.data(),
          task.label};
      return submit_pending(pending, task.hints);
    } catch (...) {
      domain_.pending.give_back(pending);
      throw;
    }
  }

  /// Slots that are not free yet.
  std::uint64_t in_use() const { return domain_.window.head() - domain_.window.watermark(); }

  /// The queue of a task with these hints, prepared.
  [[gnu::always_inline]] Placement place(Hints const& hints) {
    if (hints.priority == 0 && hints.worker < 0) [[likely]]
      return {normal_level, -1};
    bool const known = hints.worker >= 0 &&
                       static_cast<std::uint32_t>(hints.worker) < machine_.scheduler.workers();
    Placement const result{level_of(hints.priority),
                           static_cast<std::int16_t>(known ? hints.worker : -1)};
    machine_.scheduler.prepare(result.level, result.worker);
    return result;
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
