// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runtimes of several places for the ranks of a process, compared with their plans.

#include <string>

#include "nntile/graph/places.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/support/copied.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/places.hh"

namespace nntile::test {

/// A runtime with two emulated devices, whose delays follow from its workers, and a disk.
template <class R> struct Emulated : R {
  explicit Emulated(RuntimeOptions const& options)
      : R(options, DiskOptions{.capacity = std::size_t{1} << 26},
          testing::EmulatedOptions{.devices = 2,
                                   .seed = static_cast<std::uint64_t>(options.workers.value_or(1)),
                                   .longest_delay_ns = 5'000}) {}
};

template <class R> inline constexpr bool runs_alone<Emulated<R>> = runs_alone<R>;

/// Throws Error where the places of a rank have, or have moved, other bytes than the plan says.
template <class R> void check_places(Places<R> const& runtime, Plan const& plan, int runs) {
  for (MemoryReport const& memory : plan.memories()) {
    std::string const place = to_string(memory.location.place);
    auto const now = runtime.now.find(place);
    Index const bytes = now == runtime.now.end() ? 0 : now->second;
    if (bytes != memory.total())
      throw Error(concat("rank ", plan.rank(), ": ", bytes, " bytes at ", place, ", and ",
                         memory.total(), " by the plan"));
  }
  typename Places<R>::Moved moved;
  for (PlaceTraffic const& traffic : place_traffic(plan))
    moved[{to_string(traffic.from), to_string(traffic.to)}] = runs * traffic.bytes;
  if (runtime.moved != moved)
    throw Error(concat("rank ", plan.rank(), ": places move what is not planned"));
}
template <class R> void check_places(Emulated<R>& runtime, Plan const& plan, int runs) {
  auto const fail = [&](auto const&... text) {
    throw Error(concat("rank ", plan.rank(), ": ", text...));
  };
  for (int i = 0; i < 2; ++i) {
    auto const peak = static_cast<Index>(runtime.device().memory().peak(i));
    Index const planned = plan.memory({plan.rank(), device(i)}).total();
    if (peak != planned) fail("a peak of ", peak, " on device ", i, ", and ", planned, " planned");
  }
  auto const peak = static_cast<Index>(runtime.device().disk_use().peak);
  Index const planned = plan.memory({plan.rank(), disk}).total();
  if (peak != planned) fail("a peak of ", peak, " on the disk, and ", planned, " planned");
  Copied expected = copied_by(plan);
  for (auto& [way, count] : expected) count.first *= runs, count.second *= runs;
  if (copied_on(runtime) != expected) fail("places copy what is not planned");
}

}  // namespace nntile::test
