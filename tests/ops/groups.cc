// SPDX-License-Identifier: BSD-3-Clause
// Canonical groups: the bits of sums over grouped axes, from nntile/NUMERICS.md alone, over
// tilings, runtimes, eager calls and plans.
#include <cmath>
#include <functional>

#include "nntile/core/groups.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/planned_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// Where group `group` of `count` begins on an axis: units of 64 where it is 64 a group long, the
/// remainder to the first.
Index begin_of(Index extent, Index count, Index group) {
  Index const unit = extent >= 64 * count ? 64 : 1;
  std::vector<Index> sizes(static_cast<std::size_t>(count));
  Index const units = (extent + unit - 1) / unit;
  for (Index u = 0; u < units; ++u) ++sizes[static_cast<std::size_t>(u % count)];
  Index begin = 0;
  for (Index g = 0; g < group; ++g) begin += unit * sizes[static_cast<std::size_t>(g)];
  return std::min(begin, extent);
}

/// ((0+1)+(2+3))+..., level by level.
template <class V> V tree(std::vector<V> sums) {
  while (sums.size() > 1) {
    std::vector<V> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(sums[i] + sums[i + 1]);
    if (sums.size() % 2 == 1) next.push_back(sums.back());
    sums = std::move(next);
  }
  return sums[0];
}

/// A contracted axis and its groups.
struct GroupedAxis {
  Index extent;
  Index groups;
};

/// The sum over axes, innermost first, of chain(first index of each axis, its end), a chain from
/// +0.
template <class V>
V by_groups(std::vector<GroupedAxis> const& axes,
            std::function<V(std::vector<Index> const&, std::vector<Index> const&)> const& chain) {
  std::vector<Index> begins(axes.size()), ends(axes.size());
  std::function<V(std::size_t)> const level = [&](std::size_t left) -> V {
    if (left == 0) return chain(begins, ends);
    auto const& [extent, groups] = axes[left - 1];
    std::vector<V> sums;
    for (Index g = 0; g < groups; ++g) {
      begins[left - 1] = begin_of(extent, groups, g);
      ends[left - 1] = begin_of(extent, groups, g + 1);
      sums.push_back(level(left - 1));
    }
    return tree(sums);
  };
  return level(axes.size());
}

/// Elements of an array as the accumulator sees them.
template <class V> std::function<V(Index)> values(Array const& x) {
  return [&x](Index i) { return static_cast<V>(x.get(i)); };
}

/// CHECKs a case against a reference of all bits: eager, cut, planned, on all runtimes.
void check_bits(OpCase const& c, DType element, std::function<void(std::vector<Array>&)> reference,
                std::vector<Cuts> const& tilings) {
  std::string groups;
  for (AxisGroups const& each : c.groups) groups += concat(" ", each.axis, "=", each.groups);
  INFO(c.op->name << " " << name_of(element) << groups);
  auto const operands = make_operands(c, element);
  auto exact = operands;
  reference(exact);
  CHECK(difference(c, run_kernel(c, element, operands), exact) == "");
  for (Cuts const& cuts : tilings) {
    CHECK(difference(c, run_kernel(c, element, operands, {.cuts = cuts}), exact) == "");
    CHECK(difference(
              c, run_kernel(c, element, operands, {.cuts = cuts, .runtime = "ring", .workers = 2}),
              exact) == "");
    PlanOptions const cut{.tile = 0, .cuts = plan_cuts(cuts)};
    CHECK(difference(c, run_planned<Serial>(c, element, operands, cut), exact) == "");
    CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), exact) == "");
  }
}

