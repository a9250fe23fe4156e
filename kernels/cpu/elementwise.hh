#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Kernels of elementwise ops: the op's own `apply`, over vectors.

#include "kernels/cpu/functions.hh"
#include "nntile/ops/elementwise.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class Op>
concept ElementwiseOp = requires { requires Op::elementwise; };

/// result = beta*result + apply(operands...), as Elementwise::reference defines it.
template <class Op, class T, class V>
NNTILE_ALWAYS_INLINE void elementwise_body(typename Op::Args const& args, KernelCall const& call) {
  Buffers<Op> const buffers(call);
  for (Index c = 0; c < static_cast<Index>(args.columns.count); ++c) {
    T* const out = Op::template column<T>(args, buffers, Op::operands.size() - 1, c);
    for_each_group<V>(args.n, [&](Index i, auto part) __attribute__((always_inline)) {
      auto value = [&]<std::size_t... o>(std::index_sequence<o...>) __attribute__((always_inline)) {
        return Op::apply(
            args.attrs, load_twice(Op::template column<T const>(args, buffers, o, c) + i, part)...);
      }(std::make_index_sequence<Op::operands.size() - 1>{});
      if constexpr (Op::updates())
        if (args.attrs.beta != 0)
          value = fma(decltype(value)(static_cast<double>(args.attrs.beta)),
                      load(static_cast<T const*>(out) + i, part), value);
      store(out + i, value, part);
    });
  }
}

template <class Op> struct ElementwiseKernel {
  template <class T> struct Body {
    static Status run(KernelCall const& call) noexcept {
      elementwise_body<Op, T, compute_t<T>>(arguments<Op>(call), call);
      return {};
    }
  };
};

/// The kernels of one op of a header's list; none for an op that is not elementwise.
template <class Op> consteval auto elementwise_kernels() {
  if constexpr (ElementwiseOp<Op>)
    return op_kernels<Op, ElementwiseKernel<Op>::template Body>();
  else
    return Kernels<0>{};
}

template <class... Ops> consteval auto elementwise_kernels(OpList<Ops...>) {
  return join(elementwise_kernels<Ops>()...);
}

}  // namespace nntile::kernels::NNTILE_ISA
