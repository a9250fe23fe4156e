// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/add_slice.hh"

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct AddSlice {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::AddSlice> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    AddSlice const kernel{DeviceCall<ops::AddSlice>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.m * args.k * args.n, stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::AddSlice::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    T const* const x = buffers.template at<T const>(Operand::x);  // [m, k, n]
    T const* const s = buffers.template at<T const>(Operand::s);  // [m, n]
    T* const z = buffers.template at<T>(Operand::z);              // [m, k, n]
    Vec<compute_t<T>> const alpha(args.alpha);
    for_each_triple(
        thread, args.m, args.k, args.n,
        [&](Index i, Index k, Index j) {
          return fma(alpha, get(s + i + j * args.s), get(x + i + k * args.x.k + j * args.x.j));
        },
        [&](Index i, Index k, Index j, auto value) {
          put(z + i + k * args.z.k + j * args.z.j, value);
        });
  }
};

constinit auto const kernels = op_kernels<ops::AddSlice, AddSlice>();

}  // namespace
NNTILE_KERNEL_LIST(add_slice, kernels)
}  // namespace nntile::kernels::cuda
