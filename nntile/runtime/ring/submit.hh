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
    wiring_.prepare(Payload::inline_operands);
  }

  Wiring<Policy> const& wiring() const { return wiring_; }
  /// Tasks of another submission come next.
  void restart() { wiring_.restart(); }
  /// Goes on in the slots of another domain, as Domain's.
  void borrow(Domain<Policy>& other) { wiring_.borrow(other); }

  /// Makes room for tasks of `operands` operands. Throws std::bad_alloc.
  void reserve(std::size_t operands) {
    wiring_.reserve(operands);
    uses_.reserve(operands);
    pointers_.reserve(operands);
  }
  /// Times that memory was taken for the operands of a task.
  std::uint64_t growths() const { return growths_ + wiring_.growths(); }

  /// Submits a task and returns its sequence. Throws what BufferTable::bind does, and
  /// std::bad_alloc; nothing is submitted then.
  ///
  /// The common case is in one function: one look at each operand, which goes into the next slot
  /// before that is opened, and then one note of it. Whatever else there is, is found before
  /// anything has changed, and left to `submit_any`.
  [[gnu::noinline]] std::uint64_t submit(Task<DataHandle> const& task) {
    typename Policy::Trace::Submission trace(machine_.trace);
    auto const operands = task.uses;  // not read again behind each of the stores
    std::size_t const arguments = Payload::padded(task.arguments.size());
    if (!support::BufferTable::is_usual(task.codelet) || has_hints(task.hints) ||
        !Payload::fits(operands.size(), arguments)) [[unlikely]]
      return submit_any(task, trace);
    bool const has_room = wiring_.has_room();
    if (!has_room && !make_room_for(operands, trace)) [[unlikely]]
      return submit_any(task, trace);
    std::uint64_t const ticket = domain_.window.head();
    auto& cold = domain_.window.cold(static_cast<std::uint32_t>(ticket));
    auto const payload = Payload::place(cold, arguments, operands.size());
    auto const usual = machine_.table.usual_operands();
    typename Wiring<Policy>::Usual wiring(wiring_);
    support::Buffer* buffers[Payload::inline_operands];
    BufferUsers* users[Payload::inline_operands];
    for (std::size_t i = 0; i < operands.size(); ++i) {
      buffers[i] = usual(operands[i]);
      if (buffers[i] == nullptr) [[unlikely]]
        return submit_any(task, trace);
      users[i] = &driver_.reclaim().users_of(operands[i].handle.index);
      payload.put(i, *buffers[i], operands[i].access);
      if (!wiring.add(operands[i].access, *users[i])) [[unlikely]]
        return submit_any(task, trace);
    }
    if (has_room) trace.reached(SubmitStep::bind), trace.reached(SubmitStep::room);
    if (!wiring.keep_open()) [[unlikely]]
      return submit_any(task, trace);
    trace.reached(SubmitStep::lookup);
    std::uint64_t const sequence = domain_.window.next_sequence();
    Hot& slot = domain_.window.open(SlotKind::task, normal_level, -1, 1);
    slot.spilled = false;
    slot.operands = static_cast<std::uint8_t>(operands.size());
    slot.argument_bytes = static_cast<std::uint8_t>(arguments);
    cold.work = task.codelet;
    cold.tensor = task.label.tensor;
    payload.end(cold, task.arguments, task.label.tile);
    for (std::size_t i = 0; i < operands.size(); ++i)
      Wiring<Policy>::note_usual(operands[i].access, *buffers[i], *users[i], reference_to(ticket),
                                 ticket);
    trace.reached(SubmitStep::payload);
    wiring_.publish_usual(slot);
    trace.ended(sequence, task.codelet, in_use());
    return sequence;
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
    if constexpr (Policy::Device::exists) {
      bool const on_device = pending.start == nullptr && pending.flight == nullptr;
      pending.stream = on_device ? machine_.devices.stream_of(*pending.body.codelet, pending.uses)
                                 : Stream{-1, 0};
    }
    typename Wiring<Policy>::Following const following(wiring_, pending.stream);
    wiring_.collect(pending.body.uses, pending.groups, parts);
    trace.reached(SubmitStep::lookup);
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    Hot& slot = domain_.window.open(pending.claims() ? SlotKind::claiming : SlotKind::pending,
                                    level, worker, sequences);
    slot.runs_as = SlotKind::pending;
    domain_.window.cold(slot.id).work = &pending;
    pending.domain = &domain_;
    pending.ticket = ticket;
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
  struct Placement {
    std::uint8_t level;
    std::int16_t worker;
  };

  void make_operands_room(std::size_t count) {
    if (uses_.capacity() < count) ++growths_;
    uses_.resize(count);
    pointers_.resize(count);
  }
  /// As BufferTable::bind where all is usual, with the users of each operand; else false.
  bool find_usual(Task<DataHandle> const& task) {
    if (!support::BufferTable::is_usual(task.codelet)) return false;
    auto const usual = machine_.table.usual_operands();
    auto const operands = task.uses;
    Use<support::Buffer*>* const uses = uses_.data();
    void** const pointers = pointers_.data();
    BufferUsers** const users = wiring_.prepare_users(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      support::Buffer* const buffer = usual(operands[i]);
      if (buffer == nullptr) [[unlikely]]
        return false;
      users[i] = &driver_.reclaim().users_of(operands[i].handle.index);
      uses[i] = {buffer, operands[i].access};
      pointers[i] = buffer->pointer;
    }
    return true;
  }

  [[gnu::noinline]] std::uint64_t submit_any(Task<DataHandle> const& task,
                                             typename Policy::Trace::Submission& trace) {
    make_operands_room(task.uses.size());
    if (find_usual(task))
      return submit_bound(task, uses_, pointers_.data(), Groups::none, false, true, trace);
    auto const [uses, pointers] = bind(task);
    return submit_unusual(task, uses, pointers, trace);
  }

 public:
  /// Operands that were looked up, until the next task.
  struct Bound {
    std::span<Use<support::Buffer*> const> uses;
    void* const* pointers;
  };
  /// Looks up those of a task of the root. Throws what BufferTable::bind does, std::bad_alloc.
  Bound bind(Task<DataHandle> const& task) {
    make_operands_room(task.uses.size());
    (void)machine_.table.bind(task, uses_.data(), pointers_.data());
    return {uses_, pointers_.data()};
  }
  /// A free pending task with room for `operands` and `argument_bytes`. Throws std::bad_alloc.
  Pending<Policy>& take_pending(std::size_t operands, std::size_t argument_bytes) {
    if (!domain_.pending.has_free()) driver_.reclaim().collect();
    return domain_.pending.take(operands, argument_bytes);
  }

  /// Makes room for a task whose operands are usual; false, without waiting for any, where they are
  /// not, as that may be an error.
  [[gnu::noinline]] bool make_room_for(std::span<Use<DataHandle> const> operands,
                                       typename Policy::Trace::Submission& trace) {
    auto const usual = machine_.table.usual_operands();
    for (Use<DataHandle> const& use : operands)
      if (usual(use) == nullptr) return false;
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    return true;
  }

  /// One whose operands were looked up: asynchronous, or one that does more than read, write and
  /// update, or names parts of buffers, or is of a body. In a child domain tasks that accumulate
  /// are in order.
  [[gnu::noinline]] std::uint64_t submit_unusual(Task<DataHandle> const& task,
                                                 std::span<Use<support::Buffer*> const> uses,
                                                 void* const* pointers,
                                                 typename Policy::Trace::Submission& trace) {
    Groups const groups = support::groups_of(uses, domain_.is_root());
    if (groups == Groups::claimed) machine_.claims.prepare(uses);
    if constexpr (Wiring<Policy>::runs_ahead)
      if (machine_.devices.own(uses)) driver_.wait_for_devices();
    if (machine_.ends_later(*task.codelet, uses))
      return submit_pending(task, uses, pointers,
                            [=](Pending<Policy>& pending) { pending.groups = groups; });
    return submit_bound(task, uses, pointers, groups, support::names_parts(uses), false, trace);
  }

 private:
  /// The same for one that ends with its body: of any number of operands that only read, write and
  /// update buffers as a whole where there are no groups and no parts. `found`: `wiring_` has their
  /// users.
  [[gnu::always_inline]] std::uint64_t submit_bound(Task<DataHandle> const& task,
                                                    std::span<Use<support::Buffer*> const> uses,
                                                    void* const* pointers, Groups groups,
                                                    bool parts, bool found,
                                                    typename Policy::Trace::Submission& trace) {
    auto const [level, worker] = place(task.hints, task);
    std::size_t const bytes = Payload::block_bytes(uses.size(), task.arguments.size());
    trace.reached(SubmitStep::bind);
    wiring_.make_room();
    trace.reached(SubmitStep::room);
    if (found)
      wiring_.collect_found(uses, groups, parts);
    else
      wiring_.collect(uses, groups, parts);
    trace.reached(SubmitStep::lookup);
    std::byte* const block = bytes == 0 ? nullptr : take_block(bytes);
    bool const claims = groups == Groups::claimed;
    std::uint64_t const ticket = domain_.window.head(), sequence = domain_.window.next_sequence();
    Hot& slot = fill(task, uses, pointers, {level, worker}, block,
                     claims ? SlotKind::claiming : SlotKind::task);
    if (claims) slot.runs_as = SlotKind::task;
    wiring_.note(uses, reference_to(ticket), ticket, groups, parts);
    trace.reached(SubmitStep::payload);
    wiring_.publish(slot);
    trace.ended(sequence, task.codelet, in_use());
    return sequence;
  }

  /// Opens the next slot and writes the task there, or in `block`.
  Hot& fill(Task<DataHandle> const& task, std::span<Use<support::Buffer*> const> uses,
            void* const* pointers, Placement placement, std::byte* block, SlotKind kind) {
    Hot& slot = domain_.window.open(kind, placement.level, placement.worker, 1);
    ColdSlot& cold = domain_.window.cold(slot.id);
    cold.work = task.codelet;
    cold.tensor = task.label.tensor;
    slot.spilled = block != nullptr;
    if (block == nullptr) [[likely]] {
      std::size_t const arguments = Payload::padded(task.arguments.size());
      slot.operands = static_cast<std::uint8_t>(uses.size());
      slot.argument_bytes = static_cast<std::uint8_t>(arguments);
      // g++ 12 warns of writes behind the slot where it does not know this.
      if (uses.size() > Payload::inline_operands) __builtin_unreachable();
      auto const payload = Payload::place(cold, arguments, uses.size());
      for (std::size_t i = 0; i < uses.size(); ++i)
        payload.put(i, pointers[i], *uses[i].handle, uses[i].access);
      payload.end(cold, task.arguments, task.label.tile);
    } else {
      Payload::put_block(cold, block, task.arguments, uses, pointers, task.label.tile);
    }
    return slot;
  }

 public:
  /// A task that ends after its body has returned, likewise; fill(pending) adds to it.
  template <class Fill>
  std::uint64_t submit_pending(Task<DataHandle> const& task,
                               std::span<Use<support::Buffer*> const> uses, void* const* pointers,
                               Fill fill) {
    Pending<Policy>& pending = take_pending(uses.size(), task.arguments.size());
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
      pending.submits = {};  // with what its callable has captured
      domain_.pending.give_back(pending);
      throw;
    }
  }

  /// Slots that are not free yet.
  std::uint64_t in_use() const { return domain_.window.head() - domain_.window.watermark(); }

  static bool has_hints(Hints const& hints) { return hints.priority != 0 || hints.worker != -1; }
  /// The queue of a task with these hints, prepared. Throws ValueError for a kind of workers of
  /// which there is none.
  template <class Named>
  [[gnu::always_inline]] Placement place(Hints const& hints, Named const& task) {
    if (!has_hints(hints)) [[likely]]
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
  std::uint64_t growths_ = 0;
};

}  // namespace nntile::detail::ring
