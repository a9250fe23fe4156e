#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that choose and order ops: dead ones go, optimizer steps move up to where their inputs
// are ready.

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
template <class Graph> std::vector<std::size_t> prune(Graph const& graph) {
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

/// Moves each op of the phase "optimizer" right behind the last op that it must follow (one that
/// writes what it touches, or reads what it writes), so that gradients die young and updates
/// overlap with the backward pass. Other ops keep the graph's order.
template <class Graph>
std::vector<std::size_t> order(Graph const& graph, std::vector<std::size_t> const& ops) {
  std::vector<std::size_t> written(
      graph.tensor_count());  // 1 + slot of the last op that writes the tensor
  std::vector<std::size_t> touched(graph.tensor_count());  // ... that reads or writes it
  std::vector<std::vector<std::size_t>> behind(ops.size() + 1);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpNode const& op = graph.op_at(ops[i]);
    Operands const declared = op.info->operands(op.attrs.data());
    std::size_t slot = i + 1;
    if (graph.phase_name(op.phase) == "optimizer") {
      slot = 0;
      for (std::size_t o = 0; o < op.operands.size(); ++o) {
        std::uint32_t const root = root_of(graph, op.operands[o]);
        slot = std::max(slot, writes(declared[o].access) ? touched[root] : written[root]);
      }
    }
    behind[slot].push_back(
        ops[i]);  // the slot's own op comes first, since later ones are seen later
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      std::uint32_t const root = root_of(graph, op.operands[o]);
      touched[root] = std::max(touched[root], slot);
      if (writes(declared[o].access)) written[root] = std::max(written[root], slot);
    }
  }
  std::vector<std::size_t> result;
  for (auto const& group : behind) result.insert(result.end(), group.begin(), group.end());
  return result;
}

}  // namespace nntile::passes
