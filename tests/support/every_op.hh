// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A small case of every op of nntile/ops.hh, for tests of what holds for all of them.
#include <string>
#include <tuple>
#include <vector>

#include "nntile/ops.hh"
#include "tests/support/op_driver.hh"

namespace nntile::test {

inline void set_all(Array& array, double value) {
  for (Index i = 0; i < array.count(); ++i) array.set(i, value);
}
/// Labels or indices below `classes`; ignored ones where there are none.
inline void set_classes(Array& array, Index classes) {
  for (Index i = 0; i < array.count(); ++i)
    array.set(i, static_cast<double>(classes > 0 ? (5 * i + 2) % classes : -100));
}
/// Runs the op before this one, which leaves the first `count` operands.
template <OpStruct Before>
void run_before(typename Before::Attrs const& attrs, std::vector<Array>& operands,
                std::vector<std::size_t> const& places) {
  std::vector<Shape> shapes;
  std::vector<Array> given;
  for (std::size_t const place : places) {
    shapes.push_back(operands[place].shape);
    given.push_back(operands[place]);
  }
  auto const done = run_reference(op_case<Before>(attrs, shapes), operands[0].dtype, given);
  for (std::size_t i = 0; i < places.size(); ++i)
    operands[places[i]] = done[i].as(operands[places[i]].dtype);
}

/// Axes that are summed in blocks of 64 have 130 elements, others a few.
inline std::vector<OpCase> every_op() {
  std::vector<OpCase> all;
  auto const add = [&](OpCase c, std::function<void(std::vector<Array>&)> prepare = {}) {
    c.prepare = std::move(prepare);
    c.terms = 130;
    c.scale = 64;
    all.push_back(std::move(c));
  };
  auto const third_step = [](std::vector<Array>& x) {
    for (Index i = 0; i < x[3].count(); ++i) x[3].set(i, std::fabs(x[3].get(i)));
    set_all(x[5], 3);
  };
  std::vector<Shape> const step{{5, 7}, {5, 7}, {5, 7}, {5, 7}, {}, {}, {}};
  add(op_case<ops::AdamwStep>({.scaled = true}, step), third_step);
  add(op_case<ops::AdamwStepNarrow>({.scaled = true}, step), third_step);
  add(op_case<ops::Add>({.alpha = 2, .beta = 3}, {{5, 7}, {5, 7}, {5, 7}}));
  add(op_case<ops::AddFiber>({.axis = 1}, {{5, 7, 3}, {7}, {5, 7, 3}}));
  add(op_case<ops::AddSlice>({.axis = 1}, {{5, 7, 3}, {5, 3}, {5, 7, 3}}));
  add(op_case<ops::Argmax>({.axis = 1}, {{5, 7, 3}, {5, 3}}));
  for (bool const causal : {false, true}) {
    Shape const q{8, 2, 70, 2}, k{8, 2, 130, 2}, rows{70, 2, 2};
    ops::AttentionAttrs const attrs{
        .causal = causal, .beta_dq = 0.5, .beta_dk = 0.25, .beta_dv = 2};
    add(op_case<ops::Attention>(attrs, {q, k, k, q, rows, rows}));
    add(op_case<ops::AttentionBackward>(attrs, {q, k, k, q, rows, rows, q, q, k, k}),
        [attrs](std::vector<Array>& x) {
          run_before<ops::Attention>(attrs, x, {0, 1, 2, 3, 4, 5});
        });
  }
  Shape const cache{8, 2, 130, 2}, rows{3, 2, 2};
  add(op_case<ops::Attention>({.cached = true},
                              {{8, 2, 3, 2}, cache, cache, {}, {8, 2, 3, 2}, rows, rows}),
      [](std::vector<Array>& x) { set_all(x[3], static_cast<double>(x[1].shape[2] / 2)); });
  add(op_case<ops::Cast>({}, {{5, 7}, {5, 7}}));
  add(op_case<ops::Copy>({}, {{5, 7}, {5, 7}}));
  add(op_case<ops::CrossEntropy>({}, {{130, 6}, {6}, {6}, {6}, {6}}),
      [](std::vector<Array>& x) { set_classes(x[1], x[0].shape[0]); });
  add(op_case<ops::CrossEntropyBackward>({.scale = 2, .beta = 0.5},
                                         {{130, 6}, {6}, {6}, {6}, {6}, {130, 6}}),
      [](std::vector<Array>& x) {
        set_classes(x[1], x[0].shape[0]);
        set_all(x[2], 1);
        set_all(x[3], 80);
      });
  add(op_case<ops::CountLabels>({}, {{6, 3}, {}}), [](std::vector<Array>& x) {
    for (Index i = 0; i < x[0].count(); ++i) x[0].set(i, i % 4 == 1 ? -100 : 1);
  });
  add(op_case<ops::Embedding>({}, {{6, 2}, {5, 9}, {5, 6, 2}}),
      [](std::vector<Array>& x) { set_classes(x[0], x[1].shape[1]); });
  add(op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{6, 2}, {5, 6, 2}, {5, 9}}),
      [](std::vector<Array>& x) { set_classes(x[0], x[2].shape[1]); });
  add(op_case<ops::Fill>({.value = 0.1}, {{5, 7}}));
  add(op_case<ops::Gelutanh>({}, {{5, 7}, {5, 7}}));
  add(op_case<ops::GelutanhBackward>({.beta = 0.5}, {{5, 7}, {5, 7}, {5, 7}}));
  add(op_case<ops::Gemm>({.alpha = 2, .beta = 0.5}, {{5, 7}, {7, 6}, {5, 6}}));
  add(op_case<ops::Gemm>({.trans_a = true, .beta = 1}, {{7, 70}, {7, 40}, {70, 40}}));
  add(op_case<ops::Gemm>({.trans_a = true,
                          .trans_b = true,
                          .bias = true,
                          .activation = Activation::gelu_tanh,
                          .ndim = 2,
                          .batch_ndim = 1},
                         {{3, 4, 5, 2}, {6, 3, 4, 2}, {5}, {5, 6, 2}}));
  add(op_case<ops::SumSquares>({}, {{130, 3}, {3}}));
  add(op_case<ops::GlobalNormAdd>({}, {{}, {}}));
  add(op_case<ops::ClipScale>({}, {{}, {}}), [](std::vector<Array>& x) { set_all(x[0], 9); });
  add(op_case<ops::ScaleBy>({}, {{}, {5, 7}}));
  add(op_case<ops::KvCacheAppend>({}, {{8, 2, 3, 2}, {}, cache}),
      [](std::vector<Array>& x) { set_all(x[1], static_cast<double>(x[2].shape[2] / 2)); });
  add(op_case<ops::LayerNorm>({}, {{130, 6}, {130}, {130}, {130, 6}, {6}, {6}}));
  add(op_case<ops::LayerNormBackward>({.beta = 0.5},
                                      {{130, 6}, {130, 6}, {130}, {6}, {6}, {130, 6}}));
  add(op_case<ops::LayerNormWeightBackward>(
      {.beta_dgamma = 0.5}, {{5, 7, 3}, {5, 7, 3}, {7, 3}, {7, 3}, {5, 3}, {5, 3}}));
  add(op_case<ops::Randn>({.seed = 1}, {{5, 7}}));
  add(op_case<ops::Sample>({.top_k = 7, .top_p = 0.9}, {{9, 6}, {}, {6}}));
  add(op_case<ops::Scale>({.alpha = 2, .beta = 0.5}, {{5, 7}, {5, 7}}));
  add(op_case<ops::Softmax>({}, {{130, 6}, {130, 6}}));
  add(op_case<ops::SoftmaxBackward>({.beta = 0.5}, {{130, 6}, {130, 6}, {130, 6}}));
  add(op_case<ops::SumSlice>({.axis = 0}, {{130, 6}, {6}}));
  add(op_case<ops::SumSlice>({.axis = 1, .alpha = 2, .beta = 0.5}, {{5, 7, 3}, {5, 3}}));
  add(op_case<ops::SumSlice>({.axis = 0, .ascending = true}, {{7, 6}, {6}}));
  add(op_case<ops::SumSlice>({.axis = 0, .ascending = true, .divided = true}, {{7, 6}, {}, {6}}),
      [](std::vector<Array>& x) { set_all(x[1], 5); });
  add(op_case<ops::BroadcastSlice>({.axis = 1, .beta = 0.5}, {{5, 3}, {5, 7, 3}}));
  add(op_case<ops::BroadcastSlice>({.axis = 1, .divided = true}, {{5, 3}, {}, {5, 7, 3}}),
      [](std::vector<Array>& x) { set_all(x[1], 5); });
  return all;
}

