#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The making of regions: which part of a buffer a request names, and which others it overlaps.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/region.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer_state.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/division.hh"
#include "nntile/runtime/support/region_map.hh"
#include "nntile/runtime/support/storage_calls.hh"

namespace nntile {

/// Room for the regions of a runtime: see `reserve_regions`.
struct RegionRoom {
  std::size_t regions = 0;       // valid at a time, or in use by tasks
  std::size_t overlaps = 8;      // other ones of the same buffer that share bytes with one
  std::size_t buffers = 0;       // that have regions at a time
  std::size_t regions_each = 8;  // of one buffer
  std::size_t runs = 8;          // of bytes that no task has written, in one buffer, or of a region
};

}  // namespace nntile

namespace nntile::support {

/// State that a table keeps of its regions.
struct RegionStore {
  RegionMap map;
  RegionPool pool;
  std::uint64_t growths() const noexcept { return map.growths() + pool.growths(); }
};

/// A part of a buffer, as it was asked for.
struct RegionRequest {
  Buffer& whole;
  Region region;  // normalized, from the whole's first byte
  /// Its record, if it is known; else `add` makes one.
  Buffer* known = nullptr;
};

/// The regions of the buffers of one table. Driving thread only.
class Regions {
 public:
  explicit Regions(BufferTable& table) : table_(table) {}

  /// Looks a region up, counted from the first byte of `handle`. Throws LifetimeError (handle),
  /// ValueError (it ends behind the buffer).
  RegionRequest request(DataHandle handle, Region const& asked) {
    Buffer& named = table_.find(handle, "region");
    check_whole(named, "region");
    RegionRequest request{whole_of(named), normalize(asked)};
    Region& region = request.region;
    std::size_t const bytes = request.whole.bytes, span = span_of(region);
    std::size_t const from = named.is(Buffer::region) ? part_of(named)->offset : 0;
    if (region.offset > bytes - from || span > bytes - from - region.offset)
      throw ValueError(concat("region: ", span, " bytes at byte ", region.offset, " of ",
                              describe(named), " end behind the ", bytes, " bytes of the buffer"));
    region.offset += from;
    request.known = find(request.whole, region);
    return request;
  }

  /// The handle of the buffer that holds a byte; default if there is none. in_heaps(byte) looks
  /// where the table does not. Cost: O(log n); the first time, all buffers enter the table's
  /// ranges.
  template <class InHeaps> DataHandle find(void const* byte, InHeaps in_heaps) {
    if (!table_.is_found_) {
      for (std::uint32_t i = 0; i < table_.count(); ++i)
        if ((table_[i].states() & (Buffer::live | Buffer::ended)) == Buffer::live)
          table_.enter_ranges(table_[i]);
      table_.is_found_ = true;
    }
    if (Buffer const* const buffer = in_heaps(byte)) return table_.handle_of(*buffer);
    AdoptedRanges::Found const found = table_.ranges_.find(byte);
    DataHandle const handle{found.buffer, found.generation};
    return live(handle) ? handle : DataHandle{};
  }
  /// The handle of a normalized region by the address of its first byte; default if it is not
  /// known.
  DataHandle find_known(void const* address, Region const& shape) {
    return map().find(address, shape, [&](DataHandle handle) {
      if (!live(handle) || has_lost_whole(table_[handle.index])) return false;
      return shape.steps.empty() ||
             static_cast<RegionPart const*>(part_of(table_[handle.index]))->region.steps ==
                 shape.steps;
    });
  }
  /// The same of `bytes` bytes without steps, where one look finds it; default otherwise.
  [[gnu::always_inline]] DataHandle find_at_once(void const* address,
                                                 std::size_t bytes) const noexcept {
    if (table_.region_store_ == nullptr) [[unlikely]]
      return {};
    return table_.region_store_->map.find_at_once(address, bytes, [this](DataHandle handle) {
      Buffer const& buffer = table_[handle.index];
      return buffer.generation == handle.generation && !has_lost_whole(buffer);
    });
  }
  /// Makes room. Before the first region. Throws OutOfMemory, std::bad_alloc.
  void reserve(RegionRoom const& room) {
    check(room);
    store().map.reserve(room.regions + room.buffers);
    // The whole of a buffer is one of those that its regions overlap.
    store().pool.reserve(room.regions, room.overlaps + 1, room.buffers, room.regions_each,
                         room.runs);
  }

  /// Lets find_known find a buffer by its own address.
  void remember_whole(Buffer const& whole) noexcept { remember(whole, {0, whole.bytes, {}}); }

