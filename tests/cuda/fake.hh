// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A runtime library of CUDA for tests, in its place: devices that are memory which the host cannot
// follow and threads for streams; and what it is told to say and to fail.

#include <cstdint>
#include <cstring>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::test::fake {

/// What the library says of itself and of the machine.
struct Machine {
  int library = 13000, driver = 13000;
  int devices = 4;
  int major = 9, minor = 0;
};
Machine& machine();

/// Begins anew: no device of before may be in use. Where the n-th kernel or copy fails, all calls
/// do from then on, as behind an error of a kernel.
void reset(Machine const& machine = {}, std::uint64_t seed = 0, int fails_at_job = 0);

/// Bytes that are allocated, on devices and pinned; objects that were made and not destroyed.
std::int64_t live_bytes();
std::int64_t live_objects();
/// Copies from and to memory that the library does not know: the driver would wait amid them.
std::int64_t unpinned_copies();
/// The next function that a stream is to call is queued 50 ms late, once what is before it has
/// ended; whether one is held so, or was.
void hold_a_function();
bool holds_a_function();
/// The calling thread's.
int& current_device();

/// Runs the CPU entry of a wrapped task on a stream, as a kernel would be.
Status run(KernelCall const& call, void* stream) noexcept;

/// What the arguments of a wrapped task begin with.
struct Head {
  Codelet const* inner;
  std::uint64_t buffers;
};

/// A runtime R on these devices, whose tasks are given an entry for devices.
template <class R> class OnFake : public R {
 public:
  using R::R;
  using typename R::Handle;

  Event submit(Task<Handle> const& task) {
    if (task.codelet == &copy_codelet) return R::submit(task);
    Head const head{task.codelet, task.uses.size()};
    std::vector<std::byte> arguments(sizeof head + task.arguments.size());
    std::memcpy(arguments.data(), &head, sizeof head);
    if (!task.arguments.empty())
      std::memcpy(arguments.data() + sizeof head, task.arguments.data(), task.arguments.size());
    return R::submit({&codelet, task.uses, arguments, task.hints, task.label});
  }

 private:
  /// On the host, where the task names no memory of a device.
  static Status on_host(KernelCall const& call) noexcept {
    Head head;
    std::memcpy(&head, call.arguments, sizeof head);
    return head.inner->cpu({call.buffers,
                            static_cast<std::byte const*>(call.arguments) + sizeof head, call.text,
                            call.workspace});
  }
  static constexpr Codelet codelet{"fake", &on_host, &run, nullptr, max_workspace_bytes};
};

}  // namespace nntile::test::fake
