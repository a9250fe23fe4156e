#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Matrix product over groups of dimensions, with bias and activation in the chain's last tile.

#include <cmath>

#include "nntile/core/cost.hh"
#include "nntile/ops/call.hh"
#include "nntile/ops/gelutanh.hh"

namespace nntile {

/// Elementwise function applied to the finished sum. What an epilogue fuses cannot be
/// differentiated through.
enum class Activation : std::uint8_t { none, gelu_tanh };

namespace ops {

/// C[m,n,b] = act(alpha sum_k op(A)[m,k,b] op(B)[k,n,b] + bias[m] + beta C[m,n,b]); m, k, n, b are
/// groups of dimensions, `ndim` contracted and `batch_ndim` trailing ones. A is stored {m.., k..,
/// b..} ({k.., m.., b..} if trans_a), B {k.., n.., b..} ({n.., k.., b..} if trans_b); column-major,
/// dtypes {every float}. Cost: 2mnkb flops. Every C element is a chain of FMAs in ascending k that
/// starts from beta*C, which is all of it where k = 0; alpha scales A, with one rounding; then
/// bias, then the activation. Canonical groups of k are chains from +0; beta*C is added to the root
/// of their tree, in one fma; one task sums a pair of groups of at most 256 terms each. Accumulates
/// in fp32 (fp64 for fp64). Source: BLAS 3 gemm.
struct Gemm {
  static constexpr char const* name = "gemm";
  static constexpr std::span<DType const> dtypes{float_dtypes};

  struct Attrs {
    bool trans_a = false;
    bool trans_b = false;
    bool bias = false;  // operand `bias` stands between b and c
    Activation activation = Activation::none;
    int ndim = 1;
    int batch_ndim = 0;
    double alpha = 1;
    double beta = 0;
  };

  /// Offsets and leading dimensions in elements; batches follow at the given strides.
  struct Args {
    Index m, n, k, batch;
    Index a_offset, b_offset, c_offset, bias_offset;
    Index lda, ldb, ldc;
    Index a_stride, b_stride, c_stride;
    double alpha, beta;
    bool trans_a, trans_b;
    std::uint16_t left_terms;  // of a pair of canonical groups; 0: one chain
    Chain chain;
    Activation activation;
    bool finishing;
  };

  enum class Operand : std::uint8_t { a, b, bias, c, carry };
  static constexpr Operands operands{
      {"a", "m... k... b..."},
      {"b", "k... n... b..."},
      {"bias", "m..."},
      {"c", "m... n... b...", Access::update},
      {"carry", "m... n... b...", Access::update, Kind::accumulator, Carry::narrow}};
  static constexpr Fields fields{
      field<&Attrs::trans_a>("trans_a"), field<&Attrs::trans_b>("trans_b"),
      field<&Attrs::bias>("bias"),       field<&Attrs::activation>("activation"),
      field<&Attrs::ndim>("ndim"),       field<&Attrs::batch_ndim>("batch_ndim"),
      field<&Attrs::alpha>("alpha"),     field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{
      .present = [](Attrs const& attrs,
                    OperandIndex operand) { return operand != Operand::bias || attrs.bias; },
      .axes = [](Attrs const& attrs, OperandIndex operand) -> char const* {
        if (operand == Operand::a && attrs.trans_a) return "k... m... b...";
        if (operand == Operand::b && attrs.trans_b) return "n... k... b...";
        return nullptr;
      },
      .ranks = [](Attrs const& attrs) -> GroupRanks {
        return {{'k', attrs.ndim, "ndim"}, {'b', attrs.batch_ndim, "batch_ndim"}};
      },
      .check =
          [](Attrs const& attrs, AxisTable const&) {
            if (attrs.activation > Activation::gelu_tanh)
              throw ValueError(concat(name, ": activation=", static_cast<int>(attrs.activation),
                                      "; it is none (0) or gelu_tanh (1)"));
          },
      .grouped = "k",
      .paired_terms = 256,
      .finishes =
          [](Attrs const& attrs) { return attrs.bias || attrs.activation != Activation::none; },
      .flops =
          [](Attrs const&, TileRange const& range) {
            return saturated_product(
                {2, range.extent('m'), range.extent('n'), range.extent('k'), range.extent('b')});
          },
      .padding = Padding::columns,
      .sides = "mnk"};

  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args{};
    args.m = range.extent('m');
    args.n = range.extent('n');
    args.k = range.extent('k');
    args.batch = range.extent('b');
    args.a_offset = range.offset(Operand::a);
    args.b_offset = range.offset(Operand::b);
    args.c_offset = range.offset(Operand::c);
    args.bias_offset = attrs.bias ? range.offset(Operand::bias) : 0;
    args.lda = leading(range.stride(Operand::a, attrs.trans_a ? 'm' : 'k'),
                       attrs.trans_a ? args.k : args.m);
    args.ldb = leading(range.stride(Operand::b, attrs.trans_b ? 'k' : 'n'),
                       attrs.trans_b ? args.n : args.k);
    args.ldc = leading(range.stride(Operand::c, 'n'), args.m);
    args.a_stride = range.has(Operand::a) ? range.stride(Operand::a, 'b') : 0;
    args.b_stride = range.has(Operand::b) ? range.stride(Operand::b, 'b') : 0;
    args.c_stride = range.stride(Operand::c, 'b');
    args.alpha = attrs.alpha;
    args.beta = range.beta(attrs.beta);
    args.trans_a = attrs.trans_a;
    args.trans_b = attrs.trans_b;
    args.left_terms = static_cast<std::uint16_t>(range.left_terms);
    args.chain = range.chain(Operand::c);
    args.activation = attrs.activation;
    args.finishing = range.finishing;
    return args;
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Gemm> buffers) {
    using V = compute_t<T>;
    T const* const bias = buffers.at<T>(Operand::bias);  // [m] after bias_offset, or null
    ChainResult<T> const c{buffers.at<T>(Operand::c), buffers.at<V>(Operand::carry), args.beta,
                           args.chain, args.finishing};
    for (Index batch = 0; batch < args.batch; ++batch) {
      T const* const a = buffers.at<T>(Operand::a) + args.a_offset + batch * args.a_stride;
      T const* const b = buffers.at<T>(Operand::b) + args.b_offset + batch * args.b_stride;
      auto const out = c.at(args.c_offset + batch * args.c_stride);
      for (Index j = 0; j < args.n; ++j)
        for (Index i = 0; i < args.m; ++i) {
          bool const pair = args.left_terms > 0;
          V sum = pair ? V(0) : out.start(i + j * args.ldc), before = 0;
          for (Index p = 0; p < args.k; ++p) {
            if (pair && p == args.left_terms) before = sum, sum = 0;
            V const left = V(args.alpha) * V(a[args.trans_a ? p + i * args.lda : i + p * args.lda]);
            sum = std::fma(left, V(b[args.trans_b ? j + p * args.ldb : p + j * args.ldb]), sum);
          }
          if (pair) sum = out.of_pair(i + j * args.ldc, before, sum);
          if (args.chain.last && bias != nullptr) sum += V(bias[args.bias_offset + i]);
          if (args.chain.last && args.activation == Activation::gelu_tanh)
            sum = Gelutanh::apply({}, sum);
          out.put(i + j * args.ldc, sum);
        }
    }
  }

