#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Allocation from the heaps of a domain: its memory comes back behind the watermark, and where
// there is none left, exactly one of these holds: a task's end may make room; a completion from
// outside may; nothing will.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nntile/core/call_site.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/ring/driver.hh"
#include "nntile/runtime/ring/heap.hh"
#include "nntile/runtime/support/aligned.hh"

namespace nntile::detail::ring {

/// The waits and verdicts of a domain's heaps. Its submitter's alone. Self has
///   source()      lends records and memory to heaps
///   scopes()      the open ones
///   name(buffer)  in errors
///   grows_records whether a heap that may not grow takes more records all the same
///   place, whole, option   in errors: whose heap it is, what its tasks are, where its capacity is
///                 from
///
/// Law: memory is given out again once its buffer's handle is void, the watermark is past the last
/// task that names it, and no pending task does. No verdict depends on time: DeadlockError is
/// thrown only when every task of the domain has ended, completions from outside included, so that
/// nothing but the blocked thread itself could end a buffer.
template <class Policy, class Self> class HeapCalls {
 protected:
  HeapCalls(Domain<Policy>& domain, Driver<Policy>& driver) : domain_(domain), driver_(driver) {}
  ~HeapCalls() = default;

  struct Ended {
    Reclaim<Policy>& reclaim;
    bool operator()(support::Buffer& buffer) const { return reclaim.take_back(buffer); }
  };

  support::Buffer* take_again(Heap& heap, std::size_t bytes) noexcept {
    if (!heap.any_scope()) return nullptr;
    advance(heap);
    return heap.take_if_room(bytes);
  }
  [[gnu::always_inline]] void advance(Heap& heap) {
    heap.advance(Ended{driver_.reclaim()}, self().source());
  }
  void collect(Heap& heap) {
    driver_.reclaim().collect();
    advance(heap);
  }
  /// Whether every task has ended. Submitted by this thread alone, none comes back.
  bool idle() const {
    return domain_.window.watermark() == domain_.window.head() && domain_.pending.open_count() == 0;
  }

  template <class Settle>
  [[gnu::noinline]] support::Buffer& take_when_there_is_room(Heap& heap, std::size_t bytes,
                                                             Settle settle) {
    std::size_t const room = Heap::room_for(bytes);
    bool const grows = heap.on_full() == OnFull::grow;
    if (room == 0 || (!grows && room > heap.newest().capacity())) fail_too_large(heap, bytes);
    collect(heap);
    support::Buffer* buffer = heap.take_if_room(bytes);
    if (buffer != nullptr) return *buffer;
    if (grows) {
      do {  // once for records, once for bytes
        heap.grow(room, self().source());
        buffer = heap.take_if_room(bytes);
      } while (buffer == nullptr);
      return *buffer;
    }
    if constexpr (Self::grows_records)
      if (heap.newest().records_full()) {
        heap.grow_records(self().source());
        buffer = heap.take_if_room(bytes);
        if (buffer != nullptr) return *buffer;
      }
    if (heap.on_full() == OnFull::fail) fail<OutOfMemory>(heap, bytes, "");
    heap.count_wait();
    driver_.block_until(
        [&] {
          driver_.reclaim().collect();
          bool const all_ended = idle();
          settle();
          collect(heap);  // once more: what a task held that has ended since comes back first
          buffer = heap.take_if_room(bytes);
          return buffer != nullptr || all_ended;
        },
        [&] {
          if (domain_.window.watermark() != domain_.window.head()) return driver_.oldest();
          return domain_.pending.oldest();
        });
    if (buffer == nullptr) fail_for_good(heap, bytes);
    return *buffer;
  }

  /// Totals of a chunk for an error.
  struct Census {
    std::size_t held = 0;     // bytes of all its buffers
    std::size_t ended = 0;    // of them, of buffers whose handles are void
    std::size_t largest = 0;  // of one
  };
  static Census census(HeapChunk const& chunk) {
    Census result;
    chunk.each(0, [&](support::Buffer& buffer) {
      std::size_t const room = Heap::room_for(buffer.bytes);
      result.held += room;
      if (buffer.is(support::Buffer::ended)) result.ended += room;
      if (room > result.largest) result.largest = room;
    });
    return result;
  }

  [[noreturn]] void fail_too_large(Heap const& heap, std::size_t bytes) const {
    std::size_t const room = Heap::room_for(bytes), all = support::physical_memory();
    bool const more_than_any = room == 0 || (all != 0 && room > all);
    if (more_than_any || heap.newest().capacity() == 0 || heap.on_full() == OnFull::grow)
      throw OutOfMemory(concat("allocate: cannot allocate ", bytes, " bytes (",
                               name_of(heap.lifetime()), "): use smaller tensors"));
    throw OutOfMemory(concat("allocate: ", bytes, " bytes (", name_of(heap.lifetime()),
                             ") are more than the capacity of their heap", self().place(), ", ",
                             heap.newest().capacity(), " bytes: make it ", room, " at least",
                             Self::option, ", or let it grow"));
  }

  /// With the dead bytes behind the oldest buffer there would be room, or not even with them.
  [[noreturn]] void fail_for_good(Heap const& heap, std::size_t bytes) {
    HeapChunk const& chunk = heap.newest();
    Census const found = census(chunk);
    std::string const why = Self::whole;
    bool const would_do = Heap::room_for(bytes) <= chunk.capacity() - (found.held - found.ended) &&
                          !(chunk.records_full() && found.ended == 0);
    if (would_do) fail<OutOfMemory>(heap, bytes, why);
    fail<DeadlockError>(heap, bytes, why);
  }

  template <class E>
  [[noreturn]] void fail(Heap const& heap, std::size_t bytes, std::string const& why) {
    HeapChunk const& chunk = heap.newest();
    Census const found = census(chunk);
    support::Buffer const& oldest = *chunk.oldest();
    std::size_t const room = Heap::room_for(bytes);
    // Bytes skipped at the end are fewer than those of the largest allocation.
    std::size_t const would_do = found.held + room + (room > found.largest ? room : found.largest);
    std::string text = concat("allocate: no room for ", bytes, " bytes (", name_of(heap.lifetime()),
                              ")", self().place(), ": ", why, self().name(oldest));
    if (oldest.is(support::Buffer::ended)) {
      text += " holds up the others until its tasks have ended";
    } else {
      CallSite const site = self().scopes().site_of(heap.lifetime(), chunk.oldest_position());
      text += concat(" of the scope opened at ", site.file != nullptr ? site.file : "?", ":",
                     site.line, " holds up the others until it is retired");
    }
    text += concat("; used ", chunk.used(), ", available ", chunk.available(), ", capacity ",
                   chunk.capacity(), " bytes, of which ", found.ended,
                   " belong to buffers that have ended; ");
    text += chunk.records_full()
                ? concat("all ", chunk.record_capacity(), " records are in use, ",
                         2 * chunk.record_capacity(), " would do (RingCapacities::records)")
                : concat(would_do, " bytes would do", Self::option);
    throw E(text);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  Self const& self() const { return static_cast<Self const&>(*this); }

 protected:
  Domain<Policy>& domain_;
  Driver<Policy>& driver_;
};

/// The heaps of the root. Driving thread only.
template <class Policy> class Allocator : HeapCalls<Policy, Allocator<Policy>> {
  using Calls = HeapCalls<Policy, Allocator>;
  friend Calls;
  using Calls::domain_;
  using Calls::driver_;
  using typename Calls::Ended;

 public:
  /// Throws ValueError, OutOfMemory.
  Allocator(RingCapacities const& options, Domain<Policy>& domain, Driver<Policy>& driver)
      : Calls(domain, driver),
        records_(records_of(options)),
        heaps_{make(options, Lifetime::step), make(options, Lifetime::scope),
               make(options, Lifetime::scratch), make(options, Lifetime::staging)} {
    if (options.records != 0) driver_.reclaim().reserve(records_);  // of empty buffers
  }

  /// A record with memory if some is known to be free, and a scope of that lifetime is open; null
  /// otherwise.
  [[gnu::always_inline]] support::Buffer* take(std::size_t bytes, Lifetime lifetime) noexcept {
    return heaps_[index_of(lifetime)].take(bytes);
  }
  /// The same where something may have come back.
  [[gnu::noinline]] support::Buffer* take_again(std::size_t bytes, Lifetime lifetime) noexcept {
    return Calls::take_again(heaps_[index_of(lifetime)], bytes);
  }
  /// The same if it takes more work, or waiting: then settle() ends what other threads have
  /// dropped. Throws OutOfMemory, DeadlockError, LifetimeError (no open scope of that lifetime).
  template <class Settle>
  support::Buffer& take_slowly(std::size_t bytes, Lifetime lifetime, Settle settle) {
    Heap& heap = heaps_[index_of(lifetime)];
    domain_.machine.table.check_scope(lifetime);
    if (bytes == 0) return nowhere(lifetime);
    if (support::Buffer* const buffer = Calls::take_again(heap, bytes)) return *buffer;
    return this->take_when_there_is_room(heap, bytes, settle);
  }

  /// For a scope that has been opened.
  void open_scope(support::Scope& scope) noexcept {
    scope.first = heaps_[index_of(scope.lifetime)].open_scope();
  }
  /// For one that is to close: throws LifetimeError if a buffer in it is locked.
  void check_close(support::Scope const& scope) const {
    if (!domain_.machine.table.any_locked()) return;
    heaps_[index_of(scope.lifetime)].each(
        scope.first, [](support::Buffer& buffer) { support::BufferTable::check_close(buffer); });
  }
  /// For one that closes: ends its buffers.
  void close_scope(support::Scope const& scope) noexcept {
    heaps_[index_of(scope.lifetime)].close_scope(scope.first, Ended{driver_.reclaim()});
  }
  /// For a buffer whose handle has become void; false if it is no heap's.
  static bool end(support::Buffer& buffer) noexcept {
    if (buffer.native == nullptr) return false;
    static_cast<Heap*>(buffer.native)->end(buffer);
    return true;
  }

  /// The buffer that holds a byte of a heap; null if none does.
  support::Buffer* find(void const* byte) const {
    support::Buffer* buffer = nullptr;
    for (Heap const& heap : heaps_)
      if (buffer == nullptr) buffer = heap.find(static_cast<std::byte const*>(byte));
    return buffer;
  }
  /// Throws ValueError if some of these bytes are a heap's.
  void check_adopt(std::span<std::byte const> bytes) const {
    for (Heap const& heap : heaps_)
      if (heap.overlaps(bytes.data(), bytes.size()))
        throw ValueError(concat("adopt: the ", bytes.size(), " bytes overlap the heap of lifetime ",
                                name_of(heap.lifetime()), ": name the handle that was allocated"));
  }

  HeapStats stats(Lifetime lifetime) const { return heaps_[index_of(lifetime)].stats(); }

 private:
  static constexpr bool grows_records = false;
  static constexpr char const* whole = "every task has ended, and ";
  static constexpr char const* option = " (RingCapacities)";
  static std::string place() { return {}; }
  auto& source() { return driver_.reclaim(); }
  support::Scopes const& scopes() const { return domain_.machine.table.scopes(); }
  static std::string name(support::Buffer const& buffer) { return support::describe(buffer); }

  struct alignas(support::line_bytes) Line {
    std::byte bytes[support::line_bytes];
  };

  static constexpr int index_of(Lifetime lifetime) { return static_cast<int>(lifetime) - 1; }
  static std::uint32_t records_of(RingCapacities const& options) {
    std::uint32_t const records =
        options.records != 0 ? options.records : Policy::Sizes::heap_records;
    if (records > std::uint32_t{1} << 31)
      throw ValueError(concat("ring: heaps of ", records, " records where 2^31 are possible"));
    return records;
  }
  Heap make(RingCapacities const& options, Lifetime lifetime) {
    return Heap(lifetime, options.of(lifetime), Policy::Sizes::heap_bytes, records_,
                driver_.reclaim());
  }

  /// An empty buffer takes no room and no record of a heap: it holds up no other.
  support::Buffer& nowhere(Lifetime lifetime) {
    DataHandle const handle = driver_.reclaim().begin(
        [&] { return domain_.machine.table.add_without_storage(0, host, lifetime); });
    support::Buffer& buffer = domain_.machine.table[handle.index];
    buffer.pointer = &line_;
    return buffer;
  }

  std::uint32_t const records_;
  Heap heaps_[4];
  Line line_;
};

}  // namespace nntile::detail::ring
