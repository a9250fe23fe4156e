#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A list that grows without moving what it holds.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/heap_array.hh"

namespace nntile::passes {

/// Holds values in chunks, the next twice as large up to `largest`, and joins them at the end: it
/// allocates twice what it holds in all, where a vector that grows allocates two to four times.
template <class T>
requires std::is_trivially_copyable_v<T>
class Chunks {
 public:
  /// `count` neighbours behind all others, to be filled in.
  std::span<T> append(std::size_t count) {
    if (chunks_.empty() || chunks_.back().room - chunks_.back().size < count) {
      std::size_t const room = std::max(count, next_);
      chunks_.push_back({HeapArray<T>(room), 0, room});
      next_ = std::min(2 * next_, largest);
    }
    Chunk& chunk = chunks_.back();
    std::span<T> const values(chunk.values.get() + chunk.size, count);
    chunk.size += count;
    size_ += count;
    return values;
  }
  std::size_t size() const { return size_; }

  /// All values in one array; nothing is left here.
  DynamicArray<T> join() {
    DynamicArray<T> all;
    all.reserve(size_);
    for (Chunk& chunk : chunks_) {
      all.append(std::span<T const>(chunk.values.get(), chunk.size));
      chunk.values = {};
    }
    chunks_.clear();
    size_ = 0;
    return all;
  }

 private:
  struct Chunk {
    HeapArray<T> values;
    std::size_t size;
    std::size_t room;
  };
  static constexpr std::size_t largest = (std::size_t{1} << 18) / sizeof(T);  // 256 KiB
  DynamicArray<Chunk> chunks_;
  std::size_t next_ = std::max<std::size_t>(1, 1024 / sizeof(T));
  std::size_t size_ = 0;
};

}  // namespace nntile::passes
