#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cases of bench/ops that walk rows: activations, normalisation, softmax, cross-entropy. Each
// comes with a plain loop in double over some of the rows.

#include "bench/ops_work.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/softmax.hh"

namespace nntile::bench {

constexpr Index some = 97;  // stride of the rows or elements that are checked; prime

inline Work gelutanh_forward(Sizes const& s, Isa isa) {
  Index const n = s.elements();
  Array<> const x(n, Uniform{1, -4, 4}), y(n);
  return {8.0 * static_cast<double>(n),
          BoundKernel(isa, Arguments<ops::Gelutanh>{ops::Gelutanh::Args{n, {}}}, {x, y}), [=] {
            return largest(n, some, [&](Index i) {
              double const v = x[i], u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
              double const exact = v / (1 + std::exp(-2 * u));
              return excess(y[i], exact, (8 + 4 * std::fabs(u)) * eps * std::fabs(exact));
            });
          }};
}

/// dx += dy f'(x), or dx = dy f'(x).
inline Work gelutanh_backward(Sizes const& s, Isa isa, double beta) {
  Index const n = s.elements();
  Array<> const x(n, Uniform{1, -4, 4}), dy(n, Uniform{2, -1, 1}), dx(n, Uniform{3, -1, 1});
  return {(beta == 0 ? 12.0 : 16.0) * static_cast<double>(n),
          BoundKernel(
              isa, Arguments<ops::GelutanhBackward>{ops::GelutanhBackward::Args{n, {.beta = beta}}},
              {x, dy, dx}),
          [=] {
            return largest(n, some, [&](Index i) {
              double const v = x[i], c = std::sqrt(2 / M_PI);
              double const t = std::tanh(c * (v + 0.044715 * v * v * v));
              double const slope =
                  0.5 * (1 + t) + 0.5 * v * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
              return excess(dx[i], beta * Uniform{3, -1, 1}(i) + dy[i] * slope, 16 * eps);
            });
          }};
}
inline Work gelutanh_backward_set(Sizes const& s, Isa isa) { return gelutanh_backward(s, isa, 0); }
inline Work gelutanh_backward_add(Sizes const& s, Isa isa) { return gelutanh_backward(s, isa, 1); }

/// Statistics of a row, in double.
struct Moments {
  double mean = 0, rstd = 0;
  Moments(float const* x, Index width) {
    auto const count = static_cast<double>(width);
    double variance = 0;
    for (Index e = 0; e < width; ++e) mean += x[e] / count;
    for (Index e = 0; e < width; ++e) variance += (x[e] - mean) * (x[e] - mean) / count;
    rstd = 1 / std::sqrt(variance + 1e-5);
  }
};

/// The operands of a normalisation: rows, and a scale and shift a column.
struct Normalised {
  Index width, rows;
  Array<> x, gamma, beta, mean, rstd;
  explicit Normalised(Sizes const& s)
      : width(s.width),
        rows(s.rows),
        x(s.elements(), Uniform{1, -2, 2}),
        gamma(width, Uniform{2, 0.5, 1.5}),
        beta(width, Uniform{3, -1, 1}),
        mean(rows),
        rstd(rows) {}
  Moments moments(Index row) const { return {x.data() + row * width, width}; }
  void take_moments() const {
    for (Index i = 0; i < rows; ++i) {
      Moments const m = moments(i);
      mean[i] = static_cast<float>(m.mean), rstd[i] = static_cast<float>(m.rstd);
    }
  }
};

inline Work layer_norm_forward(Sizes const& s, Isa isa) {
  Normalised const in(s);
  Array<> const y(s.elements());
  ops::LayerNorm::Args args{};
  args.e = args.whole_e = args.ldx = args.ldy = s.width, args.n = row_count(s.rows);
  args.eps = 1e-5, args.phase = -1;
  return {8.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::LayerNorm>{args},
                      {in.x, in.gamma, in.beta, y, in.mean, in.rstd}),
          [=] {
            return largest(in.rows, some, [&](Index i) {
              Moments const m = in.moments(i);
              return largest(in.width, 1, [&](Index e) {
                double const xhat = (in.x[i * in.width + e] - m.mean) * m.rstd;
                return excess(y[i * in.width + e], xhat * in.gamma[e] + in.beta[e],
                              16 * eps * (1 + std::fabs(xhat)));
              });
            });
          }};
}

