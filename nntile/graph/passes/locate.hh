#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that lay out memory: at which places values are, and in which slots.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    sum += own.stored;
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

/// Fills in copies, slots and the reports of memory. Throws PlaceFull. Slots may waste some of the
/// capacities: then it tries with less.
inline PlanData fit(PlanData const& plan, Homes const& homes,
                    std::vector<PlaceCapacity> const& capacity) {
  std::vector<PlaceCapacity> limits = capacity;
  for (PlaceCapacity& limit : limits) limit.bytes -= kept_bytes(plan, limit);
  std::vector<PlaceCapacity> const rooms = limits;
  for (;;) {
    PlanData result = lifetime(CopyPass(plan, homes, limits, rooms).run(), capacity);
    bool fits = true;
    for (std::size_t i = 0; i < limits.size(); ++i)
      for (MemoryReport const& report : result.memory)
        if (Index const over = report.total() - capacity[i].bytes;
            report.location.place == limits[i].place && over > 0) {
          limits[i].bytes -= std::max(over, limits[i].bytes / 16);
          fits = false;
        }
    if (fits) return result;
  }
}

/// The least bytes of a place with which the plan fits, and with one less it does not; 0 where no
/// number of them is enough. Cost: `fit` for each bit of them.
inline Index least_capacity(PlanData const& plan, Homes const& homes,
                            std::vector<PlaceCapacity> capacity, Place const& place) {
  auto const at = std::find_if(capacity.begin(), capacity.end(),
                               [&](PlaceCapacity const& of) { return of.place == place; });
  auto const fits = [&](Index bytes) {
    at->bytes = bytes;
    try {
      (void)fit(plan, homes, capacity);
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
  Homes const homes(plan, graph, options);
  try {
    return fit(plan, homes, options.capacity);
  } catch (PlaceFull const& full) {
    if (tried) throw;
    Index const least = least_capacity(plan, homes, options.capacity, full.place);
    if (least == 0)
      throw PlaceFull(concat(std::string_view(full.what()), "; more of ", to_string(full.place),
                             " alone is not enough, as others are full, too"),
                      full.place);
    throw PlaceFull(concat(std::string_view(full.what()), "; the least that fits is ", least,
                           " bytes of ", to_string(full.place)),
                    full.place, least);
  }
}

}  // namespace nntile::passes
