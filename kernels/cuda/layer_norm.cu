// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation, a team of threads a token, and the gradients of its weights.
#include "nntile/ops/layer_norm.hh"

#include "kernels/cuda/columns.hh"
#include "kernels/cuda/rows.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda {
namespace {

/// Whether n rows that begin here, `ld` apart, lie in fours from the element `skipped` on.
template <class T> bool in_fours(T const* first, Index n, Index ld, Index skipped) {
  Index const bytes = Index{sizeof(T)};
  return begins_packs(first, n == 1 ? 0 : ld * bytes, alignof(Quad<T>)) &&
         begins_packs(nullptr, skipped * bytes, alignof(Quad<T>));
}

template <class T> struct LayerNorm {
  using V = compute_t<T>;
  using Operand = ops::LayerNorm::Operand;

  template <int size, bool held> struct Kernel {
    static constexpr int threads = row_threads;
    static constexpr int least_blocks = sizeof(V) == 4 ? 6 : 2;
    DeviceCall<ops::LayerNorm> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      T const* const gamma = buffers.template at<T>(Operand::gamma);  // [e]
      T const* const beta = buffers.template at<T>(Operand::beta);    // [e]
      V* const means = buffers.template at<V>(Operand::mean);         // [n]
      V* const rstds = buffers.template at<V>(Operand::rstd);         // [n]
      Chain const chain = args.chain;
      Vec<V> const count = Vec<V>::raw(static_cast<V>(args.whole_e));
      bool const all = args.phase < 0;
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index i) {
        T const* const x = buffers.template at<T>(Operand::x) + i * args.ldx + args.skipped;
        auto const row = row_of<Vec<V>, held>(team, args.e, [&]<int count>(Index e, Count<count>) {
          auto const elements = get_run<count>(thread, x + e);
          Run<count, Vec<V>> values;
          NNTILE_UNROLL()
          for (int k = 0; k < count; ++k) values.of[k] = get(elements.of + k);
          return values;
        });
        Vec<V> mean = Vec<V>::raw(all || args.phase == 0 ? V(0) : means[i]);
        if (all || args.phase == 0) {
          V const sum = row.template sum<V>(chain.start(means, i), [](Vec<V> of) { return of; });
          mean = chain.last ? Vec<V>::raw(sum) / count : Vec<V>::raw(sum);
          if (team.rank() == 0) means[i] = mean.v;
        }
        if (!all && args.phase == 0) return;
        Vec<V> rstd = Vec<V>::raw(all || args.phase == 1 ? V(0) : rstds[i]);
        if (all || args.phase == 1) {
          V const sum = row.template sum<V>(chain.start(rstds, i), [&](Vec<V> of) {
            auto const centred = of - mean;
            return centred * centred;
          });
          rstd = chain.last ? Vec<V>(1) / sqrt(Vec<V>::raw(sum) / count +
                                               Vec<V>::raw(static_cast<V>(args.eps)))
                            : Vec<V>::raw(sum);
          if (team.rank() == 0) rstds[i] = rstd.v;
        }
        if (!all && args.phase == 1) return;
        T* const y = buffers.template at<T>(Operand::y) + i * args.ldy;
        row.for_each([&]<int count>(Index e, Run<count, Vec<V>> const& of, Count<count>) {
          auto const factors = get_run<count>(thread, gamma + e);
          auto const terms = get_run<count>(thread, beta + e);
          Run<count, Vec<V>> values;
          NNTILE_UNROLL()
          for (int k = 0; k < count; ++k)
            values.of[k] = fma((of.of[k] - mean) * rstd, get(factors.of + k), get(terms.of + k));
          put_run(thread, y + e, values);
        });
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::LayerNorm>(call);
    Buffers<ops::LayerNorm> const buffers(call);
    auto const fours = [&](Operand operand, Index ld, Index skipped = 0) {
      return in_fours(buffers.template at<T const>(operand), args.n, ld, skipped);
    };
    return launch_over_held_rows<Kernel, Vec<V>>(
        args.n, args.e,
        fours(Operand::x, args.ldx, args.skipped) && fours(Operand::y, args.ldy) &&
            fours(Operand::gamma, 0) && fours(Operand::beta, 0),
        stream, call);
  }
};

template <class T> struct LayerNormBackward {
  using V = compute_t<T>;
  using Operand = ops::LayerNormBackward::Operand;
  struct Element {
    Vec<V> xhat, g;
  };

  template <int size, bool held> struct Kernel {
    static constexpr int threads = row_threads;
    static constexpr int least_blocks = sizeof(V) == 4 ? 3 : 2;
    DeviceCall<ops::LayerNormBackward> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      T const* const gamma = buffers.template at<T>(Operand::gamma) + args.skipped;  // [e]
      V* const c1s = buffers.template at<V>(Operand::c1);  // [n], where e is cut
      V* const c2s = buffers.template at<V>(Operand::c2);  // [n], likewise
      Chain const chain = Chain{args.first}.in_phase(args.phase, 0);
      Vec<V> const count = Vec<V>::raw(static_cast<V>(args.whole_e));
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index i) {
        T const* const x = buffers.template at<T>(Operand::x) + i * args.ldx + args.skipped;
        T const* const dy = buffers.template at<T>(Operand::dy) + i * args.lddy + args.skipped;
        Vec<V> const mean = get(buffers.template at<V const>(Operand::mean) + i);
        Vec<V> const rstd = get(buffers.template at<V const>(Operand::rstd) + i);
        auto const row = row_of<Element, held>(team, args.e, [&]<int count>(Index e, Count<count>) {
          auto const of_x = get_run<count>(thread, x + e);
          auto const of_dy = get_run<count>(thread, dy + e);
          auto const factors = get_run<count>(thread, gamma + e);
          Run<count, Element> values;
          NNTILE_UNROLL()
          for (int k = 0; k < count; ++k)
            values.of[k] = {(get(of_x.of + k) - mean) * rstd,
                            get(of_dy.of + k) * get(factors.of + k)};
          return values;
        });
        V c1 = chain.start(c1s, i), c2 = chain.start(c2s, i);
        if (args.phase != 1) {
          c1 = row.template sum<V>(c1, [](Element const& of) { return of.g; });
          c2 = row.template sum<V>(c2, [](Element const& of) { return of.g * of.xhat; });
        }
        if (args.phase == 0) {
          if (team.rank() != 0) return;
          c1s[i] = c1;
          c2s[i] = c2;
          return;
        }
        Vec<V> const mean1 = Vec<V>::raw(c1) / count, mean2 = Vec<V>::raw(c2) / count;
        T* const dx = buffers.template at<T>(Operand::dx) + i * args.lddx;
        row.for_each([&]<int count>(Index e, Run<count, Element> const& of, Count<count>) {
          Run<count, Vec<V>> values;
          NNTILE_UNROLL()
          for (int k = 0; k < count; ++k)
            values.of[k] = rstd * (of.of[k].g - fma(of.of[k].xhat, mean2, mean1));
          if (args.beta != 0) {
            auto const before = get_run<count>(thread, static_cast<T const*>(dx) + e);
            NNTILE_UNROLL()
            for (int k = 0; k < count; ++k)
              values.of[k] = updated_at(before.of + k, args.beta, values.of[k]);
          }
          put_run(thread, dx + e, values);
        });
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::LayerNormBackward>(call);
    Buffers<ops::LayerNormBackward> const buffers(call);
    auto const fours = [&](Operand operand, Index ld, Index skipped) {
      return in_fours(buffers.template at<T const>(operand), args.n, ld, skipped);
    };
    return launch_over_held_rows<Kernel, Element>(
        args.n, args.e,
        fours(Operand::x, args.ldx, args.skipped) && fours(Operand::dy, args.lddy, args.skipped) &&
            fours(Operand::gamma, 0, args.skipped) && fours(Operand::dx, args.lddx, 0),
        stream, call);
  }
};

template <class T> struct LayerNormWeightBackward {
  using V = compute_t<T>;
  using Part = Strip<T, 2, 2>;
  static constexpr int threads = Part::threads, least_blocks = Part::least_blocks;
  DeviceCall<ops::LayerNormWeightBackward> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    LayerNormWeightBackward const kernel{DeviceCall<ops::LayerNormWeightBackward>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_over_strips<Part>(args.e, args.n, stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::LayerNormWeightBackward::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    auto const result = [&](Operand out, Operand carry, double beta) {
      return ChainResult<T>{buffers.template at<T>(out), buffers.template at<V>(carry), beta,
                            args.chain, args.finishing};  // [e, n]
    };
    auto const dgamma = result(Operand::dgamma, Operand::carry_dgamma, args.beta_dgamma);
    auto const dbeta = result(Operand::dbeta, Operand::carry_dbeta, args.beta_dbeta);
    struct Sums {
      Vec<V> by_gamma, by_beta;
    };
    for_each_strip<Part>(thread, args.e, args.n, [&](Index begin, Index j) {
      Index const token = j * (Index{args.s} + args.rest) + args.skipped;
      T const* const x = buffers.template at<T const>(Operand::x);
      T const* const dy = buffers.template at<T const>(Operand::dy);
      V const* const mean = buffers.template at<V const>(Operand::mean);
      V const* const rstd = buffers.template at<V const>(Operand::rstd);
      Index const to_gamma = j * args.ld_dgamma + begin, to_beta = j * args.ld_dbeta + begin;
      fold_columns(
          thread,
          Part{{dy + token * args.lddy + begin, x + token * args.ldx + begin},
               {args.lddy, args.ldx},
               {mean + j * args.ld_mean + args.skipped, rstd + j * args.ld_rstd + args.skipped}},
          args.s, args.e - begin,
          [&](Index e) {
            return Sums{Vec<V>::raw(dgamma.start(to_gamma + e)),
                        Vec<V>::raw(dbeta.start(to_beta + e))};
          },
          [](auto& of, auto const& row) { of[1] = (of[1] - row[0]) * row[1]; },
          [](Sums& sums, auto const& of) {
            sums.by_gamma = fma(of[0], of[1], sums.by_gamma);
            sums.by_beta += of[0];
          },
          [&](Index e, Sums const& sums) {
            dgamma.put(to_gamma + e, sums.by_gamma.v);
            dbeta.put(to_beta + e, sums.by_beta.v);
          });
    });
  }
};

constinit auto const kernels =
    join(op_kernels<ops::LayerNorm, LayerNorm>(),
         op_kernels<ops::LayerNormBackward, LayerNormBackward>(),
         op_kernels<ops::LayerNormWeightBackward, LayerNormWeightBackward>());

}  // namespace
NNTILE_KERNEL_LIST(layer_norm, kernels)
}  // namespace nntile::kernels::cuda