  /// Makes a region that is not known. has_ended(buffer) says whether all tasks that name a record
  /// have ended. Cost: a comparison with each other region of the buffer. Throws OutOfMemory,
  /// std::bad_alloc.
  template <class HasEnded> DataHandle add(RegionRequest const& request, HasEnded has_ended) {
    Buffer& whole = request.whole;
    if (!whole.is(Buffer::divided)) divide(whole);
    RegionDivision& division = division_of(whole);
    sweep(division, has_ended);
    RegionPool& pool = *division.pool;
    auto part = pool.take_part();
    part->division = &division;
    part->region = request.region;
    part->offset = request.region.offset;
    for_each_other(division, request.region, [&](RegionPart& other) {
      pool.count_growth(other.reserve());
      pool.count_growth(part->reserve());
      part->add({other.buffer, covers(part->region, other.region)});
    });
    bool const grows = division.parts.size() == division.parts.capacity();
    pool.count_growth(grows);
    if (grows) division.parts.reserve(2 * division.parts.size() + 4);
    Buffer& buffer = table_.records_.take();
    part->buffer = &buffer;
    // Nothing throws from here on, but the entry in the map, which a look-up can do without.
    for_each_other(division, request.region, [&](RegionPart& other) {
      other.add({&buffer, covers(other.region, part->region)});
    });
    buffer.pointer = static_cast<std::byte*>(whole.pointer) + part->region.offset;
    buffer.part.store(static_cast<Part*>(part.get()), std::memory_order_release);
    int const inherited = whole.state & (Buffer::unwritten | Buffer::read_only | Buffer::off_host);
    DataHandle const handle = table_.fill(buffer, span_of(part->region), whole.place,
                                          whole.lifetime, nullptr, Buffer::region | inherited, {});
    division.parts.push_back(static_cast<std::unique_ptr<RegionPart>&&>(part));
    remember(buffer, request.region);
    return handle;
  }

 private:
  /// Throws OutOfMemory for more than the machine's memory has room for.
  static void check(RegionRoom const& room) {
    auto const check_room = [](char const* name, std::size_t count, std::size_t bytes) {
      support::check_room("reserve_regions: ", name, count, bytes);
    };
    std::size_t const run = 64, place = sizeof(void*) + sizeof(Overlap);
    check_room("overlaps", room.overlaps, sizeof(Overlap));
    check_room("regions_each", room.regions_each, place);
    check_room("runs", room.runs, run);
    check_room("regions", room.regions,
               RegionMap::bytes_each() + sizeof(RegionPart) + room.overlaps * sizeof(Overlap));
    check_room("buffers", room.buffers,
               RegionMap::bytes_each() + sizeof(RegionDivision) + room.regions_each * place +
                   room.runs * run);
  }
  static RegionDivision& division_of(Buffer const& whole) noexcept {
    return RegionDivision::of(*part_of(whole)->division);
  }
  template <class Visit>
  static void for_each_other(RegionDivision& division, Region const& region, Visit visit) {
    visit(division.all);
    for (auto const& other : division.parts)
      if (overlap(other->region, region)) visit(*other);
  }

  bool live(DataHandle handle) const noexcept { return table_.records_.find(handle) != nullptr; }
  /// Throws std::bad_alloc.
  RegionStore& store() {
    if (table_.region_store_ == nullptr) {
      table_.region_store_ = new RegionStore;
      static constexpr BufferTable::RegionStoreCalls calls{
          [](RegionStore* store) noexcept { delete store; },
          [](RegionStore const& store) noexcept { return store.growths(); }};
      table_.region_store_calls_ = &calls;
      table_.region_store_->pool.count_growth();
    }
    return *table_.region_store_;
  }
  RegionMap& map() { return store().map; }
  void remember(Buffer const& buffer, Region const& region) noexcept {
    try {
      map().add(buffer.pointer, region, table_.handle_of(buffer),
                [this](DataHandle handle) { return live(handle); });
    } catch (std::bad_alloc const&) {
    }
  }

  /// The part of that shape, under a valid handle; null if there is none.
  Buffer* find(Buffer& whole, Region const& region) {
    if (region.steps.empty() && region.offset == 0 && region.bytes == whole.bytes) return &whole;
    if (!whole.is(Buffer::divided)) return nullptr;
    auto const is_it = [&](DataHandle handle) {
      // Const memory may begin with a whole buffer that the map knows by its address.
      if (!live(handle) || !table_[handle.index].is(Buffer::region)) return false;
      Part const& part = *part_of(table_[handle.index]);
      return part.division->whole == &whole &&
             static_cast<RegionPart const&>(part).region == region;
    };
    void const* const address = static_cast<std::byte*>(whole.pointer) + region.offset;
    DataHandle const found = map().find(address, region, is_it);
    if (!(found == DataHandle{})) return &table_[found.index];
    for (auto const& part : division_of(whole).parts) {
      if (!(part->region == region)) continue;
      part->ended = false;  // tasks may still be naming it under the void handle
      part->buffer->drop(Buffer::ended);
      remember(*part->buffer, region);
      return part->buffer;
    }
    return nullptr;
  }

