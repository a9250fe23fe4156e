#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The heaps of a task that submits.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "nntile/runtime/ring/allocate.hh"
#include "nntile/runtime/ring/driver.hh"
#include "nntile/runtime/support/nested_buffers.hh"

namespace nntile::detail::ring {

/// One heap a lifetime, from the first scope of it that the body opens. Records are the body's own,
/// memory is the machine's pieces, which go back when the tasks of the body have ended: so a body
/// waits for its own tasks alone, and the verdict on a stall is its domain's.
template <class Policy> class NestHeaps : HeapCalls<Policy, NestHeaps<Policy>> {
  using Calls = HeapCalls<Policy, NestHeaps>;
  friend Calls;
  using Calls::domain_;
  using Calls::driver_;
  using typename Calls::Ended;

 public:
  NestHeaps(Domain<Policy>& domain, Driver<Policy>& driver, support::NestedBuffers& buffers)
      : Calls(domain, driver), source_{domain.machine, driver.reclaim(), buffers} {}
  ~NestHeaps() { end(); }

  /// For a scope that has been opened. Throws OutOfMemory, std::bad_alloc.
  void prepare(Lifetime lifetime) {
    std::optional<Heap>& heap = heaps_[index_of(lifetime)];
    if (heap) return;
    HeapCapacity const& wanted = domain_.machine.body_heaps;
    bool const grows = wanted.on_full == OnFull::grow;
    std::size_t const first = wanted.bytes != 0 ? wanted.bytes : Policy::Sizes::child_heap_bytes;
    heap.emplace(lifetime, HeapCapacity{grows ? 0 : first, wanted.on_full}, first, first_records,
                 source_);
    any_ = true;
  }
  void open_scope(support::Scope& scope) noexcept {
    scope.first = heaps_[index_of(scope.lifetime)]->open_scope();
  }
  /// For one that is to close, while something is locked. Throws LifetimeError.
  void check_close(support::Scope const& scope) const {
    heaps_[index_of(scope.lifetime)]->each(scope.first, [](support::Buffer const& buffer) {
      support::NestedBuffers::check_close(buffer);
    });
  }
  void close_scope(support::Scope const& scope) noexcept {
    heaps_[index_of(scope.lifetime)]->close_scope(
        scope.first, Ended{driver_.reclaim()},
        [&](support::Buffer& buffer) { source_.buffers.end_lent(buffer); });
  }

  /// `bytes` are not 0, and a scope of that lifetime is open. Throws OutOfMemory, DeadlockError.
  support::Buffer& allocate(std::size_t bytes, Lifetime lifetime) {
    Heap& heap = *heaps_[index_of(lifetime)];
    if (support::Buffer* const buffer = heap.take(bytes)) return *buffer;
    if (support::Buffer* const buffer = this->take_again(heap, bytes)) return *buffer;
    return this->take_when_there_is_room(heap, bytes, [] {});
  }
  /// For a buffer whose handle has become void; false if it is no heap's.
  static bool end(support::Buffer& buffer) noexcept {
    if (buffer.native == nullptr) return false;
    static_cast<Heap*>(buffer.native)->end(buffer);
    return true;
  }
  /// Gives all memory back: the body has returned, and its tasks have ended.
  void end() noexcept {
    if (!any_) return;
    any_ = false;
    for (std::optional<Heap>& heap : heaps_) {
      if (!heap) continue;
      if (heap->waits() != 0) domain_.machine.pieces.count_waits(heap->waits());
      heap->give_memory_back(source_);
      heap.reset();
    }
  }

 private:
  struct Source {
    Machine<Policy>& machine;
    Reclaim<Policy>& reclaim;
    support::NestedBuffers& buffers;
    support::Buffer& lend() {
      reclaim.prepare_few(buffers.count() + 1);
      support::Buffer& buffer = buffers.lend();
      reclaim.users(buffer) = BufferUsers{};
      return buffer;
    }
    void give_back(support::Buffer& buffer) noexcept { buffers.give_back(buffer); }
    std::byte* take_memory(std::size_t bytes) { return machine.pieces.take(bytes); }
    void give_memory(std::byte* memory, std::size_t bytes) noexcept {
      machine.pieces.give_back(memory, bytes);
    }
  };
  static constexpr std::uint32_t first_records = 4;

  static constexpr bool grows_records = true;
  static constexpr char const* whole = "every task of its body has ended, and ";
  static constexpr char const* option = " (RingCapacities::bodies)";
  std::string place() const { return concat(" inside ", source_.buffers.parent()); }
  Source& source() { return source_; }
  support::Scopes const& scopes() const { return source_.buffers.scopes(); }
  static std::string name(support::Buffer const& buffer) {
    return support::NestedBuffers::describe(buffer);
  }
  static constexpr int index_of(Lifetime lifetime) { return static_cast<int>(lifetime) - 1; }

  Source source_;
  std::optional<Heap> heaps_[4];
  bool any_ = false;
};

}  // namespace nntile::detail::ring
