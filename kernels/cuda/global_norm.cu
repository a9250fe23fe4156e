// SPDX-License-Identifier: BSD-3-Clause
// Sums of squares in fp64, a team of threads a column, and scaling by a factor that is data. Bound:
// the bytes of x, and of fp64 two operations an element.
#include "nntile/ops/global_norm.hh"

#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct SumSquares {
  template <int size> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::SumSquares> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      using Operand = ops::SumSquares::Operand;
      auto const& args = call.args();
      T const* const all = call.buffers().template at<T const>(Operand::x);  // [k, n]
      double* const y = call.buffers().template at<double>(Operand::y);      // [n]
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index j) {
        T const* const x = all + j * args.ldx + args.skipped;
        double const sum = canonical_sum(team, args.k, Chain{args.first}.start(y, j), [&](Index i) {
          auto const value = load_as<double>(x + i, All{});
          return value * value;
        });
        if (team.rank() == 0) y[j] = sum;
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::SumSquares>(call);
    return launch_over_rows<Kernel>(args.n, args.k, stream, call);
  }
};

/// A kernel of one thread.
template <class Op, class Derived> struct Scalar {
  static constexpr int threads = warp_size;
  DeviceCall<Op> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    return launch({}, stream, Derived{{DeviceCall<Op>(from)}});
  }
};

template <class> struct GlobalNormAdd : Scalar<ops::GlobalNormAdd, GlobalNormAdd<double>> {
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::GlobalNormAdd::Operand;
    if (thread.rank() != 0) return;
    double const part = *this->call.buffers().template at<double const>(Operand::part);
    double* const total = this->call.buffers().template at<double>(Operand::total);
    *total = updated_at<double>(total, this->call.args().beta, Vec<double>(part)).v;
  }
};

template <class> struct ClipScale : Scalar<ops::ClipScale, ClipScale<float>> {
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::ClipScale::Operand;
    if (thread.rank() != 0) return;
    double const total = *this->call.buffers().template at<double const>(Operand::total);
    double const ratio = this->call.args().max_norm / (sqrt(Vec<double>(total)).v + 1e-6);
    *this->call.buffers().template at<float>(Operand::scale) =
        static_cast<float>(ratio > 1 ? 1 : ratio);
  }
};

template <class T> struct ScaleBy {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::ScaleBy> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    ScaleBy const kernel{DeviceCall<ops::ScaleBy>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.n * static_cast<Index>(args.columns.count), stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::ScaleBy::Operand;
    auto const& args = call.args();
    Vec<compute_t<T>> const factor(
        static_cast<double>(*call.buffers().template at<float const>(Operand::s)));
    T* const x = call.buffers().template at<T>(Operand::x);  // [n]
    auto const at = [&](Index i, Index c) {
      return x + i + c * static_cast<Index>(args.columns.leading[0]);
    };
    for_each_pair(
        thread, args.n, args.columns.count,
        [&](Index i, Index c) { return factor * get(static_cast<T const*>(at(i, c))); },
        [&](Index i, Index c, auto value) { put(at(i, c), value); });
  }
};

constinit auto const kernels =
    join(op_kernels<ops::SumSquares, SumSquares>(), op_kernels<ops::GlobalNormAdd, GlobalNormAdd>(),
         op_kernels<ops::ClipScale, ClipScale>(), op_kernels<ops::ScaleBy, ScaleBy>());

}  // namespace
NNTILE_KERNEL_LIST(global_norm, kernels)
}  // namespace nntile::kernels::cuda
