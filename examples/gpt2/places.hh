#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Where the tensors of a model live: on the host, on a device, or on the disk.

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "machine.hh"
#include "nntile/graph/places.hh"
#include "notice.hh"
#include "settings.hh"
#include "words.hh"

namespace gpt2 {

/// The runtime's name for a place: devices and disks are a property of runtimes. Throws ValueError.
inline std::string runtime_at(Machine const& machine) {
  if (machine.runtime == "starpu" && !machine.disk.empty())
    throw nntile::ValueError("--disk: starpu moves tiles itself; serial and ring have disks");
  if (machine.place == "host") return machine.runtime + (machine.disk.empty() ? "" : "-disk");
  if (machine.place != "emulated" && machine.place != "device")
    throw nntile::ValueError(nntile::concat("--place: '", machine.place,
                                            "'; there are host, device, by CUDA, and emulated, a "
                                            "device without hardware"));
  if (machine.runtime == "starpu" && machine.place == "emulated")
    throw nntile::ValueError(
        "--place emulated: starpu has CUDA's devices alone, --place device; serial and ring have "
        "emulated ones");
  if (machine.runtime == "starpu" && machine.device_memory != 0)
    throw nntile::ValueError(
        "--device-memory: starpu moves tiles itself and takes what the device has, or "
        "STARPU_LIMIT_CUDA_MEM; serial and ring heed it");
  if (machine.runtime == "starpu") return machine.runtime;
  return machine.runtime + "-" + machine.place;
}

/// Throws ValueError for a runtime that is none of `names`, or has no such place: names with a
/// place in them are not for the command line.
inline void require_runtime(Machine const& machine, std::string const& names) {
  (void)runtime_at(machine);
  std::string const name = nntile::concat(", ", machine.runtime, ",");
  if (machine.runtime.empty() || nntile::concat(", ", names, ",").find(name) == std::string::npos)
    throw nntile::ValueError(
        nntile::concat("--runtime: '", machine.runtime, "'; there are ", names));
}

/// Options for the place that is asked for. Inputs come from the host; gradients that a run keeps
/// are computed where activations are. Several devices share the layers as evenly as can be, in
/// order, each with what it keeps and computes; the first has all else. What the disk keeps is of
/// no other place. Where parameters do, casts of them to bf16 live there, too: half the bytes are
/// copied. For StarPU places are hints. Throws ValueError.
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
  if (machine.disk.empty() && (machine.disk_keeps != "none" || machine.host_memory != 0))
    throw nntile::ValueError("--disk-keeps and --host-memory are for a disk: give --disk, too");
  bool const states_on_disk = machine.disk_keeps == "optimizer",
             parameters_on_disk = machine.disk_keeps == "parameters";
  if (machine.disk_keeps != "none" && !states_on_disk && !parameters_on_disk)
    throw nntile::ValueError(nntile::concat("--disk-keeps: '", machine.disk_keeps,
                                            "'; there are none, optimizer and parameters"));
  if (!machine.disk.empty() && machine.disk_keeps == "none" && machine.host_memory == 0)
    throw nntile::ValueError(
        "--disk: nothing would go there; give --disk-keeps optimizer or parameters, or "
        "--host-memory");
  if (machine.devices > layers)
    throw nntile::ValueError(nntile::concat("--devices: ", machine.devices, ", but the model has ",
                                            layers, " layers; give as many at most, or train one ",
                                            "with more --layers"));
  for (auto const& [option, bytes] : {std::pair{"--host-memory", machine.host_memory},
                                      std::pair{"--device-memory", machine.device_memory}})
    if (bytes > static_cast<std::uint64_t>(INT64_MAX))
      throw nntile::ValueError(nntile::concat(option, ": ", bytes,
                                              " bytes are more than there can be; give ", INT64_MAX,
                                              " at most, or leave it out for what the plan needs"));
  options.places_are_hints = machine.runtime == "starpu";
  if (machine.host_memory != 0)
    options.capacity.push_back({host, static_cast<nntile::Index>(machine.host_memory)});
  auto const put_on_disk = [&] {
    if (states_on_disk || parameters_on_disk)
      options.place.push_back({.role = Role::state, .place = nntile::disk, .optional = true});
    if (parameters_on_disk)
      options.place.push_back({.role = Role::parameter, .place = nntile::disk});
  };
  if (all_on_host) return put_on_disk();
  auto const put_layers = [&](char const* ending) {
    for (nntile::Index layer = 0; layer < layers && machine.devices > 1; ++layer)
      options.place.push_back({.tensors = nntile::concat("*h.", layer, ".*", ending),
                               .place = device(static_cast<int>(layer * machine.devices / layers)),
                               .optional = true});
  };
  put_layers(".grad");
  options.place.push_back({.tensors = "*.grad", .place = device(0), .optional = true});
  options.place.push_back({.role = Role::input, .place = host});
  put_on_disk();
  if (optimizer || parameters) options.place.push_back({.role = Role::state, .place = host});
  if (parameters) {
    options.place.push_back({.role = Role::parameter, .place = host});
    options.place.push_back({.tensors = "*.bf16", .place = host, .optional = true});
  }
  put_layers("");
  options.place.push_back({.tensors = "*", .place = device(0)});
  for (int number = 0; number < machine.devices && machine.device_memory != 0; ++number)
    options.capacity.push_back({device(number), static_cast<nntile::Index>(machine.device_memory)});
}

