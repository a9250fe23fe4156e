#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cases of bench/ops that walk whole arrays: sums, copies, AdamW, embeddings. Each comes with a
// plain loop in double.

#include "bench/ops_work.hh"
#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/ops/global_norm.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile::bench {

/// Sums of the columns of [width, rows], or of its rows, not divided.
inline Arguments<ops::SumSlice> plain_sum(Index width, Index rows, bool of_rows) {
  using enum ops::SumSlice::Operand;
  ops::SliceArgs args{};
  args.m = of_rows ? 1 : width, args.k = of_rows ? width : rows, args.n = of_rows ? rows : 1;
  args.alpha = 1, args.inner = of_rows;
  args.whole = {of_rows ? 1 : width, of_rows ? width : 0}, args.part = of_rows ? 1 : 0;
  return {args, OperandSet{x, y}};
}

/// The gradient of a bias: what is left of [width, rows] when rows are added up.
inline Work column_sums(Sizes const& s, Isa isa) {
  Index const width = s.width, rows = s.rows;
  Array<> const x(s.elements(), Whole{1, 16}), y(width);
  return {4.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, plain_sum(width, rows, false), {x, y}), [=] {
            std::vector<double> sums(static_cast<std::size_t>(width));
            for (Index i = 0; i < rows; ++i)
              for (Index e = 0; e < width; ++e)
                sums[static_cast<std::size_t>(e)] += x[i * width + e];
            return largest(width, 1, [&](Index e) {
              return excess(y[e], sums[static_cast<std::size_t>(e)], 0);  // whole numbers
            });
          }};
}

/// The sum of all elements: over each row, then over the rows' sums, upwards.
inline Work total_sum(Sizes const& s, Isa isa) {
  Array<> const x(s.elements(), Whole{1, 2}), rows(s.rows), y(1);
  BoundKernel const inner(isa, plain_sum(s.width, s.rows, true), {x, rows});
  BoundKernel const outer(isa, plain_sum(1, s.rows, false), {rows, y});
  return {4.0 * static_cast<double>(s.elements()),
          [=] {
            inner();
            outer();
          },
          [=] {
            double sum = 0;
            for (Index i = 0; i < x.size(); ++i) sum += x[i];
            return excess(y[0], sum, 0);  // below 2^24, whole
          }};
}

