#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The buffers that PTO calls name, by their addresses.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::detail::pto {

/// Origin of a known buffer: the runtime gave it, the caller declared it, or a task named it.
enum class Origin : std::uint8_t { allocated, adopted, noticed };

/// The tasks that wrote bytes of one buffer and have not been overwritten. More than `most` are not
/// kept.
class LastWriters {
 public:
  static constexpr std::uint32_t most = 8;
  struct Writer {
    std::int32_t task;       // its id,
    std::uint64_t sequence;  // and its event's, as the id may be another's by now
    std::uintptr_t begin, end;
  };

  /// Calls visit(writer) for those that share bytes with [begin, end).
  template <class Visit> void each(std::uintptr_t begin, std::uintptr_t end, Visit visit) const {
    for (std::uint32_t i = 0; i < count_; ++i)
      if (writers_[i].begin < end && begin < writers_[i].end) visit(writers_[i]);
  }
  /// Adds one; those that it covers go, if it writes all of its span, and where there is no room
  /// the oldest.
  void add(Writer const& writer, bool all) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      Writer const& other = writers_[i];
      bool const covered = all && writer.begin <= other.begin && other.end <= writer.end;
      if (!covered) writers_[kept++] = other;
    }
    if (kept == most) {
      for (std::uint32_t i = 1; i < most; ++i) writers_[i - 1] = writers_[i];
      --kept;
    }
    writers_[kept] = writer;
    count_ = kept + 1;
  }

 private:
  std::uint32_t count_ = 0;
  Writer writers_[most] = {};
};

/// A buffer that tasks may name.
struct Block {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  DataHandle handle;
  Origin origin = Origin::allocated;
  LastWriters writers{};
  std::uint32_t scope = 0;              // depth of the one that it belongs to; 0: none
  std::uint32_t previous = UINT32_MAX;  // neighbours in it
  std::uint32_t next = UINT32_MAX;
};

/// Ranges of addresses, disjoint and in order: buffers, and what has ended. Cost: O(log n) to find;
/// to change, moving the ranges behind. Neighbours that have ended are one range, with the bytes
/// between them where both were allocated.
class AddressMap {
 public:
  using Index = std::uint32_t;
  static constexpr Index ended = UINT32_MAX;  // also: none
  struct Range {
    std::uintptr_t begin, end;
    Index block;
    Origin origin;  // also of what has ended
  };

  Block& operator[](Index index) { return blocks_[index]; }

  /// Makes room for `buffers` buffers, and for as many that have ended, each between two of them.
  /// Throws std::bad_alloc.
  void reserve(std::size_t buffers) {
    ranges_.reserve(2 * buffers + 3);
    covered_.reserve(2 * buffers + 3);
    blocks_.reserve(buffers);
    free_.reserve(buffers);
  }
  /// Times that memory was taken.
  std::uint64_t growths() const { return growths_; }

  /// The first range that shares bytes with [begin, begin + bytes); null if none does.
  Range const* overlapping(std::uintptr_t begin, std::size_t bytes) const {
    auto const range = behind(begin);
    return range != ranges_.end() && range->begin < begin + bytes ? &*range : nullptr;
  }

  /// The same among those of buffers.
  Range const* live_in(std::uintptr_t begin, std::size_t bytes) const {
    for (auto range = behind(begin); range != ranges_.end() && range->begin < begin + bytes;
         ++range)
      if (range->block != ended) return &*range;
    return nullptr;
  }

  /// Adds a buffer, over nothing but what has ended. Throws std::bad_alloc, having changed nothing.
  Index add(Block const& block) {
    make_room(ranges_, 2);
    std::uintptr_t const begin = block.begin, end = begin + block.bytes;
    auto first = behind(begin);
    auto last = first;
    while (last != ranges_.end() && last->begin < end) ++last;
    make_room(covered_, static_cast<std::size_t>(last - first));
    Index const index = take(block);
    for (auto over = first; over != last; ++over)
      covered_.push_back(
          {std::max(over->begin, begin), std::min(over->end, end), ended, over->origin});
    Range parts[3];
    std::size_t count = 0;
    if (first != last && first->begin < begin)
      parts[count++] = {first->begin, begin, ended, first->origin};
    parts[count++] = {begin, end, index, block.origin};
    if (first != last && (last - 1)->end > end)
      parts[count++] = {end, (last - 1)->end, ended, (last - 1)->origin};
    auto const replaced = static_cast<std::size_t>(last - first);
    std::copy(parts, parts + std::min(count, replaced), first);
    if (count > replaced)
      ranges_.insert(last, parts + replaced, parts + count);
    else
      ranges_.erase(first + static_cast<std::ptrdiff_t>(count), last);
    return index;
  }

