#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that choose and order ops: dead ones go, optimizer steps move up to where their inputs are ready.

#include <algorithm>
#include <vector>

#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// The tensor whose storage a tensor uses.
inline std::uint32_t root_of(LogicalGraph const& graph, std::uint32_t tensor) {
  std::uint32_t const base = graph.tensor_at(tensor).base;
  return base == no_id ? tensor : base;
}

/// Positions of the ops that some output or kept tensor depends on, in the graph's order.
inline std::vector<std::size_t> prune(LogicalGraph const& graph) {
  std::vector<bool> live(graph.tensor_count());
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
    auto const& attributes = graph.tensor_at(t).attributes;
    if (attributes.output || attributes.persistent) live[root_of(graph, t)] = true;
  }
  std::vector<std::size_t> kept;
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

/// Moves each op of the phase "optimizer" right behind the last op that touches any of its tensors, so that gradients
/// die young and updates overlap with the backward pass. Other ops keep the graph's order.
inline std::vector<std::size_t> order(LogicalGraph const& graph, std::vector<std::size_t> const& ops) {
  std::vector<std::size_t> last(graph.tensor_count(), 0);  // 1 + slot of the last op that touches the tensor
  std::vector<std::vector<std::size_t>> behind(ops.size() + 1);
  std::vector<std::size_t> slot_of(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpNode const& op = graph.op_at(ops[i]);
    std::size_t slot = i + 1;
    if (graph.phase_name(op.phase) == "optimizer") {
      slot = 0;
      for (std::uint32_t const operand : op.operands) slot = std::max(slot, last[root_of(graph, operand)]);
    }
    behind[slot].push_back(i);
    for (std::uint32_t const operand : op.operands) {
      std::size_t& of = last[root_of(graph, operand)];
      of = std::max(of, slot);
    }
  }
  std::vector<std::size_t> result;
  for (auto const& group : behind) {
    // The op that owns the slot comes first; the optimizer ops behind it follow in their own order.
    std::vector<std::size_t> sorted = group;
    std::stable_sort(sorted.begin(), sorted.end());
    for (std::size_t const i : sorted) result.push_back(ops[i]);
  }
  return result;
}

}  // namespace nntile::passes