/// Whether a graph is one of training, with states and batches; else it generates.
inline bool trains(std::string const& graph) { return graph != "prefill" && graph != "generate"; }

/// A plan needs more bytes of a place than it is given: in the words of the command line. `enough`
/// of them are; 0 where no number is.
struct TooFewBytes : nntile::ValueError {
  TooFewBytes(Machine const& machine, std::string const& of, nntile::Place full,
              nntile::Index least)
      : ValueError(text(machine, of, full, least)), graph(of), place(full), enough(least) {}
  std::string graph;
  nntile::Place place;
  nntile::Index enough;

 private:
  static std::string text(Machine const& machine, std::string const& graph, nntile::Place full,
                          nntile::Index least) {
    bool const of_host = full == nntile::host;
    std::string const& kept = of_host ? machine.disk_keeps : machine.offload;
    char const* const option = of_host ? "--disk-keeps" : "--offload";
    std::string ways = least == 0 ? "give more" : nntile::concat("give ", least);
    if (kept != "parameters")
      ways += nntile::concat(", or ", option,
                             kept == "none" && trains(graph) ? " optimizer or" : "", " parameters");
    return nntile::concat(of_host ? "--host-memory: " : "--device-memory: ",
                          of_host ? machine.host_memory : machine.device_memory, " bytes of ",
                          to_string(full), " are too few for the plan '", graph, "'; ", ways,
                          ", or take smaller tiles (--tile)",
                          trains(graph) ? ", --seq or --batch" : "");
  }
};

/// Plans by make(), whose errors get the words of the command line. Throws Error.
template <class Make>
auto plan_within(Machine const& machine, std::string const& graph, Make make) {
  try {
    PlanningNotice const notice(graph);
    return make();
  } catch (nntile::PlaceFull const& full) {
    throw TooFewBytes(machine, graph, full.place, full.least);
  } catch (nntile::Error const& error) {
    throw nntile::Error(in_options(error.what()));
  }
}

/// Prints how many tasks of a step each device had best run, if places are hints.
inline void show_hints(nntile::Plan const& plan) {
  std::map<int, std::size_t> tasks;
  for (nntile::PlannedTask const& task : plan.tasks())
    if (int const device = plan.hints(task).device; device >= 0) ++tasks[device];
  for (auto const& [device, count] : tasks)
    std::printf("device %d   %zu of %zu tasks, and tiles as the runtime moves them\n", device,
                count, plan.tasks().size());
}

/// Prints what a step keeps at each place, and copies between them; nothing where there is one.
inline void show_places(nntile::Plan const& plan) {
  show_hints(plan);
  if (plan.memories().size() < 2) return;
  for (nntile::MemoryReport const& memory : plan.memories())
    std::printf("%-8s %lld bytes: %lld stored, %lld arena (lower bound %lld)\n",
                to_string(memory.location.place).c_str(), static_cast<long long>(memory.total()),
                static_cast<long long>(memory.stored), static_cast<long long>(memory.arena),
                static_cast<long long>(memory.arena_lower_bound));
  for (nntile::PlaceTraffic const& traffic : place_traffic(plan))
    std::printf("copies   %lld bytes a step from %s to %s, %lld tiles\n",
                static_cast<long long>(traffic.bytes), to_string(traffic.from).c_str(),
                to_string(traffic.to).c_str(), static_cast<long long>(traffic.copies));
}

}  // namespace gpt2
