// SPDX-License-Identifier: BSD-3-Clause
// Cross-entropy over classes in dimension 0, a team of threads a token. Bound: the bytes of the
// logits, twice where they do not stay in the cache. A label outside the classes, which the CPU's
// kernel refuses, gives NaN.
#include "nntile/ops/cross_entropy.hh"

#include "kernels/cuda/rows.hh"
#include "kernels/cuda/runs.hh"

namespace nntile::kernels::cuda {
namespace {

template <class Label> NNTILE_DEVICE bool is_no_class(Label label, Index classes, Index ignored) {
  return label != ignored && (label < 0 || label >= classes);
}

template <class T, class Label> struct CrossEntropy {
  using V = compute_t<T>;

  template <int size> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::CrossEntropy> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      using Operand = ops::CrossEntropy::Operand;
      auto const& args = call.args();
      auto const buffers = call.buffers();
      T const* const logits = buffers.template at<T const>(Operand::logits);  // [v, n]
      V* const maxima = buffers.template at<V>(Operand::max);                 // [n]
      V* const sums = buffers.template at<V>(Operand::sum);                   // [n], not in phase 0
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index i) {
        T const* const x = logits + i * args.ldx + args.skipped;
        V top =
            args.chain.in_phase(args.phase, 0).start(maxima, i, -static_cast<V>(__builtin_inf()));
        if (args.phase <= 0) {
          top = canonical_max<V>(team, args.v, top, [&](Index p) { return get(x + p); });
          if (team.rank() == 0) maxima[i] = top;
        }
        if (args.phase == 0) return;
        V const sum = canonical_sum<V>(team, args.v, args.chain.start(sums, i), [&](Index p) {
          return exp_of_shifted(get(x + p) - Vec<V>::raw(top));
        });
        if (team.rank() != 0) return;
        sums[i] = sum;
        put_loss(i, x, top, sum);
      });
    }

    /// By one thread of a token's team.
    NNTILE_DEVICE void put_loss(Index i, T const* x, V top, V sum) const {
      using Operand = ops::CrossEntropy::Operand;
      auto const& args = call.args();
      Label const label = call.buffers().template at<Label const>(Operand::labels)[i];
      V* const loss = call.buffers().template at<V>(Operand::loss) + i;
      bool const ignored = label == args.ignore_index;
      Index const at = ignored || label < 0 ? -1 : label - args.v_begin;
      bool const here = at >= 0 && at < args.v;
      V const picked = here ? static_cast<V>(x[at]) : args.chain.start(loss, 0);
      if (!args.chain.last)
        *loss = picked;
      else if (is_no_class(label, args.whole_v, args.ignore_index))
        *loss = static_cast<V>(__builtin_nan(""));
      else
        *loss = ignored ? V(0) : log(Vec<V>::raw(sum)).v + top - picked;
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::CrossEntropy>(call);
    return launch_over_rows<Kernel>(args.n, args.v, stream, call);
  }
};

template <class T, class Label> struct CrossEntropyBackward {
  using V = compute_t<T>;
  using Operand = ops::CrossEntropyBackward::Operand;

  template <int length> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::CrossEntropyBackward> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      for (Index i = thread.block(); i < args.n; i += thread.blocks()) {
        T const* const x = buffers.template at<T const>(Operand::logits) + i * args.ldx;  // [v]
        T* const dx = buffers.template at<T>(Operand::dlogits) + i * args.lddx;           // [v]
        Label const label = buffers.template at<Label const>(Operand::labels)[i];
        bool const ignored = label == args.ignore_index;
        V w = static_cast<V>(args.scale) * buffers.template at<V const>(Operand::dloss)[i];
        if (is_no_class(label, args.whole_v, args.ignore_index))
          w = static_cast<V>(__builtin_nan(""));
        Vec<V> const shift = Vec<V>::raw(buffers.template at<V const>(Operand::max)[i]);
        Vec<V> const factor = Vec<V>::raw(w / buffers.template at<V const>(Operand::sum)[i]);
        Index const picked = ignored || label < 0 ? -1 : label - args.v_begin;
        for_each_run_of<length>(
            thread.rank(), threads, args.v, [&]<int count>(Index p, Count<count>) {
              Run<count, Vec<V>> values;
              if (ignored) {
                NNTILE_UNROLL()
                for (int k = 0; k < count; ++k) values.of[k] = Vec<V>(0);
              } else {
                auto const logits = get_run<count>(thread, x + p);
                NNTILE_UNROLL()
                for (int k = 0; k < count; ++k)
                  values.of[k] = exp_of_shifted(get(logits.of + k) - shift) * factor;
              }
              if (picked >= p && picked < p + count) {
                NNTILE_UNROLL()
                for (int k = 0; k < count; ++k)
                  if (p + k == picked) values.of[k] -= Vec<V>::raw(w);
              }
              if (args.beta != 0) {
                auto const before = get_run<count>(thread, static_cast<T const*>(dx) + p);
                NNTILE_UNROLL()
                for (int k = 0; k < count; ++k)
                  values.of[k] = updated_at(before.of + k, args.beta, values.of[k]);
              }
              put_run(thread, dx + p, values);
            });
      }
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::CrossEntropyBackward>(call);
    auto const packs = [&](Operand operand, Index leading) {
      Index const step = args.n == 1 ? 0 : leading * Index{sizeof(T)};
      return begins_packs(call.buffers[static_cast<int>(operand)], step);
    };
    return packs(Operand::logits, args.ldx) && packs(Operand::dlogits, args.lddx)
               ? launch_over(args.n, 1, stream, Kernel<run_length<T>>{call})
               : launch_over(args.n, 1, stream, Kernel<1>{call});
  }
};

/// One block: whole numbers, so that the order of their sum is free.
template <class, class Label> struct CountLabels {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::CountLabels> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    return launch({1, (threads / warp_size) * sizeof(double)}, stream,
                  CountLabels{DeviceCall<ops::CountLabels>(from)});
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::CountLabels::Operand;
    auto const& args = call.args();
    Label const* const labels =
        call.buffers().template at<Label const>(Operand::labels) + args.offset;
    double& count = *call.buffers().template at<double>(Operand::count);
    double own = 0;
    for_each(thread, args.n, [&](Index i) { own += labels[i] != args.ignore_index ? 1 : 0; });
    for (int half = warp_size / 2; half > 0; half /= 2) own += thread.exchange(own, half);
    Shared<double> const parts = thread.shared<double>(0, threads / warp_size);
    if (thread.rank() % warp_size == 0) parts[thread.rank() / warp_size] = own;
    thread.sync();
    if (thread.rank() != 0) return;
    double sum = Chain{args.first}.start(&count, 0);
    for (int warp = 0; warp < threads / warp_size; ++warp) sum += parts[warp];
    count = sum;
  }
};

constinit auto const kernels = join(op_kernels<ops::CrossEntropy, CrossEntropy>(),
                                    op_kernels<ops::CrossEntropyBackward, CrossEntropyBackward>(),
                                    op_kernels<ops::CountLabels, CountLabels>());

}  // namespace
NNTILE_KERNEL_LIST(cross_entropy, kernels)
}  // namespace nntile::kernels::cuda