/// dx += or dx =; weights have a case of their own.
inline Work layer_norm_backward(Sizes const& s, Isa isa, double beta) {
  Normalised const in(s);
  in.take_moments();
  Array<> const dy(s.elements(), Uniform{4, -1, 1}), dx(s.elements(), Uniform{5, -1, 1});
  ops::LayerNormBackward::Args args{};
  args.e = args.whole_e = args.ldx = args.lddy = args.lddx = s.width, args.n = row_count(s.rows);
  args.beta = beta, args.phase = -1, args.first = true;
  return {(beta == 0 ? 12.0 : 16.0) * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::LayerNormBackward>{args},
                      {in.x, dy, in.gamma, in.mean, in.rstd, dx}),
          [=] {
            return largest(in.rows, some, [&](Index i) {
              Moments const m = in.moments(i);
              Index const at = i * in.width;
              auto const g = [&](Index e) { return static_cast<double>(dy[at + e]) * in.gamma[e]; };
              auto const xhat = [&](Index e) { return (in.x[at + e] - m.mean) * m.rstd; };
              double c1 = 0, c2 = 0;
              for (Index e = 0; e < in.width; ++e) c1 += g(e), c2 += g(e) * xhat(e);
              c1 /= static_cast<double>(in.width), c2 /= static_cast<double>(in.width);
              return largest(in.width, 1, [&](Index e) {
                double const exact =
                    beta * Uniform{5, -1, 1}(at + e) + m.rstd * (g(e) - c1 - xhat(e) * c2);
                return excess(dx[at + e], exact, 32 * eps);
              });
            });
          }};
}
inline Work layer_norm_backward_add(Sizes const& s, Isa isa) {
  return layer_norm_backward(s, isa, 1);
}
inline Work layer_norm_backward_set(Sizes const& s, Isa isa) {
  return layer_norm_backward(s, isa, 0);
}

inline Work layer_norm_weight_backward(Sizes const& s, Isa isa) {
  Normalised const in(s);
  in.take_moments();
  Array<> const dy(s.elements(), Uniform{4, -1, 1}), dgamma(s.width), dbeta(s.width);
  ops::LayerNormWeightBackward::Args args{};
  args.e = args.ldx = args.lddy = s.width, args.s = row_count(s.rows), args.n = 1;
  return {8.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::LayerNormWeightBackward>{args},
                      {in.x, dy, in.mean, in.rstd, dgamma, dbeta}),
          [=] {
            std::size_t const width = static_cast<std::size_t>(in.width);
            std::vector<double> scale(width), shift(width), sizes(width);
            for (Index i = 0; i < in.rows; ++i)
              for (std::size_t e = 0; e < width; ++e) {
                Index const at = i * in.width + static_cast<Index>(e);
                double const slope = dy[at];
                double const xhat = (static_cast<double>(in.x[at]) - in.mean[i]) * in.rstd[i];
                scale[e] += slope * xhat, shift[e] += slope, sizes[e] += std::fabs(slope);
              }
            // The rounding error of a chain grows with the root of its length.
            double const allowed = std::sqrt(static_cast<double>(in.rows)) * eps;
            return largest(in.width, 1, [&](Index e) {
              auto const at = static_cast<std::size_t>(e);
              return std::max(excess(dgamma[e], scale[at], allowed * sizes[at]),
                              excess(dbeta[e], shift[at], allowed * sizes[at]));
            });
          }};
}

/// The sum of exp(x - largest) over a row, in double.
struct Powers {
  double top, sum = 0;
  Powers(float const* x, Index width) : top(*std::max_element(x, x + width)) {
    for (Index p = 0; p < width; ++p) sum += std::exp(x[p] - top);
  }
};

