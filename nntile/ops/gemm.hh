#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Matrix product over groups of dimensions, with bias and activation in the chain's last tile.

#include <cmath>

#include "nntile/ops/concept.hh"
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
/// starts from beta*C, which is all of it where k = 0; alpha scales A, with one rounding; then bias,
/// then the activation.
/// Accumulates in fp32 (fp64 for fp64). Source: BLAS 3 gemm.
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
    bool trans_a, trans_b, bias, first, last, carried;
    Activation activation;
  };

  static Operands operands(Attrs const& attrs) {
    Operands result{{"a", attrs.trans_a ? "k... m... b..." : "m... k... b..."},
                    {"b", attrs.trans_b ? "n... k... b..." : "k... n... b..."}};
    if (attrs.bias) result.push_back({"bias", "m..."});
    result.push_back({"c", "m... n... b...", Access::update});
    result.push_back({"carry", "m... n... b...", Access::update, Kind::accumulator, Carry::narrow});
    return result;
  }

  static GroupRanks ranks(Attrs const& attrs) {
    return {{'k', attrs.ndim, "ndim"}, {'b', attrs.batch_ndim, "batch_ndim"}};
  }

  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }

  static Args args(Attrs const& attrs, TileRange const& range) {
    int const c = attrs.bias ? 3 : 2;
    auto const offset = [&](int operand) {
      return range.offset(static_cast<std::size_t>(operand));
    };
    auto const stride = [&](int operand, char group) {
      return range.stride(static_cast<std::size_t>(operand), group);
    };
    Args args{};
    args.m = range.extent('m');
    args.n = range.extent('n');
    args.k = range.extent('k');
    args.batch = range.extent('b');
    args.a_offset = offset(0);
    args.b_offset = offset(1);
    args.c_offset = offset(c);
    args.bias_offset = attrs.bias ? offset(2) : 0;
    args.lda = leading(stride(0, attrs.trans_a ? 'm' : 'k'), attrs.trans_a ? args.k : args.m);
    args.ldb = leading(stride(1, attrs.trans_b ? 'k' : 'n'), attrs.trans_b ? args.n : args.k);
    args.ldc = leading(stride(c, 'n'), args.m);
    args.a_stride = stride(0, 'b');
    args.b_stride = stride(1, 'b');
    args.c_stride = stride(c, 'b');
    args.alpha = attrs.alpha;
    args.beta = attrs.beta;
    args.trans_a = attrs.trans_a;
    args.trans_b = attrs.trans_b;
    args.bias = attrs.bias;
    args.first = range.first(c);
    args.last = range.last(c);
    args.carried = range.carried(c + 1);
    args.activation = attrs.activation;
    return args;
  }

  static Cost cost(Attrs const&, TileRange const& range) {
    Index const m = range.extent('m'), n = range.extent('n'), k = range.extent('k'),
                b = range.extent('b');
    return {2 * m * n * k * b, static_cast<Index>(sizeof(float)) * (m * k + k * n + 2 * m * n) * b};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    int const c = args.bias ? 3 : 2;
    for (Index batch = 0; batch < args.batch; ++batch) {
      T const* const a = buffers.at<T>(0) + args.a_offset + batch * args.a_stride;
      T const* const b = buffers.at<T>(1) + args.b_offset + batch * args.b_stride;
      T const* const bias = args.bias ? buffers.at<T>(2) + args.bias_offset : nullptr;
      T* const out = buffers.at<T>(c) + args.c_offset + batch * args.c_stride;
      V* const carry =
          args.carried ? buffers.at<V>(c + 1) + args.c_offset + batch * args.c_stride : nullptr;
      for (Index j = 0; j < args.n; ++j)
        for (Index i = 0; i < args.m; ++i) {
          Index const at = i + j * args.ldc;
          V sum = !args.first && carry != nullptr ? carry[at]
                  : !args.first                   ? V(out[at])
                  : args.beta == 0                ? V(0)
                                                  : V(args.beta) * V(out[at]);
          for (Index p = 0; p < args.k; ++p) {
            V const left = V(args.alpha) * V(a[args.trans_a ? p + i * args.lda : i + p * args.lda]);
            sum = std::fma(left, V(b[args.trans_b ? j + p * args.ldb : p + j * args.ldb]), sum);
          }
          if (args.last && bias != nullptr) sum += V(bias[i]);
          if (args.last && args.activation == Activation::gelu_tanh) sum = Gelutanh::apply({}, sum);
          if (carry != nullptr && !args.last)
            carry[at] = sum;
          else
            out[at] = T(sum);
        }
    }
  }

  /// dA = op(dC B^T), dB = op(A^T dC); dbias sums dC over n, innermost dimension first, each stage
  /// a tensor.
  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<Gemm>();
    if (attrs.activation != Activation::none)
      b.fail("its activation is fused; use a separate op where a gradient is wanted");
    int const c = attrs.bias ? 3 : 2;
    auto const dc = b.grad(c);
    if (b.wants(1)) product(b, attrs, 1, dc);
    if (b.wants(0)) product(b, attrs, 0, dc);
    if (attrs.bias && b.wants(2)) b.sum_trailing(dc, 2);
    b.keep(c, attrs.beta);
  }

 private:
  static Index leading(Index stride, Index fallback) {
    return stride > 0 ? stride : (fallback > 0 ? fallback : 1);
  }

  /// The gradient of operand `which`, laid out as it is stored.
  template <class Builder, class Node>
  static void product(Builder& b, Attrs const& attrs, int which, Node const& dc) {
    auto const target = b.target(which);
    auto const other = b.operand(1 - which);
    int const free_dims = b.rank(2 + (attrs.bias ? 1 : 0)) - attrs.batch_ndim;
    int const n_dims = b.rank(1) - attrs.ndim - attrs.batch_ndim;
    int const m_dims = free_dims - n_dims;
    Attrs next;
    next.batch_ndim = attrs.batch_ndim;
    next.alpha = attrs.alpha;
    next.beta = target.beta;
    next.ndim = which == 0 ? n_dims : m_dims;
    bool const stored_transposed = which == 0 ? attrs.trans_a : attrs.trans_b;
    // The target's own outer group comes from `other` where it is stored as in the product, from dC
    // where transposed.
    if (which == 0 && !stored_transposed) {  // dA{m,k} = dC{m,n} op(B)^T
      next.trans_b = !attrs.trans_b;
      b.template op<Gemm>(next, dc, other, target.node);
    } else if (which == 0) {  // dA{k,m} = op(B){k,n} dC{m,n}^T
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
