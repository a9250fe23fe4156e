// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Random graphs of few elements: ops in place, views, shared operands, several ways to one loss.

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/graph/versions.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/add_fiber.hh"
#include "nntile/ops/add_slice.hh"
#include "nntile/ops/argmax.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/global_norm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/scale.hh"
#include "nntile/ops/softmax.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile::test {

/// The two extents of a random graph's dimensions. With names, dimensions are called "shorter" and
/// "longer" or nothing, those of w0 always so; they change no op.
struct RandomExtents {
  Index shorter = 2, longer = 3;
  bool named = false;
};

/// A graph that follows from a seed, of fp64 tensors of few elements, one to twelve of the default
/// extents. Everything but constants may be overwritten, in place or later, by elements, by views,
/// or added to.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed, RandomExtents const& extents = {},
                       Numerics const& numerics = {})
      : graph("graph", numerics),
        extents_(extents),
        state_(seed * 2 + 1),
        names_(static_cast<std::uint32_t>(seed)) {
    for (int i = 0; i < 3; ++i) {
      TensorSpec spec = fp64(i == 0 ? Shape{extents_.longer, extents_.shorter} : any_shape());
      if (i == 0 && extents_.named) spec.axes = "longer shorter";
      values_.push_back(graph.parameter(spec, concat("w", i)));
    }
    values_.push_back(constant(any_shape()));
    for (std::size_t left = 6 + below(10); left > 0; --left) add_random_op();
    make_loss();
  }

  LogicalGraph graph;
  Node loss;

  /// A line for each op: its operands and, in brackets, what it reads at `beta`.
  std::string listing() const {
    std::string text;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
      OpNode const& op = graph.op_at(i);
      text += concat(i, ": ", op.info->name);
      Operands const declared = op.info->operands(op.attrs.data());
      for (std::size_t o = 0; o < op.operands.size(); ++o) {
        TensorNode const& node = graph.tensor_at(op.operands[o]);
        bool const kept = declared[o].access == Access::update &&
                          !op.info->overwrites(op.attrs.data(), static_cast<int>(o));
        text += concat(writes(declared[o].access) ? (kept ? " => " : " -> ") : " ", node.name,
                       to_string(node.spec.shape));
        if (node.base != no_id)
          text += concat(" of ", graph.tensor_at(node.base).name, "[", node.view_index, "] along ",
                         node.view_axis);
      }
      text += '\n';
    }
    return text;
  }

 private:
  std::size_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state_ >> 33) % n);
  }
  bool chance(std::size_t percent) { return below(100) < percent; }
  template <class T> T one_of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }

  TensorSpec fp64(Shape const& shape) {
    return {.shape = shape, .dtype = DType::fp64, .axes = any_names(shape)};
  }
  /// Names of some of the dimensions; no name stands twice.
  std::string any_names(Shape const& shape) {
    std::string text;
    bool shorter = false, longer = false;
    for (std::size_t d = 0; d < shape.size() && extents_.named; ++d) {
      if (d > 0) text += ' ';
      bool& taken = shape[d] == extents_.longer ? longer : shorter;
      if (taken || shape[d] == 1 || names_() % 4 == 0) {
        if (d + 1 == shape.size()) text += "last";  // a blank would end no name
        continue;
      }
      taken = true;
      text += shape[d] == extents_.longer ? "longer" : "shorter";
    }
    return text;
  }
  Shape any_shape() {
    Index const s = extents_.shorter, l = extents_.longer;
    return one_of<Shape>({{s}, {l}, {s, s}, {l, s}, {l, s}, {l, s, s}, {s, 1, s, 1}});
  }
  Node constant(Shape const& shape) { return graph.constant(fp64(shape), graph.unique("c")); }
  Node indices(Shape const& shape) {
    return graph.constant({.shape = shape, .dtype = DType::int64}, graph.unique("indices"));
  }

  /// Some tensor for which `fits` holds; later ones are likelier.
  template <class Fits> std::optional<Node> pick(Fits const& fits) {
    std::vector<Node> list;
    for (Node const& value : values_)
      if (fits(value.shape())) list.push_back(value);
    if (list.empty()) return std::nullopt;
    return list[std::max(below(list.size()), below(list.size()))];
  }
  std::optional<Node> of_shape(Shape const& shape) {
    return pick([&](Shape const& s) { return s == shape; });
  }
  std::optional<Node> of_rank(std::size_t least, std::size_t most) {
    return pick([&](Shape const& s) { return s.size() >= least && s.size() <= most; });
  }

  bool meet(Node const& a, Node const& b) const {
    TensorNode const& x = graph.tensor_at(a.id());
    TensorNode const& y = graph.tensor_at(b.id());
    return detail::root_of(x, a.id()) == detail::root_of(y, b.id()) && detail::overlap(x, y);
  }

  /// Where an op of these operands may put its result: a tensor of its own, or one that has a value
  /// already, which may be an operand of an op that works in place.
  struct Result {
    Node node;
    bool defined;
  };
  Result result(Shape const& shape, std::vector<Node> const& operands, bool in_place) {
    if (in_place && chance(25)) {
      Node const& operand = operands[below(operands.size())];
      if (operand.shape() == shape && legal(operand, operands, true)) return {operand, true};
    }
    if (chance(35)) {
      std::optional<Node> const found = of_shape(shape);
      if (found && legal(*found, operands, in_place)) return {*found, true};
    }
    return {graph.tensor(fp64(shape), graph.unique("t")), false};
  }
  bool legal(Node const& to, std::vector<Node> const& operands, bool in_place) const {
    TensorNode const& node = graph.tensor_at(to.id());
    if (graph.tensor_at(detail::root_of(node, to.id())).attributes.external) return false;
    for (Node const& operand : operands)
      if (meet(operand, to) && !(in_place && operand.id() == to.id())) return false;
    return true;
  }
  double beta(Result const& to) {
    return to.defined ? one_of<double>({0, 0, 1, 1, 2, 0.5, -1}) : 0;
  }
  void defined(Result const& to) {
    if (!to.defined) values_.push_back(to.node);
  }

  static Shape without(Shape const& shape, std::size_t axis) {
    Shape rest;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != axis) rest.push_back(shape[d]);
    return rest;
  }

  void add_random_op() {
    switch (below(24)) {
      case 0:
      case 1:
        return elementwise();
      case 2:
      case 3:
        return scale_some();
      case 4:
      case 5:
      case 6:
        return add_some();
      case 7:
        return copy_some();
      case 8:
        return fill_some();
      case 9:
      case 10:
        return product();
      case 11:
        return sum_some();
      case 12:
        return broadcast_some();
      case 13:
        return add_part();
      case 14:
        return softmax_some();
      case 15:
        return norm();
      case 16:
        return select();
      case 17:
        return classes();
      case 18:
        return attend();
      case 19:
        return squares();
      case 20:
        return chance(25) ? slope() : scale_by_data();
      case 21:
      case 22:
        return view();
      default:
        return assemble();
    }
  }

  void elementwise() {
    Node const x = *of_rank(0, 4);
    Result const y = result(x.shape(), {x}, true);
    gelutanh(x, y.node);
    defined(y);
  }
  void copy_some() {
    Node const x = *of_rank(0, 4);
    Result const y = result(x.shape(), {x}, true);
    ops::copy(x, y.node);
    defined(y);
  }
  void scale_some() {
    Node const x = *of_rank(0, 4);
    Result const y = result(x.shape(), {x}, true);
    scale({.alpha = one_of<double>({1, 2, -0.5}), .beta = beta(y)}, x, y.node);
    defined(y);
  }
  void add_some() {
    Node const x = *of_rank(0, 4), y = *of_shape(x.shape());
    Result const z = result(x.shape(), {x, y}, true);
    add({.alpha = one_of<double>({1, 1, 2, -0.5}), .beta = one_of<double>({1, 1, 0.5, -1, 0})}, x,
        y, z.node);
    defined(z);
  }
  void fill_some() {
    Result const y = result(any_shape(), {}, false);
    ops::fill({.value = 0.5}, y.node);
    defined(y);
  }

  void product() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      Node const a = *of_rank(0, 3), b = *of_rank(0, 3);
      ops::Gemm::Attrs attrs{.trans_a = chance(50), .trans_b = chance(50)};
      attrs.ndim = one_of<int>({0, 1, 1, 1, 2});
      attrs.batch_ndim = one_of<int>({0, 0, 1});
      auto const shape = product_shape(attrs, a.shape(), b.shape());
      if (!shape) continue;
      attrs.alpha = one_of<double>({1, 0.5});
      std::size_t const free =
          a.shape().size() - static_cast<std::size_t>(attrs.ndim + attrs.batch_ndim);
      Shape rows;
      for (std::size_t d = 0; d < free; ++d) rows.push_back((*shape)[d]);
      auto const bias = of_shape(rows);
      attrs.bias = free > 0 && bias && chance(30);
      std::vector<Node> operands{a, b};
      if (attrs.bias) operands.push_back(*bias);
      Result const c = result(*shape, operands, false);
      attrs.beta = beta(c);
      if (attrs.bias)
        gemm(attrs, a, b, *bias, c.node);
      else
        gemm(attrs, a, b, c.node);
      return defined(c);
    }
  }
  std::optional<Shape> product_shape(ops::Gemm::Attrs const& attrs, Shape const& a,
                                     Shape const& b) const {
    auto const k = static_cast<std::size_t>(attrs.ndim);
    auto const batch = static_cast<std::size_t>(attrs.batch_ndim);
    if (a.size() < k + batch || b.size() < k + batch) return std::nullopt;
    std::size_t const m = a.size() - k - batch, n = b.size() - k - batch;
    if (m + n + batch > 3) return std::nullopt;
    for (std::size_t d = 0; d < k; ++d)
      if (a[(attrs.trans_a ? 0 : m) + d] != b[(attrs.trans_b ? n : 0) + d]) return std::nullopt;
    for (std::size_t d = 0; d < batch; ++d)
      if (a[k + m + d] != b[k + n + d]) return std::nullopt;
    Shape shape;
    for (std::size_t d = 0; d < m; ++d) shape.push_back(a[(attrs.trans_a ? k : 0) + d]);
    for (std::size_t d = 0; d < n; ++d) shape.push_back(b[(attrs.trans_b ? 0 : k) + d]);
    for (std::size_t d = 0; d < batch; ++d) shape.push_back(a[k + m + d]);
    if (element_count(shape) > extents_.longer * extents_.shorter * extents_.shorter)
      return std::nullopt;
    return shape;
  }

  void sum_some() {
    Node const x = *of_rank(1, 4);
    std::size_t const axis = below(x.shape().size());
    Result const y = result(without(x.shape(), axis), {x}, false);
    sum_slice({.axis = static_cast<int>(axis), .alpha = one_of<double>({1, 0.5}), .beta = beta(y)},
              x, y.node);
    defined(y);
  }
  void broadcast_some() {
    Node const s = *of_rank(0, 2);
    std::size_t const axis = below(s.shape().size() + 1);
    Shape shape;
    for (std::size_t d = 0; d <= s.shape().size(); ++d) {
      if (d == axis) shape.push_back(extents_.shorter);
      if (d < s.shape().size()) shape.push_back(s.shape()[d]);
    }
    Result const z = result(shape, {s}, false);
    broadcast_slice(
        {.axis = static_cast<int>(axis), .alpha = one_of<double>({1, 0.5}), .beta = beta(z)}, s,
        z.node);
    defined(z);
  }
  void add_part() {
    Node const x = *of_rank(1, 3);
    std::size_t const axis = below(x.shape().size());
    bool const fiber = chance(50);
    auto const part = of_shape(fiber ? Shape{x.shape()[axis]} : without(x.shape(), axis));
    if (!part) return;
    Result const z = result(x.shape(), {x, *part}, false);
    double const alpha = one_of<double>({1, 2});
    if (fiber)
      add_fiber({.axis = static_cast<int>(axis), .alpha = alpha}, x, *part, z.node);
    else
      add_slice({.axis = static_cast<int>(axis), .alpha = alpha}, x, *part, z.node);
    defined(z);
  }
  void softmax_some() {
    Node const x = *of_rank(1, 3);
    Result const y = result(x.shape(), {x}, true);
    softmax(x, y.node);
    defined(y);
  }
  void norm() {
    auto const x = of_rank(2, 3);
    if (!x) return;
    auto const gamma = of_shape({x->shape()[0]}), offset = of_shape({x->shape()[0]});
    if (!gamma || !offset) return;
    Result const y = result(x->shape(), {*x, *gamma, *offset}, false);
    layer_norm({.eps = 0.1}, *x, *gamma, *offset, y.node);
    defined(y);
  }
  void select() {
    auto const table =
        pick([this](Shape const& s) { return s.size() == 2 && s[1] >= extents_.shorter; });
    if (!table) return;
    auto const logits =
        pick([this](Shape const& s) { return s.size() == 2 && s[0] == extents_.shorter; });
    Node const tokens =
        logits && chance(50) ? argmax({.axis = 0}, *logits) : indices({extents_.shorter});
    Shape const shape{table->shape()[0], tokens.shape()[0]};
    Result const rows = result(shape, {*table}, false);
    embedding(tokens, *table, rows.node);
    defined(rows);
  }
  void classes() {
    auto const logits =
        pick([](Shape const& s) { return s.size() >= 2 && s.size() <= 3 && s[0] >= 2; });
    if (!logits) return;
    Shape const shape = without(logits->shape(), 0);
    Result const y = result(shape, {*logits}, false);
    cross_entropy(*logits, indices(shape), y.node);
    defined(y);
  }
  void attend() {
    auto const of = [&] { return of_shape({extents_.shorter, 1, extents_.shorter, 1}); };
    auto const q = of(), k = of(), v = of();
    if (!q) return;
    Result const y = result(q->shape(), {*q, *k, *v}, false);
    attention({.causal = chance(50)}, *q, *k, *v, y.node);
    defined(y);
  }
  void squares() {
    Node const x = *of_rank(1, 3);
    Result const y = result(without(x.shape(), 0), {x}, false);
    sum_squares(x, y.node);
    defined(y);
  }
  void scale_by_data() {
    Node const x = *of_rank(0, 4);
    if (!legal(x, {}, false)) return;
    scale_by(graph.constant({.shape = {}}, graph.unique("s")), x);
  }
  /// An op that has no gradient.
  void slope() {
    Node const x = *of_rank(0, 4), dy = *of_shape(x.shape());
    Result const dx = result(x.shape(), {x, dy}, true);
    gelutanh_backward({.beta = 0}, x, dy, dx.node);
    defined(dx);
  }
  void view() {
    auto const base = root(1);
    if (!base) return;
    std::size_t const axis = below(base->shape().size());
    auto const extent = static_cast<std::size_t>(base->shape()[axis]);
    values_.push_back(graph.slice(*base, axis, static_cast<Index>(below(extent)), "view"));
  }
  std::optional<Node> root(std::size_t least_rank) {
    std::vector<Node> list;
    for (Node const& value : values_)
      if (graph.tensor_at(value.id()).base == no_id && value.shape().size() >= least_rank)
        list.push_back(value);
    if (list.empty()) return std::nullopt;
    return list[below(list.size())];
  }
  /// A tensor that is made part by part.
  void assemble() {
    Shape const shape = any_shape();
    std::size_t const axis = below(shape.size());
    Shape const part = without(shape, axis);
    auto const from = of_shape(part);
    if (!from) return;
    Node const whole = graph.tensor(fp64(shape), graph.unique("t"));
    for (Index i = 0; i < shape[axis]; ++i) {
      Node const to = graph.slice(whole, axis, i, "part");
      Node const x = *of_shape(part);
      if (chance(50))
        gelutanh(x, to);
      else
        scale({.alpha = 2}, x, to);
      if (chance(30)) values_.push_back(to);
    }
    values_.push_back(whole);
  }

  /// A weighted sum of some tensors, begun in one scalar and continued there or in another.
  void make_loss() {
    std::size_t const terms = 2 + below(3);
    for (std::size_t i = 0; i < terms; ++i) {
      Node const y = i == 0 ? values_.back() : *of_rank(0, 4);
      Node const weights = constant(y.shape());
      int const rank = static_cast<int>(y.shape().size());
      ops::Gemm::Attrs attrs{.trans_a = true, .ndim = rank};
      if (loss && chance(40) && !meet(y, loss)) {
        attrs.beta = 1;
        gemm(attrs, weights, y, loss);
        continue;
      }
      Node const term = graph.tensor(fp64({}), graph.unique("term"));
      gemm(attrs, weights, y, term);
      if (!loss)
        loss = term;
      else if (chance(50))
        add(loss, term, loss);
      else
        loss = add(loss, term);
    }
  }

  RandomExtents const extents_;
  std::uint64_t state_;
  std::minstd_rand names_;
  std::vector<Node> values_;  // tensors that have a value, and views of them
};

/// Marks the loss and the gradients of its parameters as outputs; returns these, none where an op
/// on their way has no gradient.
inline std::vector<Node> mark_gradients(RandomGraph& random) {
  LogicalGraph& graph = random.graph;
  std::vector<Node> values;
  try {
    Gradients const gradients = add_gradients(graph, random.loss);
    for (std::uint32_t id = 0; id < graph.tensor_count(); ++id)
      if (graph.tensor_at(id).attributes.requires_grad)
        if (Node const gradient = gradients.find(Node{graph, id})) values.push_back(gradient);
  } catch (GraphError const&) {
  }
  for (Node& value : values) value.mark_output();
  random.loss.mark_output();
  return values;
}

}  // namespace nntile::test
