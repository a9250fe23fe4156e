#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The bytes of the parts of a buffer: what is unwritten, and what failures have left undefined.

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "nntile/core/region.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/byte_set.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/free_stack.hh"
#include "nntile/runtime/support/parts.hh"

namespace nntile::support {

/// A part and its bytes. Tasks read `region`, which never changes.
struct RegionPart : Part {
  Region region;  // normalized
  std::vector<Overlap> list;
  RegionPart* next_free = nullptr;

  /// Room for one more; whether that took memory. Throws std::bad_alloc.
  bool reserve() {
    bool const grows = list.size() == list.capacity();
    if (grows) list.reserve(2 * list.size() + 4);
    set_overlaps();
    return grows;
  }
  /// After `reserve`.
  void add(Overlap const& other) noexcept {
    list.push_back(other);
    set_overlaps();
  }
  void clear() noexcept {
    list.clear();
    set_overlaps();
    ended = false;
  }
  void remove(Buffer const& other) noexcept {
    std::erase_if(list, [&](Overlap const& own) { return own.buffer == &other; });
    set_overlaps();
  }

 private:
  void set_overlaps() noexcept {
    overlaps = list.data();
    overlap_count = list.size();
  }
};

/// Bytes that a failure has left undefined.
struct MarkedBytes {
  std::uint32_t failure;
  ByteSet bytes;
};

class RegionPool;

struct RegionDivision : Division {
  RegionPool* pool = nullptr;
  RegionDivision* next_free = nullptr;
  RegionPart all;
  std::vector<std::unique_ptr<RegionPart>> parts;
  /// Bytes that no task, lock or adopt has written, as long as the whole is `unwritten`; all where
  /// this is empty. The driver's.
  ByteSet unwritten;
  ByteSet::Scratch scratch;  // for that
  /// Under the lock of Failures. The whole's mark is 0 if nothing is marked; else, where this is
  /// empty, all bytes are.
  std::vector<MarkedBytes> marks;

  static RegionDivision& of(Division& division) noexcept {
    return static_cast<RegionDivision&>(division);
  }
};

/// Records of regions and divisions that have ended, with the memory of their lists.
class RegionPool {
 public:
  RegionPool() = default;
  RegionPool(RegionPool const&) = delete;
  RegionPool& operator=(RegionPool const&) = delete;
  ~RegionPool() {
    while (RegionPart* const part = parts_.pop()) delete part;
    while (RegionDivision* const division = divisions_.pop()) delete division;
  }

  /// On the driving thread. Throw std::bad_alloc.
  std::unique_ptr<RegionPart> take_part() {
    if (RegionPart* const part = parts_.pop()) return std::unique_ptr<RegionPart>(part);
    ++growths_;
    return std::make_unique<RegionPart>();
  }
  std::unique_ptr<RegionDivision> take_division() {
    if (RegionDivision* const division = divisions_.pop())
      return std::unique_ptr<RegionDivision>(division);
    ++growths_;
    auto division = std::make_unique<RegionDivision>();
    division->pool = this;
    return division;
  }
  /// Makes `regions` records of regions that overlap `overlaps` others each, and `divisions`
  /// records of divisions into `regions_each`, whose bytes are in `runs` runs.
  void reserve(std::size_t regions, std::size_t overlaps, std::size_t divisions,
               std::size_t regions_each, std::size_t runs) {
    for (std::size_t i = 0; i < regions; ++i) {
      auto part = std::make_unique<RegionPart>();
      part->list.reserve(overlaps);
      parts_.put_back(*part.release());
    }
    for (std::size_t i = 0; i < divisions; ++i) {
      auto division = std::make_unique<RegionDivision>();
      division->pool = this;
      division->all.list.reserve(regions_each);
      division->parts.reserve(regions_each);
      division->unwritten.reserve(2 * runs);  // as `subtract` asks for
      division->scratch.reserve(runs);
      divisions_.put_back(*division.release());
    }
  }

  /// Any thread.
  void give_back(std::unique_ptr<RegionPart> part) noexcept {
    part->clear();
    parts_.push(*part.release());
  }
  void give_back(std::unique_ptr<RegionDivision> division) noexcept {
    for (auto& part : division->parts) give_back(std::move(part));
    division->parts.clear();
    division->all.clear();
    division->locked = 0;
    division->marks.clear();
    divisions_.push(*division.release());
  }

  /// Times that memory was taken. The driving thread's.
  std::uint64_t growths() const noexcept { return growths_; }
  void count_growth(bool one = true) noexcept { growths_ += one; }

 private:
  FreeStack<RegionPart> parts_;
  FreeStack<RegionDivision> divisions_;
  std::uint64_t growths_ = 0;
};

/// The functions of PartCalls.
class DivisionCalls {
 public:
  static constexpr PartCalls make() {
    return {&note_written, &any_unwritten, &discard, &void_handles, &end,
            &mark_of,      &mark,          &clear,   &drop_marks};
  }

 private:
  static RegionDivision& division_of(Part const& part) noexcept {
    return RegionDivision::of(*part.division);
  }
  static Region const& region_of(Part const& part) noexcept {
    return static_cast<RegionPart const&>(part).region;
  }

