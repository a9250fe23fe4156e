// SPDX-License-Identifier: BSD-3-Clause
// Every elementwise op as device code: the same `apply` that CPU kernels and references call.
#include "nntile/ops/all.hh"

using namespace nntile;

template <class Op, class T, std::size_t... inputs>
__global__ void run(typename Op::Attrs attrs, T const* const* x, T* y, Index n,
                    std::index_sequence<inputs...>) {
  Index const i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = Op::apply(attrs, x[inputs][i]...);
}

template <class Op> void launch() {
  if constexpr (requires { requires Op::elementwise; }) {
    constexpr auto inputs = std::make_index_sequence<Op::operands.size() - 1>{};
    run<Op><<<1, 1>>>({}, static_cast<float const* const*>(nullptr), static_cast<float*>(nullptr),
                      0, inputs);
    run<Op><<<1, 1>>>({}, static_cast<double const* const*>(nullptr), static_cast<double*>(nullptr),
                      0, inputs);
  }
}
template <class... Ops> void launch_all(OpList<Ops...>) { (launch<Ops>(), ...); }
template <class... Lists> void launch_lists() { (launch_all(Lists{}), ...); }

/// Where every kernel is named, so that all of them are compiled.
void every_op() {
  launch_lists<adamw_step_ops, add_ops, add_fiber_ops, add_slice_ops, argmax_ops, attention_ops,
               cast_ops, copy_ops, cross_entropy_ops, embedding_ops, fill_ops, gelutanh_ops,
               gemm_ops, global_norm_ops, layer_norm_ops, randn_ops, sample_ops, scale_ops,
               softmax_ops, sum_slice_ops>();
}
