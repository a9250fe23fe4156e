#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that lowers: from nodes and tilings to tile tasks, their buffers and arguments.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/passes/buffers.hh"
#include "nntile/graph/passes/chunks.hh"
#include "nntile/graph/passes/own_tiles.hh"
#include "nntile/graph/passes/thin.hh"
#include "nntile/graph/plan.hh"
#include "nntile/ops/combine.hh"
#include "nntile/ops/walk.hh"

namespace nntile::passes {

/// Walks the nodes of a plan and notes what it visits. One object a plan.
class LowerPass final : private TileVisitor {
 public:
  LowerPass(PlanData plan, LogicalGraph const& graph, TileVisitor* watcher, ThinJob* thin,
            OwnTiles const* own)
      : plan_(std::move(plan)), graph_(graph), watcher_(watcher), thin_(thin), own_(own) {}

  PlanData run() {
    for (PlannedTensor const& tensor : plan_.tensors) note_buffers(tensor);
    for (std::size_t const node : plan_.nodes) lower(node);
    plan_.tasks = tasks_.join();
    plan_.uses = uses_.join();
    plan_.args = args_.join();
    return std::move(plan_);
  }

 private:
  /// Notes the state of a tensor's tiles before any task.
  void note_buffers(PlannedTensor const& tensor) {
    if (!tensor.used || tensor.storage == Storage::view) return;
    bool const given = tensor.attributes.persistent || tensor.attributes.external;
    written_.resize(tensor.first_buffer + std::size_t{tensor.buffer_count}, given);
  }
  /// Adds a hidden tensor, which is cut along the dimensions as its tasks are.
  std::uint32_t add(PlannedTensor tensor, int cut, int rows) {
    auto const id = static_cast<std::uint32_t>(plan_.tensors.size());
    plan_.tensors.push_back(std::move(tensor));
    if (thin_ != nullptr) thin_->cut.push_back(cut), thin_->rows.add(rows);
    add_buffers(plan_, id, thin_);
    note_buffers(plan_.tensors[id]);
    return id;
  }

  void lower(std::size_t position) {
    OpNode const& op = graph_.op_at(position);
    Operands const declared = op.info->operands(op.attrs.data());
    call_ = {op.info, op.attrs.data(), op.element, op.second, declared, op.axes, {}, {}};
    call_.mode = plan_.numerics.mode;
    for (std::size_t id = 0; id < op.axes.axes.size(); ++id)
      call_.tilings.push_back(&tiling_of(op, id));
    if (op.axes.open()) bind(op);
    if (!plan_.numerics.groups.empty()) group(op);
    cut_axis_ = thin_ == nullptr ? TileSample::none : thin_->axis_of(op);
    if (cut_axis_ != TileSample::none) call_.sample = thin_->sample(call_, cut_axis_);
    if (own_ != nullptr) others_ = OthersTasks(*own_, op, call_);
    if (thin_ != nullptr) thin_rows(op, position, declared);
    node_ = position;
    kernel_ = kernel(*op.info, op.element, op.second);
    operands_.assign(op.operands);
    for (std::uint32_t const t : operands_)
      call_.column_units.push_back(plan_.tensors[t].column_unit);
    std::uint32_t const carries = carries_of(call_);
    for (std::size_t o = op.operands.size(); o < declared.size(); ++o) {
      bool const narrow = declared[o].carry == Carry::narrow;
      call_.column_units.push_back(narrow ? call_.column_units[result_of_carry(declared, o)] : 1);
      operands_.push_back((carries >> o & 1u) != 0 ? carry(op, o) : no_id);
    }
    partials_.clear();
    steps_.clear();
    note_canonical(op);
    walk(call_, *this);
  }

  void thin_rows(OpNode const& op, std::size_t position, Operands const& declared) {
    bool const sampled = call_.sample.axis != TileSample::none;
    auto const at = static_cast<std::uint32_t>(position);
    rows_axis_ = thin_->rows.begin(op, at, declared, plan_, thin_->cut, sampled);
    if (rows_axis_ != TileSample::none)
      call_.rows = thin_->rows.sample(*call_.tilings[rows_axis_], rows_axis_);
    if (thin_->last.begin(plan_, op, declared, call_.sample.axis))
      call_.sample.last = call_.sample.count;
  }