/// c = alpha a b + beta c + bias of contracted axes k0, k1, all column-major.
template <class V> void multiply(OpCase const& c, std::vector<Array>& x) {
  auto const& attrs = *reinterpret_cast<ops::Gemm::Attrs const*>(c.attrs.data());
  Array& out = x.back();
  Index const m = x[0].shape[0], k0 = x[0].shape[1], k1 = x[0].shape[2], n = x[1].shape[2];
  std::vector<GroupedAxis> axes{{k0, 1}, {k1, 1}};
  for (AxisGroups const& each : c.groups) axes[each.axis == "k0" ? 0 : 1].groups = each.groups;
  for (Index j = 0; j < n; ++j)
    for (Index i = 0; i < m; ++i) {
      V sum = by_groups<V>(axes, [&](auto const& begin, auto const& end) {
        V chain = 0;
        for (Index q = begin[1]; q < end[1]; ++q)
          for (Index p = begin[0]; p < end[0]; ++p)
            chain = std::fma(V(attrs.alpha) * V(x[0].get(i + m * (p + k0 * q))),
                             V(x[1].get(p + k0 * (q + k1 * j))), chain);
        return chain;
      });
      if (attrs.beta != 0) sum = std::fma(V(attrs.beta), V(out.get(i + m * j)), sum);
      if (attrs.bias) sum += V(x[2].get(i));
      out.set(i + m * j, static_cast<double>(sum));
    }
}

}  // namespace

TEST_CASE("groups are whole units of 64 where they fit, the first ones the longer",
          "[ops][groups]") {
  for (Index const extent : {1, 5, 63, 64, 127, 128, 130, 200, 256, 333, 50257})
    for (Index const count : {1, 2, 3, 4, 5, 7, 8}) {
      if (count > extent) continue;
      INFO(extent << " in " << count);
      GroupCut const cut{extent, count};
      for (Index group = 0; group <= count; ++group)
        CHECK(cut.begin(group) == begin_of(extent, count, group));
      for (Index group = 0; group < count; ++group) CHECK(cut.begin(group) < cut.begin(group + 1));
      CHECK(cut.begin(count) == extent);
    }
}

TEST_CASE("a product is a chain for each group, added by the tree, beta C to its root",
          "[ops][groups][gemm]") {
  std::vector<Cuts> const tilings{{},
                                  {{"k0", {5, 4}}},
                                  {{"k1", {3, 3, 1}}, {"m0", {2, 3}}},
                                  {{"k0", {1, 8}}, {"k1", {2, 5}}, {"n0", {3, 1}}}};
  for (auto const& groups : std::vector<Groups>{{{"k0", 2}},
                                                {{"k0", 9}},
                                                {{"k1", 3}},
                                                {{"k1", 7}},
                                                {{"k0", 3}, {"k1", 2}},
                                                {{"k0", 5}, {"k1", 6}}})
    for (bool const bias : {false, true})
      for (double const beta : {0.0, 1.0, 0.3}) {
        auto c = bias ? op_case<ops::Gemm>({.bias = true, .ndim = 2, .alpha = 1.7, .beta = beta},
                                           {Shape{5, 9, 7}, Shape{9, 7, 4}, Shape{5}, Shape{5, 4}})
                      : op_case<ops::Gemm>({.ndim = 2, .alpha = 1.7, .beta = beta},
                                           {Shape{5, 9, 7}, Shape{9, 7, 4}, Shape{5, 4}});
        c.groups = groups;
        for (DType const element : {DType::fp32, DType::fp64, DType::bf16, DType::fp16})
          check_bits(
              c, element,
              [&](std::vector<Array>& x) {
                element == DType::fp64 ? multiply<double>(c, x) : multiply<float>(c, x);
              },
              tilings);
      }
}