  /// dA = op(dC B^T), dB = op(A^T dC); dbias sums dC over n, innermost dimension first, each stage
  /// a tensor.
  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<Gemm>();
    if (attrs.activation != Activation::none)
      b.fail("its activation is fused; use a separate op where a gradient is wanted");
    auto const dc = b.grad(Operand::c);
    if (b.wants(Operand::b)) product(b, attrs, Operand::b, dc);
    if (b.wants(Operand::a)) product(b, attrs, Operand::a, dc);
    if (attrs.bias && b.wants(Operand::bias)) b.sum_trailing(dc, Operand::bias);
    b.keep(Operand::c, attrs.beta);
  }

 private:
  static Index leading(Index stride, Index fallback) {
    return stride > 0 ? stride : (fallback > 0 ? fallback : 1);
  }

  /// The gradient of a or b, laid out as it is stored.
  template <class Builder, class Node>
  static void product(Builder& b, Attrs const& attrs, Operand which, Node const& dc) {
    bool const of_a = which == Operand::a;
    auto const target = b.target(which);
    auto const other = b.operand(of_a ? Operand::b : Operand::a);
    int const n_dims = b.rank(Operand::b) - attrs.ndim - attrs.batch_ndim;
    int const m_dims = b.rank(Operand::c) - attrs.batch_ndim - n_dims;
    Attrs next;
    next.batch_ndim = attrs.batch_ndim;
    next.alpha = attrs.alpha;
    next.beta = target.beta;
    next.ndim = of_a ? n_dims : m_dims;
    bool const stored_transposed = of_a ? attrs.trans_a : attrs.trans_b;
    // The target's own outer group comes from `other` where it is stored as in the product, from dC
    // where transposed.
    if (of_a && !stored_transposed) {  // dA{m,k} = dC{m,n} op(B)^T
      next.trans_b = !attrs.trans_b;
      b.template op<Gemm>(next, dc, other, target.node);
    } else if (of_a) {  // dA{k,m} = op(B){k,n} dC{m,n}^T
      next.trans_a = attrs.trans_b;
      next.trans_b = true;
      b.template op<Gemm>(next, other, dc, target.node);
    } else if (!stored_transposed) {  // dB{k,n} = op(A)^T dC{m,n}
      next.trans_a = !attrs.trans_a;
      b.template op<Gemm>(next, other, dc, target.node);
    } else {  // dB{n,k} = dC{m,n}^T op(A)
      next.trans_a = true;
      next.trans_b = attrs.trans_a;
      b.template op<Gemm>(next, dc, other, target.node);
    }
  }
};

}  // namespace ops

inline constexpr Call<ops::Gemm> gemm{};
using gemm_ops = OpList<ops::Gemm>;

}  // namespace nntile
