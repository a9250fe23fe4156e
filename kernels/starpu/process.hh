#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// State that the StarPU objects of one process share. Internal to kernels/starpu/.

#include <starpu.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "nntile/runtime/starpu/shim.hh"

namespace nntile::starpu_shim {

/// A starpu_codelet made for one computation. Never freed: StarPU and its traces keep the address.
struct CodeletEntry {
  void const* key;
  CodeletEntry* next;
  starpu_codelet codelet;
  starpu_perfmodel model;
};

/// Constant-initialised and never destroyed, so that objects of any lifetime may use it.
struct Process {
  std::atomic<pid_t> runs_in{0};  // the process in which objects are; 0: there are none
  std::mutex gate;  // guards the counted start and every starpu_pause and starpu_resume
  int objects = 0;
  bool started_here = false;  // not by the application itself
  void* (*allocate)(std::size_t bytes) noexcept = nullptr;
  void (*free)(void* pointer) noexcept = nullptr;
  int workers = 0;
  int devices = 0;
  int worker_ids[STARPU_NMAXWORKERS] = {};  // of the CPU
  int device_ids[STARPU_NMAXWORKERS] = {};  // of CUDA
  int min_priority = 0;
  int max_priority = 0;
  bool maps_priorities = false;  // the policy aborts on one that the application has not mapped
  bool end_needs_worker =
      false;  // the policy's post_exec_hook asks which worker it is on, and aborts elsewhere
  starpu_codelet end_codelet = {};
  int progression_hook = -1;
  int idle_hook = -1;

  std::atomic<std::int64_t> in_flight{0};  // jobs, acquisitions and retirements
  std::atomic<std::int64_t> idle_since{
      0};  // steady clock ns of the first idle look; 0 while something is in flight
  std::atomic<bool> paused{false};
  std::atomic<int> enders{0};  // threads inside `end`, which may outlast the job

  std::int64_t spin_ns = 0;  // from idle to paused
  int looks_before_nap = 0;
  int idle_looks[STARPU_NMAXWORKERS] = {};  // in a row; each worker's own

  std::mutex poll_gate;
  Poller* pollers = nullptr;
  std::atomic<bool> polls_wanted{false};

  std::mutex codelet_gate;
  static constexpr unsigned bucket_count = 256;
  CodeletEntry* buckets[bucket_count] = {};
};

Process& process() noexcept;

/// Brackets everything that StarPU's workers must be awake for.
void enter_flight() noexcept;
void leave_flight() noexcept;

/// Notes that the calling worker runs a task.
void worker_found_task() noexcept;

/// Called by workers that find no task: polls, and puts them to sleep. Not a progression hook, for
/// StarPU may call those while it holds a worker's lock, and ending a task needs that.
unsigned idle_hook(void*) noexcept;
/// Tells StarPU whether its workers may sleep, where it is built so that they do.
unsigned progression_hook(void*) noexcept;

/// Holds, while it lives, the right to start StarPU with this machine's calibration files.
class EnvironmentCalibrationLock {
 public:
  /// Throws ValueError unless the folders that StarPU takes from the environment can be written.
  EnvironmentCalibrationLock();
  EnvironmentCalibrationLock(EnvironmentCalibrationLock const&) = delete;
  EnvironmentCalibrationLock& operator=(EnvironmentCalibrationLock const&) = delete;

 private:
  struct File {
    int descriptor = -1;
    ~File();
  };
  void add(char const* folder, char const* variable);
  File files_[3];
  int count_ = 0;
};

}  // namespace nntile::starpu_shim
