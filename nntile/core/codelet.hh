#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Codelet: the code of a task, a named set of entries, one per kind of device.

#include <cstddef>
#include <cstdint>

namespace nntile {

/// Outcome of a body: no text is success. The text is a constant, or the `text` of the call.
struct Status {
  char const* error = nullptr;
  constexpr bool ok() const { return error == nullptr; }
};

/// Begins the error of an asynchronous task that a failure elsewhere has cancelled, and whose text
/// follows: the task marks what it writes, and counts as cancelled, not as failed. CAN of ASCII.
inline constexpr char cancelled_mark = '\x18';

/// Bytes of `KernelCall::text`.
inline constexpr std::size_t status_text_bytes = 192;

/// The most bytes of workspace that a codelet may need: what a runtime lends to each body.
inline constexpr std::size_t max_workspace_bytes = 768 * 1024;

/// Arguments of an entry. Buffers stand in the order of the task's uses; both arrays live as long
/// as the call only.
struct KernelCall {
  void* const* buffers;
  void const* arguments;
  char* text;  // status_text_bytes long, for a failure with a message of its own
  /// At least Codelet::workspace bytes, aligned to 64, contents undefined, for this body alone
  /// until it returns; so an asynchronous entry is given none. May be null where the codelet needs
  /// none. One for a device: null, or memory of that device, of Codelet::device_workspace bytes.
  void* workspace = nullptr;
  /// Whether a failure has marked what the task reads, the reason then in `text`: see
  /// Codelet::runs_on_marks.
  bool marked = false;
};

/// Finishes an asynchronous task, from any thread, once. A copyable value; copies may outlive the
/// entry.
struct Completion {
  /// Returns true when the work is done, having called `complete` of the token itself. The runtime
  /// may be amid a call: what a poll asks of it but `done` throws LifetimeError, as inside a task.
  /// An exception from a poll fails its task.
  using Poll = bool (*)(void* state, Completion token);

  void* owner = nullptr;
  std::uint64_t id = 0;
  void (*finish)(void* owner, std::uint64_t id, Status status) noexcept = nullptr;
  void (*add_poll)(void* owner, std::uint64_t id, Poll poll, void* state,
                   bool driver_only) = nullptr;

  /// Ends the task. The text of a failure is copied before this returns.
  void complete(Status status = {}) const noexcept { finish(owner, id, status); }
  /// Asks every blocking place (and one idle worker, unless `driver_only`) to call `poll` until it
  /// returns true. Throws std::bad_alloc, which a body must catch; nothing is polled then.
  void poll(Poll function, void* state, bool driver_only = false) const {
    add_poll(owner, id, function, state, driver_only);
  }
};

/// Runs to its end on the calling thread.
using CpuEntry = Status (*)(KernelCall const&) noexcept;
/// Enqueues on the stream (a cudaStream_t) and returns.
using CudaEntry = Status (*)(KernelCall const&, void* stream) noexcept;
/// Starts the work and returns; the token's holder ends the task. A failed status ends it at once,
/// and the token is void.
using AsyncEntry = Status (*)(KernelCall const&, Completion token) noexcept;

struct Computation;

/// The entries for one computation, chosen when it is bound: one per kind of device, that of the
/// CPU for one instruction set. Codelets are constants: runtimes know them by address.
struct Codelet {
  char const* name = "";
  CpuEntry cpu = nullptr;
  CudaEntry cuda = nullptr;
  AsyncEntry async = nullptr;
  /// Bytes that the CPU entry needs in KernelCall::workspace, at most max_workspace_bytes: what
  /// does not fit on a thread of 64 KiB of stack.
  std::size_t workspace = 0;
  /// The computation, one object for all codelets that compute it; null: known to this one alone.
  Computation const* computation = nullptr;
  /// Of an asynchronous entry of a task that writes nothing: it is called even where a failure has
  /// marked what it reads, with KernelCall::marked, so that it can tell others; the task is
  /// cancelled all the same.
  bool runs_on_marks = false;
  /// Bytes of the device's memory that the CUDA entry takes, aligned to 256, where a runtime lends
  /// it any: one block for the tasks of a stream, which run one after the other.
  std::uint32_t device_workspace = 0;

  /// Whether a CPU worker runs it.
  constexpr bool runs_on_cpu() const { return cpu != nullptr || async != nullptr; }
};

}  // namespace nntile
