// SPDX-License-Identifier: BSD-3-Clause
// Sums of squares in fp64, and scaling by a factor that is data.
#include "nntile/ops/global_norm.hh"

#include "kernels/cpu/chain.hh"
#include "kernels/cpu/reduce.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct SumSquares {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::SumSquares>(call);
    using Operand = ops::SumSquares::Operand;
    Buffers<ops::SumSquares> const buffers(call);
    double* const y = buffers.at<double>(Operand::y);  // [n]
    for (Index j = 0; j < args.n; ++j) {
      T const* const x = buffers.at<T const>(Operand::x) + j * args.ldx + args.skipped;  // [k]
      y[j] = canonical_sum<double>(args.k, Chain{args.first}.start(y, j),
                                   [&](Index i, auto part) __attribute__((always_inline)) {
                                     fetch_ahead<Fetching::everywhere>(x + i, part);
                                     auto const value = load_as<double>(x + i, part);
                                     return value * value;
                                   });
    }
    return {};
  }
};

struct GlobalNormAdd {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::GlobalNormAdd>(call);
    using Operand = ops::GlobalNormAdd::Operand;
    Buffers<ops::GlobalNormAdd> const buffers(call);
    double const* const part = buffers.at<double const>(Operand::part);
    double* const total = buffers.at<double>(Operand::total);
    for_each_vec<double>(1, [&](Index i, auto lanes) {
      update(total + i, args.beta, load(part + i, lanes), lanes);
    });
    return {};
  }
};

struct ClipScale {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::ClipScale>(call);
    using Operand = ops::ClipScale::Operand;
    Buffers<ops::ClipScale> const buffers(call);
    double norm[Vec<double>::lanes];
    store(norm, sqrt(Vec<double>(*buffers.at<double const>(Operand::total))));
    double const ratio = args.max_norm / (norm[0] + 1e-6);
    *buffers.at<float>(Operand::scale) = static_cast<float>(ratio > 1 ? 1 : ratio);
    return {};
  }
};

template <class T> struct ScaleBy {
  static Status run(KernelCall const& call) noexcept {
    using V = compute_t<T>;
    auto const args = arguments<ops::ScaleBy>(call);
    using Operand = ops::ScaleBy::Operand;
    Buffers<ops::ScaleBy> const buffers(call);
    Vec<V> const factor(static_cast<double>(*buffers.at<float const>(Operand::s)));
    T* x = buffers.at<T>(Operand::x);  // [n]
    for (std::uint32_t c = 0; c < args.columns.count; ++c, x += args.columns.leading[0])
      for_each_vec<V>(args.n, [&](Index i, auto part) {
        store(x + i, factor * load(static_cast<T const*>(x) + i, part), part);
      });
    return {};
  }
};

constinit auto const kernels =
    join(op_kernels<ops::SumSquares, SumSquares>(),
         kernel<ops::GlobalNormAdd, DType::fp64>(&GlobalNormAdd::run),
         kernel<ops::ClipScale, DType::fp32>(&ClipScale::run), op_kernels<ops::ScaleBy, ScaleBy>());

}  // namespace
NNTILE_KERNEL_LIST(global_norm, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