/// The norm of all elements, and the factor that clips it.
inline Work global_norm(Sizes const& s, Isa isa) {
  Array<> const x(s.elements(), Uniform{1, -1, 1}), scale(1);
  Array<double> const rows(s.rows), total(1);
  ops::SumSquares::Args args{};
  args.k = args.ldx = s.width, args.n = s.rows, args.first = true;
  BoundKernel const squares(isa, Arguments<ops::SumSquares>{args}, {x, rows});
  BoundKernel const outer(isa, plain_sum(1, s.rows, false), {rows, total}, DType::fp64);
  BoundKernel const clip(isa, Arguments<ops::ClipScale>{ops::ClipScale::Args{1}}, {total, scale});
  return {4.0 * static_cast<double>(s.elements()),
          [=] {
            squares();
            outer();
            clip();
          },
          [=] {
            double sum = 0;
            for (Index i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * x[i];
            return std::max(excess(total[0], sum, 1e-10 * sum),
                            excess(scale[0], 1 / (std::sqrt(sum) + 1e-6), eps / std::sqrt(sum)));
          }};
}

inline Work copy_array(Sizes const& s, Isa isa) {
  Index const n = s.elements();
  Array<> const x(n, Uniform{1, -1, 1}), y(n);
  return {8.0 * static_cast<double>(n),
          BoundKernel(isa, Arguments<ops::Copy>{ops::Copy::Args{n, {}}}, {x, y}),
          [=] { return largest(n, 1, [&](Index i) { return excess(y[i], x[i], 0); }); }};
}

inline Work add_arrays(Sizes const& s, Isa isa) {
  Index const n = s.elements();
  Array<> const x(n, Whole{1, 1000}), y(n, Whole{2, 1000}), z(n);
  return {12.0 * static_cast<double>(n),
          BoundKernel(isa, Arguments<ops::Add>{ops::Add::Args{n, {}}}, {x, y, z}), [=] {
            return largest(
                n, 1, [&](Index i) { return excess(z[i], static_cast<double>(x[i]) + y[i], 0); });
          }};
}

/// Reads and writes what AdamW does, and computes next to nothing. Second moments stay positive.
inline void touch(Index n, float* __restrict p, float const* __restrict g, float* __restrict m,
                  float* __restrict v) {
  for (Index i = 0; i < n; ++i) {
    p[i] += 1e-6f * g[i];
    m[i] += 1e-6f * g[i];
    v[i] += 1e-6f * g[i] * g[i];
  }
}

inline Work adamw_step(Sizes const& s, Isa isa) {
  Index const n = s.elements();
  Uniform const p0{1, -1, 1}, m0{3, -1, 1}, v0{4, 0.01, 1};
  Array<> const p(n, p0), g(n, Uniform{2, -1, 1}), m(n, m0), v(n, v0);
  Array<> const lr(1, [](Index) { return 1e-3; });
  Array<Index> const step(1, [](Index) { return 10; });
  ops::AdamwStep::Args const args{n, 0.9, 0.99, 1e-8, 0.1, {}};
  return {28.0 * static_cast<double>(n),
          BoundKernel(isa,
                      Arguments<ops::AdamwStep>{
                          args, OperandSet::all() - OperandSet{ops::AdamwStep::Operand::scale}},
                      {p, g, m, v, lr, step}),
          [=] {
            double const c1 = lr[0] / (1 - std::pow(args.beta1, 10));
            double const c2 = 1 / std::sqrt(1 - std::pow(args.beta2, 10));
            return largest(n, 13, [&](Index i) {
              double const first = m0(i) + (1 - args.beta1) * (g[i] - m0(i));
              double const second = args.beta2 * v0(i) + (1 - args.beta2) * g[i] * g[i];
              double const change = c1 * first / (c2 * std::sqrt(second) + args.eps);
              double const exact = p0(i) * (1 - lr[0] * args.weight_decay) - change;
              return std::max({excess(p[i], exact, 2 * eps), excess(m[i], first, 2 * eps),
                               excess(v[i], second, 2 * eps)});
            });
          },
          [=] { touch(n, p.data(), g.data(), m.data(), v.data()); }};
}

inline Work embedding_forward(Sizes const& s, Isa isa) {
  Index const width = s.width, rows = s.rows, classes = s.classes;
  Array<Index> const index(rows, Whole{1, classes});
  Array<> const table(width * classes, Uniform{2, -1, 1}), y(s.elements());
  ops::Embedding::Args args{};
  args.e = args.ld_table = args.ld_out = width, args.v = args.whole_v = classes, args.n = rows;
  args.first = true;
  return {8.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::Embedding>{args}, {index, table, y}), [=] {
            return largest(rows, 1, [&](Index i) {
              return largest(width, 1, [&](Index e) {
                return excess(y[i * width + e], table[index[i] * width + e], 0);
              });
            });
          }};
}

/// The whole table's gradient is written: tokens name some of its rows, others several times.
inline Work embedding_backward(Sizes const& s, Isa isa) {
  Index const width = s.width, rows = s.rows, classes = s.classes;
  Array<Index> const index(rows, Whole{1, classes});
  Array<> const dy(s.elements(), Whole{2, 1000}), dtable(width * classes);
  ops::EmbeddingBackward::Args args{};
  args.e = args.lddy = args.ld_table = width, args.v = args.whole_v = classes, args.n = rows;
  return {4.0 * static_cast<double>(dtable.size()) + 12.0 * static_cast<double>(s.elements()),
          BoundKernel(isa, Arguments<ops::EmbeddingBackward>{args}, {index, dy, dtable}), [=] {
            std::vector<double> sums(static_cast<std::size_t>(dtable.size()));
            for (Index i = 0; i < rows; ++i)
              for (Index e = 0; e < width; ++e)
                sums[static_cast<std::size_t>(index[i] * width + e)] += dy[i * width + e];
            return largest(dtable.size(), 1, [&](Index at) {
              return excess(dtable[at], sums[static_cast<std::size_t>(at)], 0);
            });
          }};
}

}  // namespace nntile::bench