  /// Puts the extents that the tilings have in place of names, and checks what adding the op could
  /// not.
  void bind(OpNode const& op) {
    std::string text;
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d) {
        std::uint8_t const id = op.axes.operands[o][d];
        Axis& axis = call_.table.axes[id];
        if (!axis.open()) continue;
        axis.extent = call_.tilings[id]->extent();
        text += concat(text.empty() ? "" : ", ",
                       graph_.tensor_at(op.operands[o]).spec.shape[d].name(), "=", axis.extent);
      }
    try {
      op.info->check(op.attrs.data(), call_.table);
    } catch (Error const& error) {
      throw PlanError(concat("plan '", plan_.name, "': with ", text, ": ", error.what()));
    }
  }

  /// Notes the canonical groups of the axes over which the op sums.
  void group(OpNode const& op) {
    inplace_vector<Index, max_axes> counts(op.axes.axes.size(), 1);
    inplace_vector<std::string_view, max_axes> names(op.axes.axes.size(), std::string_view());
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      PlannedTensor const& tensor = plan_.tensors[op.operands[o]];
      for (std::size_t d = 0; d < tensor.groups.size(); ++d)
        if (std::uint32_t const g = tensor.groups[d]; g != PlannedTensor::no_groups) {
          counts[op.axes.operands[o][d]] = plan_.numerics.groups[g].groups;
          names[op.axes.operands[o][d]] = plan_.numerics.groups[g].axis;
        }
    }
    std::string const why = set_groups(call_, counts, [&](std::size_t id) { return names[id]; });
    if (!why.empty())
      throw PlanError(concat("plan '", plan_.name, "': ", op.info->name, " of '",
                             plan_.tensors[op.operands.back()].name, "': ", why));
  }

  /// Of a visible operand that has the axis: resolve_axes() refuses an axis that none has. It stays
  /// where it is while the list of tensors grows by hidden operands, as these are moved.
  AxisTiling const& tiling_of(OpNode const& op, std::size_t axis) const {
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d)
        if (op.axes.operands[o][d] == axis) return plan_.tensors[op.operands[o]].tiling.axis(d);
    throw PlanError(concat("plan '", plan_.name, "': ", op.info->name, " of '",
                           plan_.tensors[op.operands.back()].name, "': axis '",
                           op.axes.axes[axis].group, "' is on no visible operand; add it to one"));
  }

  std::uint32_t kernel(OpInfo const& op, DType element, DType second) {
    return plan_.kernel({KernelKind::op, op.name, element, second, plan_.numerics.mode, op.type});
  }

  std::uint32_t carry(OpNode const& op, std::size_t operand) {
    PlannedTensor tensor;
    tensor.name = concat(plan_.tensors[op.operands.back()].name, ".", call_.operands[operand].name);
    tensor.dtype = dtype_of_kind(call_.operands[operand].kind, {op.element, op.second});
    std::vector<AxisTiling> dimensions;
    int cut = ThinJob::uncut, rows = cut;
    for (auto const axis : op.axes.operands[operand]) {
      if (axis == cut_axis_) cut = static_cast<int>(dimensions.size());
      if (axis == rows_axis_) rows = static_cast<int>(dimensions.size());
      dimensions.push_back(*call_.tilings[axis]);
    }
    tensor.tiling = Tiling(std::move(dimensions));
    tensor.column_unit = call_.column_units[operand];
    tensor.used = true;
    return add(std::move(tensor), cut, rows);
  }

  /// The hidden tensor of a result's sums at a level of the tree's stack, made when it is first
  /// used.
  std::uint32_t partial(std::size_t operand, std::size_t level) {
    for (Partial const& known : partials_)
      if (known.operand == operand && known.level == level) return known.tensor;
    PlannedTensor tensor;
    PlannedTensor const& result = plan_.tensors[operands_[operand]];
    tensor.name = concat(result.name, ".partial", level);
    tensor.dtype = accumulator_of(result.dtype);
    tensor.tiling = result.tiling;
    tensor.column_unit = call_.column_units[operand];
    tensor.used = true;
    tensor.base = operands_[operand];
    std::uint32_t const of = tensor.base;
    std::uint32_t const id = thin_ == nullptr
                                 ? add(std::move(tensor), ThinJob::uncut, ThinJob::uncut)
                                 : add(std::move(tensor), thin_->cut[of], thin_->rows.cut_of(of));
    partials_.push_back({operand, level, id});
    return id;
  }
  /// Makes the hidden tensors of all levels for the results of a sampled chain, before its first
  /// task that has one, in the order in which the whole chain makes them.
  void add_levels(TileTask const& tile) {
    auto const lacks = [&](Use<OperandTile> const& use) {
      return use.handle.partial != 0 &&
             std::none_of(partials_.begin(), partials_.end(), [&](Partial const& known) {
               return known.operand == use.handle.operand;
             });
    };
    if (std::none_of(tile.uses.begin(), tile.uses.end(), lacks)) return;
    Phases const phases = detail::phases_of(call_);
    Phase const& phase = phases[static_cast<std::size_t>(std::max(0, tile.range.phase))];
    detail::GroupSums const sums(call_, phase);
    detail::GroupPairs const pairs(call_, detail::reduced_axes(call_, phase),
                                   detail::bit(cut_axis_));
    std::size_t const deepest = pairs.deepest(call_.groups[cut_axis_]);
    for (std::size_t level = 0; level <= deepest; ++level)
      for (std::size_t o = 0; o < call_.operands.size(); ++o)
        if (sums.has(o) && (level > 0 || !sums.in_place(o))) (void)partial(o, level);
  }

  void note_canonical(OpNode const& op) {
    for (char const* letter = op.info->blocked(op.attrs.data()); *letter != 0; ++letter)
      for (std::size_t id = 0; id < call_.tilings.size(); ++id)
        if (call_.table.axes[id].group == *letter && plan_.uncanonical.empty() &&
            !canonical(*call_.tilings[id], call_.groups.empty() ? 1 : call_.groups[id]))
          plan_.uncanonical = concat(
              op.info->name, " of '", plan_.tensors[op.operands.back()].name, "': axis '", *letter,
              "' is cut at a border that is no multiple of 64",
              call_.groups.empty() || call_.groups[id] == 1 ? "" : " from where its group begins");
  }

  /// Whether blocks of 64, counted from where each group begins, lie in one tile each.
  static bool canonical(AxisTiling const& tiling, Index groups) {
    if (groups == 1) return tiling.multiple_of(64);
    GroupCut const cut{tiling.extent(), groups};
    Index group = 0;
    for (Index tile = 0; tile < tiling.count(); ++tile) {
      Index const border = tiling.begin(tile);
      while (group < groups && cut.begin(group + 1) <= border) ++group;
      if (group < groups && (border - cut.begin(group)) % 64 != 0) return false;
    }
    return true;
  }

  void visit(TileTask const& tile) override {
    bool const own_row = is_own_row(tile.range);
    if (!own_row && tile.combines) return;
    PlannedTask task;
    bool const sampled = call_.sample.axis != TileSample::none;
    if (sampled) mark(task, tile);
    if (!own_row && (task.priority > 0 || task.location.rank != thin_->own + 1)) return;
    task.node = static_cast<std::uint32_t>(node_);
    OpInfo const& op = tile.combines ? *combine_op : *call_.op;
    task.kernel = tile.combines ? kernel(op, combine_dtype(call_, tile), combine_dtype(call_, tile))
                                : kernel_;
    task.first_use = offset(uses_.size(), "operands");
    bool const is_others = own_ != nullptr && others_.has(tile);
    if (is_others)
      task.args = no_id;
    else
      describe(task, tile);
    if (sampled) add_levels(tile);
    std::span<Use<BufferId>> const uses = tile.steps.empty() ? list(tile.uses) : list(tile.steps);
    task.use_count = static_cast<std::uint8_t>(uses.size());
    for (Use<OperandTile> const& use : tile.uses) {
      if (!writes(use.access)) continue;
      task.tensor = tensor_of(use.handle);
      task.tile = static_cast<std::uint32_t>(use.handle.tile);
      break;
    }
    if (!is_others) task.replaces = replaceable(tile, uses);
    for (Use<BufferId> const& use : uses)
      if (writes(use.access)) written_[use.handle] = true;
    tasks_.append(1)[0] = task;
    if (watcher_ != nullptr) watcher_->visit(tile);
  }
  std::span<Use<BufferId>> list(std::span<Use<OperandTile> const> tiles) {
    std::span<Use<BufferId>> const uses = uses_.append(tiles.size());
    for (std::size_t u = 0; u < tiles.size(); ++u) {
      std::uint32_t const tensor = tensor_of(tiles[u].handle);
      uses[u] = {buffer_of(tensor, tiles[u].handle.tile), tiles[u].access};
      check(tensor, uses[u].handle, tiles[u]);
    }
    return uses;
  }
  /// The uses of all steps in turn. Each has what one before it has written, or the sum that is
  /// left out.
  std::span<Use<BufferId>> list(std::span<TileTask::Step const> steps) {
    std::span<Use<BufferId>> const uses = uses_.append(2 * steps.size());
    for (std::size_t u = 0; u < uses.size(); ++u) {
      Use<OperandTile> const& use = steps[u / 2].uses[u % 2];
      uses[u] = {buffer_of(tensor_of(use.handle), use.handle.tile), use.access};
    }
    return uses;
  }
  std::uint32_t tensor_of(OperandTile const& tile) {
    return tile.partial == 0 ? operands_[tile.operand] : partial(tile.operand, tile.partial - 1u);
  }
  std::uint32_t buffer_of(std::uint32_t tensor, Index tile) {
    std::uint32_t const buffer = plan_.buffer_of(tensor, tile);
    return buffer == no_id ? left_out(tensor, tile) : buffer;
  }

  /// Fills in the arguments of a task and its cost.
  void describe(PlannedTask& task, TileTask const& tile) {
    OpInfo const& op = tile.combines ? *combine_op : *call_.op;
    task.args = offset(args_.size(), "bytes of arguments");
    task.args_bytes = static_cast<std::uint16_t>(op.args_bytes);
    std::size_t const bytes = (op.args_bytes + 7) / 8 * 8;
    std::span<std::byte> const args = args_.append(bytes);
    std::memset(args.data() + bytes - 8, 0, 8);  // and the op zeroes its own: equal plans are equal
    fill_arguments(tile, args.data());
    task.cost = cost_of(call_, tile);
    add_saturated(plan_.flops, task.cost.flops);
  }

  void fill_arguments(TileTask const& tile, void* out) const try {
    write_arguments(call_, tile, out);
  } catch (ShapeError const& error) {
    throw PlanError(concat("plan '", plan_.name, "': ", call_.op->name, " of '",
                           plan_.tensors[graph_.op_at(node_).operands.back()].name,
                           "': ", error.what()));
  }

  /// The buffer of a tile that a thin job leaves out, which a task of a block of groups reads.
  std::uint32_t left_out(std::uint32_t id, Index tile) {
    std::uint32_t base = id;
    Index number = tile;
    if (PlannedTensor const& view = plan_.tensors[id]; view.storage == Storage::view) {
      base = view.base;
      number = plan_.tile_of_base(id, tile);
    }
    left_out_.resize(std::max(left_out_.size(), base + std::size_t{1}));
    auto const wanted = static_cast<std::uint32_t>(number);
    auto const place = std::lower_bound(
        left_out_[base].begin(), left_out_[base].end(), wanted,
        [&](std::uint32_t b, std::uint32_t t) { return plan_.buffers[b].tile < t; });
    if (place != left_out_[base].end() && plan_.buffers[*place].tile == wanted) return *place;
    PlannedTensor const& tensor = plan_.tensors[base];
    Index const payload =
        tile_bytes(tensor.tiling.box(number).extent, tensor.dtype, tensor.column_unit);
    Index const bytes = buffer_bytes(payload);
    auto const added = static_cast<std::uint32_t>(plan_.buffers.size());
    plan_.buffers.push_back({.tensor = base,
                             .tile = wanted,
                             .bytes = bytes,
                             .tail = static_cast<std::uint8_t>(bytes - payload)});
    written_.push_back(false);
    left_out_[base].insert(place, added);
    return added;
  }

  /// Whether a task is of the rank's own row, or of an op that has those of all.
  bool is_own_row(TileRange const& range) const {
    return rows_axis_ == TileSample::none ||
           thin_->rows.is_own(call_.rows.count, range.axis(rows_axis_).tile);
  }

  /// Notes in a task of a sampled call where it is along the axis of the mesh.
  void mark(PlannedTask& task, TileTask const& tile) {
    AxisTiling const& tiling = *call_.tilings[cut_axis_];
    GroupCut const groups = tile.range.groups(cut_axis_);
    auto const coordinate = [&](Index at) {
      return static_cast<std::int32_t>(thin_->coordinate(at, tiling.count()));
    };
    auto const first = [&](Index group) { return coordinate(tiling.tile_of(groups.begin(group))); };
    auto const last = [&](Index group) {
      return coordinate(tiling.tile_of(groups.begin(group + 1) - 1));
    };
    if (!tile.steps.empty()) {
      if (!std::equal(tile.steps.begin(), tile.steps.end(), steps_.begin(), steps_.end(),
                      [](TileTask::Step const& a, TileTask::Step const& b) {
                        return a.first == b.first && a.last == b.last && a.left_out == b.left_out;
                      })) {
        steps_.assign(tile.steps.begin(), tile.steps.end());
        blocks_ = thin_->blocks.size();
        for (TileTask::Step const& step : tile.steps)
          thin_->blocks.push_back({first(step.first), last(step.last), step.left_out});
      }
      task.priority = -1 - static_cast<std::int32_t>(blocks_);
      return;
    }
    std::uint32_t axes = 0;
    for (Use<OperandTile> const& use : tile.uses)
      axes |= detail::axes_of(call_.table, use.handle.operand + std::size_t{0});
    if ((axes & detail::bit(cut_axis_)) == 0) return;
    task.location.rank = coordinate(tile.range.axis(cut_axis_).tile) + 1;
    if (tile.groups > 1) task.priority = last(tile.range.canonical_group + tile.groups - 1) + 1;
  }

  /// Bits of the uses in whose memory the task's last result may be put, if nothing else needs it.
  std::uint16_t replaceable(TileTask const& tile, std::span<Use<BufferId> const> uses) const {
    std::uint32_t const over = call_.op->replaces(call_.attrs);
    if (over == 0 || uses.back().access != Access::write || tile.uses.back().handle.partial != 0)
      return 0;
    std::uint32_t bits = 0;
    for (std::size_t u = 0; u < uses.size(); ++u) {
      std::uint32_t const from = uses[u].handle, to = uses.back().handle;
      bool fits = (over >> tile.uses[u].handle.operand & 1u) != 0 && from != to &&
                  plan_.buffers[from].bytes == plan_.buffers[to].bytes &&
                  column_unit(from) == column_unit(to);
      for (std::size_t other = 0; other < uses.size(); ++other)  // none reads it while it changes
        if (uses[other].handle == from) fits &= (over >> tile.uses[other].handle.operand & 1u) != 0;
      if (fits) bits |= 1u << u;
    }
    return static_cast<std::uint16_t>(bits);
  }

  Index column_unit(BufferId buffer) const {
    return plan_.tensors[plan_.buffers[buffer].tensor].column_unit;
  }

  /// A position in one of the lists, which 32 bits hold.
  std::uint32_t offset(std::size_t position, char const* what) const {
    if (position > UINT32_MAX)
      throw PlanError(concat("plan '", plan_.name, "': its tasks have more than 2^32 ", what,
                             "; use larger tiles"));
    return static_cast<std::uint32_t>(position);
  }

  void check(std::uint32_t tensor, std::uint32_t buffer, Use<OperandTile> const& use) const {
    if (reads(use.access) && !written_[buffer] &&
        !(thin_ != nullptr && thin_->leaves_out(plan_.tensors[tensor], tensor, use.handle.tile)))
      throw PlanError(
          concat("plan '", plan_.name, "': ", call_.op->name, " ",
                 use.access == Access::read ? "reads" : "adds to", " '", plan_.tensors[tensor].name,
                 "', which nothing has written; declare it an input or a parameter, or fill it"));
  }

  struct Partial {
    std::size_t operand, level;
    std::uint32_t tensor;
  };

  PlanData plan_;
  LogicalGraph const& graph_;
  TileVisitor* watcher_;
  ThinJob* thin_;
  OwnTiles const* own_;  // null: tasks of all ranks are described
  OthersTasks others_;   // of the node
  Chunks<PlannedTask> tasks_;
  Chunks<Use<BufferId>> uses_;
  Chunks<std::byte> args_;
  DynamicArray<bool> written_;  // of a buffer
  std::vector<std::vector<std::uint32_t>>
      left_out_;  // buffers of a thin job's other tiles, by tensor, ascending by tile
  TiledCall call_;
  DynamicArray<std::uint32_t> operands_;
  DynamicArray<Partial> partials_;     // of the node
  std::vector<TileTask::Step> steps_;  // of its last task that has any,
  std::size_t blocks_ = 0;             // and the place of their blocks in the thin job
  std::size_t node_ = 0;
  std::size_t cut_axis_ = TileSample::none;   // of the call, over the axis of a thin job's mesh,
  std::size_t rows_axis_ = TileSample::none;  // over its rows, where the op is thinned
  std::uint32_t kernel_ = 0;
};

/// Fills in tasks, hidden buffers, kernels and arguments of the plan's nodes, whose tensors have
/// buffers; `watcher`, if any, sees what became a task; of a thin job those tasks alone that it
/// has; with the tiles of one rank, tasks that are others' have no_id in place of arguments, and no
/// cost. Throws PlanError where a value is read that nothing has written, NotThin.
inline PlanData lower(PlanData plan, LogicalGraph const& graph, TileVisitor* watcher = nullptr,
                      ThinJob* thin = nullptr, OwnTiles const* own = nullptr) {
  return LowerPass(std::move(plan), graph, watcher, thin, own).run();
}

}  // namespace nntile::passes
