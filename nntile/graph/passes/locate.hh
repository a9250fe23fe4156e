#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that lay out memory: at which places values are, and in which slots.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/hints.hh"
#include "nntile/graph/passes/copies.hh"
#include "nntile/graph/passes/device_homes.hh"
#include "nntile/graph/passes/lifetime.hh"

namespace nntile::passes {

/// Bytes that a place keeps between runs. Throws PlaceFull where they are more than it may hold.
inline Index kept_bytes(PlanData const& plan, PlaceCapacity const& capacity) {
  Index sum = 0, most = 0;
  std::string largest;
  for (PlannedTensor const& tensor : plan.tensors) {
    MemoryReport own;
    bool const tiles = tensor.used && tensor.storage != Storage::view;
    for (std::uint32_t i = 0; tiles && tensor.place == capacity.place && i < tensor.buffer_count;
         ++i) {
      auto const& buffer = plan.buffers[tensor.first_buffer + i];
      if (buffer.location.rank == plan.rank) own.add(tensor, buffer);
    }
    add_saturated(sum, own.stored);
    if (own.stored > most) most = own.stored, largest = tensor.name;
  }
  if (sum > capacity.bytes)
    throw PlaceFull(concat("plan '", plan.name, "': tensors that live at ",
                           to_string(capacity.place), " have ", sum, " bytes, and it may hold ",
                           capacity.bytes, ": keep some elsewhere by PlanOptions::place, the ",
                           "largest is '", largest, "' of ", most, ", or give it more"),
                    capacity.place);
  return sum;
}

/// Throws PlanError where the options name a place that is none, or a capacity that is none, or two
/// of one place.
inline void check_places(std::string const& plan, PlanOptions const& options) {
  auto const fail = [&](auto const&... text) {
    throw PlanError(concat("plan '", plan, "': ", text...));
  };
  auto const check = [&](Place const& place, char const* option) {
    if (place.kind > Place::Kind::disk)
      fail("a place of kind ", static_cast<int>(place.kind), " in PlanOptions::", option,
           "; those from host (0) to disk (3) are possible");
    if (place.device != 0 && !is_on_device(place))
      fail(name_of(place.kind), " ", place.device, " in PlanOptions::", option,
           "; a rank has one, only devices have numbers");
    if (place.device < 0)
      fail("device ", place.device, " in PlanOptions::", option, "; they count from 0");
  };
  for (PlaceRule const& rule : options.place) check(rule.place, "place");
  for (KeptTiling const& kept : options.keep) check(kept.place, "keep");
  for (std::size_t i = 0; i < options.capacity.size(); ++i) {
    PlaceCapacity const& capacity = options.capacity[i];
    check(capacity.place, "capacity");
    if (capacity.bytes < 0)
      fail(capacity.bytes, " bytes of ", to_string(capacity.place),
           " in PlanOptions::capacity; from 0 on");
    for (std::size_t j = 0; j < i; ++j)
      if (options.capacity[j].place == capacity.place)
        fail("two capacities of ", to_string(capacity.place), ", ", options.capacity[j].bytes,
             " and ", capacity.bytes, " bytes");
  }
}

/// Throws PlanError where 63 bits do not hold the bytes of all tiles, which a place may have at
/// once.
inline void check_bytes(PlanData const& plan) {
  Index sum = 0;
  for (PlannedBuffer const& buffer : plan.buffers)
    if (__builtin_add_overflow(sum, buffer.bytes, &sum))
      throw PlanError(concat("plan '", plan.name, "': its tiles have more than 2^63 - 1 bytes in ",
                             "all, too many for several places; make the model smaller, or share ",
                             "it out over more ranks"));
}

/// Whether the options leave all values on the host, of which no capacity is said.
inline bool on_host_alone(PlanOptions const& options) {
  return options.place.empty() && options.capacity.empty() &&
         std::all_of(options.keep.begin(), options.keep.end(),
                     [](KeptTiling const& kept) { return kept.place == host; });
}

/// Leaves all values on the host, and each task of a device a hint at it.
inline PlanData hint_places(PlanData plan, LogicalGraph const& graph, PlanOptions const& options) {
  DynamicArray<int> devices;
  {
    Homes const homes(plan, graph, options);
    for (PlannedTask const& task : plan.tasks) {
      Place const place = homes.of(task);
      devices.push_back(is_on_device(place) ? place.device : -1);
    }
  }
  for (PlannedTensor& tensor : plan.tensors) tensor.place = host;
  plan = lifetime(std::move(plan));
  for (std::size_t t = 0; t < plan.tasks.size(); ++t)
    if (devices[t] >= 0) plan.tasks[t].hints = plan.hint({.device = devices[t]});
  return plan;
}

/// Fills in copies, slots and the reports of memory. Slots may waste some of the capacities: then
/// it tries with less, and where a task has no room left in that, with little more than tasks need,
/// whatever there is, so that what fits in this much of a place fits in more of it; where several
/// are short, it may not. Throws PlaceFull.
class Fit {
 public:
  Fit(PlanData const& plan, Homes const& homes, std::vector<PlaceCapacity> const& capacity)
      : plan_(plan), homes_(homes), capacity_(capacity), rooms_(capacity) {
    for (PlaceCapacity& room : rooms_) room.bytes -= kept_bytes(plan, room);
  }

