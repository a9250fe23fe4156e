#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The call operator's way into a graph: y = gelutanh(x) on nodes.

#include "nntile/graph/gradient_builder.hh"

namespace nntile {

/// y = op(attrs, x...): adds the op to the graph of its operands and returns its first result.
template <OpStruct Op, class... Nodes>
requires(std::same_as<std::remove_cvref_t<Nodes>, Node> && ...)
Node apply(Op, typename Op::Attrs const& attrs, Node const& first, Nodes const&... rest) {
  Node const given[] = {first, rest...};
  LogicalGraph& graph = detail::graph_of(op_info<Op>, &attrs, given);
  auto const& operands = graph.add_op(op_info<Op>, &attrs, detail::gradient_of<Op>(), given);
  Operands const declared = op_info<Op>.operands(&attrs);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (writes(declared[i].access)) return {graph, operands[i]};
  return {graph, operands.back()};
}

/// A tensor of x's shape and axes in another dtype, for cast(x, dtype).
inline Node tensor_like(Node const& x, DType dtype) {
  LogicalGraph& graph = x.graph();
  TensorSpec spec = graph.tensor_of(x).spec;
  spec.dtype = dtype;
  return graph.tensor(spec, graph.unique("cast"));
}

}  // namespace nntile