/// Every op of nntile/ops.hh, by its list.
using EveryOp =
    std::tuple<adamw_step_ops, add_ops, add_fiber_ops, add_slice_ops, argmax_ops, attention_ops,
               cast_ops, copy_ops, cross_entropy_ops, embedding_ops, fill_ops, gelutanh_ops,
               gemm_ops, global_norm_ops, kv_cache_append_ops, layer_norm_ops, randn_ops,
               sample_ops, scale_ops, softmax_ops, sum_slice_ops>;

template <class... Ops> std::vector<std::string> names_of(OpList<Ops...>) { return {Ops::name...}; }

/// The case with an axis of extent 0, by its number in axes_of.
inline OpCase without(OpCase c, std::size_t axis) {
  AxisTable const table = axes_of(c);
  for (std::size_t o = 0; o < c.shapes.size(); ++o)
    for (std::size_t d = 0; d < c.shapes[o].size(); ++d)
      if (table.operands[o][d] == axis) c.shapes[o][d] = 0;
  return c;
}

/// Whether the call is refused: no largest of no classes, no index into no rows, a mask that leaves
/// queries no key.
inline bool means_nothing(OpCase const& c) {
  std::string const name = c.op->name;
  if (name == "argmax") return c.shapes[0][1] == 0;
  if (name == "sample") return c.shapes[0][0] == 0;
  if (name == "embedding") return c.shapes[1][1] == 0;
  if (name == "embedding_backward") return c.shapes[2][1] == 0;
  if (name == "kv_cache_append") return c.shapes[2][2] == 0;
  if (!name.starts_with("attention")) return false;
  auto const& attrs = *reinterpret_cast<ops::AttentionAttrs const*>(c.attrs.data());
  return c.shapes[1][2] == 0 && (attrs.causal || attrs.cached);
}

/// The case with `count` canonical groups of every axis that its op sums over by groups.
inline OpCase with_groups(OpCase c, int count) {
  AxisTable const table = axes_of(c);
  std::string const grouped = c.op->grouped;
  for (Axis const& axis : table.axes)
    if (grouped.find(axis.group) != std::string::npos)
      c.groups.push_back({concat(axis.group, static_cast<int>(axis.within)),
                          static_cast<int>(std::min<Index>(count, axis.extent))});
  return c;
}

/// Cuts every axis that may be cut, at a canonical border and unevenly.
inline Cuts canonical_cuts(OpCase const& c) {
  AxisTable const table = axes_of(c);
  std::string const blocked = c.op->blocked(c.attrs.data());
  Cuts cuts;
  for (Axis const& axis : table.axes) {
    Index const first = blocked.find(axis.group) != std::string::npos ? 64 : (axis.extent + 2) / 3;
    if (axis.whole || axis.extent <= first) continue;
    cuts.push_back(
        {std::string(1, axis.group) + std::to_string(axis.within), {first, axis.extent - first}});
  }
  return cuts;
}

}  // namespace nntile::test
