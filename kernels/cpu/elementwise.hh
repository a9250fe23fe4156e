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
  constexpr int inputs = static_cast<int>(Op::operands.size()) - 1;
  static_assert(inputs >= 1 && inputs <= 4, "an elementwise op reads one to four operands");
  constexpr bool updates = Op::updates();
  T* const out = buffer<T>(call, inputs);
  auto const value_of = [&](int operand, Index i, auto part) {
    return load(static_cast<T const*>(call.buffers[operand]) + i, part);
  };
  for_each_group<V>(args.n, [&](Index i, auto part) __attribute__((always_inline)) {
    decltype(value_of(0, i, part)) value;
    if constexpr (inputs == 1)
      value = Op::apply(args.attrs, value_of(0, i, part));
    else if constexpr (inputs == 2)
      value = Op::apply(args.attrs, value_of(0, i, part), value_of(1, i, part));
    else if constexpr (inputs == 3)
      value = Op::apply(args.attrs, value_of(0, i, part), value_of(1, i, part), value_of(2, i, part));
    else
      value = Op::apply(args.attrs, value_of(0, i, part), value_of(1, i, part), value_of(2, i, part),
                        value_of(3, i, part));
    if constexpr (updates)
      if (args.attrs.beta != 0)
        value = fma(decltype(value)(static_cast<double>(args.attrs.beta)), load(static_cast<T const*>(out) + i, part), value);
    store(out + i, value, part);
  });
}

template <class Op>
struct ElementwiseKernel {
  template <class T>
  struct Body {
    static Status run(KernelCall const& call) noexcept {
      elementwise_body<Op, T, compute_t<T>>(arguments<Op>(call), call);
      return {};
    }
  };
};

/// The kernels of one op of a header's list; none for an op that is not elementwise.
template <class Op>
consteval auto elementwise_kernels() {
  if constexpr (ElementwiseOp<Op>) return float_kernels<Op, ElementwiseKernel<Op>::template Body>();
  else return Kernels<0>{};
}

template <class... Ops>
consteval auto elementwise_kernels(OpList<Ops...>) { return join(elementwise_kernels<Ops>()...); }

}  // namespace nntile::kernels::NNTILE_ISA
