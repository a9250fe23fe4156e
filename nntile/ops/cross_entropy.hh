#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cross-entropy of logits against class labels, per token, and its derivative.

#include <cmath>
#include <limits>

#include "nntile/ops/softmax.hh"

namespace nntile {
namespace ops {

struct CrossEntropyBackwardAttrs {
  Index ignore_index = -100;
  double scale = 1;
  double beta = 0;
};

/// dlogits = beta dlogits + (exp(x - max) / sum - [v = label]) * scale * dloss[i], 0 for ignored
/// tokens; evaluated as exp(x - max) * (w / sum), minus w at the label, with w = scale dloss[i].
/// dtypes {every float}; labels int64. Cost: 2 to 3 |logits| * size bytes. Fails where a label is
/// outside [0, V) and not `ignore_index`.
struct CrossEntropyBackward {
  static constexpr char const* name = "cross_entropy_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{{"logits", "v i..."},
                                     {"labels", "i...", Access::read, Kind::int64},
                                     {"max", "i...", Access::read, Kind::accumulator},
                                     {"sum", "i...", Access::read, Kind::accumulator},
                                     {"dloss", "i...", Access::read, Kind::accumulator},
                                     {"dlogits", "v i...", Access::update}};

  using Attrs = CrossEntropyBackwardAttrs;
  struct Args {
    Index v, n, v_begin, whole_v, ignore_index;
    double scale, beta;
  };

  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }
  static std::uint32_t replaces(Attrs const&) { return 1u << 0; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('v'),  range.extent('i'), range.begin('v'), range.whole('v'),
            attrs.ignore_index, attrs.scale,       attrs.beta};
  }
  static Cost cost(Attrs const& attrs, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) * range.elements(0) * (attrs.beta == 0 ? 2 : 3)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static Status reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    T const* const logits = buffers.at<T>(0);          // [v, i]
    Index const* const labels = buffers.at<Index>(1);  // [i]
    V const* const max = buffers.at<V>(2);             // [i]
    V const* const sum = buffers.at<V>(3);             // [i]
    V const* const dloss = buffers.at<V>(4);           // [i]
    T* const dlogits = buffers.at<T>(5);               // [v, i]
    for (Index i = 0; i < args.n; ++i) {
      bool const ignored = labels[i] == args.ignore_index;
      if (!ignored && (labels[i] < 0 || labels[i] >= args.whole_v))
        return {"a label is outside the classes"};
      V const w = V(args.scale) * dloss[i];
      for (Index p = 0; p < args.v; ++p) {
        Index const at = p + args.v * i;
        V value = ignored ? V(0) : std::exp(V(logits[at]) - max[i]) * (w / sum[i]);
        if (args.v_begin + p == labels[i]) value -= w;
        dlogits[at] = T(args.beta == 0 ? value : std::fma(V(args.beta), V(dlogits[at]), value));
      }
    }
    return {};
  }
};

struct CrossEntropyAttrs {
  Index ignore_index = -100;
};

/// loss[i] = log(sum) + max - x[label[i]], with max = max_v x[v,i] and sum = sum_v exp(x - max) in
/// blocks of 64; 0 where the label is `ignore_index`. The maximum is NaN if any logit is. max and
/// sum are kept for the derivative, so that logits are never stored twice. dtypes {every float};
/// loss, max and sum fp32 (fp64 for fp64); labels int64. Cost: |logits| * size bytes, twice where v
/// is cut. Fails where a label is outside [0, V), which none is in where V = 0, and not
/// `ignore_index`.
struct CrossEntropy {
  static constexpr char const* name = "cross_entropy";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{{"logits", "v i..."},
                                     {"labels", "i...", Access::read, Kind::int64},
                                     {"loss", "i...", Access::write, Kind::accumulator},
                                     {"max", "i...", Access::write, Kind::accumulator},
                                     {"sum", "i...", Access::write, Kind::accumulator}};

  using Attrs = CrossEntropyAttrs;
  struct Args {
    Index v, n, v_begin, whole_v, ignore_index;
    int phase;
    bool first, last;
  };

  /// While a chain is under way, loss holds the label's logit.
  static Phases phases(Attrs const&) {
    auto const read = Access::read;
    auto const write = Access::write;
    return {Phase{{{0, read}, {3, write}}},
            Phase{{{0, read}, {1, read}, {2, write}, {3, read}, {4, write}}}};
  }
  static char const* blocked(Attrs const&) { return "v"; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('v'),  range.extent('i'), range.begin('v'), range.whole('v'),
            attrs.ignore_index, range.phase,       range.first(3),   range.last(3)};
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) * range.extent('v') * range.extent('i')};
  }

  /// What a task of some phase was given; the rest is null.
  template <class T> struct View {
    using V = compute_t<T>;
    T const* logits;      // [v, i]
    Index const* labels;  // [i]
    V* loss;              // [i]
    V* max;               // [i]
    V* sum;               // [i]
  };
  template <class T> NNTILE_ALWAYS_INLINE static View<T> view(int phase, void* const* at) {
    using V = compute_t<T>;
    auto const logits = static_cast<T const*>(at[0]);
    if (phase == 0) return {logits, nullptr, nullptr, static_cast<V*>(at[1]), nullptr};
    return {logits, static_cast<Index const*>(at[1]), static_cast<V*>(at[2]),
            static_cast<V*>(at[3]), static_cast<V*>(at[4])};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static Status reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    auto const v = view<T>(args.phase, buffers.pointers);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = v.logits + i * args.v;
      if (args.phase <= 0) {
        V max = args.first ? -std::numeric_limits<V>::infinity() : v.max[i];
        for (Index p = 0; p < args.v; ++p) max = maximum(max, V(x[p]));
        v.max[i] = max;
      }
      if (args.phase == 0) continue;
      bool const ignored = v.labels[i] == args.ignore_index;
      if (!ignored && (v.labels[i] < 0 || v.labels[i] >= args.whole_v))
        return {"a label is outside the classes"};
      V sum = args.first ? V(0) : v.sum[i];
      for (Index p = 0; p < args.v; ++p) sum += std::exp(V(x[p]) - v.max[i]);
      v.sum[i] = sum;
      Index const at = v.labels[i] - args.v_begin;
      V const picked = !ignored && at >= 0 && at < args.v ? V(x[at])
                       : args.first                       ? V(0)
                                                          : v.loss[i];
      v.loss[i] = !args.last ? picked : ignored ? V(0) : std::log(sum) + v.max[i] - picked;
    }
    return {};
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(0)) return;
    auto const target = b.target(0);
    b.template op<CrossEntropyBackward>(
        {.ignore_index = b.template attrs<CrossEntropy>().ignore_index, .beta = target.beta},
        b.operand(0), b.operand(1), b.operand(3), b.operand(4), b.grad(2), target.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::CrossEntropy> cross_entropy{};
inline constexpr Call<ops::CrossEntropyBackward> cross_entropy_backward{};
using cross_entropy_ops = OpList<ops::CrossEntropy, ops::CrossEntropyBackward>;

}  // namespace nntile
