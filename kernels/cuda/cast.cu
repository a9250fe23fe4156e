// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/cast.hh"

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {
namespace {

template <class To, class From> struct Cast {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::Cast> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    Cast const kernel{DeviceCall<ops::Cast>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.n * static_cast<Index>(args.columns.count), stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    auto const& args = call.args();
    auto const buffers = call.buffers();
    From const* const x = buffers.template at<From const>(ops::Cast::Operand::x);
    To* const y = buffers.template at<To>(ops::Cast::Operand::y);
    Index const of_x = static_cast<Index>(args.columns.leading[0]);
    Index const of_y = static_cast<Index>(args.columns.leading[1]);
    for_each_pair(
        thread, args.n, args.columns.count,
        [&](Index i, Index c) { return nntile::detail::convert<To>(x[i + c * of_x]); },
        [&](Index i, Index c, To value) { y[i + c * of_y] = value; });
  }
};

constinit auto const kernels = op_kernels<ops::Cast, Cast>();

}  // namespace
NNTILE_KERNEL_LIST(cast, kernels)
}  // namespace nntile::kernels::cuda
