#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Where the tensors of a model live: on the host, or on a device.

#include <cstdio>
#include <string>

#include "machine.hh"
#include "nntile/graph/places.hh"
#include "settings.hh"

namespace gpt2 {

/// The runtime's name for a place: devices are a property of runtimes. Throws ValueError.
inline std::string runtime_at(Machine const& machine) {
  if (machine.place == "host") return machine.runtime;
  if (machine.place != "emulated" && machine.place != "device")
    throw nntile::ValueError(nntile::concat("--place: '", machine.place,
                                            "'; there are host, device, by CUDA, and emulated, a "
                                            "device without hardware"));
  if (machine.runtime == "starpu")
    throw nntile::ValueError("--place: starpu moves tiles itself; serial and ring have devices");
  return machine.runtime + "-" + machine.place;
}

/// Options for the place that is asked for. Inputs come from the host; gradients that a run keeps
/// are computed where activations are. Several devices share what layers keep as evenly as can be,
/// in order; the first has all else, activations included, whose names tell no layer. Throws
/// ValueError.
inline void set_places(nntile::PlanOptions& options, Machine const& machine, nntile::Index layers) {
  using nntile::device, nntile::host, nntile::Role;
  (void)runtime_at(machine);
  bool const all_on_host = machine.place == "host";
  bool const optimizer = machine.offload == "optimizer",
             parameters = machine.offload == "parameters";
  if (machine.offload != "none" && !optimizer && !parameters)
    throw nntile::ValueError(nntile::concat("--offload: '", machine.offload,
                                            "'; there are none, optimizer and parameters"));
  if (all_on_host && (machine.offload != "none" || machine.device_memory != 0))
    throw nntile::ValueError("--offload and --device-memory are for a device: give --place, too");
  if (all_on_host && machine.devices != 1)
    throw nntile::ValueError("--devices are not the host: give --place, too");
  if (all_on_host) return;
  auto const put_layers = [&](char const* ending) {
    for (nntile::Index layer = 0; layer < layers && machine.devices > 1; ++layer)
      options.place.push_back({.tensors = nntile::concat("*h.", layer, ".*", ending),
                               .place = device(static_cast<int>(layer * machine.devices / layers)),
                               .optional = true});
  };
  put_layers(".grad");
  options.place.push_back({.tensors = "*.grad", .place = device(0), .optional = true});
  options.place.push_back({.role = Role::input, .place = host});
  if (optimizer || parameters) options.place.push_back({.role = Role::state, .place = host});
  if (parameters) options.place.push_back({.role = Role::parameter, .place = host});
  put_layers("");
  options.place.push_back({.tensors = "*", .place = device(0)});
  for (int number = 0; number < machine.devices && machine.device_memory != 0; ++number)
    options.capacity.push_back({device(number), static_cast<nntile::Index>(machine.device_memory)});
}

/// Prints what a step keeps at each place, and copies between them; nothing where there is one.
inline void show_places(nntile::Plan const& plan) {
  if (plan.memories().size() < 2) return;
  auto const bytes = [](nntile::Index value) { return readable_bytes(static_cast<double>(value)); };
  for (nntile::MemoryReport const& memory : plan.memories())
    std::printf("%-8s %s stored + %s arena (at least %s)\n",
                to_string(memory.location.place).c_str(), bytes(memory.stored).c_str(),
                bytes(memory.arena).c_str(), bytes(memory.arena_lower_bound).c_str());
  for (nntile::PlaceTraffic const& traffic : place_traffic(plan))
    std::printf("copies   %s a step from %s to %s, %lld tiles\n", bytes(traffic.bytes).c_str(),
                to_string(traffic.from).c_str(), to_string(traffic.to).c_str(),
                static_cast<long long>(traffic.copies));
}

}  // namespace gpt2
