#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Records of asynchronous tasks whose tokens are out, which any threads open, claim and leave
// without a lock.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::support {

/// The records of one runtime. A record is known by an id: its index, and in the high half its
/// generation, which grows when it is given back, so that a token that is void fits no record.
///
/// Law: one word of a record holds generation, state and how many threads hold it. The thread that
/// runs the entry holds it from `open` on; others hold it to end its task, or to read its name. One
/// thread claims the end; the last to leave a claimed record ends its task, and nothing but
/// `give_back` touches the record behind that. So a task may be completed while its entry runs.
template <class Policy> class Outstanding {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  template <class T> using Plain = typename Policy::template Plain<T>;

 public:
  struct Name {
    Codelet const* codelet;
    TaskLabel label;
    std::uint64_t sequence;
  };
  struct Record {
    Atomic<std::uint64_t> word{first_generation};
    Atomic<std::uint32_t> next{none};  // of the free ones
    Plain<void*> task = nullptr;
    /// Reasons of the task's failure: of the thread that claims its end, and of its entry, which
    /// counts.
    Plain<void*> cause = nullptr;
    Plain<void*> entry_cause = nullptr;
    Name name{};
    std::atomic<std::uint32_t> polls{0};  // registered ones, and the number of the first
    std::uint64_t first_poll = 0;
    char text[2][status_text_bytes]{};

    /// Each by one thread, which holds the record.
    void fail(char const* why) { cause = copy(why, text[0]); }
    void fail_entry(char const* why) { entry_cause = copy(why, text[1]); }
    /// Null if the task has not failed; for the last one.
    char const* failure() const {
      void const* const first = entry_cause;
      return static_cast<char const*>(first != nullptr ? first : static_cast<void*>(cause));
    }

   private:
    static char* copy(char const* from, char* to) {
      std::size_t const length = strnlen(from, status_text_bytes - 1);
      std::memcpy(to, from, length);
      to[length] = 0;
      return to;
    }
  };

  Outstanding() = default;
  Outstanding(Outstanding const&) = delete;
  Outstanding& operator=(Outstanding const&) = delete;
  ~Outstanding() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  /// A record that the caller holds. Throws std::bad_alloc.
  std::uint64_t open(void* task, Name const& name) {
    std::uint32_t const index = take();
    Record& record = at(index);
    std::uint64_t const generation = record.word.load(std::memory_order_relaxed) & generations;
    record.task = task;
    record.cause = nullptr;
    record.entry_cause = nullptr;
    record.name = name;
    record.word.store(generation | is_open | 1, std::memory_order_release);
    return generation | index;
  }

  /// The record of an id, which the caller holds or has held.
  Record& operator[](std::uint64_t id) { return at(static_cast<std::uint32_t>(id)); }

  /// Claims the end of a task, and holds its record; null if the token is void, or another has.
  Record* claim(std::uint64_t id) { return hold(id, claimed); }
  /// Holds a record whose end is not claimed; null if the token is void.
  Record* hold(std::uint64_t id) { return hold(id, 0); }
  /// Holds the record of an index, whatever its task, which has not ended; null if there is none.
  Record* hold_any(std::uint32_t index, std::uint64_t& id) {
    Record* const record = find(index);
    if (record == nullptr) return nullptr;
    std::uint64_t word = record->word.load(std::memory_order_relaxed);
    do {
      bool const ending = (word & claimed) != 0 && (word & holders) == 0;
      if ((word & is_open) == 0 || ending) return nullptr;
    } while (!record->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed));
    id = (word & generations) | index;
    return record;
  }

  /// Claims the end of a task for the thread of its entry, also where it is claimed: what that
  /// thread says counts.
  void claim_for_entry(Record& record) { record.word.fetch_or(claimed, std::memory_order_relaxed); }
  /// Lets go of a record; true if the caller is to end its task, and to give it back.
  bool leave(Record& record) {
    std::uint64_t const before = record.word.fetch_sub(1, std::memory_order_acq_rel);
    return (before & holders) == 1 && (before & claimed) != 0;
  }
  /// By the one who is to.
  void give_back(Record& record, std::uint64_t id) {
    record.word.store((id & generations) + first_generation, std::memory_order_relaxed);
    auto const index = static_cast<std::uint32_t>(id);
    std::uint64_t head = free_.load(std::memory_order_relaxed);
    do record.next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
    while (!free_.compare_exchange_weak(head, (head & generations) | index,
                                        std::memory_order_release, std::memory_order_relaxed));
  }

  /// Records that were ever made have indices below it.
  std::uint32_t count() const { return made_.load(std::memory_order_relaxed); }
  /// The number of times that memory was taken for more of them.
  std::uint32_t chunks() const { return chunk_count_.load(std::memory_order_relaxed); }
  /// Makes room for `count` records at a time, from one thread. Throws std::bad_alloc.
  void reserve(std::uint32_t count) {
    for (std::uint32_t index = 0; index < count; index += smallest) make_chunk(chunk_of(index));
  }

 private:
  static constexpr std::uint32_t none = ~0u, smallest = 8;
  static constexpr std::uint64_t first_generation = std::uint64_t{1} << 32;
  static constexpr std::uint64_t generations = ~(first_generation - 1);
  static constexpr std::uint64_t is_open = 1u << 24;
  static constexpr std::uint64_t claimed = 1u << 25;
  static constexpr std::uint64_t holders = is_open - 1;

  Record* hold(std::uint64_t id, std::uint64_t bits) {
    Record& record = (*this)[id];
    std::uint64_t word = record.word.load(std::memory_order_relaxed);
    do
      if ((word & generations) != (id & generations) || (word & (is_open | claimed)) != is_open)
        return nullptr;
    while (!record.word.compare_exchange_weak(word, (word | bits) + 1, std::memory_order_acquire,
                                              std::memory_order_relaxed));
    return &record;
  }

  /// A free one. The tag in the high half of the list's head tells a record that has come back
  /// from one that was there all the time.
  std::uint32_t take() {
    std::uint64_t head = free_.load(std::memory_order_acquire);
    for (;;) {
      auto const index = static_cast<std::uint32_t>(head);
      if (index == none) return make();
      std::uint64_t const rest = at(index).next.load(std::memory_order_relaxed);
      if (free_.compare_exchange_weak(head, ((head & generations) + first_generation) | rest,
                                      std::memory_order_acquire))
        return index;
    }
  }
  [[gnu::noinline]] std::uint32_t make() {
    std::uint32_t const index = made_.fetch_add(1, std::memory_order_relaxed);
    make_chunk(chunk_of(index));  // if it throws, the index is lost
    return index;
  }
  void make_chunk(int number) {
    auto& chunk = chunks_[number];
    if (chunk.load(std::memory_order_acquire) != nullptr) return;
    auto records = std::make_unique<Record[]>(std::size_t{smallest} << number);
    Record* empty = nullptr;
    if (!chunk.compare_exchange_strong(empty, records.get(), std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      return;  // another thread was first
    (void)records.release();
    chunk_count_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Chunks have 8, 16, 32, ... records.
  static int chunk_of(std::uint32_t index) {
    return static_cast<int>(std::bit_width(index / smallest + 1)) - 1;
  }
  Record* find(std::uint32_t index) {
    int const number = chunk_of(index);
    Record* const chunk = chunks_[number].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + place_of(index, number);
  }
  /// One that was made: its chunk is there.
  Record& at(std::uint32_t index) {
    int const number = chunk_of(index);
    return chunks_[number].load(std::memory_order_acquire)[place_of(index, number)];
  }
  static std::uint32_t place_of(std::uint32_t index, int number) {
    return index - ((smallest << number) - smallest);
  }

  Atomic<Record*> chunks_[29]{};
  Atomic<std::uint32_t> made_{0};
  std::atomic<std::uint32_t> chunk_count_{0};
  Atomic<std::uint64_t> free_{none};
};

}  // namespace nntile::support
