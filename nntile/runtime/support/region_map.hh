#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Handles by address and shape (the TensorMap).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/core/region.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

/// Remembers which handle names a region. An entry is valid as long as its handle is: nothing is
/// removed, and where the table grows it leaves void entries behind. One thread's.
class RegionMap {
 public:
  /// The handle of a normalized region whose first byte is at `address`; default if it is not
  /// known. is_it(handle) says whether a handle is valid, which a default one is not, and names
  /// that region, as far as its steps go.
  template <class IsIt>
  DataHandle find(void const* address, Region const& shape, IsIt is_it) const {
    std::uint64_t const steps = hash_steps(shape);
    for (std::size_t at = place(address, shape.bytes, steps);; at = (at + 1) & mask()) {
      Entry const& entry = entries_[at];
      if (entry.is(address, shape.bytes, steps) && is_it(entry.handle)) [[likely]]
        return entry.handle;
      if (entry.handle == DataHandle{}) return {};
    }
  }
  /// The same of a region without steps, where the first look finds it; default otherwise. Calls
  /// is_it for handles that were added alone. Cost: a multiplication.
  template <class IsIt>
  [[gnu::always_inline]] DataHandle find_at_once(void const* address, std::size_t bytes,
                                                 IsIt is_it) const {
    Entry const& entry = entries_[place(address, bytes, 0)];
    DataHandle const handle = entry.handle;
    if (!entry.is(address, bytes, 0) || !is_it(handle)) [[unlikely]]
      return {};
    return handle;
  }

  /// Bytes that room for a handle takes at least, this table and the one before.
  static constexpr std::size_t bytes_each() { return 8 * sizeof(Entry); }
  /// Makes room for `handles` valid handles at a time, and those that become void. Throws
  /// std::bad_alloc.
  void reserve(std::size_t handles) {
    std::size_t const size = size_for(handles);
    if (size <= entries_.size()) return;
    entries_.assign(size, {});
    spare_.assign(size, {});
    shift_ = shift_of(size);
  }
  /// Times that memory was taken.
  std::uint64_t growths() const { return growths_; }

  /// live(handle) says whether a handle is valid. Throws std::bad_alloc.
  template <class Live>
  void add(void const* address, Region const& shape, DataHandle handle, Live live) {
    if (2 * (used_ + 1) > entries_.size()) grow(live);
    put({address, shape.bytes, hash_steps(shape), handle});
  }

 private:
  struct Entry {
    void const* address = nullptr;
    std::size_t bytes = 0;
    std::uint64_t steps = UINT64_MAX;  // 0 if there are none
    DataHandle handle;                 // default: the entry is free

    bool is(void const* at, std::size_t size, std::uint64_t its_steps) const {
      return address == at && bytes == size && steps == its_steps;
    }
  };

  static constexpr std::size_t least = 64;
  static constexpr unsigned shift_of(std::size_t size) {  // 64 - the binary logarithm
    return 64 - static_cast<unsigned>(std::countr_zero(size));
  }

  std::size_t mask() const { return entries_.size() - 1; }
  /// Fibonacci hashing: 2^64 / golden ratio. 0 without steps.
  static std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
  }
  static std::uint64_t hash_steps(Region const& shape) {
    std::uint64_t hash = 0;
    for (Region::Step const& step : shape.steps) hash = mix(mix(hash, step.count), step.stride);
    return hash;
  }
  std::size_t place(void const* address, std::size_t bytes, std::uint64_t steps) const {
    auto const key = reinterpret_cast<std::uintptr_t>(address) ^ bytes << 20 ^ steps;
    return key * 0x9e3779b97f4a7c15u >> shift_;  // the bits that are mixed best
  }

  void put(Entry const& entry) {
    std::size_t at = place(entry.address, entry.bytes, entry.steps);
    while (!(entries_[at].handle == DataHandle{})) at = (at + 1) & mask();
    entries_[at] = entry;
    ++used_;
  }
  template <class Live> void grow(Live live) {
    std::size_t kept = 1;
    for (Entry const& entry : entries_) kept += live(entry.handle);
    std::size_t const size = std::max(size_for(kept), entries_.size());
    if (size > spare_.capacity()) ++growths_;
    spare_.assign(size, {});
    shift_ = shift_of(size);
    spare_.swap(entries_);
    used_ = 0;
    for (Entry const& entry : spare_)
      if (live(entry.handle)) put(entry);
  }
  /// Size at which half of the entries may be of void handles before it has to grow.
  static std::size_t size_for(std::size_t handles) {
    std::size_t size = least;
    while (size < 4 * handles) size *= 2;
    return size;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(least);
  std::vector<Entry> spare_;  // of the table before
  std::uint64_t growths_ = 0;
  std::size_t used_ = 0;
  unsigned shift_ = shift_of(least);
};

}  // namespace nntile::support
