#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Adds an op to a graph: dtypes, shapes, results.

#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/bound_dims.hh"
#include "nntile/ops/alias.hh"
#include "nntile/ops/call_types.hh"
#include "nntile/ops/walk.hh"

namespace nntile {
namespace detail {

/// The graph of a call's operands. Throws GraphError where one is empty or gone, or of another
/// graph than the first.
inline LogicalGraph& graph_of(OpInfo const& info, void const* attrs, std::span<Node const> given) {
  Operands const operands = info.operands(attrs);
  for (std::size_t i = 0; i < given.size() && i < operands.size(); ++i) {
    if (!given[i] || given[i].is_gone())
      throw GraphError(concat(info.name, ": operand ", operands[i].name, " is ",
                              given[i] ? Node::what_is_gone : Node::what_is_empty));
    if (&given[i].graph() != &given[0].graph())
      throw GraphError(concat(info.name, ": operand ", operands[i].name, " is '", given[i].name(),
                              "' of graph '", given[i].graph().name(), "', but ", operands[0].name,
                              " is '", given[0].name(), "' of graph '", given[0].graph().name(),
                              "'; give it nodes of one graph"));
  }
  return given[0].graph();
}

/// Refuses to overwrite what the caller binds: a run would start from what the last one left.
/// Throws GraphError.
inline void check_writable(OpInfo const& info, char const* operand, LogicalGraph const& graph,
                           Node const& node) {
  TensorNode const& tensor = graph.tensor_of(node);
  TensorNode const& root = tensor.base == no_id ? tensor : graph.tensor_at(tensor.base);
  if (!root.attributes.external) return;
  throw GraphError(concat(info.name, ": its result ", operand, " would overwrite '", root.name,
                          "', ", kind_of(root.attributes), " of graph '", graph.name(),
                          "', and the next run would start from that; give ", operand,
                          " a tensor of its own, or declare '", root.name, "' a state"));
}

/// The open dimensions of a call as the numbers by which its axes are resolved.
class OpenExtents {
 public:
  Shape numbers(Dims const& dims) {
    Shape shape;
    for (Dim const& dim : dims) shape.push_back(dim.open() ? number(dim) : Index{dim});
    return shape;
  }
  Dims dims(Shape const& shape) const {
    Dims dims;
    for (Index const extent : shape) {
      std::size_t k = 0;
      while (k < names_.size() && Axis::open_extent(k) != extent) ++k;
      dims.push_back(k < names_.size() ? names_[k] : Dim(extent));
    }
    return dims;
  }

 private:
  Index number(Dim const& dim) {
    std::size_t k = 0;
    while (k < names_.size() && !(names_[k] == dim)) ++k;
    if (k == names_.size()) names_.push_back(dim);
    return Axis::open_extent(k);
  }

  DynamicArray<Dim> names_;
};

template <class Op> constexpr auto gradient_of() -> void (*)(GradientBuilder&) {
  if constexpr (requires { &Op::template gradient<GradientBuilder>; })
    return &Op::template gradient<GradientBuilder>;
  else
    return nullptr;
}

}  // namespace detail

inline DynamicArray<std::uint32_t> const& LogicalGraph::add_op(OpInfo const& info,
                                                               void const* attrs,
                                                               void (*gradient)(GradientBuilder&),
                                                               std::span<Node const> given) {
  Operands const operands = info.operands(attrs);
  std::size_t visible = 0;
  while (visible < operands.size() && operands[visible].carry == Carry::none) ++visible;
  std::size_t needed = 1;  // at least: the graph is that of the first
  for (std::size_t i = 0; i < visible; ++i)
    if (operands[i].access == Access::read) needed = i + 1;
  if (given.size() < needed || given.size() > visible)
    throw GraphError(
        concat(info.name, ": ", detail::wrong_count(given.size(), operands, needed, visible)));

  (void)detail::graph_of(info, attrs, given);
  TypedOperand typed[max_operands];
  for (std::size_t i = 0; i < given.size(); ++i) typed[i] = {given[i].dtype(), given[i].name()};
  ElementTypes const types = call_types(info, operands, {typed, given.size()});
  detail::OpenExtents open;
  inplace_vector<Shape, max_operands> shapes;
  GivenOperands shaped;
  for (Node const& node : given) shapes.push_back(open.numbers(tensor_of(node).spec.shape));
  for (std::size_t i = 0; i < operands.size(); ++i)
    shaped.push_back(i < given.size() ? GivenOperand{&shapes[i], given[i].name(),
                                                     &tensor_of(given[i]).spec.shape}
                                      : GivenOperand{nullptr, "result", nullptr});
  AxisTable const axes = axes_of(info, attrs, operands, shaped);
  PlacedOperands placed;
  for (Node const& node : given) {
    TensorNode const& tensor = tensor_of(node);
    bool const view = tensor.base != no_id;
    placed.push_back({{&tensors_[view ? tensor.base : node.id()],
                       view ? tensor.view_axis : Footprint::all, view ? tensor.view_index : 0},
                      tensor.name.c_str()});
  }
  check_aliases(info, attrs, operands, placed);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (writes(operands[i].access)) detail::check_writable(info, operands[i].name, *this, given[i]);

  OpNode op;
  op.info = &info;
  op.gradient = gradient;
  std::memcpy(op.attrs.data(), attrs, info.attrs_bytes);
  op.axes = axes;
  op.element = types.element;
  op.second = types.second;
  op.phase = phase_;
  return all_or_nothing([&]() -> DynamicArray<std::uint32_t> const& {
    for (std::size_t i = 0; i < visible; ++i) {
      if (i < given.size()) {
        op.operands.push_back(given[i].id());
        continue;
      }
      TensorSpec const spec{.shape = open.dims(axes.shape(i)),
                            .dtype = dtype_of_kind(operands[i].kind, types)};
      std::size_t results = 0;
      for (std::size_t j = 0; j < visible; ++j) results += writes(operands[j].access);
      op.operands.push_back(
          tensor(spec, unique(results == 1 ? std::string(info.name)
                                           : concat(info.name, ".", operands[i].name)))
              .id());
    }
    ops_.push_back(std::move(op));
    return ops_.back().operands;
  });
}

inline std::int64_t LogicalGraph::estimate_flops(std::vector<BoundDim> const& dims) const {
  if (auto const names = open_dims(*this); dims.empty() && !names.empty()) {
    std::string list = concat("{\"", names[0], "\", 512}");
    for (std::size_t i = 1; i < names.size(); ++i) list += concat(", {\"", names[i], "\", ...}");
    throw GraphError(concat("estimate_flops: dimension '", names[0], "' of graph '", name_,
                            "' is open; give its number: estimate_flops({", list, "})"));
  }
  BoundDims const bound(*this, dims);
  std::int64_t flops = 0;
  for (OpNode const& op : ops_) {
    AxisTable const axes = bound.axes_of(op);
    TileRange range(axes);
    for (std::size_t id = 0; id < axes.axes.size(); ++id)
      range.axis(id) = {0, 0, axes.axes[id].extent, 0, axes.axes[id].extent};
    add_saturated(flops, op.info->flops(op.attrs.data(), range));
  }
  return flops;
}

}  // namespace nntile
