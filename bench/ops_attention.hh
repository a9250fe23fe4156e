#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cases of bench/ops with a product's arithmetic: causal attention and its derivative, and the
// product that they are compared with.

#include "bench/ops_work.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gemm.hh"

namespace nntile::bench {

/// q, k, v and what follows from them; rows of a head are `depth * heads` apart, as in a model.
struct Attended {
  Index seq, heads, depth;
  Array<> q, k, v, out, max, sum;
  explicit Attended(Sizes const& s)
      : seq(s.seq),
        heads(s.heads),
        depth(s.depth),
        q(seq * heads * depth, Uniform{1, -2, 2}),
        k(q.size(), Uniform{2, -2, 2}),
        v(q.size(), Uniform{3, -1, 1}),
        out(q.size()),
        max(seq * heads),
        sum(seq * heads) {}

  ops::AttentionArgs args() const {
    ops::AttentionArgs args{};
    args.d = depth, args.h = row_count(heads), args.i = args.j = seq, args.b = 1;
    args.scale = 1 / std::sqrt(static_cast<double>(depth));
    return args;
  }
  BoundKernel forward(Isa isa) const {
    using Name = ops::Attention::Operand;
    OperandSet const given{Name::q, Name::k, Name::v, Name::out, Name::max, Name::sum};
    return BoundKernel(isa, Arguments<ops::Attention>{args(), given}, {q, k, v, out, max, sum});
  }
  /// flops on the blocks of 64 queries and 64 keys that are not masked as a whole.
  double flops(double each) const {
    Index const blocks = (seq + 63) / 64;
    return each * 64 * 64 * static_cast<double>(blocks * (blocks + 1) / 2 * heads * depth);
  }
  Index at(Index head, Index row) const { return (row * heads + head) * depth; }
};

/// One head in double.
struct Head {
  Attended in;
  Index head;
  std::vector<double> p, out;  // [key, query], [element, query]

  double& weight(Index key, Index query) {
    return p[static_cast<std::size_t>(query * in.seq + key)];
  }
  double dot(Array<> const& x, Index i, Array<> const& y, Index j) const {
    double result = 0;
    for (Index e = 0; e < in.depth; ++e)
      result += static_cast<double>(x[in.at(head, i) + e]) * y[in.at(head, j) + e];
    return result;
  }
  Head(Attended const& of, Index number)
      : in(of),
        head(number),
        p(static_cast<std::size_t>(of.seq * of.seq)),
        out(static_cast<std::size_t>(of.seq * of.depth)) {
    for (Index i = 0; i < in.seq; ++i) {
      double sum = 0;
      for (Index j = 0; j <= i; ++j) {
        weight(j, i) = std::exp(dot(in.q, i, in.k, j) / std::sqrt(static_cast<double>(in.depth)));
        sum += weight(j, i);
      }
      for (Index j = 0; j <= i; ++j) {
        weight(j, i) /= sum;
        for (Index e = 0; e < in.depth; ++e)
          out[static_cast<std::size_t>(i * in.depth + e)] +=
              weight(j, i) * in.v[in.at(head, j) + e];
      }
    }
  }
  /// Of a result with rows like q's, against [element, row].
  double worst(Array<> const& value, std::vector<double> const& exact, double allowed) const {
    return largest(in.seq, 1, [&](Index row) {
      return largest(in.depth, 1, [&](Index e) {
        return excess(value[in.at(head, row) + e],
                      exact[static_cast<std::size_t>(row * in.depth + e)], allowed);
      });
    });
  }
};

inline Work attention_forward(Sizes const& s, Isa isa) {
  Attended const in(s);
  return {in.flops(4), in.forward(isa), [=] {
            double result = 0;
            for (Index const head : {Index(0), in.heads - 1}) {
              Head const exact(in, head);
              result = std::max(result, exact.worst(in.out, exact.out, 32 * eps));
            }
            return result;
          }};
}

inline Work attention_backward(Sizes const& s, Isa isa) {
  Attended const in(s);
  in.forward(isa)();
  Array<> const dout(in.q.size(), Uniform{4, -1, 1});
  Array<> const dq(in.q.size()), dk(in.q.size()), dv(in.q.size());
  return {in.flops(10),
          BoundKernel(isa, Arguments<ops::AttentionBackward>{in.args()},
                      {in.q, in.k, in.v, in.out, in.max, in.sum, dout, dq, dk, dv}),
          [=] {
            Head head(in, in.heads - 1);
            std::vector<double> eq(head.out.size()), ek(eq.size()), ev(eq.size());
            auto const add = [&](std::vector<double>& to, Index row, double factor,
                                 Array<> const& from, Index at) {
              for (Index e = 0; e < in.depth; ++e)
                to[static_cast<std::size_t>(row * in.depth + e)] +=
                    factor * from[in.at(head.head, at) + e];
            };
            for (Index i = 0; i < in.seq; ++i) {
              double rowsum = 0;
              for (Index e = 0; e < in.depth; ++e)
                rowsum += dout[in.at(head.head, i) + e] *
                          head.out[static_cast<std::size_t>(i * in.depth + e)];
              for (Index j = 0; j <= i; ++j) {
                double const p = head.weight(j, i);
                double const ds = p * (head.dot(dout, i, in.v, j) - rowsum) * in.args().scale;
                add(eq, i, ds, in.k, j);
                add(ek, j, ds, in.q, i);
                add(ev, j, p, dout, i);
              }
            }
            return std::max({head.worst(dq, eq, 64 * eps), head.worst(dk, ek, 256 * eps),
                             head.worst(dv, ev, 256 * eps)});
          }};
}

/// GPT-2's largest product of a block at 1,024 tokens: y[3072, 1024] = W^T[768, 3072] x[768, 1024].
inline Work product(Sizes const&, Isa isa) {
  Index const m = 3072, n = 1024, k = 768;
  Array<> const a(m * k, Whole{1, 8}), b(k * n, Whole{2, 8}), c(m * n);
  ops::Gemm::Args args{};
  args.m = m, args.n = n, args.k = k, args.batch = 1, args.lda = args.ldb = k, args.ldc = m;
  args.alpha = 1, args.trans_a = true;
  return {2.0 * static_cast<double>(m * n * k),
          BoundKernel(
              isa,
              Arguments<ops::Gemm>{args, OperandSet::all() - OperandSet{ops::Gemm::Operand::bias,
                                                                        ops::Gemm::Operand::carry}},
              {a, b, c}),
          [=] {
            return largest(m * n, 4999, [&](Index at) {
              double sum = 0;
              for (Index p = 0; p < k; ++p)
                sum += static_cast<double>(a[p + at % m * k]) * b[p + at / m * k];
              return excess(c[at], sum, 0);  // whole numbers
            });
          }};
}

}  // namespace nntile::bench
