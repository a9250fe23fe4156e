#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Memory that the heaps of bodies share.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/capacities.hh"
#include "nntile/runtime/support/aligned.hh"

namespace nntile::detail::ring {

/// Pieces of memory of powers of two, from 4 KiB to 2 MiB, that come back when a heap has no use
/// for them and stay for the next one; larger ones come from the system and go back there. Any
/// thread: the lock is held for a few loads and stores.
template <class Policy> class Pieces {
 public:
  Pieces() = default;
  Pieces(Pieces const&) = delete;
  Pieces& operator=(Pieces const&) = delete;
  ~Pieces() {
    for (Free* piece : free_)
      while (piece != nullptr) support::free_aligned(std::exchange(piece, piece->next));
  }

  /// Throws OutOfMemory.
  std::byte* take(std::size_t bytes) {
    std::size_t const room = room_for(bytes);
    {
      Lock const guard(mutex_);
      Free* const piece = room <= largest ? free_[index_of(room)] : nullptr;
      if (piece != nullptr) {
        free_[index_of(room)] = piece->next;
        note(room);
        return reinterpret_cast<std::byte*>(piece);
      }
    }
    auto* const memory = static_cast<std::byte*>(support::allocate_aligned(room));
    Lock const guard(mutex_);
    stats_.capacity += room;
    ++stats_.growths;
    note(room);
    return memory;
  }
  /// `bytes` are those that were asked for.
  void give_back(std::byte* memory, std::size_t bytes) noexcept {
    std::size_t const room = room_for(bytes);
    bool const keeps = room <= largest;
    {
      Lock const guard(mutex_);
      stats_.used -= room;
      if (keeps) {
        auto* const piece = ::new (static_cast<void*>(memory)) Free{free_[index_of(room)]};
        free_[index_of(room)] = piece;
      } else {
        stats_.capacity -= room;
      }
    }
    if (!keeps) support::free_aligned(memory);
  }

  void count_waits(std::uint64_t waits) noexcept {
    Lock const guard(mutex_);
    stats_.waits += waits;
  }
  BodyHeapStats stats() const noexcept {
    Lock const guard(mutex_);
    return stats_;
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t smallest = 4096;
  static constexpr std::size_t largest = support::huge_page_bytes;
  static constexpr int index_of(std::size_t room) {
    return std::countr_zero(room) - std::countr_zero(smallest);
  }
  static constexpr std::size_t room_for(std::size_t bytes) {
    return bytes > largest ? bytes : bytes < smallest ? smallest : std::bit_ceil(bytes);
  }
  void note(std::size_t room) noexcept {
    stats_.used += room;
    if (stats_.used > stats_.peak) stats_.peak = stats_.used;
  }

  mutable typename Policy::Mutex mutex_;
  Free* free_[std::countr_zero(largest) - std::countr_zero(smallest) + 1] = {};
  BodyHeapStats stats_;
};

}  // namespace nntile::detail::ring