  void divide(Buffer& whole) {
    auto division = store().pool.take_division();
    division->calls = &division_calls;
    division->whole = &whole;
    division->generation = whole.generation;
    division->all.buffer = &whole;
    division->all.division = division.get();
    division->all.region = {0, whole.bytes, {}};
    if (whole.is(Buffer::unwritten)) division->unwritten.assign(division->all.region);
    whole.part.store(static_cast<Part*>(&division->all), std::memory_order_release);
    whole.set(Buffer::divided);
    (void)division.release();  // the table's, by the record
  }

  /// Ends the records of regions whose handles are void and whose tasks have ended.
  template <class HasEnded> void sweep(RegionDivision& division, HasEnded has_ended) noexcept {
    std::size_t kept = 0;
    for (auto& part : division.parts) {
      Buffer& buffer = *part->buffer;
      if (!part->ended || !has_ended(buffer)) {
        std::swap(division.parts[kept++], part);
        continue;
      }
      for (Overlap const& other : part->list)
        static_cast<RegionPart*>(part_of(*other.buffer))->remove(buffer);
      buffer.state = 0;
      buffer.look = 0;  // an open task on bytes of the region may have left it, and ends later
      buffer.part.store(nullptr, std::memory_order_relaxed);
      table_.records_.put_back(buffer);
    }
    for (std::size_t i = kept; i < division.parts.size(); ++i)
      division.pool->give_back(std::move(division.parts[i]));
    division.parts.resize(kept);
  }

  BufferTable& table_;
};

template <class Self> DataHandle StorageCalls<Self>::region(Handle handle, Region const& shape) {
  Inside const inside(self(), "region");
  Regions regions(state().table);
  RegionRequest const request = regions.request(handle, shape);
  if (request.known != nullptr) return state().table.handle_of(*request.known);
  return self().make([&] {
    return regions.add(request, [&](Buffer const& buffer) { return self().is_unused(buffer); });
  });
}

template <class Self> void StorageCalls<Self>::reserve_regions(RegionRoom const& room) {
  Inside const inside(self(), "reserve_regions");
  Regions(state().table).reserve(room);
}

template <class Self> DataHandle StorageCalls<Self>::find(void const* address) {
  Inside const inside(self(), "find");
  return Regions(state().table).find(address, [this](void const* byte) {
    return self().find_in_heaps(byte);
  });
}

template <class Self>
[[gnu::always_inline]] inline DataHandle StorageCalls<Self>::region_at(void const* address,
                                                                       Region const& shape) {
  struct Known {
    DataHandle handle{};
    Known(std::nullptr_t) {}
    Known(DataHandle known) : handle(known) {}
  };
  if (!shape.steps.empty()) return region_at_slowly(address, shape);
  // Numbers alone from here on, so that a run that is named where this is called is not stored.
  std::size_t const offset = shape.offset, bytes = shape.bytes;
  Known const known = state().thread.quickly("region_at", [&]() noexcept -> Known {
    if (link_->any_dropped()) return nullptr;
    auto const* const first = static_cast<std::byte const*>(address) + offset;
    return Regions(state().table).find_at_once(first, bytes);
  });
  if (!(known.handle == DataHandle{})) [[likely]]
    return known.handle;
  return region_at_slowly(address, offset, bytes);
}

template <class Self>
[[gnu::noinline]] DataHandle StorageCalls<Self>::region_at_slowly(void const* address,
                                                                  std::size_t offset,
                                                                  std::size_t bytes) {
  return region_at_slowly(address, {offset, bytes, {}});
}

template <class Self>
[[gnu::noinline]] DataHandle StorageCalls<Self>::region_at_slowly(void const* address,
                                                                  Region const& shape) {
  auto const* const first = static_cast<std::byte const*>(address) + shape.offset;
  {
    Inside const inside(self(), "region_at");
    Regions regions(state().table);
    // A run is normalized as it is.
    DataHandle const known = shape.steps.empty() ? regions.find_known(first, shape)
                                                 : regions.find_known(first, normalize(shape));
    if (!(known == DataHandle{})) return known;
  }
  DataHandle const buffer = find(first);
  if (buffer == DataHandle{})
    throw LifetimeError(
        "region_at: no buffer of this runtime holds the first byte: adopt the memory");
  Buffer const& whole = state().table.find(buffer, "region_at");
  auto const offset =
      static_cast<std::size_t>(first - static_cast<std::byte const*>(whole.pointer));
  DataHandle const result = region(buffer, {offset, shape.bytes, shape.steps});
  if (result == buffer) Regions(state().table).remember_whole(whole);
  return result;
}

}  // namespace nntile::support