  PlanData run() const {
    std::vector<PlaceCapacity> limits = rooms_;
    bool wasted = false;
    for (;;) try {
        PlanData result = planned(limits, capacity_);
        if (fits(result)) return result;
        wasted = true;
        for (std::size_t i = 0; i < limits.size(); ++i)
          if (Index const more = over(result, i); more > 0)
            limits[i].bytes -= std::max(more, limits[i].bytes / 16);
      } catch (PlaceFull const&) {
        PlanData result;
        if (!wasted || !find_tight(limits, result)) throw;
        return result;
      }
  }

 private:
  static constexpr int tries = 12;  // each with 1/16 more, up to twice what tasks need

  PlanData planned(std::vector<PlaceCapacity> const& limits,
                   std::vector<PlaceCapacity> const& capacity) const {
    return lifetime(CopyPass(plan_, homes_, limits, rooms_).run(), capacity);
  }
  /// Bytes that a plan has at a place beyond its capacity.
  Index over(PlanData const& result, std::size_t i) const {
    for (MemoryReport const& report : result.memory)
      if (report.location.place == capacity_[i].place) return report.total() - capacity_[i].bytes;
    return 0;
  }
  bool fits(PlanData const& result) const {
    for (std::size_t i = 0; i < capacity_.size(); ++i)
      if (over(result, i) > 0) return false;
    return true;
  }
  /// Tries limits that do not depend on the capacities, of the places whose limits were lowered.
  bool find_tight(std::vector<PlaceCapacity> const& lowered, PlanData& result) const {
    CopyPass tasks(plan_, homes_, rooms_, rooms_);
    std::vector<PlaceCapacity> limits = rooms_, capacity = capacity_;
    for (int number = 0; number <= tries; ++number) {
      for (std::size_t i = 0; i < limits.size(); ++i) {
        if (lowered[i].bytes == rooms_[i].bytes) continue;
        Index& limit = limits[i].bytes;
        limit = number == 0 ? tasks.least_limit(limits[i].place) : limit + limit / 16;
        capacity[i].bytes = capacity_[i].bytes - rooms_[i].bytes + limit;
      }
      try {
        result = planned(limits, capacity);
        if (fits(result)) return true;
      } catch (PlaceFull const&) {  // a tile goes by way of a place that is full of others
      }
    }
    return false;
  }

  PlanData const& plan_;
  Homes const& homes_;
  std::vector<PlaceCapacity> const& capacity_;
  std::vector<PlaceCapacity> rooms_;  // besides kept tensors
};

/// Bytes of a place with which the plan fits, and with one less it does not; 0 where no number of
/// them is enough. Cost: `Fit` for each bit of them.
inline Index enough_bytes(PlanData const& plan, Homes const& homes,
                          std::vector<PlaceCapacity> capacity, Place const& place) {
  auto const at = std::find_if(capacity.begin(), capacity.end(),
                               [&](PlaceCapacity const& of) { return of.place == place; });
  auto const fits = [&](Index bytes) {
    at->bytes = bytes;
    try {
      (void)Fit(plan, homes, capacity).run();
      return true;
    } catch (PlaceFull const&) {
      return false;
    }
  };
  Index too_few = at->bytes, enough = 1;
  for (PlannedBuffer const& buffer : plan.buffers) enough += buffer.bytes;
  enough = std::max(enough, too_few);
  if (!fits(enough)) return 0;
  while (enough - too_few > 1) {
    Index const middle = too_few + (enough - too_few) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  return enough;
}

/// The same with places. Throws PlaceFull where a place is too small, which says how much is
/// enough unless the tile is one of several that are tried.
inline PlanData locate(PlanData plan, LogicalGraph const& graph, PlanOptions const& options,
                       bool tried = false) {
  if (on_host_alone(options)) return lifetime(std::move(plan));
  check_places(plan.name, options);
  if (options.places_are_hints) return hint_places(std::move(plan), graph, options);
  check_bytes(plan);
  Homes const homes(plan, graph, options);
  try {
    return Fit(plan, homes, options.capacity).run();
  } catch (PlaceFull const& full) {
    if (tried) throw;
    Index const enough = enough_bytes(plan, homes, options.capacity, full.place);
    if (enough == 0)
      throw PlaceFull(concat(std::string_view(full.what()), "; more of ", to_string(full.place),
                             " alone is not enough, as others are full, too"),
                      full.place);
    throw PlaceFull(concat(std::string_view(full.what()), "; ", enough, " bytes of ",
                           to_string(full.place), " are enough"),
                    full.place, enough);
  }
}

}  // namespace nntile::passes
