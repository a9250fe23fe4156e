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
      return launch_loop(args.n * static_cast<Index>(args.columns.count), stream, kernel);
    }
    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      auto const at = [&]<class U>(U*, std::size_t position, Index i, Index c) {
        return Op::template column<U>(args, buffers, position, c) + i;
      };
      constexpr std::size_t last = Op::operands.size() - 1;
      for_each_pair(
          thread, args.n, args.columns.count,
          [&](Index i, Index c) {
            constexpr T const* in = nullptr;
            auto const value = [&]<std::size_t... o>(std::index_sequence<o...>) {
              return Op::apply(args.attrs, get(at(in, o, i, c))...);
            }(std::make_index_sequence<last>{});
            if constexpr (Op::updates())
              return updated_at(at(in, last, i, c), args.attrs.beta, value);
            else
              return value;
          },
          [&](Index i, Index c, auto value) {
            put(at(static_cast<T*>(nullptr), last, i, c), value);
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
