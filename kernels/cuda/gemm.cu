// SPDX-License-Identifier: BSD-3-Clause
// Matrix products: each element of C is one chain of FMAs in ascending k, in a register.
#include "nntile/ops/gemm.hh"

#include "kernels/cuda/kernel.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda {
namespace {

/// C in squares of `side` a block, of which each thread has every sixteenth row and column;
/// `depth` steps of k lie in shared memory at once. `pair`: of canonical groups.
template <class S, bool pair> struct GemmKernel {
  using T = compute_t<S>;
  static constexpr int side = 64, depth = 16, across = 16;
  static constexpr int own = side / across;
  static constexpr int threads = across * across;
  static constexpr int padded = side + 1;  // columns begin in banks of their own
  static constexpr std::size_t panel_elements = depth * padded;
  DeviceCall<ops::Gemm> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    GemmKernel const kernel{DeviceCall<ops::Gemm>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_over(squares(args.m) * squares(args.n) * args.batch, 1, stream, kernel,
                       2 * panel_elements * sizeof(T));
  }

  NNTILE_DEVICE void operator()(Thread& thread) const {
    auto const& args = call.args();
    Index const rows = squares(args.m), columns = squares(args.n);
    for (Index at = thread.block(); at < rows * columns * args.batch; at += thread.blocks())
      square(thread, at % rows * side, at / rows % columns * side, at / rows / columns);
  }

 private:
  static constexpr NNTILE_ALWAYS_INLINE Index squares(Index extent) {
    return (extent + side - 1) / side;
  }

  /// The square of one product of the batch whose first row and column are given.
  NNTILE_DEVICE void square(Thread& thread, Index row, Index column, Index batch) const {
    using Operand = ops::Gemm::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    Index const to = args.c_offset + batch * args.c_stride;
    ChainResult<S> const c =
        ChainResult<S>{buffers.template at<S>(Operand::c), buffers.template at<T>(Operand::carry),
                       args.beta, args.chain, args.finishing}
            .at(to);
    Index const i0 = row + thread.rank() % across, j0 = column + thread.rank() / across;
    Vec<T> sums[own][own];
    for (int j = 0; j < own; ++j)
      for (int i = 0; i < own; ++i)
        if (!pair && inside(i0, i, args.m) && inside(j0, j, args.n))
          sums[j][i] = Vec<T>::raw(c.start(i0 + i * across + (j0 + j * across) * args.ldc));
        else
          sums[j][i] = Vec<T>(0);
    if constexpr (pair) {
      Vec<T> left[own][own];
      add_products(thread, row, column, batch, 0, args.left_terms, sums);
      for (int j = 0; j < own; ++j)
        for (int i = 0; i < own; ++i) left[j][i] = sums[j][i], sums[j][i] = Vec<T>(0);
      add_products(thread, row, column, batch, args.left_terms, args.k, sums);
      for (int j = 0; j < own; ++j)
        for (int i = 0; i < own; ++i)
          if (inside(i0, i, args.m) && inside(j0, j, args.n))
            sums[j][i] = Vec<T>::raw(c.of_pair(i0 + i * across + (j0 + j * across) * args.ldc,
                                               left[j][i].v, sums[j][i].v));
    } else {  // k is 0 in the task that finishes groups
      add_products(thread, row, column, batch, 0, args.k, sums);
    }
    finish(c, i0, j0, sums);
  }

  static NNTILE_DEVICE bool inside(Index first, int number, Index extent) {
    return first + number * across < extent;
  }

  /// Those of k from `first` to `end`.
  NNTILE_DEVICE void add_products(Thread& thread, Index row, Index column, Index batch, Index first,
                                  Index end, Vec<T> (&sums)[own][own]) const {
    using Operand = ops::Gemm::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    S const* const a =
        buffers.template at<S const>(Operand::a) + args.a_offset + batch * args.a_stride;
    S const* const b =
        buffers.template at<S const>(Operand::b) + args.b_offset + batch * args.b_stride;
    Shared<T> const left = thread.template shared<T>(0, panel_elements);
    Shared<T> const right = thread.template shared<T>(panel_elements * sizeof(T), panel_elements);
    Vec<T> const alpha(args.alpha);
    int const x = thread.rank() % across, y = thread.rank() / across;
    for (Index begin = first; begin < end; begin += depth) {
      int const steps = end - begin < depth ? static_cast<int>(end - begin) : depth;
      fetch(thread, left, a, args.trans_a, args.lda, row, args.m, begin, steps,
            [&](Vec<T> value) { return alpha * value; });
      fetch(thread, right, b, !args.trans_b, args.ldb, column, args.n, begin, steps,
            [](Vec<T> value) { return value; });
      thread.sync();
      for (int k = 0; k < steps; ++k) {
        Vec<T> of_a[own], of_b[own];
        for (int i = 0; i < own; ++i) of_a[i] = Vec<T>::raw(left[k * padded + x + i * across]);
        for (int j = 0; j < own; ++j) of_b[j] = Vec<T>::raw(right[k * padded + y + j * across]);
        for (int j = 0; j < own; ++j)
          for (int i = 0; i < own; ++i) sums[j][i] = fma(of_a[i], of_b[j], sums[j][i]);
      }
      thread.sync();
    }
  }

  /// `steps` of k of the `side` lines from `first` on, those beyond `extent` as 0. A line's steps
  /// are beside each other if `k_first`, else the lines of a step are.
  template <class Scale>
  static NNTILE_DEVICE void fetch(Thread& thread, Shared<T> const& panel, S const* from,
                                  bool k_first, Index ld, Index first, Index extent, Index k,
                                  int steps, Scale scale) {
    for (int at = thread.rank(); at < side * depth; at += threads) {
      int const step = k_first ? at % depth : at / side;
      int const line = k_first ? at / depth : at % side;
      if (step >= steps) continue;
      bool const is_there = first + line < extent;
      Index const place = k_first ? k + step + (first + line) * ld : first + line + (k + step) * ld;
      panel[step * padded + line] = is_there ? scale(get(from + place)).v : T(0);
    }
  }

  /// Bias and activation where the chain ends, and the result's rounding.
  NNTILE_DEVICE void finish(ChainResult<S> const& c, Index i0, Index j0,
                            Vec<T> (&sums)[own][own]) const {
    auto const& args = call.args();
    S const* const bias = call.buffers().template at<S const>(ops::Gemm::Operand::bias);
    for (int j = 0; j < own; ++j)
      for (int i = 0; i < own; ++i) {
        if (!inside(i0, i, args.m) || !inside(j0, j, args.n)) continue;
        Index const row = i0 + i * across;
        Vec<T> sum = sums[j][i];
        if (args.chain.last && bias != nullptr) sum += get(bias + args.bias_offset + row);
        if (args.chain.last && args.activation == Activation::gelu_tanh)
          sum = ops::Gelutanh::apply({}, sum);
        c.put(row + (j0 + j * across) * args.ldc, sum.v);
      }
  }
};

template <class S> struct Gemm {
  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    return arguments<ops::Gemm>(call).left_terms > 0 ? GemmKernel<S, true>::enqueue(call, stream)
                                                     : GemmKernel<S, false>::enqueue(call, stream);
  }
};

constinit auto const kernels = op_kernels<ops::Gemm, Gemm>();

}  // namespace
NNTILE_KERNEL_LIST(gemm, kernels)
}  // namespace nntile::kernels::cuda
