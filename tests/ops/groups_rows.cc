// SPDX-License-Identifier: BSD-3-Clause
// Canonical groups of ops whose rows are more than one sum: norms, softmax, cross-entropy,
// attention.
#include <cmath>

#include "tests/ops/groups_reference.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/planned_op.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::test::grouped;

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

TEST_CASE("groups leave rows without a token as they were, -0 too", "[ops][groups][embedding]") {
  for (DType const element : floats)
    for (double const beta : {1.0, 0.5})
      for (int const groups : {2, 3}) {  // a pair in one task, and a finishing task
        auto c = op_case<ops::EmbeddingBackward>({.beta = beta}, {{300}, {35, 300}, {35, 40}});
        c.groups = {{"i0", groups}};
        auto operands = make_operands(c, element);
        for (Index i = 0; i < 300; ++i) operands[0].set(i, static_cast<double>(i * i % 7 + 3));
        for (Index e = 0; e < 35; ++e) operands[2].set(e + 35, -0.0);
        for (Cuts const& cuts : {Cuts{}, Cuts{{"v0", {1, 39}}, {"i0", {100, 200}}}}) {
          auto const got = run_kernel(c, element, operands, {.cuts = cuts})[2];
          for (Index e = 0; e < 35; ++e) {
            INFO(name_of(element) << " " << groups << " " << e);
            CHECK(got.get(e + 35) == 0);
            CHECK(std::signbit(got.get(e + 35)));
            for (Index const row : {0, 2, 39}) {
              auto want = operands[2];
              want.set(e, beta * want.get(e + 35 * row));
              CHECK(got.get(e + 35 * row) == want.get(e));
            }
          }
        }
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