  /// Forgets what had ended under the buffers so far: what is removed then leaves nothing.
  void keep() { covered_.clear(); }

  /// Forgets a buffer: what has ended there before has ended again. Of those since `keep` the
  /// latest first.
  void remove(Index index) {
    Block const& block = blocks_[index];
    auto over = covered_.end();
    while (over != covered_.begin() && (over - 1)->begin >= block.begin &&
           (over - 1)->end <= block.begin + block.bytes)
      --over;
    auto const count = covered_.end() - over;
    // There is room: `add` has made it.
    auto const first = ranges_.insert(ranges_.erase(place_of(index)), over, covered_.end());
    covered_.erase(over, covered_.end());
    if (count != 0) {
      (void)join(first + count - 1, first + count);
      if (first != ranges_.begin()) (void)join(first - 1, first);
    }
    free_.push_back(index);
  }
  /// Forgets it, but not that it was there.
  void end(Index index) {
    auto range = place_of(index);
    range->block = ended;
    range = join(range, range + 1);
    if (range != ranges_.begin()) (void)join(range - 1, range);
    free_.push_back(index);
  }

  /// Calls each(index) for every buffer of that origin, which may remove it.
  template <class Each> void each(Origin origin, Each each) {
    for (std::size_t i = ranges_.size(); i-- > 0;) {
      Index const index = ranges_[i].block;
      if (index != ended && blocks_[index].origin == origin) each(index);
    }
  }
  std::size_t ranges() const { return ranges_.size(); }

 private:
  using Place = std::vector<Range>::iterator;
  /// Bound on the gap between allocated neighbours, as the system or a heap rounds sizes up.
  /// Between memory of the caller's own may lie a variable.
  static constexpr std::uintptr_t rounding = 64;

  std::vector<Range>::const_iterator behind(std::uintptr_t address) const {
    return std::upper_bound(ranges_.begin(), ranges_.end(), address,
                            [](std::uintptr_t a, Range const& range) { return a < range.end; });
  }
  Place behind(std::uintptr_t address) {
    auto const& constant = *this;
    return ranges_.begin() + (constant.behind(address) - ranges_.cbegin());
  }
  Place place_of(Index index) { return behind(blocks_[index].begin); }

  /// Makes one range of two neighbours that have ended; returns the first.
  Place join(Place first, Place second) {
    if (second == ranges_.end() || first->block != ended || second->block != ended) return first;
    bool const allocated =
        first->origin == Origin::allocated && second->origin == Origin::allocated;
    if (second->begin - first->end >= (allocated ? rounding : 1)) return first;
    if (!allocated) first->origin = Origin::noticed;
    first->end = second->end;
    return ranges_.erase(second) - 1;
  }

  /// Throws std::bad_alloc.
  void make_room(std::vector<Range>& ranges, std::size_t more) {
    if (ranges.capacity() >= ranges.size() + more) return;
    ranges.reserve(2 * ranges.size() + more);
    ++growths_;
  }

  Index take(Block const& block) {
    if (free_.empty()) {
      if (blocks_.size() == blocks_.capacity() || free_.capacity() == blocks_.size()) ++growths_;
      if (free_.capacity() == blocks_.size())
        free_.reserve(2 * blocks_.size() + 1);  // so that removing never allocates
      blocks_.push_back(block);
      return static_cast<Index>(blocks_.size() - 1);
    }
    Index const index = free_.back();
    free_.pop_back();
    blocks_[index] = block;
    return index;
  }

  std::vector<Range> ranges_;
  std::vector<Range> covered_;  // had ended where buffers since `keep` lie
  std::vector<Block> blocks_;
  std::vector<Index> free_;
  std::uint64_t growths_ = 0;
};

}  // namespace nntile::detail::pto
