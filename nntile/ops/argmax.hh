#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Position of the largest element along an axis.

#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

struct ArgmaxAttrs {
  int axis = 0;
};

/// y[i,j] = the lowest v with x[i,v,j] = max_v x[i,v,j], along dimension `axis`; the first NaN
/// where there is one. dtypes {every float}; y int64. The axis may be cut: the best value so far is
/// carried. Cost: |x| * size bytes. Throws ShapeError where the axis is empty.
struct Argmax {
  static constexpr char const* name = "argmax";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y, best };
  static constexpr Operands operands{
      {"x", "m... v n..."},
      {"y", "m... n...", Access::write, Kind::int64, Carry::none, Combine::select},
      {"best", "m... n...", Access::update, Kind::accumulator, Carry::phases, Combine::max}};

  using Attrs = ArgmaxAttrs;
  struct Args {
    Index m, v, n, v_begin;
    bool first;
    Index stride, ldx, ldy;  // of x along v and n, of y along n

    /// Of best and y; without `best` the axis is in one task.
    NNTILE_ALWAYS_INLINE constexpr Chain chain(void const* best) const {
      return {first || best == nullptr};
    }
  };

  static constexpr Fields fields{field<&Attrs::axis>("axis")};
  static constexpr Hooks<Attrs> hooks{
      .ranks = [](Attrs const& attrs) -> GroupRanks { return {{'m', attrs.axis, "axis"}}; },
      .check =
          [](Attrs const& attrs, AxisTable const& axes) {
            if (axes.whole('v') == 0)
              throw ShapeError(concat(name, ": axis ", attrs.axis,
                                      " is empty, and nothing has no largest element"));
          },
      .padding = Padding::columns};
  static constexpr char const* no_gradient = "an index does not vary with the values";

  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('m'),
            range.extent('v'),
            range.extent('n'),
            range.begin('v'),
            range.first(Operand::y),
            range.stride(Operand::x, 'v'),
            range.stride(Operand::x, 'n'),
            range.stride(Operand::y, 'n')};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Argmax> buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(Operand::x);    // [m, v, n]
    Index* const y = buffers.at<Index>(Operand::y);  // [m, n]
    V* const best = buffers.at<V>(Operand::best);    // [m, n], where v is cut
    Chain const chain = args.chain(best);
    for (Index j = 0; j < args.n; ++j)
      for (Index i = 0; i < args.m; ++i) {
        T const* const line = x + i + j * args.ldx;
        Index const at = i + j * args.m, to = i + j * args.ldy;
        V value = chain.start(best, at, V(line[0]));
        Index where = chain.start(y, to, args.v_begin);
        for (Index v = chain.first ? 1 : 0; v < args.v; ++v) {
          V const next = V(line[v * args.stride]);
          if (value != value || !(next > value || next != next)) continue;
          value = next;
          where = args.v_begin + v;
        }
        y[to] = where;
        if (best != nullptr) best[at] = value;
      }
  }
};

}  // namespace ops

inline constexpr Call<ops::Argmax> argmax{};
using argmax_ops = OpList<ops::Argmax>;

}  // namespace nntile
