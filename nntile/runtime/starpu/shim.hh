#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Everything that touches StarPU, as plain C++. Compiled once, in kernels/starpu/; nothing here
// needs <starpu.h>.

#include <cstddef>
#include <span>

#include "nntile/core/access.hh"
#include "nntile/core/codelet.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::starpu_shim {

/// A registered buffer: StarPU's data handle under a name of our own.
struct Data;

/// The head of a task's block in StarPU. Lies in memory from std::malloc, at the head of whatever
/// its runtime adds; StarPU frees it after `left`.
struct Job {
  /// Runs the body on a worker, on `pointers`; `stream` is a cudaStream_t, null on a CPU.
  void (*run)(Job& job, void* stream) noexcept = nullptr;
  /// Is called once, when the body has run, its end is released and the task's successors may
  /// start.
  void (*left)(Job& job) noexcept = nullptr;
  void* task = nullptr;  // starpu_task, filled by `submit`
  /// The position of each use's buffer among the operands: a handle used twice is one operand.
  unsigned const* operand_of_use = nullptr;
  unsigned use_count = 0;
  void** pointers = nullptr;  // room for use_count buffers
  Cost cost;                  // zeros: the bytes of the operands
};

/// The largest number of CPU workers that this build of StarPU has; Debian's has 4.
int worker_limit() noexcept;

/// As many CUDA workers as run already, or else as STARPU_NCUDA says, or else none.
inline constexpr int devices_unasked = -2;

/// Settings for the start of StarPU.
struct Start {
  int workers = 0;  // 0: as many as run already, or else as many as cores, as far as the build goes
  int cores = 1;    // that the process may run on; with more workers than that, they do not spin
  bool pin = false;                                         // heeded by the first to start it
  int devices = devices_unasked;                            // CUDA workers, or that
  void* (*allocate)(std::size_t bytes) noexcept = nullptr;  // host memory, 64-byte aligned
  void (*free)(void* pointer) noexcept = nullptr;
};
/// Joins the process's StarPU, starting it unless it runs. Returns the numbers of workers. Throws
/// ValueError in place of StarPU's aborts: too many workers, others than those that run, no folder
/// that it can write its calibration to; DeviceError: CUDA workers where StarPU was built without
/// them, or more than there are devices; LifetimeError: in a process that was forked while it ran.
Workers start(Start const& start);
/// Leaves it; the last one to leave shuts it down. Nothing of the caller may be in flight.
void stop() noexcept;

/// Whether the calling thread is a worker of StarPU: it must not wait, acquire or submit.
bool on_worker() noexcept;

/// Registers memory that stays at `pointer`. Its contents count as written.
Data* register_memory(void* pointer, std::size_t bytes);
/// Registers a buffer that StarPU allocates at its first writer.
Data* register_transient(std::size_t bytes);
/// A retirement under way; stays where it is until `after` is called.
struct Retirement {
  Release after;
  Data* data = nullptr;  // filled by `retire`, as is the next
  int node = 0;
};
/// Unregisters after the last task; then calls `after` once, on any thread. Memory that was
/// registered holds the contents by then; those of a transient buffer are dropped.
void retire(Data* data, Retirement& retirement) noexcept;

/// Asks for the contents in host memory, after all tasks so far, and calls `granted` once, on any
/// thread; it stays where it is until then.
void acquire(Data* data, Access access, Release const& granted) noexcept;
/// Address in host memory, between `granted` and `release`.
void* host_pointer(Data* data);
void release(Data* data);

/// Submits the job, which StarPU owns from here on; when this throws, the caller still does. Each
/// buffer is an operand once. With `held` the task ends only when the body has run and `end` was
/// called, and keeps its buffers until then.
void submit(Job& job, Codelet const& codelet, std::span<Use<Data*> const> operands, Hints hints,
            bool held);
/// Lets a held task end; from any thread, also from inside the body. The job is gone when this
/// returns.
void end(Job& job) noexcept;

/// A list of polls that idle workers are to call; lives in the runtime's object.
struct Poller {
  /// Returns whether it has more to do, so that workers must not sleep.
  bool (*poll)(void* state) noexcept = nullptr;
  void* state = nullptr;
  Poller* next = nullptr;  // used by the shim
};
/// From `add` until `remove` returns, one idle worker at a time calls it; `poll_soon` wakes one
/// that sleeps.
void add_poller(Poller& poller) noexcept;
void remove_poller(Poller& poller) noexcept;
void poll_soon() noexcept;

}  // namespace nntile::starpu_shim
