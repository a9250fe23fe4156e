#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks the options of a runtime against the process's affinity mask.
//
// Use by a runtime: CheckedOptions const o = check_options(options, "ring"); it spawns
// o.spawned threads, pins them to cores[i % size] where o.pin, lets them spin only where
// !o.oversubscribed, and reports workers() from it.

#include <sched.h>

#include <cstddef>
#include <string_view>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::support {

/// The most threads that one runtime may be asked to execute tasks with.
inline constexpr int max_workers = 1024;

/// The cores that the process may run on, ascending. Never empty: core 0 where the mask cannot be
/// read.
inline DynamicArray<int> allowed_cores() {
  DynamicArray<int> cores;
#if defined(__linux__)
  for (std::size_t size = 1024; cores.empty() && size <= (std::size_t{1} << 20); size *= 2) {
    cores.reserve(size);  // nothing throws between CPU_ALLOC and CPU_FREE
    cpu_set_t* const set = CPU_ALLOC(size);
    if (set == nullptr) break;
    std::size_t const bytes = CPU_ALLOC_SIZE(size);
    // Fails while the kernel's mask is longer than ours.
    if (sched_getaffinity(0, bytes, set) == 0)
      for (std::size_t i = 0; i < size; ++i)
        if (CPU_ISSET_S(i, bytes, set)) cores.push_back(static_cast<int>(i));
    CPU_FREE(set);
  }
#endif
  if (cores.empty()) cores.push_back(0);
  return cores;
}

/// Keeps the calling thread on one core; false if the system refuses.
inline bool pin_to_core(int core) {
#if defined(__linux__)
  std::size_t const size = static_cast<std::size_t>(core) + 1;
  cpu_set_t* const set = CPU_ALLOC(size);
  if (set == nullptr) return false;
  std::size_t const bytes = CPU_ALLOC_SIZE(size);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<std::size_t>(core), bytes, set);
  bool const pinned = sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return pinned;
#else
  (void)core;
  return false;
#endif
}

/// `RuntimeOptions` resolved on this machine.
struct CheckedOptions {
  int workers;  // threads that execute tasks
  int spawned;  // of them, those that the runtime starts: all but the driver, or all
  bool own_driver;
  bool pin;                 // never where oversubscribed
  bool oversubscribed;      // more workers than cores: they must not spin
  DynamicArray<int> cores;  // the affinity mask
};

/// Throws ValueError, naming runtime, value and range, when `workers` is not in 1 to min(1,024,
/// limit).
inline CheckedOptions check_options(RuntimeOptions const& options, std::string_view runtime,
                                    int limit = max_workers) {
  DynamicArray<int> cores = allowed_cores();
  int const available = static_cast<int>(cores.size());
  int const most = limit < max_workers ? limit : max_workers;
  int const workers = options.workers.value_or(available < most ? available : most);
  if (workers < 1 || workers > most)
    throw ValueError(concat(runtime, ": ", workers, " workers where 1 to ", most, " are possible"));
  bool const oversubscribed = workers > available;
  return {workers,
          options.own_driver ? workers : workers - 1,
          options.own_driver,
          options.pin && !oversubscribed,
          oversubscribed,
          static_cast<DynamicArray<int>&&>(cores)};
}

}  // namespace nntile::support
