#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes in turn: from a graph to flat arrays of tile tasks, buffers and slots.

#include <new>
#include <vector>

#include "nntile/core/later.hh"
#include "nntile/graph/passes/by_tile.hh"
#include "nntile/graph/passes/choose.hh"
#include "nntile/graph/passes/lifetime.hh"
#include "nntile/graph/passes/order.hh"
#include "nntile/graph/passes/prune.hh"
#include "nntile/graph/passes/tile.hh"

namespace nntile {

/// Fills a Plan. One object per plan; its members are the state between passes.
template <class Graph> class Planner final : private TileVisitor {
 public:
  Planner(Plan& plan, Graph const& graph, PlanOptions const& options)
      : plan_(plan), graph_(graph), options_(options) {}

  void run() {
    plan_.name_ = graph_.name();
    plan_.numerics_ = graph_.numerics();
    std::vector<std::size_t> const ops = passes::order(graph_, passes::prune(graph_));
    if (ops.empty())
      throw PlanError(
          concat("plan '", graph_.name(), "': none of its ", graph_.op_count(),
                 " ops leads to an output or a kept tensor; mark one with mark_output()"));
    mark_used(ops);
    std::vector<later_t<passes::OpAxes, Graph>> axes;
    for (std::size_t const op : ops) axes.push_back(passes::axes_of(graph_, graph_.op_at(op)));
    declare_tensors(passes::TilePass<Graph>(graph_, options_, plan_.used_).run(axes, ops));
    std::vector<std::size_t> first_task;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      first_task.push_back(plan_.tasks_.size());
      lower_op(ops[i], axes[i]);
    }
    first_task.push_back(plan_.tasks_.size());
    reorder(passes::ByTilePass<Plan>(plan_, first_task).run());
    place();
  }

 private:
  void mark_used(std::vector<std::size_t> const& ops) {
    plan_.used_.assign(graph_.tensor_count(), false);
    for (std::size_t const op : ops)
      for (std::uint32_t const t : graph_.op_at(op).operands) {
        plan_.used_[t] = true;
        plan_.used_[passes::root_of(graph_, t)] = true;
      }
  }

