#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reclamation of buffers and arguments when the watermark passes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "nntile/runtime/ring/machine.hh"
#include "nntile/runtime/support/aligned.hh"

namespace nntile::detail::ring {

/// Lifetimes of one ring's buffers and arguments. Submitter only.
///
/// Law: a buffer is reclaimed once its handle is retired, the watermark is past its last task, and
/// no pending task names it; one of a heap, when those before it in the heap are.
template <class Policy> class Reclaim {
 public:
  explicit Reclaim(Domain<Policy>& domain)
      : machine_(domain.machine),
        domain_(domain),
        own_claims_(std::make_unique<Claim[]>(domain.window.size())),
        own_claimed_(std::make_unique<bool[]>(domain.window.size())),
        claims_(own_claims_.get()),
        claimed_(own_claimed_.get()),
        own_arguments_(domain.is_root() ? Policy::Sizes::argument_bytes
                                        : argument_bytes_a_slot * domain.window.size()),
        arguments_(&own_arguments_),
        swept_(domain.window.head()) {}

  BufferUsers& users(support::Buffer const& buffer) { return users_[buffer.index]; }
  /// The same for the buffer of a valid handle.
  BufferUsers& users_of(std::uint32_t index) { return users_[index]; }

  /// Makes room for the users of a buffer that another domain's `begin` has made; nothing for a
  /// handle that was never given. Throws std::bad_alloc.
  void prepare(DataHandle handle) {
    if (handle.index < machine_.table.count()) users_.prepare(handle.index);
  }
  /// Makes records and users for `buffers` more, before these are allocated. Throws OutOfMemory,
  /// std::bad_alloc.
  void reserve(std::uint32_t buffers) {
    machine_.table.reserve(buffers);
    for (std::uint32_t index = 0; index < machine_.table.count(); ++index) users_.prepare(index);
  }
  /// Takes the memory for arguments, which the first task that needs some does otherwise. Throws
  /// std::bad_alloc.
  void reserve_arguments() { arguments_->make(); }
  bool has_arguments() const { return arguments_->is_made(); }
  /// Lends a record to a heap, without users. Throws OutOfMemory, std::bad_alloc.
  support::Buffer& lend() {
    users_.prepare(machine_.table.count());
    support::Buffer& buffer = machine_.table.lend();
    users_[buffer.index] = BufferUsers{};
    return buffer;
  }
  void give_back(support::Buffer& record) noexcept { machine_.table.give_back(record); }
  /// Memory of a heap. Throws OutOfMemory.
  static std::byte* take_memory(std::size_t bytes) {
    return static_cast<std::byte*>(support::allocate_aligned(bytes));
  }
  static void give_memory(std::byte* memory, std::size_t) noexcept {
    support::free_aligned(memory);
  }
  /// Makes room for the users of `count` buffers of a domain that has few. Throws std::bad_alloc.
  void prepare_few(std::uint32_t count) { users_.prepare_few(count); }
  /// The same for `count` buffers that no task has named: their users are none.
  void clear_few(std::uint32_t count) {
    users_.prepare_few(count);
    for (std::uint32_t i = 0; i < count; ++i) users_[i] = BufferUsers{};
  }
  /// From here on its buffers are those of a task that submits, which free_one(buffers, buffer)
  /// frees. All its tasks have ended.
  void restart(void* buffers, void (*free_one)(void*, support::Buffer&)) {
    buffers_ = buffers;
    free_one_ = free_one;
    swept_ = domain_.window.head();
  }
  /// Goes on with what a larger window's Reclaim has for its slots, as the window does: `slots`
  /// were its own.
  void grow(std::uint32_t slots, Reclaim& larger) {
    claims_ = larger.own_claims_.get();
    claimed_ = larger.own_claimed_.get();
    for (std::uint64_t t = domain_.window.watermark(); t < domain_.window.head(); ++t) {
      std::uint64_t const slot = t & (slots - 1);
      if (!std::exchange(own_claimed_[slot], false)) continue;
      Claim& claim = claim_at(t) = std::exchange(own_claims_[slot], Claim{});
      claim.arguments_end = 0;  // `shrink` takes its arguments back
    }
    arguments_ = &larger.own_arguments_;
  }
  /// Goes back to its own. All its tasks have ended and are taken back.
  void shrink() {
    claims_ = own_claims_.get();
    claimed_ = own_claimed_.get();
    arguments_ = &own_arguments_;
    own_arguments_.take_back_to(own_arguments_.position());
  }
  /// Clears the users of the buffer whose handle make() returns.
  template <class Make> DataHandle begin(Make make) {
    users_.prepare(machine_.table.count());
    DataHandle const handle = make();
    users_[handle.index] = BufferUsers{};
    return handle;
  }

  /// Notes a pending task that names it, before `forget` does the opposite.
  void hold(support::Buffer& buffer) {
    ++users(buffer).pending_count;
    if (buffer.is(support::Buffer::region)) [[unlikely]]
      ++users(support::whole_of(buffer)).pending_count;
  }
  /// Whether all tasks that name the record itself have ended.
  bool is_unused(support::Buffer const& buffer) {
    return buffer.last_use < watermark() && users(buffer).pending_count == 0;
  }

  /// Gives the buffer of a retired handle back as soon as nothing uses it.
  void retire(support::Buffer& buffer) {
    users(buffer).retired = true;
    if (buffer.last_use < watermark()) return free_if_unused(buffer);
    Claim& claim = claim_at(static_cast<std::uint64_t>(buffer.last_use));
    buffer.next_free = claim.buffers;
    claim.buffers = &buffer;
  }

  /// Prepares the record of a heap's buffer for the next one, if the buffer has ended and nothing
  /// uses it. Only where some task has named it are there users.
  [[gnu::always_inline]] bool take_back(support::Buffer& buffer) {
    if (!buffer.is(support::Buffer::ended) || buffer.last_use >= watermark()) return false;
    if (buffer.last_use != support::Ticket{} || buffer.is(support::Buffer::divided)) {
      BufferUsers& named = users(buffer);
      if (named.pending_count != 0) return false;
      machine_.table.end_parts(buffer);
      named = BufferUsers{};
      machine_.failures.clear(buffer);
      buffer.last_use = {};
    }
    return true;
  }

  /// Room for a payload until the next task to be opened is finished. Null if there is none now,
  /// in the root's.
  std::byte* take(std::size_t bytes) {
    if (arguments_->is_large(bytes)) return take_large(bytes);
    std::byte* const block = arguments_->take(bytes);
    if (block != nullptr)
      claim_at(domain_.window.head()).arguments_end = arguments_->position();
    else if (!domain_.is_root())
      return take_large(bytes);
    return block;
  }

  /// Moves the watermark and takes back what has become free.
  void collect() {
    domain_.window.advance([this](std::uint64_t ticket) {
      std::uint32_t const slot = domain_.window.slot_of(ticket);
      if (claimed_[slot]) [[unlikely]]
        settle(slot);
    });
    domain_.pending.collect([this](Pending<Policy>& pending) { forget(pending); });
  }

  /// Forgets references that are older than the window, before their 31 bits come round again.
  void sweep_if_due() {
    std::uint64_t const head = domain_.window.head();
    if (head - swept_ < Policy::Sizes::sweep_every) return;
    swept_ = head;
    users_.sweep([this](Reference reference) {
      return is_pending(reference) || domain_.window.live(reference);
    });
  }

 private:
  struct Claim {
    support::Buffer* buffers = nullptr;  // retired ones whose last task is the slot's
    std::unique_ptr<std::byte[]> large;
    std::uint64_t arguments_end = 0;
  };

  std::byte* take_large(std::size_t bytes) {
    auto block = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return (claim_at(domain_.window.head()).large = std::move(block)).get();
  }
  Claim& claim_at(std::uint64_t ticket) {
    std::uint32_t const slot = domain_.window.slot_of(ticket);
    claimed_[slot] = true;
    return claims_[slot];
  }
  void settle(std::uint32_t slot) {
    Claim& claim = claims_[slot];
    claimed_[slot] = false;
    if (claim.arguments_end != 0) arguments_->take_back_to(claim.arguments_end);
    support::Buffer* buffer = claim.buffers;
    claim = Claim{};
    while (buffer != nullptr) {
      support::Buffer* const next = buffer->next_free;
      free_if_unused(*buffer);
      buffer = next;
    }
  }

  support::Ticket watermark() const { return support::Ticket{domain_.window.watermark()}; }

  void free_if_unused(support::Buffer& buffer) {
    if (users(buffer).pending_count == 0) free(buffer);
  }
  void free(support::Buffer& buffer) {
    if (buffers_ == nullptr) return machine_.table.reclaim(buffer);
    free_one_(buffers_, buffer);
  }

  /// Removes an ended pending task from the users of its buffers.
  void forget(Pending<Policy>& pending) {
    Reference const ended = reference_to_pending(pending.index);
    for (Use<support::Buffer*> const& use : pending.body.uses) {
      UsersTable::sweep(users(*use.handle),
                        [=](Reference reference) { return reference != ended; });
      support::Buffer& whole = support::whole_of(*use.handle);
      if (&whole != use.handle) [[unlikely]]
        --users(*use.handle).pending_count;  // the record goes with the whole
      bool const last = --users(whole).pending_count == 0;
      if (last && users(whole).retired && whole.last_use < watermark()) free(whole);
    }
    if (pending.flight != nullptr) machine_.scheduler.flights.give_back(*pending.flight);
    pending.flight = nullptr;
  }

  static constexpr std::uint64_t argument_bytes_a_slot = 256;

  Machine<Policy>& machine_;
  Domain<Policy>& domain_;
  std::unique_ptr<Claim[]> const own_claims_;
  std::unique_ptr<bool[]> const own_claimed_;
  Claim* claims_;  // a slot each, its own or a larger one's, and whether it has any:
  bool* claimed_;  // this is all that most of them are asked
  UsersTable users_;
  ArgumentRing<Policy> own_arguments_;
  ArgumentRing<Policy>* arguments_;  // as well
  std::uint64_t swept_;
  void* buffers_ = nullptr;  // of a task that submits, in its domain
  void (*free_one_)(void*, support::Buffer&) = nullptr;
};

}  // namespace nntile::detail::ring
