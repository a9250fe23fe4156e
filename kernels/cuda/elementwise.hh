#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Kernels of elementwise ops: the op's own `apply`, an element a thread.

#include "kernels/cuda/kernel.hh"
#include "nntile/ops/elementwise.hh"

namespace nntile::kernels::cuda {

template <class Op> struct ElementwiseKernel {
  template <class T> struct Body {
    static constexpr int threads = loop_threads;
    DeviceCall<Op> call;

    static Status enqueue(KernelCall const& from, void* stream) noexcept {
      Body const kernel{DeviceCall<Op>(from)};
      auto const& args = kernel.call.arguments.args;
      return launch_over(args.n * static_cast<Index>(args.columns.count), threads, stream, kernel);
    }
    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      for_each_pair(thread, args.n, args.columns.count, [&](Index i, Index c) {
        T* const out = Op::template column<T>(args, buffers, Op::operands.size() - 1, c) + i;
        auto const value = [&]<std::size_t... o>(std::index_sequence<o...>) {
          return Op::apply(args.attrs,
                           get(Op::template column<T const>(args, buffers, o, c) + i)...);
        }(std::make_index_sequence<Op::operands.size() - 1>{});
        if constexpr (Op::updates())
          update(out, args.attrs.beta, value);
        else
          put(out, value);
      });
    }
  };
};

/// The kernels of one op of a header's list; none for an op that is not elementwise.
template <class Op> consteval auto elementwise_kernels() {
  if constexpr (requires { requires Op::elementwise; })
    return op_kernels<Op, ElementwiseKernel<Op>::template Body>();
  else
    return Kernels<0>{};
}

template <class... Ops> consteval auto elementwise_kernels(OpList<Ops...>) {
  return join(elementwise_kernels<Ops>()...);
}

}  // namespace nntile::kernels::cuda
