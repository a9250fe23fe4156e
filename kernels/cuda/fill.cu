// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/fill.hh"

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct Fill {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::Fill> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    Fill const kernel{DeviceCall<ops::Fill>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.n * static_cast<Index>(args.columns.count), stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    auto const& args = call.args();
    T* const y = call.buffers().template at<T>(ops::Fill::Operand::y);
    T const value = rounded_to<T>(args.value);
    for_each_pair(thread, args.n, args.columns.count, [&](Index i, Index c) {
      y[i + c * static_cast<Index>(args.columns.leading[0])] = value;
    });
  }
};

constinit auto const kernels = op_kernels<ops::Fill, Fill>();

}  // namespace
NNTILE_KERNEL_LIST(fill, kernels)
}  // namespace nntile::kernels::cuda
