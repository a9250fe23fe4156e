#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that pads: whose tiles have columns that begin at whole units of memory.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/passes/prune.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/spelling.hh"

namespace nntile::passes {

/// Fills in the column units of a plan's tensors, from the options and from tensors that exist.
/// Every op on a padded tensor, or on a view of it, must take that operand padded.
class PadPass {
 public:
  PadPass(PlanData plan, LogicalGraph const& graph, PlanOptions const& options)
      : plan_(std::move(plan)), graph_(graph), options_(options) {}

  PlanData run() {
    find_obstacles();
    for (KeptTiling const& kept : options_.keep)
      if (std::uint32_t const t = graph_.id_of(kept.tensor);
          kept.column_unit != 1 && t != no_id && plan_.tensors[t].tiling == kept.tiling &&
          padable(t))
        set(t, std::clamp<Index>(kept.column_unit, 0, most_bytes + 1) * size(t));
    for (TilePadding const& padding : options_.pad) {
      if (padding.tensor.empty())
        pad_all(padding.bytes);
      else
        pad(padding);
    }
    for (PlannedTensor& tensor : plan_.tensors)
      if (tensor.storage == Storage::view)
        tensor.column_unit = plan_.tensors[tensor.base].column_unit;
    return std::move(plan_);
  }

 private:
  static constexpr Index most_bytes = 4096;  // a page

  [[noreturn]] void fail(std::string const& text) const {
    throw PlanError(concat("pad: graph '", graph_.name(), "': ", text));
  }
  Index size(std::uint32_t t) const { return static_cast<Index>(size_of(plan_.tensors[t].dtype)); }
  bool padable(std::uint32_t t) const {
    return plan_.tensors[t].used && plan_.tensors[t].storage != Storage::view;
  }

  /// Notes for each tensor what takes it without padding alone, if anything does.
  void find_obstacles() {
    obstacles_.resize(plan_.tensors.size());
    for (std::size_t t = 0; t < obstacles_.size(); ++t)
      if (plan_.tensors[t].storage == Storage::adopted)
        obstacles_[t] = "it is adopted, so that its memory is the caller's";
    for (std::size_t const node : plan_.nodes) {
      OpNode const& op = graph_.op_at(node);
      for (std::size_t o = 0; o < op.operands.size(); ++o) {
        std::uint32_t const t = op.operands[o];
        TensorNode const& tensor = graph_.tensor_at(t);
        std::string& obstacle = obstacles_[root_of(graph_, t)];
        if (!obstacle.empty()) continue;
        if (tensor.base != no_id && tensor.view_axis == 0)
          obstacle = concat("'", tensor.name, "' is a view along its dimension 0");
        else if (!takes(op, o))
          obstacle = concat(op.info->name, " takes its operand ",
                            op.info->operands(op.attrs.data())[o].name, " ('", tensor.name,
                            "') without padding alone");
      }
    }
  }
  /// Whether the op takes tiles of the operand whose columns are padded.
  static bool takes(OpNode const& op, std::size_t operand) {
    auto const& axes = op.axes.operands[operand];
    if (axes.size() <= 1 || op.info->padding == Padding::any) return true;
    char const group = op.axes.axes[axes[0]].group;
    return op.info->padding == Padding::columns &&
           std::count_if(axes.begin(), axes.end(),
                         [&](std::uint8_t axis) { return op.axes.axes[axis].group == group; }) == 1;
  }

  void pad_all(Index bytes) {
    if (bytes < 1 || bytes > most_bytes)  // also where there is nothing to pad
      fail(concat("columns of all tensors at multiples of ", bytes, " bytes; from 1 to ",
                  most_bytes, " is possible"));
    for (std::uint32_t t = 0; t < plan_.tensors.size(); ++t)
      if (padable(t) && plan_.tensors[t].tiling.rank() > 1 && obstacles_[t].empty() &&
          plan_.tensors[t].column_unit == 1)
        set(t, bytes);
  }
  void pad(TilePadding const& padding) {
    DynamicArray<std::string_view> names;
    for (std::uint32_t t = 0; t < plan_.tensors.size(); ++t) {
      PlannedTensor const& tensor = plan_.tensors[t];
      names.push_back(tensor.name);
      if (tensor.name != padding.tensor || !tensor.used) continue;
      if (tensor.storage == Storage::view)
        fail(concat("'", tensor.name, "' is a view; name '", plan_.tensors[tensor.base].name,
                    "', whose tiles it has"));
      return set(t, padding.bytes);
    }
    fail(
        concat("no op needs a tensor '", padding.tensor, "'", did_you_mean(padding.tensor, names)));
  }

  void set(std::uint32_t t, Index bytes) {
    PlannedTensor& tensor = plan_.tensors[t];
    if (bytes < 1 || bytes > most_bytes || bytes % size(t) != 0)
      fail(concat("columns of '", tensor.name, "' at multiples of ", bytes, " bytes; from ",
                  size(t), " to ", most_bytes, " in whole elements of ", name_of(tensor.dtype),
                  " is possible"));
    if (!obstacles_[t].empty())
      fail(concat("columns of '", tensor.name, "' cannot be padded: ", obstacles_[t]));
    Index rows = 0, columns = 1;  // of the largest tile
    for (std::size_t d = 0; d < tensor.tiling.rank(); ++d) {
      Index most = 0;
      for (Index i = 0; i < tensor.tiling.axis(d).count(); ++i)
        most = std::max(most, tensor.tiling.axis(d).size(i));
      if (d == 0)
        rows = most;
      else
        columns *= most;
    }
    if (rows > most_rows || columns > most_rows)
      fail(concat("'", tensor.name, "' has a tile of ", columns, " columns of ", rows,
                  " elements; padded ones have up to ", most_rows, " of each"));
    tensor.column_unit = bytes / size(t);
  }
  static constexpr Index most_rows = Index{1} << 31;  // Columns holds them in 32 bits

  PlanData plan_;
  LogicalGraph const& graph_;
  PlanOptions const& options_;
  std::vector<std::string> obstacles_;  // of a tensor that is no view
};

/// Decides which tensors' tiles are padded. Throws PlanError where one that was named cannot be.
inline PlanData pad(PlanData plan, LogicalGraph const& graph, PlanOptions const& options) {
  bool const any = !options.pad.empty() ||
                   std::any_of(options.keep.begin(), options.keep.end(),
                               [](KeptTiling const& kept) { return kept.column_unit != 1; });
  if (!any) return plan;
  return PadPass(std::move(plan), graph, options).run();
}

}  // namespace nntile::passes
