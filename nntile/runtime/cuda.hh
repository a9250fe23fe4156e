#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cuda: NVIDIA's devices as the Device of a runtime. Needs no header of CUDA; a program that uses
// it links nntile_cuda, which has the kernels, too.
//
//   CudaRing runtime;                                runtime/ring/cuda.hh
//   BasicSerial<Cuda> runtime;  Engine<Mine, Cuda> runtime;

#include <memory>
#include <optional>
#include <string>

#include "nntile/core/copy.hh"
#include "nntile/runtime/device.hh"

namespace nntile {

class DeviceLog;  // device_log.hh

struct CudaOptions {
  int devices = 0;           // uses the first ones, this many; 0: all
  int lanes = 2;             // streams of each: kernels in the first, copies in the last
  DeviceLog* log = nullptr;  // of what streams run, by events around each job, and of memory
};

/// The devices of this machine. Memory of devices comes from cudaMalloc, pinned memory from
/// cudaHostAlloc; copies from and to other memory of the host go through pinned blocks, which are
/// kept. It uses each device's primary context, and leaves the calling thread's current device as
/// it was. Where it is made, kernels::find() begins to give codelets with entries for devices.
/// Kernels in fast mode are lent up to 32 MiB of their stream's own, from `lend` or the first of
/// them on.
/// Models Device, LendingDevice and LocatingDevice.
class Cuda {
 public:
  static constexpr bool exists = true;
  /// Kernels do not reach memory of the host, unless it is pinned: copies bring it.
  static constexpr bool reaches_host = false;

  /// Throws DeviceError, in one sentence: there is no driver, an older one, no device, fewer than
  /// asked for, a device that the library has no code for, or a CUDA library of another version
  /// than the one that it was compiled for; ValueError: numbers below 0, no lane.
  explicit Cuda(CudaOptions const& options = {});
  Cuda(Cuda const&) = delete;
  Cuda& operator=(Cuda const&) = delete;
  ~Cuda();

  int devices() const noexcept;
  int lanes() const noexcept;
  void* allocate(std::size_t bytes, Place place);
  void free(void* pointer, std::size_t bytes, Place place) noexcept;
  void lend(int device, std::size_t bytes);
  std::optional<Place> place_of(void const* pointer) const noexcept;
  bool runs(Codelet const& codelet) const noexcept {
    return codelet.cuda != nullptr || &codelet == &copy_codelet;
  }
  Status launch(Stream stream, DeviceJob const& job, char* text) noexcept;
  std::uint64_t mark(Stream stream) noexcept;
  StreamProgress query(Stream stream, std::uint64_t mark, char* text) noexcept;
  void wait(Stream stream, Stream other, std::uint64_t mark) noexcept;

  /// Names the kernels of products in fast mode: the version of cuBLASLt, or exact kernels and the
  /// reason, such as the loader's words of a library that is not there. Loads it. Throws
  /// DeviceError: it is of another major version than the headers that nntile_cuda was compiled
  /// with, as binding does.
  static std::string fast_products();

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};
static_assert(LocatingDevice<Cuda> && LendingDevice<Cuda> && !UnifiedDevice<Cuda>);

/// From then on kernels::find() gives codelets with entries for devices, as where a Cuda is made:
/// for a runtime with devices of its own, such as StarPU.
void use_cuda_kernels() noexcept;

}  // namespace nntile
