// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A device without hardware: threads that run CPU entries, and device entries on a queue of their
// own.

#include <atomic>
#include <functional>
#include <string_view>
#include <vector>

#include "nntile/ops/call.hh"
#include "nntile/runtime/engine/engine.hh"
#include "tests/runtime/thread_executor.hh"

namespace nntile::test {

/// A stream: work is done when the stream is synchronised, in order.
struct EmulatedStream {
  std::vector<std::function<void()>> work;
};

/// Every thread drives the device, unless `without_device`; `broken` fails what it synchronises.
class EmulatedDevice : public ThreadExecutor {
 public:
  static constexpr std::string_view runtime_name = "emulated device";
  using ThreadExecutor::ThreadExecutor;

  void* stream() {
    static thread_local EmulatedStream own;
    return without_device ? nullptr : &own;
  }
  Status synchronize(void* stream) noexcept {
    auto const work = std::exchange(static_cast<EmulatedStream*>(stream)->work, {});
    for (auto const& item : work) item();
    return broken ? Status{"the device is lost"} : Status{};
  }

  static inline std::atomic<bool> without_device = false, broken = false;
};
static_assert(DeviceExecutor<EmulatedDevice> && !DeviceExecutor<ThreadExecutor>);

/// y = 2x, with an entry for devices beside its reference; other dtypes than fp32 have the
/// reference alone.
struct Twice {
  static constexpr char const* name = "twice";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  struct Attrs {};
  struct Args {
    Index n;
  };
  static constexpr Fields fields{};
  static Codelet const* kernel(ElementTypes types);
  static constexpr Hooks<Attrs> hooks{.kernel = &kernel};
  static constexpr char const* no_gradient = "a test";

  static Args args(Attrs const&, TileRange const& range) { return {range.extent('i')}; }
  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Twice> buffers) {
    ++runs_on_cpu;
    for (Index i = 0; i < args.n; ++i)
      buffers.at<T>(Operand::y)[i] = T(2 * static_cast<float>(buffers.at<T>(Operand::x)[i]));
  }
  static Status on_device(KernelCall const& call, void* stream) noexcept {
    ++runs_on_device;
    Buffers<Twice> const buffers(call);
    static_cast<EmulatedStream*>(stream)->work.push_back([n = arguments<Twice>(call).n,
                                                          x = buffers.at<float const>(Operand::x),
                                                          y = buffers.at<float>(Operand::y)] {
      for (Index i = 0; i < n; ++i) y[i] = 2 * x[i];
    });
    return {};
  }

  static inline std::atomic<int> runs_on_cpu = 0, runs_on_device = 0;
};
inline Codelet const* Twice::kernel(ElementTypes types) {
  static constexpr Codelet fp32{name, nullptr, &on_device, nullptr};
  return types.element == DType::fp32 ? &fp32 : nullptr;
}
inline constexpr Call<Twice> twice{};

}  // namespace nntile::test
