// SPDX-License-Identifier: BSD-3-Clause
// Cross-entropy over classes in dimension 0, one token after another.
#include "nntile/ops/cross_entropy.hh"

#include "kernels/cpu/functions.hh"
#include "kernels/cpu/reduce.hh"
#include "kernels/cpu/text.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

NNTILE_ALWAYS_INLINE Status check_labels(KernelCall const& call, Index const* labels, Index n,
                                         Index classes, Index ignored) {
  for (Index i = 0; i < n; ++i)
    if (labels[i] != ignored && (labels[i] < 0 || labels[i] >= classes))
      return FailureText(call) << "label " << labels[i] << " at position " << i
                               << " of the tile is outside [0, " << classes
                               << ") and is not ignore_index=" << ignored;
  return {};
}

template <class T> struct CrossEntropy {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::CrossEntropy>(call);
    auto const view = ops::CrossEntropy::view<T>(args.phase, call.buffers);
    if (args.phase != 0)
      if (Status const status =
              check_labels(call, view.labels, args.n, args.whole_v, args.ignore_index);
          !status.ok())
        return status;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = view.logits + i * args.v;
      if (args.phase <= 0)
        view.max[i] = canonical_max<V>(
            args.v, args.first ? -static_cast<V>(__builtin_inf()) : view.max[i],
            [&](Index p, auto part) __attribute__((always_inline)) {
              fetch_ahead(x + p, part);
              return load(x + p, part);
            });
      if (args.phase != 0) add_powers(args, view, i);
    }
    return {};
  }

  NNTILE_ALWAYS_INLINE static void add_powers(ops::CrossEntropy::Args const& args,
                                              ops::CrossEntropy::View<T> const& view, Index i) {
    T const* const x = view.logits + i * args.v;
    Vec<V> const shift(static_cast<double>(view.max[i]));
    V const sum = canonical_sum<V>(
        args.v,
        args.first ? V(0) : view.sum[i], [&](Index p, auto part) __attribute__((always_inline)) {
          return exp_of_shifted(load(x + p, part) - shift);
        });
    view.sum[i] = sum;
    bool const ignored = view.labels[i] == args.ignore_index;
    Index const at = view.labels[i] - args.v_begin;
    V const picked = !ignored && at >= 0 && at < args.v ? static_cast<V>(x[at])
                     : args.first                       ? V(0)
                                                        : view.loss[i];
    if (!args.last)
      view.loss[i] = picked;
    else
      view.loss[i] = ignored ? V(0) : logarithm(sum) + view.max[i] - picked;
  }

  static V logarithm(V x) {
    V lanes[Vec<V>::lanes];
    store(lanes, log(Vec<V>(static_cast<double>(x))));
    return lanes[0];
  }
};

template <class T> struct CrossEntropyBackward {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::CrossEntropyBackward>(call);
    Index const* const labels = buffer<Index const>(call, 1);  // [n]
    V const* const dloss = buffer<V const>(call, 4);           // [n]
    if (Status const status = check_labels(call, labels, args.n, args.whole_v, args.ignore_index);
        !status.ok())
      return status;
    Vec<V> const beta(args.beta);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffer<T const>(call, 0) + i * args.v;  // [v]
      T* const dx = buffer<T>(call, 5) + i * args.v;             // [v]
      bool const ignored = labels[i] == args.ignore_index;
      V const w = static_cast<V>(args.scale) * dloss[i];
      Vec<V> const shift(static_cast<double>(buffer<V const>(call, 2)[i]));
      Vec<V> const factor(static_cast<double>(w / buffer<V const>(call, 3)[i]));
      Index const label = labels[i] - args.v_begin;
      bool const here = !ignored && label >= 0 && label < args.v;
      // dx may be x: both are read before the row is written.
      V const picked = here ? static_cast<V>(x[label]) : V(0);
      V const before = here && args.beta != 0 ? static_cast<V>(dx[label]) : V(0);
      for_each_group<V>(
          args.v, [&](Index p, auto part) __attribute__((always_inline)) {
            auto value = load(x + p, part) - shift;
            value = ignored ? decltype(value)(0) : exp_of_shifted(value) * factor;
            if (args.beta != 0) value = fma(beta, load(static_cast<T const*>(dx) + p, part), value);
            store(dx + p, value, part);
          });
      if (here) {
        Vec<V> const label_power =
            exp_of_shifted(Vec<V>(static_cast<double>(picked)) - shift) * factor;
        Vec<V> value = label_power - Vec<V>(static_cast<double>(w));
        if (args.beta != 0) value = fma(beta, Vec<V>(static_cast<double>(before)), value);
        V lanes[Vec<V>::lanes];
        store(lanes, value);
        dx[label] = static_cast<T>(lanes[0]);
      }
    }
    return {};
  }
};

constinit auto const kernels =
    join(float_kernels<ops::CrossEntropy, CrossEntropy>(),
         float_kernels<ops::CrossEntropyBackward, CrossEntropyBackward>());

}  // namespace
NNTILE_KERNEL_LIST(cross_entropy, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