  /// Without memory for the rest all of the buffer counts as written.
  static void note_written(Part const& part) noexcept {
    RegionDivision& division = division_of(part);
    if (!division.whole->is(Buffer::unwritten)) return;
    auto const room = [&] { return division.unwritten.capacity() + division.scratch.capacity(); };
    std::size_t const before = room();
    try {
      if (division.unwritten.empty()) division.unwritten.assign(division.all.region);
      division.unwritten.subtract(region_of(part), division.scratch);
      division.pool->count_growth(room() != before);
      if (!division.unwritten.empty()) return;
    } catch (std::bad_alloc const&) {
    }
    division.whole->drop(Buffer::unwritten);
  }
  static bool any_unwritten(Part const& part) noexcept {
    RegionDivision const& division = division_of(part);
    if (!division.whole->is(Buffer::unwritten)) return false;
    return division.unwritten.empty() ? region_of(part).bytes != 0
                                      : division.unwritten.meets(region_of(part));
  }
  static void discard(Division& of) noexcept {
    RegionDivision& division = RegionDivision::of(of);
    division.unwritten.clear();
    for (auto const& part : division.parts) part->buffer->set(Buffer::unwritten);
  }
  static void void_handles(Division& division) noexcept {
    for (auto const& part : RegionDivision::of(division).parts)
      if (!std::exchange(part->ended, true)) ++part->buffer->generation;
  }
  static void end(Division& division, BufferTable* table) noexcept {
    std::unique_ptr<RegionDivision> own(&RegionDivision::of(division));
    if (table == nullptr) return;
    void_handles(division);
    for (auto const& part : own->parts) {
      part->buffer->end();
      part->buffer->part.store(nullptr, std::memory_order_relaxed);
      table->records_.push(*part->buffer);
    }
    RegionPool& pool = *own->pool;
    pool.give_back(std::move(own));
  }

  /// The oldest failure that has left bytes of the part undefined.
  static std::uint32_t mark_of(Failures const& failures, Part const& part) noexcept {
    RegionDivision const& division = division_of(part);
    std::uint32_t const whole = division.whole->mark.load(std::memory_order_relaxed);
    if (whole == 0 || division.marks.empty())
      return &part == &division.all || region_of(part).bytes != 0 ? whole : 0;
    std::uint32_t oldest = 0;
    for (MarkedBytes const& marked : division.marks)
      if ((oldest == 0 ||
           failures.failures_[marked.failure].sequence < failures.failures_[oldest - 1].sequence) &&
          marked.bytes.meets(region_of(part)))
        oldest = marked.failure + 1;
    return oldest;
  }
  /// Without memory for which bytes, marks all of the buffer.
  static void mark(Failures& failures, Part const& part, std::uint32_t failure,
                   bool keep_older) noexcept {
    RegionDivision& division = division_of(part);
    bool const all = &part == &division.all;
    if (!all && region_of(part).bytes == 0) return;
    if (all && !keep_older) {
      drop_marks(failures, division);
      return failures.set_mark(*division.whole, failure);
    }
    try {
      list_marks(failures, division);
      if (!keep_older) subtract(failures, division, region_of(part));
      division.marks.push_back({failure, ByteSet(region_of(part))});
      ++failures.failures_[failure].references;
    } catch (std::bad_alloc const&) {
      drop_marks(failures, division);
    }
    failures.set_mark(*division.whole, failure);
  }
  static void clear(Failures& failures, Part const& part) noexcept {
    RegionDivision& division = division_of(part);
    if (division.whole->mark.load(std::memory_order_relaxed) == 0) return;
    if (&part == &division.all) {
      drop_marks(failures, division);
      return failures.drop_mark(*division.whole);
    }
    try {
      list_marks(failures, division);
      subtract(failures, division, region_of(part));
      if (division.marks.empty()) failures.drop_mark(*division.whole);
    } catch (std::bad_alloc const&) {  // they stay marked
    }
  }
  static void drop_marks(Failures& failures, Division& division) noexcept {
    auto& marks = RegionDivision::of(division).marks;
    for (MarkedBytes const& marked : marks) failures.drop(marked.failure);
    marks.clear();
  }

  /// Writes a mark on all bytes as a list of one. Throws std::bad_alloc.
  static void list_marks(Failures& failures, RegionDivision& division) {
    std::uint32_t const mark = division.whole->mark.load(std::memory_order_relaxed);
    if (mark == 0 || !division.marks.empty()) return;
    division.marks.push_back({mark - 1, ByteSet(division.all.region)});
    ++failures.failures_[mark - 1].references;
  }
  static void subtract(Failures& failures, RegionDivision& division, Region const& region) {
    for (MarkedBytes& marked : division.marks) marked.bytes.subtract(region);
    for (MarkedBytes const& marked : division.marks)
      if (marked.bytes.empty()) failures.drop(marked.failure);
    std::erase_if(division.marks, [](MarkedBytes const& marked) { return marked.bytes.empty(); });
  }
};
inline constexpr PartCalls division_calls = DivisionCalls::make();

}  // namespace nntile::support
