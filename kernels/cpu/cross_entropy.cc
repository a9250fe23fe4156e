// SPDX-License-Identifier: BSD-3-Clause
// Cross-entropy over classes in dimension 0, one token after another.
#include "nntile/ops/cross_entropy.hh"

#include "kernels/cpu/chain.hh"
#include "kernels/cpu/functions.hh"
#include "kernels/cpu/reduce.hh"
#include "kernels/cpu/text.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class Label>
NNTILE_ALWAYS_INLINE Status check_labels(KernelCall const& call, Label const* labels, Index n,
                                         Index classes, Index ignored) {
  for (Index i = 0; i < n; ++i)
    if (labels[i] != ignored && (labels[i] < 0 || labels[i] >= classes))
      return FailureText(call) << "label " << labels[i] << " at position " << i
                               << " of the tile is outside [0, " << classes
                               << ") and is not ignore_index=" << ignored;
  return {};
}

template <class T, class Label> struct CrossEntropy {
  using V = compute_t<T>;

  using Operand = ops::CrossEntropy::Operand;

  struct Task {
    ops::CrossEntropy::Args args;
    Buffers<ops::CrossEntropy> buffers;
    T const* logits = buffers.template at<T>(Operand::logits);          // [v, n]
    Label const* labels = buffers.template at<Label>(Operand::labels);  // [n], but in phase 0
    V* loss = buffers.template at<V>(Operand::loss);                    // [n], likewise
    V* max = buffers.template at<V>(Operand::max);                      // [n]
    V* sum = buffers.template at<V>(Operand::sum);                      // [n], but in phase 0
  };

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::CrossEntropy>(call);
    Task const task{args, Buffers<ops::CrossEntropy>(call)};
    if (args.phase != 0)
      if (Status const status =
              check_labels(call, task.labels, args.n, args.whole_v, args.ignore_index);
          !status.ok())
        return status;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = task.logits + i * args.ldx + args.skipped;
      if (args.phase <= 0)
        task.max[i] = canonical_max<V>(
            args.v, args.chain.start(task.max, i, -static_cast<V>(__builtin_inf())),
            [&](Index p, auto part) __attribute__((always_inline)) {
              fetch_ahead(x + p, part);
              return load(x + p, part);
            });
      if (args.phase != 0) add_powers(task, i);
    }
    return {};
  }

  NNTILE_ALWAYS_INLINE static void add_powers(Task const& task, Index i) {
    ops::CrossEntropy::Args const& args = task.args;
    T const* const x = task.logits + i * args.ldx + args.skipped;
    Vec<V> const shift(static_cast<double>(task.max[i]));
    V const sum = canonical_sum<V>(args.v, args.chain.start(task.sum, i),
                                   [&](Index p, auto part) __attribute__((always_inline)) {
                                     return exp_of_shifted(load(x + p, part) - shift);
                                   });
    task.sum[i] = sum;
    bool const ignored = task.labels[i] == args.ignore_index;
    Index const at = ignored ? -1 : task.labels[i] - args.v_begin;
    bool const here = at >= 0 && at < args.v;
    V const picked = here ? static_cast<V>(x[at]) : args.chain.start(task.loss, i);
    if (!args.chain.last)
      task.loss[i] = picked;
    else
      task.loss[i] = ignored ? V(0) : logarithm(sum) + task.max[i] - picked;
  }

  static V logarithm(V x) {
    V lanes[Vec<V>::lanes];
    store(lanes, log(Vec<V>(static_cast<double>(x))));
    return lanes[0];
  }
};

template <class T, class Label> struct CrossEntropyBackward {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::CrossEntropyBackward>(call);
    using Operand = ops::CrossEntropyBackward::Operand;
    Buffers<ops::CrossEntropyBackward> const buffers(call);
    Label const* const labels = buffers.at<Label const>(Operand::labels);  // [n]
    V const* const dloss = buffers.at<V const>(Operand::dloss);            // [n]
    if (Status const status = check_labels(call, labels, args.n, args.whole_v, args.ignore_index);
        !status.ok())
      return status;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T const>(Operand::logits) + i * args.ldx;  // [v]
      T* const dx = buffers.at<T>(Operand::dlogits) + i * args.lddx;           // [v]
      bool const ignored = labels[i] == args.ignore_index;
      V const w = static_cast<V>(args.scale) * dloss[i];
      Vec<V> const shift(static_cast<double>(buffers.at<V const>(Operand::max)[i]));
      Vec<V> const factor(static_cast<double>(w / buffers.at<V const>(Operand::sum)[i]));
      Index const label = ignored ? -1 : labels[i] - args.v_begin;
      bool const here = label >= 0 && label < args.v;
      // dx may be x: both are read before the row is written.
      V const picked = here ? static_cast<V>(x[label]) : V(0);
      T const before = here && args.beta != 0 ? dx[label] : T(0);
      for_each_group<V>(args.v, [&](Index p, auto part) __attribute__((always_inline)) {
        auto value = load(x + p, part) - shift;
        value = ignored ? decltype(value)(0) : exp_of_shifted(value) * factor;
        update(dx + p, args.beta, value, part);
      });
      if (here) {
        Vec<V> const label_power =
            exp_of_shifted(Vec<V>(static_cast<double>(picked)) - shift) * factor;
        Vec<V> const value = updated_by(
            args.beta, [&] { return Vec<V>(static_cast<double>(static_cast<V>(before))); },
            label_power - Vec<V>(static_cast<double>(w)));
        V lanes[Vec<V>::lanes];
        store(lanes, value);
        dx[label] = static_cast<T>(lanes[0]);
      }
    }
    return {};
  }
};

template <class T, class Label> struct CountLabels {
  static Status run(KernelCall const& call) noexcept {
    ops::CountLabels::reference<T, Label>(arguments<ops::CountLabels>(call),
                                          Buffers<ops::CountLabels>(call));
    return {};
  }
};

constinit auto const kernels = join(op_kernels<ops::CrossEntropy, CrossEntropy>(),
                                    op_kernels<ops::CrossEntropyBackward, CrossEntropyBackward>(),
                                    op_kernels<ops::CountLabels, CountLabels>());

}  // namespace
NNTILE_KERNEL_LIST(cross_entropy, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
