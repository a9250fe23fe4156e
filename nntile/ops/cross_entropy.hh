#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cross-entropy of logits against class labels, per token, its derivative, and how many labels
// count.

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
/// dtypes {every float}; labels int64 or int32. Cost: 2 to 3 |logits| * size bytes. Fails where a
/// label is outside [0, V) and not `ignore_index`.
struct CrossEntropyBackward {
  static constexpr char const* name = "cross_entropy_backward";
  static constexpr TypeTable types = indexed_types;
  enum class Operand : std::uint8_t { logits, labels, max, sum, dloss, dlogits };
  static constexpr Operands operands{{"logits", "v i..."},
                                     {"labels", "i...", Access::read, Kind::second},
                                     {"max", "i...", Access::read, Kind::accumulator},
                                     {"sum", "i...", Access::read, Kind::accumulator},
                                     {"dloss", "i...", Access::read, Kind::accumulator},
                                     {"dlogits", "v i...", Access::update}};

  using Attrs = CrossEntropyBackwardAttrs;
  struct Args {
    Index v, n, v_begin, whole_v, ignore_index;
    double scale, beta;
    Index ldx, lddx;
  };
  static constexpr Fields fields{field<&Attrs::ignore_index>("ignore_index"),
                                 field<&Attrs::scale>("scale"), field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{
      .replaces = [](Attrs const&) -> OperandSet { return {Operand::logits}; },
      .padding = Padding::columns};
  static constexpr char const* no_gradient = no_second_derivative;

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('v'),
            range.extent('i'),
            range.begin('v'),
            range.whole('v'),
            attrs.ignore_index,
            attrs.scale,
            attrs.beta,
            range.leading(Operand::logits),
            range.leading(Operand::dlogits)};
  }

  template <Element T, Element Label = std::int64_t>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<CrossEntropyBackward> buffers) {
    using V = compute_t<T>;
    T const* const logits = buffers.at<T>(Operand::logits);          // [v, i]
    Label const* const labels = buffers.at<Label>(Operand::labels);  // [i]
    V const* const max = buffers.at<V>(Operand::max);                // [i]
    V const* const sum = buffers.at<V>(Operand::sum);                // [i]
    V const* const dloss = buffers.at<V>(Operand::dloss);            // [i]
    T* const dlogits = buffers.at<T>(Operand::dlogits);              // [v, i]
    for (Index i = 0; i < args.n; ++i) {
      bool const ignored = labels[i] == args.ignore_index;
      if (!ignored && (labels[i] < 0 || labels[i] >= args.whole_v))
        return {"a label is outside the classes"};
      V const w = V(args.scale) * dloss[i];
      for (Index p = 0; p < args.v; ++p) {
        V value = ignored ? V(0) : std::exp(V(logits[p + args.ldx * i]) - max[i]) * (w / sum[i]);
        if (!ignored && args.v_begin + p == labels[i]) value -= w;
        T& out = dlogits[p + args.lddx * i];
        out = T(updated(args.beta, out, value));
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
/// loss, max and sum fp32 (fp64 for fp64); labels int64 or int32. Cost: |logits| * size bytes,
/// twice where v is cut. Fails where a label is outside [0, V), which none is in where V = 0, and
/// not `ignore_index`.
struct CrossEntropy {
  static constexpr char const* name = "cross_entropy";
  static constexpr TypeTable types = indexed_types;
  enum class Operand : std::uint8_t { logits, labels, loss, max, sum };
  static constexpr Operands operands{
      {"logits", "v i..."},
      {"labels", "i...", Access::read, Kind::second},
      {"loss", "i...", Access::write, Kind::accumulator},
      {"max", "i...", Access::write, Kind::accumulator, Carry::none, Combine::max},
      {"sum", "i...", Access::write, Kind::accumulator}};

  using Attrs = CrossEntropyAttrs;
  struct Args {
    Index v;
    std::uint32_t n, skipped;  // classes of the tile before the task's
    Index v_begin, whole_v, ignore_index;
    int phase;
    Chain chain;
    Index ldx;
  };
  static constexpr Fields fields{field<&Attrs::ignore_index>("ignore_index")};
  /// While a chain is under way, loss holds the label's logit, or 0: of canonical groups one has
  /// the label, so that their sum is its logit.
  static constexpr Hooks<Attrs> hooks{.phases = [](Attrs const&) -> Phases {
                                        using enum Access;
                                        return {
                                            Phase{{{Operand::logits, read}, {Operand::max, write}}},
                                            Phase{{{Operand::logits, read},
                                                   {Operand::labels, read},
                                                   {Operand::loss, write},
                                                   {Operand::max, read},
                                                   {Operand::sum, write}}}};
                                      },
                                      .blocked = [](Attrs const&) { return "v"; },
                                      .grouped = "v",
                                      .finishes = [](Attrs const&) { return true; },
                                      .padding = Padding::columns};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('v'),
            range.extent32('i'),
            range.skipped32('v'),
            range.begin('v'),
            range.whole('v'),
            attrs.ignore_index,
            range.phase,
            range.chain(Operand::max),
            range.has(Operand::logits) ? range.leading(Operand::logits) : 0};
  }

  template <Element T, Element Label = std::int64_t>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<CrossEntropy> buffers) {
    using V = compute_t<T>;
    Label const* const labels = buffers.at<Label>(Operand::labels);  // [i]
    V* const losses = buffers.at<V>(Operand::loss);                  // [i]
    V* const maxima = buffers.at<V>(Operand::max);                   // [i]
    V* const sums = buffers.at<V>(Operand::sum);                     // [i]
    Chain const chain = args.chain;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::logits) + i * args.ldx + args.skipped;  // [v]
      if (args.phase <= 0) {
        V max = chain.start(maxima, i, -std::numeric_limits<V>::infinity());
        for (Index p = 0; p < args.v; ++p) max = maximum(max, V(x[p]));
        maxima[i] = max;
      }
      if (args.phase == 0) continue;
      bool const ignored = labels[i] == args.ignore_index;
      if (!ignored && (labels[i] < 0 || labels[i] >= args.whole_v))
        return {"a label is outside the classes"};
      V sum = chain.start(sums, i);
      for (Index p = 0; p < args.v; ++p) sum += std::exp(V(x[p]) - maxima[i]);
      sums[i] = sum;
      Index const at = ignored ? -1 : labels[i] - args.v_begin;
      bool const here = at >= 0 && at < args.v;
      V const picked = here ? V(x[at]) : chain.start(losses, i);
      losses[i] = !chain.last ? picked : ignored ? V(0) : std::log(sum) + maxima[i] - picked;
    }
    return {};
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::logits)) return;
    auto const target = b.target(Operand::logits);
    b.template op<CrossEntropyBackward>(
        {.ignore_index = b.template attrs<CrossEntropy>().ignore_index, .beta = target.beta},
        b.operand(Operand::logits), b.operand(Operand::labels), b.operand(Operand::max),
        b.operand(Operand::sum), b.grad(Operand::loss), target.node);
  }
};

