// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A runtime on which tasks run as device code, on the emulator, wherever kernels/cuda has a kernel.

#include <cstring>
#include <string_view>
#include <vector>

#include "nntile/core/dtype.hh"
#include "nntile/runtime/serial/serial.hh"

namespace nntile::test {

/// The entry of kernels/cuda that computes the same, or null.
Codelet const* on_device(Codelet const& codelet);

/// The entry for an op of these types, or null.
Codelet const* on_device(std::string_view op, DType element, DType second);

/// Serial, but for that.
class Simt : public Serial {
 public:
  static constexpr char const* runtime_name = "simt";
  explicit Simt(RuntimeOptions const& options = {}) : Serial(options) {}

  Event submit(Task<DataHandle> const& task) {
    Codelet const* const device =
        task.codelet->cuda != nullptr ? task.codelet : on_device(*task.codelet);
    if (device == nullptr) return Serial::submit(task);
    std::vector<std::byte> arguments(inner_bytes + task.arguments.size());
    std::memcpy(arguments.data(), &device, sizeof device);
    if (!task.arguments.empty())
      std::memcpy(arguments.data() + inner_bytes, task.arguments.data(), task.arguments.size());
    return Serial::submit({&codelet, task.uses, arguments, task.hints, task.label});
  }

 private:
  static constexpr std::size_t inner_bytes = 16;  // as arguments are aligned

  static Status run(KernelCall const& call) noexcept {
    Codelet const* device;
    std::memcpy(&device, call.arguments, sizeof device);
    auto const* const arguments = static_cast<std::byte const*>(call.arguments) + inner_bytes;
    return device->cuda({call.buffers, arguments, call.text}, nullptr);
  }
  static constexpr Codelet codelet{"simt", &run, nullptr, nullptr};
};

}  // namespace nntile::test
