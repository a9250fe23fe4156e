// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation, one token after another: its row stays in L1 over the phases.
#include "nntile/ops/layer_norm.hh"

#include "kernels/cpu/column_sums.hh"
#include "kernels/cpu/reduce.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct LayerNorm {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::LayerNorm>(call);
    using Operand = ops::LayerNorm::Operand;
    Buffers<ops::LayerNorm> const buffers(call);
    T const* const gamma = buffers.at<T>(Operand::gamma);  // [e]
    T const* const beta = buffers.at<T>(Operand::beta);    // [e]
    V* const means = buffers.at<V>(Operand::mean);         // [n]
    V* const rstds = buffers.at<V>(Operand::rstd);         // [n]
    Chain const chain = args.chain;
    V const size = static_cast<V>(args.whole_e);
    bool const all = args.phase < 0;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.ldx + args.skipped;
      if (all || args.phase == 0) {
        V const sum = canonical_sum<V>(args.e, chain.start(means, i),
                                       [&](Index e, auto part) __attribute__((always_inline)) {
                                         fetch_ahead(x + e, part);
                                         return load(x + e, part);
                                       });
        means[i] = chain.last ? sum / size : sum;
      }
      if (all || args.phase == 1) {
        Vec<V> const mean(static_cast<double>(means[i]));
        V const sum = canonical_sum<V>(args.e, chain.start(rstds, i),
                                       [&](Index e, auto part) __attribute__((always_inline)) {
                                         auto const centred = load(x + e, part) - mean;
                                         return centred * centred;
                                       });
        rstds[i] = chain.last ? V(1) / root(sum / size + static_cast<V>(args.eps)) : sum;
      }
      if (all || args.phase == 2) {
        Vec<V> const mean(static_cast<double>(means[i]));
        Vec<V> const rstd(static_cast<double>(rstds[i]));
        T* const y = buffers.at<T>(Operand::y) + i * args.ldy;
        for_each_vec<V>(args.e, [&](Index e, auto part) __attribute__((always_inline)) {
          store(y + e,
                fma((load_halves(x + e, part) - mean) * rstd, load_halves(gamma + e, part),
                    load_halves(beta + e, part)),
                part);
        });
      }
    }
    return {};
  }

  static V root(V x) {
    V lanes[Vec<V>::lanes];
    store(lanes, sqrt(Vec<V>(static_cast<double>(x))));
    return lanes[0];
  }
};

template <class T> struct LayerNormBackward {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::LayerNormBackward>(call);
    using Operand = ops::LayerNormBackward::Operand;
    Buffers<ops::LayerNormBackward> const buffers(call);
    T const* const gamma = buffers.at<T>(Operand::gamma) + args.skipped;  // [e]
    V* const c1s = buffers.at<V>(Operand::c1);                            // [n], where e is cut
    V* const c2s = buffers.at<V>(Operand::c2);                            // [n], likewise
    Vec<V> const size(static_cast<double>(static_cast<V>(args.whole_e)));
    Chain const chain = Chain{args.first}.in_phase(args.phase, 0);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.ldx + args.skipped;
      T const* const dy = buffers.at<T>(Operand::dy) + i * args.lddy + args.skipped;
      Vec<V> const mean(static_cast<double>(buffers.at<V>(Operand::mean)[i]));
      Vec<V> const rstd(static_cast<double>(buffers.at<V>(Operand::rstd)[i]));
      auto const xhat = [&](Index e, auto part) __attribute__((always_inline)) {
        return (load(x + e, part) - mean) * rstd;
      };
      auto const g = [&](Index e, auto part) __attribute__((always_inline)) {
        return load(dy + e, part) * load(gamma + e, part);
      };
      V c1 = chain.start(c1s, i), c2 = chain.start(c2s, i);
      if (args.phase != 1) {
        c1 = canonical_sum<V>(args.e, c1, [&](Index e, auto part) __attribute__((always_inline)) {
          return g(e, part);
        });
        c2 = canonical_sum<V>(args.e, c2, [&](Index e, auto part) __attribute__((always_inline)) {
          return g(e, part) * xhat(e, part);
        });
      }
      if (args.phase == 0) {
        c1s[i] = c1;
        c2s[i] = c2;
        continue;
      }
      apply(args, buffers.at<T>(Operand::dx) + i * args.lddx, rstd,
            Vec<V>(static_cast<double>(c1)) / size, Vec<V>(static_cast<double>(c2)) / size, g,
            xhat);
    }
    return {};
  }

  /// dx = beta dx + rstd (g - (xhat mean2 + mean1))
  template <class G, class Xhat>
  NNTILE_ALWAYS_INLINE static void apply(ops::LayerNormBackward::Args const& args, T* dx,
                                         Vec<V> rstd, Vec<V> mean1, Vec<V> mean2, G g, Xhat xhat) {
    for_each_vec<V>(args.e, [&](Index e, auto part) __attribute__((always_inline)) {
      update(dx + e, args.beta, rstd * (g(e, part) - fma(xhat(e, part), mean2, mean1)), part);
    });
  }
};

template <class T> struct LayerNormWeightBackward {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::LayerNormWeightBackward>(call);
    using Operand = ops::LayerNormWeightBackward::Operand;
    Buffers<ops::LayerNormWeightBackward> const buffers(call);
    ColumnResult<T> const dgamma{{buffers.at<T>(Operand::dgamma),
                                  buffers.at<V>(Operand::carry_dgamma), args.beta_dgamma,
                                  args.chain, args.finishing}};  // [e, n]
    ColumnResult<T> const dbeta{{buffers.at<T>(Operand::dbeta), buffers.at<V>(Operand::carry_dbeta),
                                 args.beta_dbeta, args.chain, args.finishing}};  // [e, n]
    for (Index j = 0; j < args.n; ++j) {
      Index const skipped = args.skipped, token = j * (Index{args.s} + args.rest) + skipped;
      T const* const x = buffers.at<T const>(Operand::x) + token * args.ldx;     // [e, s]
      T const* const dy = buffers.at<T const>(Operand::dy) + token * args.lddy;  // [e, s]
      V const* const mean = buffers.at<V const>(Operand::mean) + j * args.ld_mean + skipped;  // [s]
      V const* const rstd = buffers.at<V const>(Operand::rstd) + j * args.ld_rstd + skipped;  // [s]
      Index const ahead = rows_ahead<T>(args.e);
      sum_columns<T, 2>(
          args.e, args.s, {dgamma.at(j * args.ld_dgamma), dbeta.at(j * args.ld_dbeta)},
          [&](Index e, Index s, auto part, Vec<V>(&sums)[2]) __attribute__((always_inline)) {
            if (fetches<Fetching::everywhere>()) {
              __builtin_prefetch(x + (s + ahead) * args.ldx + e);
              __builtin_prefetch(dy + (s + ahead) * args.lddy + e);
            }
            Vec<V> const slope = load_twice(dy + s * args.lddy + e, part);
            Vec<V> const xhat =
                (load_twice(x + s * args.ldx + e, part) - Vec<V>(static_cast<double>(mean[s]))) *
                Vec<V>(static_cast<double>(rstd[s]));
            sums[0] = fma(slope, xhat, sums[0]);
            sums[1] += slope;
          });
    }
    return {};
  }
};

constinit auto const kernels =
    join(op_kernels<ops::LayerNorm, LayerNorm>(),
         op_kernels<ops::LayerNormBackward, LayerNormBackward>(),
         op_kernels<ops::LayerNormWeightBackward, LayerNormWeightBackward>());

}  // namespace
NNTILE_KERNEL_LIST(layer_norm, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
