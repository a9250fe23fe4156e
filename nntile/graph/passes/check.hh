#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that changes nothing: it proves that a plan means what its graph says, on any runtime.

#include <algorithm>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Proves, from the plan alone, that every run of it that keeps the order of tasks on each handle
/// computes the same. A runtime orders a task behind the last writer of a handle, a writer also
/// behind the readers since; a slot is one handle, and so is a stored tile. It follows:
///   order    tasks that touch one tile, of which one writes it, stand in the order of the graph's
///            nodes, those of a node in the order in which it was walked; a part numbers its own
///            arguments in its order, so that of a rank's part the order of nodes alone is proved:
///            within one it is the walk's, since parts keep the common order;
///   values   what is read has been written before, or is given before a run;
///   slots    a tile enters its slot by a `write` behind all uses of the tile before it, which is
///            not used again: so no two live ranges overlap in the partial order. One task may end
///            a live range and begin the next where its op says that it may write over an operand;
///   lists    everything referred to exists, is as large as it must be, at the task's location.
/// Cost: linear in the number of uses.
class CheckPass {
 public:
  explicit CheckPass(PlanData const& plan) : plan_(plan) {}

  void run() const {
    for (std::uint32_t t = 0; t < plan_.tensors.size(); ++t) check_tensor(t);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) check_buffer(b);
    check_calls();
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t) check_task(t);
    check_order();
    check_slots();
    check_values();
    check_totals();
    check_phases();
  }

 private:
  [[noreturn]] void fail(std::string const& text) const {
    throw PlanError(concat("check: plan '", plan_.name, "': ", text));
  }
  /// "task 12, gemm ('y', tile 3)": also of a task that names what does not exist.
  std::string label(std::uint32_t t) const {
    PlannedTask const& task = plan_.tasks[t];
    return concat("task ", t, ", ",
                  task.kernel < plan_.kernels.size() ? plan_.kernels[task.kernel].name : "?", " ('",
                  task.tensor < plan_.tensors.size() ? plan_.tensors[task.tensor].name : "?",
                  "', tile ", task.tile, ")");
  }
  std::string tile(std::uint32_t buffer) const {
    PlannedBuffer const& of = plan_.buffers[buffer];
    return concat("tile ", of.tile, " of '", plan_.tensors[of.tensor].name, "'");
  }

  void check_tensor(std::uint32_t t) const {
    PlannedTensor const& tensor = plan_.tensors[t];
    if (!tensor.used) return;
    if (tensor.column_unit < 1)
      fail(concat("columns of '", tensor.name, "' begin at multiples of ", tensor.column_unit));
    if (tensor.storage == Storage::view) return check_view(tensor);
    if (tensor.storage == Storage::adopted && !is_consecutive(tensor.tiling))
      fail(concat("tiles of the adopted '", tensor.name, "' are not pieces of its memory"));
    auto const count = static_cast<std::size_t>(tensor.tiling.tile_count());
    if (plan_.ranks == 1 && tensor.buffer_count != count)
      fail(concat("'", tensor.name, "' has ", tensor.buffer_count, " buffers for ", count,
                  " tiles"));
    std::size_t tile = 0;
    for (std::size_t i = 0; i < tensor.buffer_count; ++i, ++tile) {
      std::size_t const b = tensor.first_buffer + i;
      bool const ours = b < plan_.buffers.size() && plan_.buffers[b].tensor == t;
      if (ours && plan_.ranks > 1) tile = std::max<std::size_t>(tile, plan_.buffers[b].tile);
      if (!ours || plan_.buffers[b].tile != tile)
        fail(concat("buffer ", b, " is not that of tile ", tile, " of '", tensor.name, "'"));
    }
  }
  /// Whether each tile is one piece of the column-major array: one axis at most is cut, and those
  /// outside it have one index.
  static bool is_consecutive(Tiling const& tiling) {
    bool cut = false;
    for (std::size_t d = 0; d < tiling.rank(); ++d) {
      if (cut && tiling.axis(d).extent() > 1) return false;
      cut = cut || tiling.axis(d).count() > 1;
    }
    return true;
  }
  void check_view(PlannedTensor const& view) const {
    bool const based = view.base < plan_.tensors.size() &&
                       plan_.tensors[view.base].storage != Storage::view &&
                       plan_.tensors[view.base].used;
    if (!based)
      fail(concat("'", view.name, "' is a view of tensor ", view.base, ", which has no tiles"));
    Tiling const& base = plan_.tensors[view.base].tiling;
    bool fits = base.rank() == view.tiling.rank() + 1 && view.view_axis < base.rank() &&
                view.view_index >= 0 && view.view_index < base.axis(view.view_axis).count();
    for (std::size_t d = 0, from = 0; fits && d < base.rank(); ++d)
      if (d != view.view_axis) fits = base.axis(d) == view.tiling.axis(from++);
    if (!fits)
      fail(concat("the view '", view.name, "' has no tiles in '", plan_.tensors[view.base].name,
                  "'"));
    Index const unit = plan_.tensors[view.base].column_unit;
    if (view.column_unit != unit || (unit != 1 && view.view_axis == 0))
      fail(concat("the view '", view.name, "' has columns at multiples of ", view.column_unit,
                  " in those of '", plan_.tensors[view.base].name, "', at ", unit));
  }

  void check_buffer(std::uint32_t b) const {
    PlannedBuffer const& buffer = plan_.buffers[b];
    if (buffer.tensor >= plan_.tensors.size())
      fail(concat("buffer ", b, " is of tensor ", buffer.tensor, " of ", plan_.tensors.size()));
    PlannedTensor const& tensor = plan_.tensors[buffer.tensor];
    bool const own = b - tensor.first_buffer < tensor.buffer_count;
    if ((!own && !buffer.copy) || buffer.tile >= tensor.tiling.tile_count())
      fail(concat("buffer ", b, " is tile ", buffer.tile, " of '", tensor.name, "', which has ",
                  tensor.tiling.tile_count(), " from buffer ", tensor.first_buffer));
    Index const payload =
        tile_bytes(tensor.tiling.box(buffer.tile).extent, tensor.dtype, tensor.column_unit);
    Index const bytes = buffer_bytes(payload);
    if (buffer.bytes != bytes)
      fail(concat(tile(b), " has ", buffer.bytes, " bytes where it needs ", bytes));
    if (buffer.payload() != payload)
      fail(concat(tile(b), " sends ", buffer.payload(), " bytes where it has ", payload));
    if (!plan_.in_arena(b) && buffer.location.rank == plan_.rank &&
        !(buffer.location.place == tensor.place))
      fail(concat(tile(b), " is stored at ", to_string(buffer.location.place),
                  ", and the tensor lives at ", to_string(tensor.place)));
    if (buffer.slot == no_id) return;
    if (!plan_.in_arena(b)) fail(concat(tile(b), " is stored, and has slot ", buffer.slot));
    if (buffer.slot >= plan_.slots.size())
      fail(concat(tile(b), " has slot ", buffer.slot, " of ", plan_.slots.size()));
    PlannedSlot const& slot = plan_.slots[buffer.slot];
    if (slot.bytes < buffer.bytes)
      fail(concat(tile(b), " of ", buffer.bytes, " bytes has slot ", buffer.slot, " of ",
                  slot.bytes));
    if (!(slot.location == buffer.location))
      fail(concat(tile(b), " at ", to_string(buffer.location), " has slot ", buffer.slot, " at ",
                  to_string(slot.location)));
  }

  /// Argument bytes are of one task each, and no task stands twice.
  void check_calls() const {
    DynamicArray<bool> taken(plan_.args.size() / args_unit + 1);
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t) {
      PlannedTask const& task = plan_.tasks[t];
      std::size_t const end = std::size_t{task.args} + task.args_bytes;
      if (task.args % args_unit != 0 || end > plan_.args.size())
        fail(concat(label(t), " has arguments up to byte ", end, " of ", plan_.args.size()));
      if (taken[task.args / args_unit])
        fail(concat(label(t), " has the arguments of another task"));
      taken[task.args / args_unit] = true;
    }
  }

  void check_task(std::uint32_t t) const {
    PlannedTask const& task = plan_.tasks[t];
    if (task.hints > plan_.hints.size())
      fail(concat(label(t), " has hints ", task.hints, " of ", plan_.hints.size()));
    std::size_t const end = std::size_t{task.first_use} + task.use_count;
    if (task.kernel >= plan_.kernels.size())
      fail(concat(label(t), " has kernel ", task.kernel, " of ", plan_.kernels.size()));
    if (task.tensor >= plan_.tensors.size())
      fail(concat(label(t), " is one of tensor ", task.tensor, " of ", plan_.tensors.size()));
    if (task.use_count == 0 || end > plan_.uses.size())
      fail(concat(label(t), " has uses up to ", end, " of ", plan_.uses.size()));
    if (task.replaces >> task.use_count != 0)
      fail(concat(label(t), " may write over more uses than it has"));
    bool const moves = plan_.kernels[task.kernel].kind != KernelKind::op;
    for (Use<BufferId> const& use : plan_.uses_of(task)) {
      if (use.handle >= plan_.buffers.size())
        fail(concat(label(t), " uses buffer ", use.handle, " of ", plan_.buffers.size()));
      PlannedBuffer const& buffer = plan_.buffers[use.handle];
      if (plan_.in_arena(use.handle) && buffer.slot == no_id)
        fail(concat(label(t), " uses ", tile(use.handle), ", which has no slot"));
      if (plan_.tensors[buffer.tensor].storage == Storage::adopted && !buffer.copy &&
          writes(use.access))
        fail(concat(label(t), " writes ", tile(use.handle), ", which is adopted to be read"));
      if (!moves && !(buffer.location == task.location))
        fail(concat(label(t), " runs at ", to_string(task.location), " and uses ", tile(use.handle),
                    " at ", to_string(buffer.location)));
      if (buffer.location.rank != plan_.rank)
        fail(concat(label(t), " uses ", tile(use.handle), " at ", to_string(buffer.location),
                    " in the plan of rank ", plan_.rank));
    }
  }

  void check_order() const {
    struct Latest {
      std::uint64_t touched, written;  // node in the upper half, and position within it
    };
    DynamicArray<Latest> latest(plan_.buffers.size());
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t) {
      PlannedTask const& task = plan_.tasks[t];
      if (copies(task) || comes_again(task)) continue;
      std::uint64_t const here = std::uint64_t{task.node} << 32 | task.args;
      for (Use<BufferId> const& use : plan_.uses_of(task)) {
        Latest& before = latest[own(use.handle)];
        std::uint64_t const limit = writes(use.access) ? before.touched : before.written;
        if (here < limit)
          fail(concat(label(t), " of node ", task.node, " ", name_of(use.access), "s ",
                      tile(use.handle), " behind a task of node ", limit >> 32,
                      " that it must precede"));
        before.touched = std::max(before.touched, here);
        if (writes(use.access)) before.written = std::max(before.written, here);
      }
    }
  }

  bool copies(PlannedTask const& task) const {
    return plan_.kernels[task.kernel].kind == KernelKind::copy;
  }
  /// Whether it receives a value that this rank has had before.
  bool comes_again(PlannedTask const& task) const {
    return plan_.kernels[task.kernel].kind == KernelKind::receive &&
           plan_.uses_of(task)[0].handle != own(plan_.uses_of(task)[0].handle);
  }
  /// The buffer that a tile has of itself; copies at other places, and what comes again, have more.
  BufferId own(BufferId b) const {
    return plan_.buffer_of(plan_.buffers[b].tensor, plan_.buffers[b].tile);
  }

  /// Each buffer has a version of its tile's value, 0 before anything has written it.
  void check_values() const {
    DynamicArray<std::uint32_t> version(plan_.buffers.size()), latest(plan_.buffers.size());
    auto const kept = [&](BufferId b) {
      return !plan_.in_arena(b) && plan_.buffers[b].location.rank == plan_.rank;
    };
    for (BufferId b = 0; b < plan_.buffers.size(); ++b) {
      TensorAttributes const& attributes = plan_.tensors[plan_.buffers[b].tensor].attributes;
      if ((attributes.persistent || attributes.external) && !plan_.in_arena(b))
        version[b] = latest[b] = 1;
    }
    DynamicArray<bool> ends(plan_.tasks.size());  // the run, or a phase, behind a task
    for (PlannedPhase const& phase : plan_.phases)
      if (phase.end != 0 && phase.end <= ends.size()) ends[phase.end - 1] = true;
    if (!ends.empty()) ends.back() = true;
    DynamicArray<BufferId> written;  // since the last of those ends
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t) {
      auto const uses = plan_.uses_of(plan_.tasks[t]);
      for (Use<BufferId> const& use : uses)
        if (reads(use.access) &&
            (version[use.handle] == 0 || version[use.handle] != latest[own(use.handle)]))
          fail(concat(label(t), " ", name_of(use.access), "s ", tile(use.handle),
                      version[use.handle] == 0 ? ", which nothing has written"
                                               : ", which another place has written since"));
      bool const copy = copies(plan_.tasks[t]);
      if (copy && (uses.size() != 2 || own(uses[0].handle) != own(uses[1].handle) ||
                   uses[0].access != Access::read || uses[1].access != Access::write))
        fail(concat(label(t), " copies something else than one tile"));
      for (Use<BufferId> const& use : uses)
        if (writes(use.access)) {
          version[use.handle] = copy ? latest[own(use.handle)] : ++latest[own(use.handle)];
          written.push_back(own(use.handle));
        }
      if (!ends[t]) continue;
      for (BufferId const b : written)
        if (kept(b) && version[b] != latest[b])
          fail(concat(tile(b), " is not at ", to_string(plan_.buffers[b].location),
                      " when a run ends"));
      written.clear();
    }
  }

  void check_slots() const {
    struct Tenant {
      std::uint32_t buffer = no_id;
      std::uint32_t last_use = no_id;
    };
    DynamicArray<Tenant> tenants(plan_.slots.size());
    DynamicArray<bool> left(plan_.buffers.size());
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t)
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t])) {
        std::uint32_t const slot = plan_.buffers[use.handle].slot;
        if (slot == no_id) continue;
        Tenant& tenant = tenants[slot];
        if (tenant.buffer != use.handle) {
          if (left[use.handle])
            fail(concat(label(t), " uses ", tile(use.handle), ", over which ", tile(tenant.buffer),
                        " was written in slot ", slot));
          if (use.access != Access::write)
            fail(concat(label(t), ": the first access of ", tile(use.handle), " to slot ", slot,
                        " is ", name_of(use.access), ", not write"));
          if (tenant.last_use == t && !replaces(plan_.tasks[t], use, slot))
            fail(concat(label(t), " may not write ", tile(use.handle), " over its operand in slot ",
                        slot));
          if (tenant.buffer != no_id) left[tenant.buffer] = true;
          tenant.buffer = use.handle;
        }
        tenant.last_use = t;
      }
  }
  /// Whether the result is the task's last use, and it may be written over all else in its slot.
  bool replaces(PlannedTask const& task, Use<BufferId> const& result, std::uint32_t slot) const {
    auto const uses = plan_.uses_of(task);
    if (&result != &uses.back()) return false;
    for (std::size_t u = 0; u + 1 < uses.size(); ++u)
      if (plan_.buffers[uses[u].handle].slot == slot &&
          ((task.replaces >> u & 1u) == 0 ||
           column_unit(uses[u].handle) != column_unit(result.handle)))
        return false;
    return true;
  }
  Index column_unit(BufferId buffer) const {
    return plan_.tensors[plan_.buffers[buffer].tensor].column_unit;
  }

  void check_totals() const {
    std::int64_t flops = 0;
    for (PlannedTask const& task : plan_.tasks) add_saturated(flops, task.cost.flops);
    if (flops != plan_.flops) fail(concat("its tasks have ", flops, " flops, not ", plan_.flops));
    auto const check_listed = [&](Location const& location) {
      if (std::none_of(plan_.memory.begin(), plan_.memory.end(),
                       [&](MemoryReport const& report) { return report.location == location; }))
        fail(concat("its report of memory lacks ", to_string(location)));
    };
    for (PlannedBuffer const& buffer : plan_.buffers)
      if (buffer.location.rank == plan_.rank) check_listed(buffer.location);
    for (PlannedSlot const& slot : plan_.slots) check_listed(slot.location);
    for (MemoryReport const& report : plan_.memory) {
      MemoryReport sum;
      for (PlannedBuffer const& buffer : plan_.buffers)
        if (buffer.location == report.location) sum.add(plan_.tensors[buffer.tensor], buffer);
      for (PlannedSlot const& slot : plan_.slots)
        if (slot.location == report.location &&
            (slot.bytes < 0 || __builtin_add_overflow(sum.arena, slot.bytes, &sum.arena)))
          fail(concat("at ", to_string(report.location), " a slot has ", slot.bytes, " bytes"));
      if (sum.stored != report.stored || sum.arena != report.arena || sum.adopted != report.adopted)
        fail(concat("at ", to_string(report.location), " it takes ", sum.stored,
                    " bytes stored and ", sum.arena, " in the arena, and ", sum.adopted,
                    " adopted, not ", report.stored, ", ", report.arena, " and ", report.adopted));
    }
  }

  void check_phases() const {
    std::uint32_t at = 0;
    for (PlannedPhase const& phase : plan_.phases) {
      bool const empty = phase.end == at;
      if (phase.begin != at || phase.end < at || (empty && plan_.ranks == 1))
        fail(concat("phase '", phase.name, "' is tasks ", phase.begin, " to ", phase.end,
                    " behind ", at));
      at = phase.end;
    }
    if (!plan_.phases.empty() && at != plan_.tasks.size())
      fail(concat("its phases are ", at, " of ", plan_.tasks.size(), " tasks"));
  }

  static constexpr std::size_t args_unit = 8;

  PlanData const& plan_;
};

/// Throws PlanError that names the task and tile of the first fault.
inline void check(PlanData const& plan) { CheckPass(plan).run(); }
inline void check(Plan const& plan) { check(plan.data()); }

}  // namespace nntile::passes