namespace {

/// term(begin) + ... over [begin, end) from +0, in blocks of 64: element i to lane i mod 16, lanes
/// by the tree 16-8-4-2-1, blocks upwards; counted from `begin`.
template <class V, class Term> V blocked(Index begin, Index end, Term term) {
  V sum = 0;
  for (Index block = begin; block < end; block += 64) {
    V lanes[16] = {};
    for (Index i = block; i < std::min(block + 64, end); ++i) lanes[(i - block) % 16] += term(i);
    for (int half = 8; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    sum += lanes[0];
  }
  return sum;
}

/// The same of a whole axis with groups.
template <class V, class Term> V grouped_blocks(Index extent, Index groups, Term term) {
  std::vector<V> sums;
  for (Index g = 0; g < groups; ++g)
    sums.push_back(blocked<V>(begin_of(extent, groups, g), begin_of(extent, groups, g + 1), term));
  return tree(sums);
}

template <class V> void set_updated(Array& y, Index i, double beta, V value) {
  if (beta != 0) value = std::fma(V(beta), V(y.get(i)), value);
  y.set(i, static_cast<double>(value));
}

/// Calls run(V()) with the accumulator of a dtype.
template <class Run> void with_accumulator(DType element, Run run) {
  if (element == DType::fp64)
    run(double());
  else
    run(float());
}

DType const floats[] = {DType::fp32, DType::fp64, DType::bf16, DType::fp16};

}  // namespace

TEST_CASE("sums are blocks of 64 from each group's beginning, or ascend within it",
          "[ops][groups][sum_slice]") {
  for (int const axis : {0, 1})
    for (Index const extent : {5, 130, 300})
      for (int const groups : {2, 3, 4})
        for (double const beta : {0.0, 0.5})
          for (DType const element : floats) {
            Shape const x = axis == 0 ? Shape{extent, 3} : Shape{7, extent, 3};
            Shape const y = axis == 0 ? Shape{3} : Shape{7, 3};
            auto c = op_case<ops::SumSlice>({.axis = axis, .alpha = 1.7, .beta = beta}, {x, y});
            c.groups = {{"k0", groups}};
            auto const reference = [&](std::vector<Array>& of) {
              with_accumulator(element, [&](auto tag) {
                using V = decltype(tag);
                for (Index at = 0; at < of[1].count(); ++at) {
                  Index const m = axis == 0 ? 1 : 7, i = at % m, j = at / m;
                  auto const value = [&](Index k) {
                    return V(of[0].get(i + m * (k + extent * j)));
                  };
                  std::vector<V> sums;
                  for (Index g = 0; g < groups; ++g) {
                    Index const begin = begin_of(extent, groups, g),
                                end = begin_of(extent, groups, g + 1);
                    V sum = 0;
                    if (axis == 0)
                      sum = blocked<V>(begin, end, [&](Index k) { return V(1.7) * value(k); });
                    else
                      for (Index k = begin; k < end; ++k) sum = std::fma(V(1.7), value(k), sum);
                    sums.push_back(sum);
                  }
                  set_updated(of[1], at, beta, tree(sums));
                }
              });
            };
            // Below 64 a group, borders within groups are not canonical along dimension 0.
            Cuts const cuts = extent >= 64 * groups ? Cuts{{"k0", {64, extent - 64}}}
                              : axis == 1           ? Cuts{{"k0", {1, extent - 1}}}
                                                    : Cuts{};
            check_bits(c, element, reference, {cuts, Cuts{{"j0", {1, 2}}}});
          }
}

TEST_CASE("squares of a tensor are added in fp64 by groups", "[ops][groups][global_norm]") {
  for (DType const element : floats)
    for (int const groups : {2, 3, 4}) {
      auto c = op_case<ops::SumSquares>({}, {Shape{300, 3}, Shape{3}});
      c.groups = {{"k0", groups}};
      check_bits(c, element,
                 [&](std::vector<Array>& x) {
                   for (Index j = 0; j < 3; ++j)
                     x[1].set(j, grouped_blocks<double>(300, groups, [&](Index k) {
                                return x[0].get(k + 300 * j) * x[0].get(k + 300 * j);
                              }));
                 },
                 {{{"k0", {128, 172}}}, {{"k0", {64, 64, 172}}, {"j0", {2, 1}}}});
    }
}

TEST_CASE("gradients of weights are chains over each group of tokens",
          "[ops][groups][layer_norm][embedding]") {
  for (DType const element : floats)
    for (int const groups : {2, 5, 7}) {
      auto c = op_case<ops::LayerNormWeightBackward>(
          {.beta_dgamma = 0.5}, {{5, 7, 3}, {5, 7, 3}, {7, 3}, {7, 3}, {5, 3}, {5, 3}});
      c.groups = {{"s0", groups}};
      check_bits(
          c, element,
          [&](std::vector<Array>& x) {
            with_accumulator(element, [&](auto tag) {
              using V = decltype(tag);
              for (Index j = 0; j < 3; ++j)
                for (Index e = 0; e < 5; ++e) {
                  std::vector<V> gamma, beta;
                  for (Index g = 0; g < groups; ++g) {
                    V of_gamma = 0, of_beta = 0;
                    for (Index s = begin_of(7, groups, g); s < begin_of(7, groups, g + 1); ++s) {
                      Index const token = s + 7 * j, at = e + 5 * token;
                      V const slope = V(x[1].get(at));
                      V const xhat = (V(x[0].get(at)) - V(x[2].get(token))) * V(x[3].get(token));
                      of_gamma = std::fma(slope, xhat, of_gamma);
                      of_beta += slope;
                    }
                    gamma.push_back(of_gamma), beta.push_back(of_beta);
                  }
                  set_updated(x[4], e + 5 * j, 0.5, tree(gamma));
                  set_updated(x[5], e + 5 * j, 0, tree(beta));
                }
            });
          },
          {{{"s0", {3, 4}}}, {{"s0", {1, 1, 5}}, {"e0", {2, 3}}, {"j0", {1, 2}}}});
    }
  for (DType const element : floats)
    for (double const beta : {0.0, 1.0, 0.5})
      for (Groups const& groups :
           {Groups{{"i0", 2}}, Groups{{"i1", 2}}, Groups{{"i0", 3}, {"i1", 2}}}) {
        auto c = op_case<ops::EmbeddingBackward>({.beta = beta}, {{6, 2}, {5, 6, 2}, {5, 4}});
        c.prepare = [](std::vector<Array>& x) { set_classes(x[0], 4); };
        c.groups = groups;
        std::vector<GroupedAxis> axes{{6, 1}, {2, 1}};
        for (AxisGroups const& each : groups) axes[each.axis == "i0" ? 0 : 1].groups = each.groups;
        check_bits(c, element,
                   [&](std::vector<Array>& x) {
                     with_accumulator(element, [&](auto tag) {
                       using V = decltype(tag);
                       for (Index v = 0; v < 4; ++v)
                         for (Index e = 0; e < 5; ++e)
                           set_updated(x[2], e + 5 * v, beta,
                                       by_groups<V>(axes, [&](auto const& begin, auto const& end) {
                                         V sum = 0;
                                         for (Index b = begin[1]; b < end[1]; ++b)
                                           for (Index i = begin[0]; i < end[0]; ++i)
                                             if (static_cast<Index>(x[0].get(i + 6 * b)) == v)
                                               sum += V(x[1].get(e + 5 * (i + 6 * b)));
                                         return sum;
                                       }));
                     });
                   },
                   {{{"i0", {4, 2}}}, {{"i1", {1, 1}}, {"v0", {3, 1}}}});
      }
}

TEST_CASE("statistics of norms are sums of groups before they are finished",
          "[ops][groups][layer_norm]") {
  Index const extent = 300, tokens = 3;
  for (DType const element : floats)
    for (int const groups : {2, 3, 4}) {
      auto c = op_case<ops::LayerNorm>(
          {}, {{extent, tokens}, {extent}, {extent}, {extent, tokens}, {tokens}, {tokens}});
      c.groups = {{"e0", groups}};
      std::vector<Cuts> const tilings{{{"e0", {128, 172}}},
                                      {{"e0", {64, 64, 172}}, {"i0", {1, 2}}}};
      check_bits(
          c, element,
          [&](std::vector<Array>& x) {
            with_accumulator(element, [&](auto tag) {
              using V = decltype(tag);
              for (Index i = 0; i < tokens; ++i) {
                auto const value = [&](Index e) { return V(x[0].get(e + extent * i)); };
                V const mean = grouped_blocks<V>(extent, groups, value) / V(extent);
                V const square = grouped_blocks<V>(
                    extent, groups, [&](Index e) { return (value(e) - mean) * (value(e) - mean); });
                V const rstd = V(1) / std::sqrt(square / V(extent) + V(1e-5));
                x[4].set(i, static_cast<double>(mean)), x[5].set(i, static_cast<double>(rstd));
                for (Index e = 0; e < extent; ++e)
                  x[3].set(e + extent * i,
                           static_cast<double>(
                               std::fma((value(e) - mean) * rstd, V(x[1].get(e)), V(x[2].get(e)))));
              }
            });
          },
          tilings);
      auto back = op_case<ops::LayerNormBackward>(
          {.beta = 0.5},
          {{extent, tokens}, {extent, tokens}, {extent}, {tokens}, {tokens}, {extent, tokens}});
      back.groups = c.groups;
      check_bits(
          back, element,
          [&](std::vector<Array>& x) {
            with_accumulator(element, [&](auto tag) {
              using V = decltype(tag);
              for (Index i = 0; i < tokens; ++i) {
                V const mean = V(x[3].get(i)), rstd = V(x[4].get(i));
                auto const xhat = [&](Index e) {
                  return (V(x[0].get(e + extent * i)) - mean) * rstd;
                };
                auto const g = [&](Index e) {
                  return V(x[1].get(e + extent * i)) * V(x[2].get(e));
                };
                V const c1 = grouped_blocks<V>(extent, groups, g) / V(extent);
                V const c2 =
                    grouped_blocks<V>(extent, groups, [&](Index e) { return g(e) * xhat(e); }) /
                    V(extent);
                for (Index e = 0; e < extent; ++e)
                  set_updated(x[5], e + extent * i, 0.5,
                              V(rstd * (g(e) - std::fma(xhat(e), c2, c1))));
              }
            });
          },
          tilings);
    }
}

TEST_CASE("softmax and cross-entropy add exponentials by groups", "[ops][groups][cross_entropy]") {
  Index const classes = 300, tokens = 4;
  for (DType const element : floats)
    for (int const groups : {2, 3, 4}) {
      std::vector<Cuts> const tilings{{{"v0", {128, 172}}},
                                      {{"v0", {64, 64, 172}}, {"i0", {1, 3}}}};
      // exp(x - max), by the derivative of cross-entropy with all else 1.
      auto const powers = [&](Array const& logits, std::vector<double>& maxima) {
        DType const wide = accumulator_of(element);
        auto c = op_case<ops::CrossEntropyBackward>(
            {}, {{classes, tokens}, {tokens}, {tokens}, {tokens}, {tokens}, {classes, tokens}});
        auto x = make_operands(c, wide);
        x[0] = logits.as(wide);
        maxima.assign(tokens, -HUGE_VAL);
        for (Index i = 0; i < tokens; ++i) {
          for (Index v = 0; v < classes; ++v)
            maxima[static_cast<std::size_t>(i)] =
                std::max(maxima[static_cast<std::size_t>(i)], x[0].get(v + classes * i));
          x[1].set(i, 0), x[2].set(i, maxima[static_cast<std::size_t>(i)]);
          x[3].set(i, 1), x[4].set(i, 1);
        }
        auto const first = run_kernel(c, wide, x)[5];  // less 1 at the label
        for (Index i = 0; i < tokens; ++i) x[1].set(i, 1);
        auto result = run_kernel(c, wide, x)[5];
        for (Index i = 0; i < tokens; ++i) result.set(1 + classes * i, first.get(1 + classes * i));
        return result;
      };
      auto c = op_case<ops::CrossEntropy>(
          {}, {{classes, tokens}, {tokens}, {tokens}, {tokens}, {tokens}});
      c.groups = {{"v0", groups}};
      c.prepare = [&](std::vector<Array>& x) {
        for (Index i = 0; i < tokens; ++i)
          x[1].set(i, i == 2 ? -100.0 : 97.0 * static_cast<double>(i));
      };
      auto const operands = make_operands(c, element);
      std::vector<double> maxima;
      Array const exps = powers(operands[0], maxima);
      for (Cuts const& cuts : {Cuts{}, tilings[0], tilings[1]})
        for (bool const planned : {false, true}) {
          INFO(name_of(element) << " " << groups << " groups, cuts " << cuts.size());
          auto const got = planned ? run_planned<Ring>(c, element, operands,
                                                       {.tile = 0, .cuts = plan_cuts(cuts)})
                                   : run_kernel(c, element, operands, {.cuts = cuts});
          with_accumulator(element, [&](auto tag) {
            using V = decltype(tag);
            for (Index i = 0; i < tokens; ++i) {
              V const sum = grouped_blocks<V>(
                  classes, groups, [&](Index v) { return V(exps.get(v + classes * i)); });
              CHECK(got[4].get(i) == static_cast<double>(sum));
              CHECK(got[3].get(i) == maxima[static_cast<std::size_t>(i)]);
              double const loss = i == 2 ? 0
                                         : std::log(static_cast<double>(sum)) +
                                               maxima[static_cast<std::size_t>(i)] -
                                               operands[0].get(97 * i + classes * i);
              CHECK(std::fabs(got[2].get(i) - loss) <= 1e-6 * std::fabs(loss));
            }
          });
        }
      auto soft = op_case<ops::Softmax>({}, {{classes, tokens}, {classes, tokens}});
      soft.groups = c.groups;
      check_bits(
          soft, element,
          [&](std::vector<Array>& x) {
            std::vector<double> top;
            Array const power = powers(x[0], top);
            with_accumulator(element, [&](auto tag) {
              using V = decltype(tag);
              for (Index i = 0; i < tokens; ++i) {
                auto const term = [&](Index v) { return V(power.get(v + classes * i)); };
                V const factor = V(1) / grouped_blocks<V>(classes, groups, term);
                for (Index v = 0; v < classes; ++v)
                  x[1].set(v + classes * i, static_cast<double>(term(v) * factor));
              }
            });
          },
          tilings);
      auto back = op_case<ops::SoftmaxBackward>(
          {.beta = 0.5}, {{classes, tokens}, {classes, tokens}, {classes, tokens}});
      back.groups = c.groups;
      check_bits(
          back, element,
          [&](std::vector<Array>& x) {
            with_accumulator(element, [&](auto tag) {
              using V = decltype(tag);
              for (Index i = 0; i < tokens; ++i) {
                auto const y = [&](Index v) { return V(x[0].get(v + classes * i)); };
                auto const dy = [&](Index v) { return V(x[1].get(v + classes * i)); };
                V const dot =
                    grouped_blocks<V>(classes, groups, [&](Index v) { return y(v) * dy(v); });
                for (Index v = 0; v < classes; ++v)
                  set_updated(x[2], v + classes * i, 0.5, V(y(v) * (dy(v) - dot)));
              }
            });
          },
          tilings);
    }
}

namespace {

/// Queries [begin, end) of an operand whose queries are dimension `d`.
Array queries_of(Array const& x, std::size_t d, Index begin, Index end) {
  Shape shape = x.shape;
  shape[d] = end - begin;
  Array result(x.dtype, shape);
  Index inner = 1, outer = 1;
  for (std::size_t i = 0; i < shape.size(); ++i)
    (i < d ? inner : i > d ? outer : end) *= i == d ? 1 : shape[i];
  Index const whole = x.shape[d], part = shape[d];
  for (Index o = 0; o < outer; ++o)
    for (Index q = 0; q < part; ++q)
      for (Index i = 0; i < inner; ++i)
        result.set(i + inner * (q + part * o), x.get(i + inner * (begin + q + whole * o)));
  return result;
}

}  // namespace

TEST_CASE("attention's keys are one chain, its dk and dv chains over groups of queries",
          "[ops][groups][attention]") {
  Index const d = 8, heads = 2, q = 70, k = 130, batch = 2;
  for (bool const causal : {false, true})
    for (DType const element : {DType::fp32, DType::fp64})
      for (int const groups : {2, 3, 70}) {
        ops::AttentionAttrs const attrs{
            .causal = causal, .beta_dq = 0.5, .beta_dk = 0.25, .beta_dv = 0};
        auto const shapes = [&](Index queries) {
          Shape const of_q{d, heads, queries, batch}, of_k{d, heads, k, batch},
              rows{queries, heads, batch};
          return std::vector<Shape>{of_q, of_k, of_k, of_q, rows, rows, of_q, of_q, of_k, of_k};
        };
        auto c = op_case<ops::AttentionBackward>(attrs, shapes(q));
        c.prepare = [attrs](std::vector<Array>& x) {
          run_before<ops::Attention>({.causal = attrs.causal}, x, {0, 1, 2, 3, 4, 5});
        };
        c.groups = {{"i0", groups}, {"j0", 4}};
        check_bits(
            c, element,
            [&](std::vector<Array>& x) {
              ops::AttentionAttrs plain = attrs;
              plain.beta_dk = plain.beta_dv = 0;
              std::vector<std::vector<Array>> parts;
              for (int g = 0; g < groups; ++g) {
                Index const begin = begin_of(q, groups, g), end = begin_of(q, groups, g + 1);
                // Aligned at their ends: keys beyond the group's last one are not there.
                Index const keys = causal ? k - q + end : k;
                std::vector<Array> part = x;
                for (std::size_t const o : {0u, 3u, 6u, 7u})
                  part[o] = queries_of(x[o], 2, begin, end);
                for (std::size_t const o : {4u, 5u}) part[o] = queries_of(x[o], 0, begin, end);
                for (std::size_t const o : {1u, 2u, 8u, 9u}) part[o] = queries_of(x[o], 2, 0, keys);
                std::vector<Shape> of;
                for (Array const& each : part) of.push_back(each.shape);
                parts.push_back(
                    run_kernel(op_case<ops::AttentionBackward>(plain, of), element, part));
              }
              x[7] = run_kernel(op_case<ops::AttentionBackward>(attrs, shapes(q)), element, x)[7];
              with_accumulator(element, [&](auto tag) {
                using V = decltype(tag);
                for (std::size_t const o : {8u, 9u})
                  for (Index b = 0; b < batch; ++b)
                    for (Index j = 0; j < k; ++j)
                      for (Index e = 0; e < d * heads; ++e) {
                        std::vector<V> sums;
                        for (auto const& part : parts) {
                          Index const keys = part[o].shape[2];
                          sums.push_back(
                              j >= keys ? V(0) : V(part[o].get(e + d * heads * (j + keys * b))));
                        }
                        set_updated(x[o], e + d * heads * (j + k * b), o == 8 ? 0.25 : 0,
                                    tree(sums));
                      }
              });
            },
            {{},
             {{"i0", {64, 6}}},
             {{"j0", {64, 66}}},
             {{"i0", {30, 40}}, {"j0", {64, 64, 2}}, {"h0", {1, 1}}, {"b0", {1, 1}}}});
      }
}

TEST_CASE("every op with groups has the same bits eager, cut and planned, or refuses",
          "[ops][groups]") {
  for (OpCase const& plain : every_op())
    for (int const groups : {2, 3}) {
      OpCase const c = with_groups(plain, groups);
      if (c.groups.empty()) continue;
      for (DType const element : floats) {
        INFO(c.op->name << " " << name_of(element) << " in " << groups);
        auto const operands = make_operands(c, element);
        auto const whole = run_kernel(c, element, operands);
        CHECK(deviation(c, element, whole, run_reference(plain, element, operands)) == "");
        Cuts cuts = canonical_cuts(c);
        std::string const blocked = c.op->blocked(c.attrs.data());
        if (groups == 3)  // below 64 a group borders are not canonical
          std::erase_if(cuts,
                        [&](Cut const& cut) { return blocked.find(cut.axis[0]) != blocked.npos; });
        PlanOptions cut{.tile = 0, .cuts = plan_cuts(cuts)};
        for (Isa const isa : instruction_sets())
          if (isa == Isa::v3 || isa == Isa::v4)
            CHECK(difference(c, run_kernel(c, element, operands, {.cuts = cuts, .isa = isa}),
                             whole) == "");
        CHECK(difference(
                  c,
                  run_kernel(c, element, operands, {.cuts = cuts, .runtime = "ring", .workers = 2}),
                  whole) == "");
        CHECK(difference(c, run_planned<Serial>(c, element, operands), whole) == "");
        CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), whole) == "");
        cut.pad = {{}};
        CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), whole) == "");
      }
    }
}

