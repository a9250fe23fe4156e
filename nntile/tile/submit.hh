#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The only place that hands a task to a runtime.

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/ops/alias.hh"
#include "nntile/ops/call_types.hh"
#include "nntile/ops/combine.hh"
#include "nntile/ops/execution.hh"
#include "nntile/ops/kernel.hh"
#include "nntile/ops/walk.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/name.hh"
#include "nntile/runtime/scope.hh"
#include "nntile/runtime/task_handle.hh"
#include "nntile/runtime/unsubmitted.hh"

namespace nntile {

/// Submits one task. Allocates and blocks only as the runtime does.
template <Runtime R> Event submit(R& runtime, Task<typename R::Handle> const& task) {
  return runtime.submit(task);
}

/// An operand of an eager call: tiles of one tensor on one runtime.
template <Runtime R> struct TiledOperand {
  R* runtime;
  DType dtype;
  Tiling const* tiling;  // null: one tile, of the shape `uncut`
  typename R::Handle const* handles;
  char const* name;
  Shape const* uncut = nullptr;
  bool hidden() const { return tiling == nullptr && uncut == nullptr; }
  /// Size of a tile in cache lines, at least 1.
  Index lines(Index tile) const {
    Shape const extent = tiling != nullptr ? tiling->box(tile).extent : *uncut;
    return (std::max<Index>(1, byte_count(extent, size_of(dtype))) + 63) / 64;
  }
  Shape shape() const { return tiling != nullptr ? tiling->shape() : *uncut; }
};

namespace detail {

/// The library's kernel of an op, or null. Throws ValueError where it is of another op of that
/// name.
inline Codelet const* find_in_library(std::string_view name, std::uint64_t type, DType element,
                                      DType second, Mode mode, Isa isa) {
  auto const* const found = kernels::find(name, element, second, mode, isa);
  if (found != nullptr && found->computation->op != type)
    throw ValueError(concat("op '", name,
                            "' has the name of an op of the library, which has its own "
                            "kernels; give yours another name"));
  return found;
}

/// The op's own kernel, the library's, or the op's reference, the first that there is. Throws
/// TypeError; ValueError where the library has kernels of another op of that name.
inline Codelet const* find_kernel(OpInfo const& op, DType element, DType second, Mode mode,
                                  Isa isa) {
  if (op.kernel != nullptr)
    if (auto const* own = op.kernel({element, second})) return own;
  if (auto const* found = find_in_library(op.name, op.type, element, second, mode,
                                          isa == Isa::best ? kernels::best() : isa))
    return found;
  if (auto const* reference = op.reference({element, second})) return reference;
  throw TypeError(concat(op.name, ": no kernel for ", name_of(element),
                         " on this machine, and no reference to fall back on"));
}

/// Throws ValueError where the build has no kernels for the instruction set, or the CPU lacks it.
inline void check_isa(char const* who, Isa isa) {
  if (kernels::available(isa)) return;
  if (kernels::available(Isa::best))
    throw ValueError(
        concat(who, kernels::built(isa) ? ": this CPU lacks " : ": this build has no kernels for ",
               name_of(isa), "; the best here is ", name_of(kernels::best())));
  std::string built;
  for (Isa const each : {Isa::plain, Isa::v2, Isa::v3, Isa::v4})
    if (kernels::built(each)) built += concat(built.empty() ? "" : " and ", name_of(each));
  throw ValueError(concat(who, ": this CPU runs none of the kernels of this build, which are for ",
                          built, "; configure it with -Disa=v2 or what the CPU has beside these"));
}

/// The part of the hints that a runtime lacks, or that no device is; empty if there is none. A
/// device that the runtime lacks is no fault: its tasks run elsewhere. A kind of workers is between
/// a task and the runtime, which refuses one that it has none of.
inline std::string absent(Hints const& hints, Workers const& workers) {
  auto const beyond = [](int given, int count) { return given < -1 || given >= count; };
  int const count = workers.cpu + workers.cuda, nodes = 1 + workers.cuda;
  constexpr int first_kind = any_of(WorkerKind::cpu);  // the others are below it
  bool const is_kind = hints.worker <= first_kind && hints.worker > first_kind - worker_kinds;
  if (!is_kind && beyond(hints.worker, count))
    return concat("worker ", hints.worker, " is not one of the runtime's ", count,
                  "; they count from 0, and -1 is any");
  if (beyond(hints.node, nodes))
    return concat("memory node ", hints.node, " is not one of the runtime's ", nodes,
                  "; 0 is the host's, and -1 is any");
  if (hints.device < -1)
    return concat("device ", hints.device, "; they count from 0, and -1 is any");
  return {};
}

/// Throws ValueError where a call cannot be executed so.
template <Runtime R>
void check_context(char const* op, R const& runtime, ExecutionContext const& context) {
  check_isa(op, context.isa);
  if (!is_mode(context.mode))
    throw ValueError(concat(op, ": ExecutionContext::mode is ", static_cast<int>(context.mode),
                            "; exact (0) or fast (1)"));
  ExecutionPolicy const& policy = context.policy;
  Workers const workers = runtime.workers();
  auto const refuse = [&](std::string const& text) {
    if (!text.empty()) throw ValueError(concat(op, ": ", text));
  };
  refuse(contradiction(policy));
  if (by_owner(policy) && policy.workers.empty() && workers.cpu < 1)
    refuse(concat("the execution policy has CPU workers own tiles, and the runtime has ",
                  workers.cpu, "; name the workers"));
  refuse(absent(context.hints, workers));
  for (int const worker : policy.workers) refuse(absent({.worker = worker}, workers));
  for (int const node : policy.nodes) refuse(absent({.node = node}, workers));
  for (ExecutionRule const& rule : policy.rules) refuse(absent(rule.hints, workers));
}

/// Throws ValueError where a kernel needs more workspace than the runtime lends.
template <Runtime R> void check_workspace(R const& runtime, Codelet const& codelet, DType element) {
  std::size_t const lent = lent_workspace_bytes(runtime);
  if (codelet.cpu == nullptr || codelet.workspace <= lent) return;
  throw ValueError(concat(
      codelet.name, ": its kernel for ", name_of(element), " needs ", codelet.workspace,
      " bytes of workspace, but ", runtime_name<R>.empty() ? "its runtime" : runtime_name<R>,
      " lends ", lent,
      "; lend each body a block of support::Workspaces in KernelCall::workspace, and say so by "
      "workspace_bytes()"));
}

/// The kernel that `find_kernel` finds, for a runtime that can run it. Throws TypeError; ValueError
/// where the kernel needs more workspace than the runtime lends.
template <Runtime R>
Codelet const* kernel_for(R const& runtime, OpInfo const& op, DType element, DType second,
                          Mode mode, Isa isa) {
  Codelet const* const found = find_kernel(op, element, second, mode, isa);
  check_workspace(runtime, *found, element);
  return found;
}

template <Runtime R>
[[noreturn]] void fail_tiling(OpInfo const& op, Operands const& operands, AxisTable const& table,
                              std::size_t axis, std::span<TiledOperand<R> const> given,
                              std::size_t a, std::size_t b) {
  throw ShapeError(concat(op.name, ": ", operands[a].name, " ('", given[a].name, "') and ",
                          operands[b].name, " ('", given[b].name,
                          "') are cut differently along axis '", table.axes[axis].group,
                          "'; give both the same tiling"));
}

/// Makes the tiles of a hidden operand in the scope of its call.
template <Runtime R>
std::vector<typename R::Handle> carry_tiles(Scope<R>& scratch, TiledCall const& call,
                                            std::size_t operand, DType dtype) {
  std::vector<AxisTiling> axes;
  for (auto const axis : call.table.operands[operand]) axes.push_back(*call.tilings[axis]);
  Tiling const tiling(std::move(axes));
  std::vector<typename R::Handle> handles;
  for (Index tile = 0; tile < tiling.tile_count(); ++tile)
    handles.push_back(scratch.allocate(
        static_cast<std::size_t>(element_count(tiling.box(tile).extent)) * size_of(dtype)));
  return handles;
}

/// Lets axes have the groups that a call asks for, by their letters. Throws ValueError.
inline void group_by_letter(TiledCall& call, std::vector<AxisGroups> const& groups) {
  inplace_vector<Index, max_axes> counts(call.table.axes.size(), 0);
  auto const letter = [&](std::size_t id) {
    Axis const& axis = call.table.axes[id];
    Index dimensions = 0;
    for (Axis const& other : call.table.axes) dimensions += other.group == axis.group ? 1 : 0;
    return dimensions > 1 ? concat(axis.group, axis.within) : std::string(1, axis.group);
  };
  for (AxisGroups const& each : groups) {
    std::string list;
    bool known = false;
    for (std::size_t id = 0; id < counts.size(); ++id) {
      std::string const name = letter(id);
      list += concat(list.empty() ? "" : ", ", name);
      if (name != each.axis) continue;
      known = true;
      if (counts[id] != 0)
        throw ValueError(concat(call.op->name, ": axis '", name, "' is given groups twice, ",
                                counts[id], " and ", each.groups));
      counts[id] = each.groups;
    }
    if (!known)
      throw ValueError(concat(call.op->name, ": groups of an axis '", each.axis,
                              "', which it does not have; it has ", list));
    if (each.groups < 1)
      throw ValueError(concat(call.op->name, ": axis '", each.axis, "' has ", each.groups,
                              " canonical groups; at least 1 is needed"));
  }
  for (Index& count : counts) count = std::max<Index>(count, 1);
  std::string const why = set_groups(call, counts, letter);
  if (!why.empty()) throw ValueError(concat(call.op->name, ": ", why));
}

/// Submits the tile tasks that the walk visits, and hands each task's event to `collect`.
template <Runtime R, class Collect> class SubmitTiles final : public TileVisitor {
 public:
  using Handle = typename R::Handle;
  SubmitTiles(R& runtime, TiledCall const& call, Codelet const& codelet,
              std::span<TiledOperand<R> const> operands, ExecutionContext const& context,
              std::optional<Scope<R>>& scratch, Collect& collect)
      : runtime_(runtime),
        call_(call),
        codelet_(codelet),
        operands_(operands),
        context_(context),
        scratch_(scratch),
        placed_(!(context.policy == ExecutionPolicy{})),
        collect_(collect) {}

  void visit(TileTask const& tile) override {
    TaskLabel label;
    for (auto const& [at, access] : tile.uses)
      if (label.tensor == nullptr && writes(access)) label = {operands_[at.operand].name, at.tile};
    if (failed_ != nullptr) return mark(tile, label);
    try {
      alignas(16) std::byte args[max_args_bytes];
      fill_arguments(tile, args);
      Cost cost;
      if constexpr (CostedRuntime<R>) cost = cost_of(call_, tile);
      inplace_vector<Use<Handle>, max_operands> uses;
      for (auto const& [at, access] : tile.uses) uses.push_back({handle_of(at), access});
      OpInfo const& op = tile.combines ? *combine_op : *call_.op;
      Codelet const& codelet = tile.combines ? combine_codelet(tile) : codelet_;
      Event const event =
          submit(runtime_, Task<Handle>{&codelet,
                                        {uses.data(), uses.size()},
                                        {args, op.args_bytes},
                                        placed_ ? hints(tile, label) : context_.hints,
                                        label,
                                        cost});
      collect_(event);
    } catch (std::exception const& error) {
      fail(tile, label, error.what());
    } catch (...) {  // of the op's own code, or of the runtime's
      fail(tile, label, "its submission threw what is no std::exception");
    }
  }
  /// Inside a handler, where the op's own code threw between two tasks: what it would have written
  /// is not known, so that all its results are marked.
  void leave_out(char const* cause) {
    note(cause);
    for (std::size_t o = 0; o < call_.operands.size(); ++o) {
      if (!writes(call_.operands[o].access) || operands_[o].hidden()) continue;
      Tiling const* const tiling = operands_[o].tiling;
      Index const tiles = tiling != nullptr ? tiling->tile_count() : 1;
      for (Index tile = 0; tile < tiles; ++tile)
        mark_unsubmitted(runtime_, operands_[o].handles[tile], cause_, {operands_[o].name, tile});
    }
  }
  /// Throws what a submission threw, now that the tiles left out are marked.
  void finish() const {
    if (failed_ != nullptr) std::rethrow_exception(failed_);
  }

 private:
  void fill_arguments(TileTask const& tile, void* out) const try {
    write_arguments(call_, tile, out);
  } catch (ShapeError const& error) {
    throw ShapeError(concat(call_.op->name, ": ", error.what()));
  }

  Hints hints(TileTask const& tile, TaskLabel const& label) const {
    PlacedTask task{call_.op->name, {}, label.tensor, label.tile, 0};
    Index most = -1;
    for (Use<OperandTile> const& use : tile.uses) {
      TiledOperand<R> const& operand = operands_[use.handle.operand];
      if (operand.hidden()) continue;
      Index const lines = operand.lines(use.handle.tile);
      if (lines > most) most = lines, task.largest = use.handle.tile;
    }
    return over(hints_of(context_.policy, task, runtime_.workers().cpu), context_.hints);
  }
  /// Inside a handler.
  void fail(TileTask const& tile, TaskLabel const& label, char const* cause) {
    note(cause);
    mark(tile, label);
  }
  void note(char const* cause) {
    if (failed_ != nullptr) return;
    failed_ = std::current_exception();
    std::strncpy(cause_, cause, sizeof cause_ - 1);  // a std::string may throw
  }
  void mark(TileTask const& tile, TaskLabel const& label) {
    for (auto const& [at, access] : tile.uses)
      if (writes(access) && at.partial == 0)
        mark_unsubmitted(runtime_, operands_[at.operand].handles[at.tile], cause_, label);
  }
  Handle const& handle_of(OperandTile const& at) {
    if (at.partial == 0) return operands_[at.operand].handles[at.tile];
    for (Partial const& known : partials_)
      if (known.operand == at.operand && known.number == at.partial)
        return known.handles[static_cast<std::size_t>(at.tile)];
    if (!scratch_) scratch_.emplace(runtime_, Lifetime::scratch);
    DType const dtype =
        dtype_of_kind(call_.operands[at.operand].kind, {call_.element, call_.second});
    partials_.push_back(
        {at.operand, at.partial, carry_tiles(*scratch_, call_, at.operand, accumulator_of(dtype))});
    return partials_.back().handles[static_cast<std::size_t>(at.tile)];
  }
  Codelet const& combine_codelet(TileTask const& tile) const {
    DType const dtype = combine_dtype(call_, tile);
    return *kernel_for(runtime_, *combine_op, dtype, dtype, Mode::exact, context_.isa);
  }

  /// Hidden tiles that hold sums of canonical groups.
  struct Partial {
    std::size_t operand, number;
    std::vector<Handle> handles;
  };

  R& runtime_;
  TiledCall const& call_;
  Codelet const& codelet_;
  std::span<TiledOperand<R> const> operands_;
  ExecutionContext const& context_;
  std::optional<Scope<R>>& scratch_;
  std::vector<Partial> partials_;
  bool const placed_;  // by a policy
  Collect& collect_;
  std::exception_ptr failed_;
  char cause_[status_text_bytes] = {};
};

}  // namespace detail

/// Submits an op on tiled operands: checks shapes, dtypes, tilings and aliases, then walks its
/// tiles; collect(event) for each task. Throws ShapeError, TypeError, LifetimeError, ValueError (an
/// operand that the result would replace, a runtime that lends the kernel no workspace, an
/// instruction set, worker or memory that is not there).
/// Blocks: only where the runtime's submit does.
template <Runtime R, class Collect>
void submit_op(OpInfo const& op, void const* attrs, std::span<TiledOperand<R> const> given,
               Collect&& collect, ExecutionContext const& context = {}) {
  TiledCall call;
  call.op = &op;
  call.attrs = attrs;
  call.operands = op.operands(attrs);
  std::size_t visible = 0;
  while (visible < call.operands.size() && call.operands[visible].carry == Carry::none) ++visible;
  if (given.size() != visible)
    throw ShapeError(
        concat(op.name, ": ", detail::wrong_count(given.size(), call.operands, visible, visible)));
  R& runtime = *given[0].runtime;
  detail::check_context(op.name, runtime, context);
  TypedOperand typed[max_operands];
  for (std::size_t o = 0; o < visible; ++o) {
    typed[o] = {given[o].dtype, given[o].name};
    if (given[o].runtime != &runtime)
      throw LifetimeError(concat(op.name, ": '", given[o].name,
                                 "' is on another runtime object than '", given[0].name, "'"));
  }
  ElementTypes const types = call_types(op, call.operands, {typed, visible});
  call.element = types.element;
  call.second = types.second;
  call.mode = context.mode;
  inplace_vector<Shape, max_operands> shapes;
  GivenOperands named;
  for (std::size_t o = 0; o < visible; ++o) {
    shapes.push_back(given[o].shape());
  }
  for (std::size_t o = 0; o < call.operands.size(); ++o)
    named.push_back(o < visible ? GivenOperand{&shapes[o], given[o].name} : GivenOperand{});
  call.table = axes_of(op, attrs, call.operands, named);
  PlacedOperands placed;
  for (auto const& operand : given) placed.push_back({{operand.handles}, operand.name});
  check_aliases(op, attrs, call.operands, placed);

  inplace_vector<std::size_t, max_axes> owner;
  std::array<AxisTiling, max_axes> uncut;  // axes of operands that are one tile
  for (std::size_t axis = 0; axis < call.table.axes.size(); ++axis) {
    AxisTiling const* tiling = nullptr;
    for (std::size_t o = 0; o < visible; ++o)
      for (std::size_t d = 0; d < call.table.operands[o].size(); ++d) {
        if (call.table.operands[o][d] != axis) continue;
        AxisTiling const& own = given[o].tiling != nullptr
                                    ? given[o].tiling->axis(d)
                                    : uncut[axis] = AxisTiling::whole(shapes[o][d]);
        if (tiling == nullptr) {
          tiling = &own;
          owner.push_back(o);
        } else if (!(own == *tiling)) {
          detail::fail_tiling(op, call.operands, call.table, axis, given, owner[axis], o);
        }
      }
    if (call.table.axes[axis].whole && tiling->count() > 1)
      throw ShapeError(concat(op.name, ": axis '", call.table.axes[axis].group, "' of '",
                              given[owner[axis]].name, "' must stay in one tile, but has ",
                              tiling->count()));
    call.tilings.push_back(tiling);
  }

  if (!context.groups.empty()) detail::group_by_letter(call, context.groups);

  inplace_vector<TiledOperand<R>, max_operands> all;
  for (auto const& operand : given) all.push_back(operand);
  std::optional<Scope<R>> scratch;
  std::vector<std::vector<typename R::Handle>> carries;
  std::uint32_t const bits = carries_of(call);
  for (std::size_t o = visible; o < call.operands.size(); ++o) {
    typename R::Handle const* handles = nullptr;
    if ((bits >> o & 1u) != 0) {
      DType const dtype = dtype_of_kind(call.operands[o].kind, types);
      if (!scratch) scratch.emplace(runtime, Lifetime::scratch);
      carries.push_back(detail::carry_tiles(*scratch, call, o, dtype));
      handles = carries.back().data();
    }
    all.push_back({&runtime, call.element, nullptr, handles, call.operands[o].name});
  }
  Codelet const& codelet =
      *detail::kernel_for(runtime, op, call.element, call.second, context.mode, context.isa);
  detail::SubmitTiles<R, std::remove_reference_t<Collect>> visitor(
      runtime, call, codelet, {all.data(), all.size()}, context, scratch, collect);
  try {
    walk(call, visitor);
  } catch (std::exception const& error) {
    visitor.leave_out(error.what());
  } catch (...) {
    visitor.leave_out("its tiles threw what is no std::exception");
  }
  visitor.finish();
}

}  // namespace nntile
