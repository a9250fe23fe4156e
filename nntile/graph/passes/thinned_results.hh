#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Results of ops of which a thin job leaves out tasks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/graph/logical.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Notes, op after op, whose values come from ops that are thinned. These first write what they do,
/// and nothing that is stored, so that no tile has an older value where its task is left out.
class ThinnedResults {
 public:
  static std::uint32_t root(PlanData const& plan, std::uint32_t tensor) {
    bool const view = plan.tensors[tensor].storage == Storage::view;
    return view ? plan.tensors[tensor].base : tensor;
  }
  static bool lasts(PlanData const& plan, std::uint32_t tensor) {
    return plan.tensors[root(plan, tensor)].storage != Storage::arena;
  }
  /// Whether an op that writes a tensor may be thinned.
  bool may(PlanData const& plan, std::uint32_t tensor) const {
    std::uint32_t const of = root(plan, tensor);
    return !lasts(plan, tensor) && (of >= whole_.size() || !whole_[of]);
  }
  /// The next op, and whether it is thinned.
  void add(PlanData const& plan, OpNode const& op, Operands const& declared, bool thinned) {
    std::vector<bool>& list = thinned ? thinned_ : whole_;
    list.resize(plan.tensors.size());
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      if (writes(declared[o].access)) list[root(plan, op.operands[o])] = true;
  }
  bool has(std::uint32_t tensor) const { return tensor < thinned_.size() && thinned_[tensor]; }

 private:
  std::vector<bool> thinned_, whole_;  // by tensor: written by such ops, by others
};

}  // namespace nntile::passes
