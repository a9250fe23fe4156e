// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A runtime on which tasks run as device code, on the emulator, wherever kernels/cuda has a kernel.

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nntile/core/dtype.hh"
#include "nntile/core/error.hh"
#include "nntile/ops/operand.hh"
#include "nntile/runtime/serial/serial.hh"

namespace nntile::test {

/// The entry of kernels/cuda that computes the same, or null.
Codelet const* on_device(Codelet const& codelet);

/// The entry for an op of these types, or null.
Codelet const* on_device(std::string_view op, DType element, DType second);

/// What tasks of the calling thread run from now on where it computes what they do.
void run_instead(std::span<Codelet const> codelets);

/// Serial, but for that. Kernels see copies of what their tasks use, between pages without access.
class Simt : public Serial {
 public:
  static constexpr char const* runtime_name = "simt";
  explicit Simt(RuntimeOptions const& options = {}) : Serial(options) {}

  DataHandle allocate(std::size_t bytes, Place place = host,
                      Lifetime lifetime = Lifetime::persistent) {
    return note(Serial::allocate(bytes, place, lifetime), bytes);
  }
  template <class Byte, std::size_t count>
  DataHandle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {}) {
    return note(Serial::adopt(bytes, place, release), bytes.size());
  }

  Event submit(Task<DataHandle> const& task) {
    Codelet const* const device =
        task.codelet->cuda != nullptr ? task.codelet : on_device(*task.codelet);
    if (device == nullptr) return Serial::submit(task);
    Inner inner{device, task.uses.size(), {}};
    if (task.uses.size() > max_operands) throw ValueError("simt: a task of too many operands");
    for (std::size_t u = 0; u < task.uses.size(); ++u) {
      auto const found = bytes_.find(key(task.uses[u].handle));
      // Part of a buffer is not known here: it is not fenced.
      inner.uses[u] = {found == bytes_.end() ? unknown : found->second,
                       writes(task.uses[u].access)};
    }
    std::vector<std::byte> arguments(sizeof inner + task.arguments.size());
    std::memcpy(arguments.data(), &inner, sizeof inner);
    if (!task.arguments.empty())
      std::memcpy(arguments.data() + sizeof inner, task.arguments.data(), task.arguments.size());
    return Serial::submit({&codelet, task.uses, arguments, task.hints, task.label});
  }

 private:
  static constexpr std::size_t unknown = SIZE_MAX;
  struct alignas(16) Inner {  // as arguments are aligned
    Codelet const* device;
    std::size_t count;
    struct {
      std::size_t bytes;
      bool written;
    } uses[max_operands];
  };

  static std::uint64_t key(DataHandle handle) {
    return std::uint64_t{handle.generation} << 32 | handle.index;
  }
  DataHandle note(DataHandle handle, std::size_t bytes) {
    bytes_[key(handle)] = bytes;
    return handle;
  }
  static Status run(KernelCall const& call) noexcept;
  static constexpr Codelet codelet{"simt", &run, nullptr, nullptr};

  std::unordered_map<std::uint64_t, std::size_t> bytes_;
};

}  // namespace nntile::test