  void declare_tensors(std::vector<Tiling> tilings) {
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      TensorNode const& node = graph_.tensor_at(t);
      PlannedTensor tensor;
      tensor.name = node.name;
      tensor.dtype = node.spec.dtype;
      tensor.tiling = std::move(tilings[t]);
      tensor.file_shape = node.spec.file_shape;
      tensor.attributes = node.attributes;
      tensor.base = node.base;
      tensor.view_axis = node.view_axis;
      tensor.view_index = node.view_index;
      bool const stored =
          node.attributes.persistent || node.attributes.external || node.attributes.output;
      tensor.storage = node.base != no_id ? Storage::view
                       : stored           ? Storage::stored
                                          : Storage::arena;
      add_tensor(std::move(tensor), plan_.used_[t]);
    }
  }

  std::uint32_t add_tensor(PlannedTensor tensor, bool used) {
    auto const id = static_cast<std::uint32_t>(plan_.tensors_.size());
    tensor.first_buffer = static_cast<std::uint32_t>(plan_.buffers_.size());
    if (used && tensor.storage != Storage::view)
      for (Index tile = 0; tile < tensor.tiling.tile_count(); ++tile) {
        plan_.buffers_.push_back({id, static_cast<std::uint32_t>(tile), no_id,
                                  buffer_bytes(tensor.tiling.box(tile).extent, tensor.dtype)});
        in_arena_.push_back(tensor.storage == Storage::arena);
        written_.push_back(tensor.attributes.persistent || tensor.attributes.external);
      }
    plan_.tensors_.push_back(std::move(tensor));
    return id;
  }

  std::uint32_t kernel(OpNode const& op) {
    PlannedKernel const wanted{op.info, op.element, op.source, graph_.numerics().mode};
    for (std::size_t k = 0; k < plan_.kernels_.size(); ++k)
      if (plan_.kernels_[k] == wanted) return static_cast<std::uint32_t>(k);
    plan_.kernels_.push_back(wanted);
    return static_cast<std::uint32_t>(plan_.kernels_.size() - 1);
  }

  void lower_op(std::size_t position, passes::OpAxes const& axes) {
    OpNode const& op = graph_.op_at(position);
    call_ = {op.info, op.attrs.data(), op.element, axes.operands, axes.table, {}};
    tilings_.clear();  // copies: the list of tensors grows by hidden operands below
    for (std::size_t id = 0; id < axes.table.axes.size(); ++id)
      tilings_.push_back(tiling_of(op, axes.table, id));
    for (AxisTiling const& tiling : tilings_) call_.tilings.push_back(&tiling);
    position_ = position;
    kernel_ = kernel(op);
    operands_.assign(op.operands.begin(), op.operands.end());
    std::uint32_t const carries = carries_of(call_);
    for (std::size_t o = op.operands.size(); o < axes.operands.size(); ++o)
      operands_.push_back((carries >> o & 1u) != 0 ? carry(op, axes, o) : no_id);
    note_canonical(op);
    walk(call_, *this);
  }

  AxisTiling const& tiling_of(OpNode const& op, AxisTable const& table, std::size_t axis) const {
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < table.operands[o].size(); ++d)
        if (table.operands[o][d] == axis) return plan_.tensors_[op.operands[o]].tiling.axis(d);
    throw PlanError(concat("plan '", graph_.name(), "': ", op.info->name,
                           ": an axis of a hidden operand alone"));
  }

  std::uint32_t carry(OpNode const& op, passes::OpAxes const& axes, std::size_t operand) {
    PlannedTensor tensor;
    tensor.name = concat(plan_.tensors_[op.operands.back()].name, ".", axes.operands[operand].name);
    tensor.dtype = dtype_of_kind(axes.operands[operand].kind, op.element, op.source);
    std::vector<AxisTiling> dimensions;
    for (auto const axis : axes.table.operands[operand]) dimensions.push_back(*call_.tilings[axis]);
    tensor.tiling = Tiling(std::move(dimensions));
    std::uint32_t const id = add_tensor(std::move(tensor), true);
    plan_.used_.push_back(true);
    return id;
  }

  void note_canonical(OpNode const& op) {
    for (char const* letter = op.info->blocked(op.attrs.data()); *letter != 0; ++letter)
      for (std::size_t id = 0; id < call_.tilings.size(); ++id)
        if (call_.table.axes[id].group == *letter && !call_.tilings[id]->multiple_of(64) &&
            plan_.uncanonical_.empty())
          plan_.uncanonical_ =
              concat(op.info->name, " of '", plan_.tensors_[op.operands.back()].name, "': axis '",
                     *letter, "' is cut at a border that is no multiple of 64");
  }

  void visit(TileTask const& tile) override {
    PlannedTask task;
    task.op = static_cast<std::uint32_t>(position_);
    task.kernel = kernel_;
    task.first_use = static_cast<std::uint32_t>(plan_.uses_.size());
    task.use_count = static_cast<std::uint16_t>(tile.uses.size());
    task.args = static_cast<std::uint32_t>(plan_.args_.size());
    task.args_bytes = static_cast<std::uint16_t>(call_.op->args_bytes);
    plan_.args_.resize(plan_.args_.size() + (call_.op->args_bytes + 7) / 8 * 8);
    call_.op->args(call_.attrs, tile.range, plan_.args_.data() + task.args);
    task.cost = call_.op->cost(call_.attrs, tile.range);
    plan_.flops_ += task.cost.flops;
    bool labelled = false;
    auto const number = static_cast<std::uint32_t>(plan_.tasks_.size());
    for (TileUse const& use : tile.uses) {
      std::uint32_t const tensor = operands_[use.operand];
      std::uint32_t const buffer = plan_.buffer_of(tensor, use.tile);
      check(tensor, buffer, use);
      plan_.uses_.push_back({buffer, use.access});
      if (!labelled && writes(use.access)) {
        task.tensor = tensor;
        task.tile = static_cast<std::uint32_t>(use.tile);
        labelled = true;
      }
    }
    note_replacements(tile, number);
    for (TileUse const& use : tile.uses)
      if (writes(use.access)) written_[plan_.buffer_of(operands_[use.operand], use.tile)] = true;
    plan_.tasks_.push_back(task);
  }

  /// Remembers whose memory the task's result may take, if it turns out that nothing else needs it.
  void note_replacements(TileTask const& tile, std::uint32_t number) {
    std::uint32_t const over = call_.op->replaces(call_.attrs);
    TileUse const& result = tile.uses.back();
    if (over == 0 || result.access != Access::write) return;
    std::uint32_t const to = plan_.buffer_of(operands_[result.operand], result.tile);
    for (TileUse const& use : tile.uses) {
      if ((over >> use.operand & 1u) == 0) continue;
      std::uint32_t const from = plan_.buffer_of(operands_[use.operand], use.tile);
      bool fits = from != to && plan_.buffers_[from].bytes == plan_.buffers_[to].bytes;
      for (TileUse const& other : tile.uses)  // no other operand reads it while it changes
        if (plan_.buffer_of(operands_[other.operand], other.tile) == from)
          fits &= (over >> other.operand & 1u) != 0;
      if (fits) replacements_.push_back({from, to, number});
    }
  }

  void check(std::uint32_t tensor, std::uint32_t buffer, TileUse const& use) {
    if (reads(use.access) && !written_[buffer])
      throw PlanError(concat(
          "plan '", graph_.name(), "': ", call_.op->name, " ",
          use.access == Access::read ? "reads" : "adds to", " '", plan_.tensors_[tensor].name,
          "', which nothing has written; declare it an input or a parameter, or fill it"));
  }

  void reorder(std::vector<std::uint32_t> const& order) {
    std::vector<PlannedTask> tasks;
    tasks.reserve(order.size());
    std::vector<std::uint32_t> position(order.size());
    for (std::uint32_t const task : order) {
      position[task] = static_cast<std::uint32_t>(tasks.size());
      tasks.push_back(plan_.tasks_[task]);
    }
    plan_.tasks_ = std::move(tasks);
    for (passes::Replacement& replacement : replacements_)
      replacement.task = position[replacement.task];
  }

  void place() {
    std::vector<later_t<passes::Life, Graph>> lives(plan_.buffers_.size());
    for (std::uint32_t t = 0; t < plan_.tasks_.size(); ++t)
      for (PlannedUse const& use : plan_.uses(plan_.tasks_[t])) {
        passes::Life& life = lives[use.buffer];
        if (life.first == passes::Life::never) life.first = t;
        life.last = t;
      }
    std::vector<Index> bytes;
    for (auto const& buffer : plan_.buffers_) bytes.push_back(buffer.bytes);
    auto layout = passes::SlotPass<Index>(lives, bytes, in_arena_, plan_.tasks_.size())
                      .run(lives, in_arena_, replacements_);
    for (std::size_t b = 0; b < plan_.buffers_.size(); ++b) {
      plan_.buffers_[b].slot = layout.slot[b];
      if (!in_arena_[b]) plan_.memory_.stored += plan_.buffers_[b].bytes;
    }
    for (Index const slot : layout.bytes) plan_.memory_.arena += slot;
    plan_.memory_.arena_lower_bound = layout.lower_bound;
    plan_.slots_ = std::move(layout.bytes);
  }

  Plan& plan_;
  Graph const& graph_;
  PlanOptions const& options_;
  std::vector<bool> in_arena_;
  std::vector<bool> written_;
  std::vector<later_t<passes::Replacement, Graph>> replacements_;
  TiledCall call_;
  std::vector<AxisTiling> tilings_;
  std::vector<std::uint32_t> operands_;
  std::size_t position_ = 0;
  std::uint32_t kernel_ = 0;
};

template <std::same_as<LogicalGraph> Graph>
Plan::Plan(Graph const& graph, PlanOptions const& options) {
  try {
    if (options.tile == PlanOptions::automatic) {
      *this = choose(graph, options);
      return;
    }
    if (options.tile < 0)
      throw PlanError(concat("plan '", graph.name(), "': a tile of ", options.tile,
                             "; 0 leaves tensors whole, PlanOptions::automatic chooses"));
    tile_ = options.tile;
    Planner<Graph>(*this, graph, options).run();
  } catch (std::bad_alloc const&) {
    throw OutOfMemory(concat("plan '", graph.name(), "': after ", tasks_.size(), " tile tasks of ",
                             tensors_.size(),
                             " tensors there was no memory left for the plan itself; use larger "
                             "tiles or a smaller model"));
  }
}

}  // namespace nntile