inline Work softmax_forward(Sizes const& s, Isa isa) {
  Index const width = s.width, rows = s.rows;
  Array<> const x(s.elements(), Uniform{1, -4, 4}), y(s.elements());
  ops::Softmax::Args args{};
  args.v = args.ldx = args.ldy = width, args.n = row_count(s.rows), args.phase = -1,
  args.first = true;
  return {8.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::Softmax>{args}, {x, y}), [=] {
            return largest(rows, some, [&](Index i) {
              Powers const row(x.data() + i * width, width);
              return largest(width, 1, [&](Index p) {
                double const exact = std::exp(x[i * width + p] - row.top) / row.sum;
                return excess(y[i * width + p], exact, 16 * eps * exact);
              });
            });
          }};
}

/// dx = y (dy - sum y dy)
inline Work softmax_backward(Sizes const& s, Isa isa) {
  Index const width = s.width, rows = s.rows;
  Array<> const y(s.elements(), Uniform{1, 0, 0.01}), dy(s.elements(), Uniform{2, -1, 1});
  Array<> const dx(s.elements());
  ops::SoftmaxBackward::Args args{};
  args.v = args.ldy = args.lddy = args.lddx = width, args.n = row_count(s.rows);
  args.phase = -1, args.first = true;
  return {12.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::SoftmaxBackward>{args}, {y, dy, dx}), [=] {
            return largest(rows, some, [&](Index i) {
              double dot = 0;
              for (Index at = i * width; at < (i + 1) * width; ++at)
                dot += static_cast<double>(y[at]) * dy[at];
              return largest(width, 1, [&](Index p) {
                Index const at = i * width + p;
                return excess(dx[at], y[at] * (dy[at] - dot), 0.1 * eps);
              });
            });
          }};
}

/// The operands of both halves of cross-entropy.
struct Labelled {
  Index classes, tokens;
  Array<> logits;
  Array<Index> labels;
  Array<> loss, max, sum;
  explicit Labelled(Sizes const& s)
      : classes(s.classes),
        tokens(s.tokens),
        logits(s.classes * s.tokens, Uniform{1, -4, 4}),
        labels(s.tokens, Whole{2, s.classes}),
        loss(tokens),
        max(tokens),
        sum(tokens) {}
  Powers powers(Index token) const { return {logits.data() + token * classes, classes}; }
};

inline Work cross_entropy_forward(Sizes const& s, Isa isa) {
  Labelled const in(s);
  ops::CrossEntropy::Args args{};
  args.v = args.whole_v = args.ldx = s.classes, args.n = row_count(s.tokens);
  args.ignore_index = -100, args.phase = -1;
  return {4.0 * static_cast<double>(in.logits.size()),
          BoundKernel(isa, Arguments<ops::CrossEntropy>{args},
                      {in.logits, in.labels, in.loss, in.max, in.sum}),
          [=] {
            return largest(in.tokens, 16, [&](Index i) {
              Powers const row = in.powers(i);
              double const exact =
                  std::log(row.sum) + row.top - in.logits[i * in.classes + in.labels[i]];
              return excess(in.loss[i], exact, 64 * eps);
            });
          }};
}

inline Work cross_entropy_backward(Sizes const& s, Isa isa) {
  Labelled const in(s);
  Array<> const dloss(s.tokens, Uniform{3, 0.5, 1.5}), dx(in.logits.size());
  for (Index i = 0; i < in.tokens; ++i) {
    Powers const row = in.powers(i);
    in.max[i] = static_cast<float>(row.top), in.sum[i] = static_cast<float>(row.sum);
  }
  ops::CrossEntropyBackward::Args args{};
  args.v = args.whole_v = args.ldx = args.lddx = s.classes, args.n = s.tokens;
  args.ignore_index = -100, args.scale = 1;
  return {8.0 * static_cast<double>(in.logits.size()),
          BoundKernel(isa, Arguments<ops::CrossEntropyBackward>{args},
                      {in.logits, in.labels, in.max, in.sum, dloss, dx}),
          [=] {
            return largest(in.tokens, 16, [&](Index i) {
              Powers const row = in.powers(i);
              return largest(in.classes, 1, [&](Index p) {
                double const power = std::exp(in.logits[i * in.classes + p] - row.top) / row.sum;
                double const one = p == in.labels[i] ? 1 : 0;
                return excess(dx[i * in.classes + p], (power - one) * dloss[i],
                              16 * eps * (power + one) * dloss[i]);
              });
            });
          }};
}

}  // namespace nntile::bench