TEST_CASE("an axis that an op sums over otherwise than by groups is refused, what is exact is not",
          "[ops][groups]") {
  auto const refused = [](OpCase c, Groups groups) -> std::string {
    c.groups = std::move(groups);
    auto const operands = make_operands(c, DType::fp32);
    std::string text;
    try {
      run_kernel(c, DType::fp32, operands);
    } catch (ValueError const& error) {
      text = error.what();
    }
    bool planned = false;
    try {
      run_planned<Serial>(c, DType::fp32, operands);
    } catch (Error const&) {  // a GraphError or a PlanError
      planned = true;
    }
    CHECK(planned == !text.empty());
    return text;
  };
  auto const attention = [] {
    Shape const q{8, 2, 6, 2}, rows{6, 2, 2};
    return op_case<ops::Attention>({}, {q, q, q, q, rows, rows});
  };
  CHECK(refused(attention(), {{"d0", 2}}) ==
        "attention: axis 'd' has 2 canonical groups, over which attention cannot sum; give that "
        "axis one group");
  CHECK(refused(attention(), {{"j0", 2}}) == "");
  auto const sum = op_case<ops::SumSlice>({.axis = 0}, {Shape{3, 2}, Shape{2}});
  CHECK(refused(sum, {{"k0", 4}}) ==
        "sum_slice: axis 'k' of 3 elements has 4 canonical groups; at most 3 would do");
  CHECK(refused(sum, {{"k0", 0}}) ==
        "sum_slice: axis 'k' has 0 canonical groups; at least 1 is needed");
  CHECK(refused(sum, {{"k0", 1}, {"k0", 2}}) ==
        "sum_slice: axis 'k' is given groups twice, 1 and 2");
  CHECK(refused(sum, {{"v0", 2}}) ==
        "sum_slice: groups of an axis 'v0', which it does not have; it has k, j");
  CHECK(refused(sum, {{"j0", 2}}) == "");  // kept
  CHECK(refused(op_case<ops::Sample>({}, {Shape{9, 2}, Shape{}, Shape{2}}), {{"v0", 3}}) == "");
  CHECK(refused(op_case<ops::Argmax>({.axis = 0}, {Shape{9, 2}, Shape{2}}), {{"v0", 3}}) == "");
}

TEST_CASE("a tile that several groups of queries write part by part is overwritten once",
          "[ops][groups][attention]") {
  Shape const q{8, 2, 6, 2}, rows{6, 2, 2};
  auto c = op_case<ops::AttentionBackward>({}, {q, q, q, q, rows, rows, q, q, q, q});
  c.groups = {{"i0", 3}};
  LogicalGraph graph("attention", {.groups = c.groups});
  build(graph, c, DType::fp32);
  Plan const plan(graph, {.tile = 0});
  int written = 0, updated = 0;  // dq, which is x7
  for (PlannedTask const& task : plan.tasks())
    for (Use<BufferId> const& use : plan.uses(task)) {
      if (plan.buffers()[use.handle].tensor != plan.tensor("x7")) continue;
      (use.access == Access::write ? written : updated) += 1;
    }
  CHECK(written == 1);
  CHECK(updated == 2);
}
