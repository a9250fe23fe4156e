#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that order ops: optimizer steps move up to where their inputs are ready, large results
// move down to where they are used.

#include <algorithm>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/bound_dims.hh"
#include "nntile/graph/passes/prune.hh"

namespace nntile::passes {

/// Moves each op that takes gradients, and each that reads only what such ops wrote, right behind
/// the last op that it must follow (one that writes what it touches, or reads what it writes), so
/// that gradients die young and updates overlap with the backward pass. Other ops keep the graph's
/// order.
inline DynamicArray<std::size_t> advance_optimizer(LogicalGraph const& graph,
                                                   DynamicArray<std::size_t> const& ops) {
  DynamicArray<std::size_t> written(
      graph.tensor_count());  // 1 + slot of the last op that writes the tensor
  DynamicArray<std::size_t> touched(graph.tensor_count());  // ... that reads or writes it
  DynamicArray<DynamicArray<std::size_t>> behind(ops.size() + 1);
  // Written last by an op that moves; what is stored does not count.
  DynamicArray<bool> early(graph.tensor_count());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpNode const& op = graph.op_at(ops[i]);
    Operands const declared = op.info->operands(op.attrs.data());
    std::size_t slot = i + 1;
    bool reads_any = false, reads_early = true;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (!reads(declared[o].access)) continue;
      if (writes(declared[o].access) && op.info->overwrites(op.attrs.data(), static_cast<int>(o)))
        continue;
      reads_any = true;
      reads_early &= early[root_of(graph, op.operands[o])];
    }
    bool const moves = op.info->takes_gradients || (reads_any && reads_early);
    if (moves) {
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
      if (writes(declared[o].access)) {
        written[root] = std::max(written[root], slot);
        early[root] = moves && !graph.tensor_at(root).attributes.persistent;
      }
    }
  }
  DynamicArray<std::size_t> result;
  for (auto const& group : behind) result.append(group);
  return result;
}

/// Moves an op down to right before the first op that it must precede, where its results hold more
/// bytes than the operands that live longer for it: the gradient of a tied embedding is computed at
/// the end of the backward pass, when no activation is left. Bytes that are stored anyway do not
/// count.
class DelayPass {
 public:
  DelayPass(LogicalGraph const& graph, DynamicArray<std::size_t> const& ops, BoundDims const& dims)
      : graph_(graph),
        dims_(dims),
        ops_(ops),
        first_touch_(graph.tensor_count(), never),
        next_touch_(graph.tensor_count(), never),
        next_write_(graph.tensor_count(), never),
        last_touch_(graph.tensor_count(), 0) {}

  DynamicArray<std::size_t> run() {
    for (std::size_t i = ops_.size(); i-- > 0;)
      for (std::uint32_t const operand : graph_.op_at(ops_[i]).operands)
        first_touch_[root_of(graph_, operand)] = i;
    DynamicArray<DynamicArray<std::size_t>> before(ops_.size());  // from the last to the first
    for (std::size_t i = ops_.size(); i-- > 0;) {
      std::size_t const at = position(i);
      before[at].push_back(ops_[i]);
      note(graph_.op_at(ops_[i]), at);
    }
    DynamicArray<std::size_t> result;
    for (auto const& group : before)
      for (std::size_t i = group.size(); i-- > 0;) result.push_back(group[i]);
    return result;
  }

 private:
  static constexpr std::size_t never = ~std::size_t{0};

  Index transient_bytes(std::uint32_t tensor) const {
    TensorNode const& node = graph_.tensor_at(tensor);
    auto const& attributes = node.attributes;
    if (attributes.persistent || attributes.external || attributes.output) return 0;
    return byte_count(dims_(node.spec.shape), size_of(node.spec.dtype));
  }

  /// Its own, or that of the first op that it must precede.
  std::size_t position(std::size_t i) const {
    OpNode const& op = graph_.op_at(ops_[i]);
    Operands const declared = op.info->operands(op.attrs.data());
    std::size_t limit = never;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      std::uint32_t const root = root_of(graph_, op.operands[o]);
      limit = std::min(limit, writes(declared[o].access) ? next_touch_[root] : next_write_[root]);
    }
    if (limit == never || limit == i + 1) return i;
    Index gained = 0, lost = 0;
    DynamicArray<std::uint32_t> seen;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      std::uint32_t const root = root_of(graph_, op.operands[o]);
      if (std::find(seen.begin(), seen.end(), root) != seen.end()) continue;
      seen.push_back(root);
      if (first_touch_[root] == i)
        add_saturated(gained, transient_bytes(root));
      else if (last_touch_[root] < limit)
        add_saturated(lost, transient_bytes(root));
    }
    return gained > lost ? limit : i;
  }

  void note(OpNode const& op, std::size_t at) {
    Operands const declared = op.info->operands(op.attrs.data());
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      std::uint32_t const root = root_of(graph_, op.operands[o]);
      next_touch_[root] = std::min(next_touch_[root], at);
      if (writes(declared[o].access)) next_write_[root] = std::min(next_write_[root], at);
      last_touch_[root] = std::max(last_touch_[root], at);
    }
  }

  LogicalGraph const& graph_;
  BoundDims const& dims_;
  DynamicArray<std::size_t> const& ops_;
  DynamicArray<std::size_t> first_touch_;  // positions in ops_
  DynamicArray<std::size_t> next_touch_;   // ... of ops that are placed already
  DynamicArray<std::size_t> next_write_;
  DynamicArray<std::size_t> last_touch_;
};

/// The order of a plan; dependent ops keep the graph's, so no bit depends on it.
inline DynamicArray<std::size_t> order(LogicalGraph const& graph,
                                       DynamicArray<std::size_t> const& ops,
                                       BoundDims const& dims) {
  DynamicArray<std::size_t> const advanced = advance_optimizer(graph, ops);
  return DelayPass(graph, advanced, dims).run();
}

}  // namespace nntile::passes
