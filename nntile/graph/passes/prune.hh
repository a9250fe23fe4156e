#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Dead-code elimination: which ops of a graph are planned.

#include <algorithm>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/logical.hh"

namespace nntile::passes {

/// The tensor whose storage a tensor uses.
inline std::uint32_t root_of(LogicalGraph const& graph, std::uint32_t tensor) {
  std::uint32_t const base = graph.tensor_at(tensor).base;
  return base == no_id ? tensor : base;
}

/// Positions of the ops that some output or kept tensor depends on, in the graph's order.
inline DynamicArray<std::size_t> prune(LogicalGraph const& graph) {
  DynamicArray<bool> live(graph.tensor_count());
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
    auto const& attributes = graph.tensor_at(t).attributes;
    if (attributes.output || attributes.persistent) live[root_of(graph, t)] = true;
  }
  DynamicArray<std::size_t> kept;
  for (std::size_t i = graph.op_count(); i-- > 0;) {
    OpNode const& op = graph.op_at(i);
    Operands const declared = op.info->operands(op.attrs.data());
    bool needed = false;
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      needed |= writes(declared[o].access) && live[root_of(graph, op.operands[o])];
    if (!needed) continue;
    for (std::uint32_t const operand : op.operands) live[root_of(graph, operand)] = true;
    kept.push_back(i);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace nntile::passes
