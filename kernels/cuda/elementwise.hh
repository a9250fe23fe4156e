#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Kernels of elementwise ops: the op's own `apply`, a run of elements a thread.

#include "kernels/cuda/runs.hh"
#include "nntile/ops/elementwise.hh"

namespace nntile::kernels::cuda {

template <class Op> struct ElementwiseKernel {
  static constexpr std::size_t last = Op::operands.size() - 1;  // the result

  template <class T> struct Body {
    template <int length> struct Kernel {
      static constexpr int threads = loop_threads;
      DeviceCall<Op> call;
      explicit Kernel(KernelCall const& from) : call(from) {}

      NNTILE_DEVICE void operator()(Thread& thread) const {
        auto const& args = call.args();
        auto const buffers = call.buffers();
        auto const at = [&](std::size_t position, Index i, Index c) {
          return Op::template column<T>(args, buffers, position, c) + i;
        };
        for_each_run<length>(
            thread, args.n, args.columns.count, [&]<int count>(Index i, Index c, Count<count>) {
              // Of each operand that is read, the result among them where it is updated.
              Run<count, T> runs[last + (Op::updates() ? 1 : 0)];
              NNTILE_UNROLL()
              for (std::size_t o = 0; o < last; ++o)
                runs[o] = get_run<count>(thread, static_cast<T const*>(at(o, i, c)));
              if constexpr (Op::updates())
                if (args.attrs.beta != 0)
                  runs[last] = get_run<count>(thread, static_cast<T const*>(at(last, i, c)));
              Run<count, Vec<compute_t<T>>> results;
              NNTILE_UNROLL()
              for (int k = 0; k < count; ++k) {
                auto const value = [&]<std::size_t... o>(std::index_sequence<o...>) {
                  return Op::apply(args.attrs, get(runs[o].of + k)...);
                }(std::make_index_sequence<last>{});
                if constexpr (Op::updates())
                  results.of[k] = updated_at(runs[last].of + k, args.attrs.beta, value);
                else
                  results.of[k] = value;
              }
              put_run(thread, at(last, i, c), results);
            });
      }
    };

    static Status enqueue(KernelCall const& call, void* stream) noexcept {
      auto const args = arguments<Op>(call);
      bool packs = true;
      for (std::size_t o = 0; o <= last; ++o) {
        Index step = 0;
        if constexpr (Op::by_columns()) step = args.columns.leading[o];
        packs = packs && begins_packs(call.buffers[o], step * Index{sizeof(T)});
      }
      return launch_over_runs<Kernel, run_length<T>>(args.n, args.columns.count, packs, stream,
                                                     call);
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