/// count = the number of labels that are not `ignore_index`: what a mean over tokens divides by.
/// Exact in any order up to 2^53. Labels int64 or int32. Cost: |labels| * size bytes.
struct CountLabels {
  static constexpr char const* name = "count_labels";
  static constexpr ElementTypes types[] = {{DType::fp64, DType::int64},
                                           {DType::fp64, DType::int32}};
  enum class Operand : std::uint8_t { labels, count };
  static constexpr Operands operands{
      {"labels", "i...", Access::read, Kind::second},
      {"count", "", Access::write, Kind::element, Carry::none, Combine::count}};

  using Attrs = CrossEntropyAttrs;
  struct Args {
    Index n, offset, ignore_index;
    bool first;
  };
  static constexpr Fields fields = CrossEntropy::fields;
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_gradient = "a count does not vary with its labels";

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('i'), range.offset(Operand::labels), attrs.ignore_index,
            range.first(Operand::count)};
  }

  template <Element T, Element Label = std::int64_t>
  requires std::same_as<T, double>
  static void reference(Args const& args, Buffers<CountLabels> buffers) {
    Label const* const labels = buffers.at<Label>(Operand::labels) + args.offset;  // [i]
    double& count = *buffers.at<double>(Operand::count);
    count = Chain{args.first}.start(&count, 0);
    for (Index i = 0; i < args.n; ++i) count += labels[i] != args.ignore_index ? 1 : 0;
  }
};

}  // namespace ops

inline constexpr Call<ops::CrossEntropy> cross_entropy{};
inline constexpr Call<ops::CrossEntropyBackward> cross_entropy_backward{};
inline constexpr Call<ops::CountLabels> count_labels{};
using cross_entropy_ops = OpList<ops::CrossEntropy, ops::CrossEntropyBackward, ops::CountLabels>;

}  // namespace nntile
