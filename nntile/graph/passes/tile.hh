#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that cuts: dimensions that must agree form classes, and each class gets one tiling.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/groups.hh"
#include "nntile/graph/bound_dims.hh"
#include "nntile/graph/passes/class_names.hh"
#include "nntile/graph/passes/repeat_sizes.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Finds classes of dimensions by union, then cuts each class.
class TilePass {
 public:
  TilePass(LogicalGraph const& graph, PlanOptions const& options, BoundDims const& dims,
           DynamicArray<bool> const& used, DynamicArray<Storage> const& storages)
      : graph_(graph), options_(options), dims_(dims), used_(used), storages_(storages) {
    first_.resize(graph.tensor_count() + 1);
    for (std::size_t t = 0; t < graph.tensor_count(); ++t)
      first_[t + 1] = first_[t] + graph.tensor_at(static_cast<std::uint32_t>(t)).spec.shape.size();
    parent_.resize(first_.back());
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    whole_.resize(first_.back());
    single_.resize(first_.back());
    inner_.resize(first_.back());
    names_.resize(first_.back());
    inside_.assign(first_.back(), none);
    blocked_.resize(first_.back());
    asked_.assign(first_.back(), nullptr);
  }

  /// Names of the classes of all tensors' dimensions.
  AxesOfTensors class_names(DynamicArray<std::size_t> const& ops) {
    join_views();
    for (std::size_t const op : ops) join_op(graph_.op_at(op));
    name_classes();
    AxesOfTensors names(graph_.tensor_count());
    for (std::size_t t = 0; t < names.size(); ++t)
      for (std::size_t id = first_[t]; id < first_[t + 1]; ++id)
        names[t].push_back(names_[find(id)]);
    return names;
  }

  /// The obstacle to a dimension's cut that a rule asks for, and what would do; "" where nothing
  /// but cuts are lacking. Behind class_names().
  std::string obstacle(DynamicArray<std::size_t> const& ops, std::uint32_t t, std::size_t d) {
    std::size_t const root = find(first_[t] + d);
    for (std::size_t const o : ops)
      if (std::uint32_t const of = whole_along(graph_.op_at(o), root); of != no_id)
        return concat(graph_.op_at(o).info->name, " needs '", graph_.tensor_at(of).name,
                      "' in one tile along it: share out another axis, or put a rule before this ",
                      "one that keeps it whole, {.tensors = \"", graph_.tensor_at(t).name,
                      "\", .axis = \"", names_[root].front(), "\"}");
    collect_adopted();
    if (inside_[root] != none) {
      std::string const& name = graph_.tensor_at(tensor_of(inside_[root])).name;
      return concat("the adopted input '", name, "' is cut along its outermost axis alone: share ",
                    "that one out, or leave '", name, "' out of PlanOptions::adopted");
    }
    keep_tilings();
    collect_groups_of_axes();
    for (std::size_t const op : ops) collect_blocks(graph_.op_at(op));
    collect_marks();
    if (Index const extent = dims_.shape_of(t)[d]; short_groups(root, extent))
      return concat("the ", graph_.numerics().groups[groups_[root]].groups,
                    " canonical groups of its ", extent,
                    " indices are shorter than the blocks of 64 that it is added in: leave '",
                    graph_.numerics().groups[groups_[root]].axis,
                    "' out of Numerics::groups, or share out another axis");
    if (kept_[root] == nullptr) return "";
    return concat("a tensor that exists has ", kept_[root]->count(), " tiles along it: plan all ",
                  "graphs of a store with the same mesh and rules");
  }

  /// Tilings of all tensors, from the axes of the ops kept. Throws PlanError: cuts that contradict.
  std::vector<Tiling> run(DynamicArray<std::size_t> const& ops) {
    join_views();
    for (std::size_t const op : ops) join_op(graph_.op_at(op));
    name_classes();
    collect_cuts();
    collect_groups_of_axes();
    for (std::size_t const op : ops) collect_blocks(graph_.op_at(op));
    collect_marks();
    collect_adopted();
    keep_tilings();
    for (std::size_t const op : ops) collect_groups(graph_.op_at(op));
    cut_.resize(parent_.size());
    done_.assign(parent_.size(), false);
    inner_extents_.assign(parent_.size(), unknown);
    std::vector<Tiling> tilings;
    for (std::size_t t = 0; t < graph_.tensor_count(); ++t) {
      std::vector<AxisTiling> dimensions;
      Shape const shape = dims_.shape_of(static_cast<std::uint32_t>(t));
      for (std::size_t d = 0; d < shape.size(); ++d)
        dimensions.push_back(used_[t] ? cut(find(first_[t] + d), shape[d])
                                      : AxisTiling::whole(shape[d]));
      tilings.push_back(Tiling(std::move(dimensions)));
    }
    for (AxisCut const& cut : options_.cuts) {
      if (std::find(known_.begin(), known_.end(), cut.axis) == known_.end())
        throw PlanError(unknown_axis(cut.axis));
      for (AxisCut const* other = options_.cuts.data(); other != &cut; ++other)
        if (other->axis == cut.axis)
          throw PlanError(concat("tile: PlanOptions::cuts has axis '", cut.axis,
                                 "' twice; list it once, with all its sizes"));
    }
    return tilings;
  }

  /// Of a tensor that is used: for each dimension the position in the graph's Numerics::groups, or
  /// no_groups; empty where there are none.
  DynamicArray<std::uint32_t> groups(std::uint32_t tensor) {
    DynamicArray<std::uint32_t> result;
    if (groups_.empty() || !used_[tensor]) return result;
    for (std::size_t id = first_[tensor]; id < first_[tensor + 1]; ++id)
      result.push_back(groups_[find(id)]);
    return result;
  }

 private:
  std::size_t find(std::size_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(b)] = find(a); }

  void join_views() {
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      TensorNode const& node = graph_.tensor_at(t);
      if (node.base == no_id || !used_[t]) continue;
      single_[first_[node.base] + node.view_axis] = true;
      join_view(t, node);
    }
  }
  void join_view(std::uint32_t t, TensorNode const& node) {
    for (std::size_t d = 0, from = 0; d < graph_.tensor_at(node.base).spec.shape.size(); ++d)
      if (d != node.view_axis) join(first_[node.base] + d, first_[t] + from++);
  }

  void join_op(OpNode const& op) {
    inplace_vector<std::size_t, max_axes> seen(op.axes.axes.size(), ~std::size_t{0});
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d) {
        std::size_t const id = first_[op.operands[o]] + d;
        std::uint8_t const axis = op.axes.operands[o][d];
        if (seen[axis] == ~std::size_t{0})
          seen[axis] = id;
        else
          join(seen[axis], id);
        if (op.axes.axes[axis].whole) whole_[id] = true;
      }
  }

  /// The tensor that an op needs in one tile along a class; no_id if none.
  std::uint32_t whole_along(OpNode const& op, std::size_t root) {
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d)
        if (op.axes.axes[op.axes.operands[o][d]].whole && find(first_[op.operands[o]] + d) == root)
          return op.operands[o];
    return no_id;
  }

  void name_classes() {
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      auto const names = axis_names(graph_.tensor_at(t).spec);
      for (std::size_t d = 0; d < names.size(); ++d) {
        if (names[d].empty()) continue;
        std::string const name(names[d]);
        ClassNames& of_class = names_[find(first_[t] + d)];
        if (!is_called(of_class, name)) of_class.push_back(name);
        if (!is_called(known_, name)) known_.push_back(name);
      }
    }
  }

  /// Finds the cut that is asked for of each class, by any name that a dimension has in it. Throws
  /// PlanError where two names of one class contradict.
  void collect_cuts() {
    for (std::uint32_t t = 0; t < graph_.tensor_count() && !options_.cuts.empty(); ++t) {
      auto const names = axis_names(graph_.tensor_at(t).spec);
      for (std::size_t d = 0; d < names.size(); ++d)
        for (AxisCut const& cut : options_.cuts) {
          if (names[d].empty() || cut.axis != names[d]) continue;
          AxisCut const*& of_class = asked_[find(first_[t] + d)];
          if (of_class != nullptr && of_class->axis != cut.axis && of_class->sizes != cut.sizes)
            throw PlanError(concat("plan '", graph_.name(), "': axes '", of_class->axis, "' and '",
                                   cut.axis, "' are one in this graph, but PlanOptions::cuts has ",
                                   "other sizes for each; list one of them"));
          of_class = &cut;
        }
    }
  }

  /// Finds the canonical groups of each class, by any name that a dimension has in its class of the
  /// whole graph: what is pruned decides no bit. Throws PlanError where two names of one class
  /// contradict, and for an axis that no tensor has.
  void collect_groups_of_axes() {
    if (graph_.numerics().groups.empty()) return;
    auto const kept_parent = parent_;
    auto const kept_whole = whole_;
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t)
      if (TensorNode const& node = graph_.tensor_at(t); node.base != no_id) join_view(t, node);
    for (std::size_t op = 0; op < graph_.op_count(); ++op) join_op(graph_.op_at(op));
    collect_groups_by_name();
    for (std::size_t id = 0; id < parent_.size(); ++id) groups_[id] = groups_[find(id)];
    parent_ = kept_parent, whole_ = kept_whole;
  }
  void collect_groups_by_name() {
    auto const& given = graph_.numerics().groups;
    groups_.assign(parent_.size(), PlannedTensor::no_groups);
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      auto const names = axis_names(graph_.tensor_at(t).spec);
      for (std::size_t d = 0; d < names.size(); ++d)
        for (std::uint32_t g = 0; g < given.size(); ++g) {
          if (given[g].axis != names[d]) continue;
          std::uint32_t& of_class = groups_[find(first_[t] + d)];
          if (of_class != PlannedTensor::no_groups && given[of_class].groups != given[g].groups)
            throw PlanError(concat("plan '", graph_.name(), "': axes '", given[of_class].axis,
                                   "' and '", given[g].axis, "' are one in this graph, but have ",
                                   given[of_class].groups, " and ", given[g].groups,
                                   " canonical groups; give both the same"));
          of_class = g;
        }
    }
    for (AxisGroups const& each : given)
      if (std::find(known_.begin(), known_.end(), each.axis) == known_.end())
        throw PlanError(concat("plan '", graph_.name(), "': numerics have ", each.groups,
                               " canonical groups of axis '", each.axis, "'; ",
                               unknown_axis(each.axis)));
  }

  /// Marks the classes that some op sums in blocks of 64, which begin anew with each group.
  void collect_blocks(OpNode const& op) {
    std::string_view const blocked = op.info->blocked(op.attrs.data());
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d)
        if (blocked.find(op.axes.axes[op.axes.operands[o][d]].group) != blocked.npos)
          blocked_[find(first_[op.operands[o]] + d)] = true;
  }
  /// Whether groups of a class are shorter than a block of it, so that few borders are canonical.
  bool short_groups(std::size_t root, Index extent) const {
    if (groups_.empty() || groups_[root] == PlannedTensor::no_groups || !blocked_[root])
      return false;
    return extent / 64 < graph_.numerics().groups[groups_[root]].groups;
  }

  void collect_marks() {
    for (std::size_t id = 0; id < parent_.size(); ++id) {
      std::size_t const root = find(id);
      if (whole_[id]) whole_[root] = true;
      if (single_[id]) single_[root] = true;
    }
  }

  /// Notes the inner axes of adopted inputs: all but the outermost of several indices.
  void collect_adopted() {
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      if (!used_[t] || storages_[t] != Storage::adopted) continue;
      Shape const shape = dims_.shape_of(t);
      std::size_t outermost = shape.size();
      while (outermost > 0 && shape[outermost - 1] <= 1) --outermost;
      for (std::size_t d = 0; d + 1 < outermost; ++d) inside_[find(first_[t] + d)] = first_[t] + d;
    }
  }

  /// Takes over the cuts of tensors that exist. Throws PlanError where two of them contradict.
  void keep_tilings() {
    kept_.assign(parent_.size(), nullptr);
    kept_of_.assign(parent_.size(), nullptr);
    for (KeptTiling const& kept : options_.keep) {
      std::uint32_t const t = graph_.id_of(kept.tensor);
      if (t == no_id || !used_[t] || !(dims_.shape_of(t) == kept.tiling.shape())) continue;
      for (std::size_t d = 0; d < kept.tiling.rank(); ++d) {
        std::size_t const root = find(first_[t] + d);
        if (kept_[root] != nullptr && !(*kept_[root] == kept.tiling.axis(d)))
          throw PlanError(concat("tile: '", kept.tensor, "' exists and is cut into ",
                                 kept.tiling.axis(d).count(), " tiles along dimension ", d,
                                 ", but '", *kept_of_[root], "', which must agree in graph '",
                                 graph_.name(), "', into ", kept_[root]->count(),
                                 "; plan that graph first"));
        kept_[root] = &kept.tiling.axis(d), kept_of_[root] = &kept.tensor;
      }
    }
  }

  /// Remembers, for each class, the class just inside it in a side of a matrix.
  void collect_groups(OpNode const& op) {
    std::string_view const sides = op.info->sides;
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 1; d < op.axes.operands[o].size(); ++d) {
        Axis const& axis = op.axes.axes[op.axes.operands[o][d]];
        Axis const& before = op.axes.axes[op.axes.operands[o][d - 1]];
        bool const side = sides.find(axis.group) != sides.npos;
        if (!side || axis.group != before.group || before.within + 1 != axis.within) continue;
        auto& inner = inner_[find(first_[op.operands[o]] + d)];
        std::size_t const inside = find(first_[op.operands[o]] + d - 1);
        if (std::find(inner.begin(), inner.end(), inside) == inner.end()) inner.push_back(inside);
      }
  }

  AxisTiling const& cut(std::size_t root, Index extent) try {
    if (!std::exchange(done_[root], true)) cut_[root] = choose(root, extent);
    return cut_[root];
  } catch (ShapeError const& error) {  // too many tiles
    throw PlanError(concat("plan '", graph_.name(), "': ", std::string_view(error.what())));
  }

  AxisTiling choose(std::size_t root, Index extent) {
    AxisCut const* const asked = asked_[root];
    if (inside_[root] != none) return uncut(root, extent, asked);
    if (kept_[root] != nullptr) {
      if ((whole_[root] && kept_[root]->count() > 1) ||
          (single_[root] && kept_[root]->count() != extent))
        throw PlanError(concat(
            "tile: '", *kept_of_[root], "' exists and has ", kept_[root]->count(), " tiles along ",
            names_[root].empty() ? "an axis" : concat("axis '", names_[root].front(), "'"),
            ", which must ", whole_[root] ? "stay whole" : "be single indices", " in graph '",
            graph_.name(),
            "'; plan that graph first, and the others of its store take over its cuts"));
      return *kept_[root];
    }
    if (single_[root]) {
      if (whole_[root] && extent > 1) fail_sliced(root);
      return single_indices(extent, asked);
    }
    if (asked != nullptr && whole_[root] &&
        !(asked->sizes.size() == 1 && asked->sizes[0] >= extent))
      throw PlanError(concat("tile: axis '", asked->axis, "' must stay whole (", extent,
                             "), an op needs it in one tile"));
    if (asked != nullptr) return repeat_sizes(asked->sizes, extent, asked->axis);
    if (whole_[root] || extent <= 1 || short_groups(root, extent)) return AxisTiling::whole(extent);
    Index const ranks = ranks_along(root);
    if (options_.tile <= 0 && ranks == 1) return AxisTiling::whole(extent);
    Index const inside = extent_inside(root);
    Index const least = options_.even && blocked_[root] ? 64 : 1;  // other borders change bits
    Index const wished =
        options_.tile <= 0 ? extent : std::min(extent, std::max(least, options_.tile / inside));
    if (ranks > 1 && ranks <= extent) return shared(root, extent, ranks, wished);
    return AxisTiling::uniform(extent, options_.even ? even(extent, wished) : wished);
  }

  /// Names a slice of a class and an op that needs the class whole.
  [[noreturn]] void fail_sliced(std::size_t root) {
    std::uint32_t t = 0;
    auto const is_slice = [&](TensorNode const& node) {
      return used_[t] && node.base != no_id && find(first_[node.base] + node.view_axis) == root;
    };
    while (!is_slice(graph_.tensor_at(t))) ++t;
    TensorNode const& slice = graph_.tensor_at(t);
    std::size_t o = 0;
    while (!used_[graph_.op_at(o).operands.back()] || whole_along(graph_.op_at(o), root) == no_id)
      ++o;
    OpNode const& op = graph_.op_at(o);
    throw PlanError(concat("tile: '", slice.name, "' slices '", graph_.tensor_at(slice.base).name,
                           "' along dimension ", slice.view_axis, in_brackets(names_[root]), " of ",
                           "graph '", graph_.name(), "', along which ", op.info->name, " needs '",
                           graph_.tensor_at(whole_along(op, root)).name,
                           "' in one tile; slice another dimension"));
  }

  /// Ranks that a rule shares an axis out to; 1 where none does.
  Index ranks_along(std::size_t root) const {
    Index ranks = 1;
    for (ShardRule const& rule : options_.rules)
      for (MeshAxis const& axis : options_.mesh)
        if (is_called(names_[root], rule.axis) && rule.mesh == axis.name)
          ranks = std::max<Index>(ranks, axis.size);
    return ranks;
  }
  /// Each rank's run of canonical groups, else of units of 64 where there is one for each, else of
  /// indices, in as many even tiles: of `wished` elements at most, unless the shortest run has too
  /// few for that.
  AxisTiling shared(std::size_t root, Index extent, Index ranks, Index wished) const {
    Index const groups = groups_.empty() || groups_[root] == PlannedTensor::no_groups
                             ? 1
                             : graph_.numerics().groups[groups_[root]].groups;
    bool const grouped = groups >= ranks && groups <= extent;
    Index const unit = (extent + 63) / 64 >= ranks ? 64 : 1;
    Index const count = grouped ? groups : (extent + unit - 1) / unit;
    auto const begin = [&](Index rank) {
      Index const piece = rank * (count / ranks) + std::min(rank, count % ranks);
      return grouped ? GroupCut{extent, count}.begin(piece) : std::min(extent, piece * unit);
    };
    Index const most = (begin(1) + wished - 1) / wished, shortest = extent - begin(ranks - 1);
    Index const tiles = std::min(most, shortest >= 64 ? shortest / 64 : shortest);
    if (tiles > AxisTiling::most / ranks) return AxisTiling::uniform(extent, wished);  // throws
    std::vector<Index> sizes;
    for (Index rank = 0; rank < ranks; ++rank) {
      GroupCut const run{begin(rank + 1) - begin(rank), tiles};
      for (Index tile = 0; tile < tiles; ++tile)
        sizes.push_back(run.begin(tile + 1) - run.begin(tile));
    }
    return AxisTiling::sizes(sizes);
  }

  /// The one tile of an axis inside an adopted input. Throws PlanError where others cut it.
  AxisTiling uncut(std::size_t root, Index extent, AxisCut const* asked) const {
    if (kept_[root] != nullptr && kept_[root]->count() > 1)
      fail_adopted(root, concat("a tensor that exists has ", kept_[root]->count(),
                                " tiles along it; plan with the input adopted from the start, or"));
    if (single_[root] && extent > 1) fail_adopted(root, "a slice cuts it into single indices;");
    if (asked != nullptr && !(asked->sizes.size() == 1 && asked->sizes[0] >= extent))
      fail_adopted(root, "PlanOptions::cuts cuts it; leave it out there, or");
    return AxisTiling::whole(extent);
  }
  [[noreturn]] void fail_adopted(std::size_t root, std::string const& why) const {
    std::uint32_t const t = tensor_of(inside_[root]);
    std::string const& name = graph_.tensor_at(t).name;
    throw PlanError(concat("tile: the adopted input '", name, "' can be cut along its outermost ",
                           "axis alone, but along dimension ", inside_[root] - first_[t],
                           in_brackets(names_[root]), " ", why, " leave '", name,
                           "' out of PlanOptions::adopted, and it is copied in"));
  }

  /// The size of equal tiles of at most `wished` elements; whole units of 64 where it is so large.
  static Index even(Index extent, Index wished) {
    Index const unit = wished >= 64 ? 64 : 1;
    Index const count = (extent + wished - 1) / wished;
    Index const size = (extent + count - 1) / count;
    return (size + unit - 1) / unit * unit;
  }

  /// Elements that a tile of the class has along its group so far; noted if no cycle is inside, or
  /// once that has been found often: ways through many cycles have no end.
  Index inner_extent(std::size_t root) {
    Index& noted = inner_extents_[root];
    if (noted >= 0) return noted;
    if (noted == visiting || depth_ == deepest) return ++cycles_, 1;  // as in two products
    noted = visiting;
    ++depth_;
    std::size_t const cycles = cycles_;
    Index const own = single_[root] ? 1 : cut(root, class_extent(root)).size(0);
    Index const result = saturated_product({own, extent_inside(root)});
    --depth_;
    noted = cycles_ == cycles || ++unsettled_ > most_unsettled ? result : unknown;
    return result;
  }
  Index extent_inside(std::size_t root) {
    Index most = 1;
    for (std::size_t const inner : inner_[root])
      if (inner != root) most = std::max(most, inner_extent(inner));
    return most;
  }
  /// The tensor that a dimension is of.
  std::uint32_t tensor_of(std::size_t id) const {
    return static_cast<std::uint32_t>(std::upper_bound(first_.begin(), first_.end(), id) -
                                      first_.begin() - 1);
  }
  Index class_extent(std::size_t root) const {
    std::uint32_t const at = tensor_of(root);
    return dims_(graph_.tensor_at(at).spec.shape[root - first_[at]]);
  }

  std::string unknown_axis(std::string const& axis) const {
    std::string list;
    for (auto const& name : known_) list += concat(list.empty() ? "" : ", ", name);
    return concat("tile: the graph '", graph_.name(), "' has no axis '", axis, "'; it ",
                  list.empty() ? "names none, as by TensorSpec::axes" : concat("has ", list));
  }

  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr Index unknown = -1, visiting = -2;  // inner extents
  static constexpr std::size_t deepest = 64, most_unsettled = 1000;

  LogicalGraph const& graph_;
  PlanOptions const& options_;
  BoundDims const& dims_;
  DynamicArray<bool> const& used_;
  DynamicArray<Storage> const& storages_;
  DynamicArray<std::size_t> first_;   // of a tensor's dimensions
  DynamicArray<std::size_t> parent_;  // of a dimension's class
  DynamicArray<bool> whole_;
  DynamicArray<bool> single_;
  DynamicArray<DynamicArray<std::size_t>> inner_;
  std::vector<ClassNames> names_;
  DynamicArray<std::size_t> inside_;    // a dimension of an adopted input that must not be cut
  DynamicArray<std::uint32_t> groups_;  // of a class, where the graph has any
  DynamicArray<bool> blocked_;          // of a class
  ClassNames known_;                    // of all classes
  DynamicArray<AxisTiling const*> kept_;
  DynamicArray<std::string const*> kept_of_;  // the tensors that have these
  std::vector<AxisTiling> cut_;
  DynamicArray<bool> done_;
  DynamicArray<Index> inner_extents_;
  DynamicArray<AxisCut const*> asked_;  // of a class; null: none
  std::size_t cycles_ = 0;              // met so far
  std::size_t depth_ = 0;               // inner extents that are being found
  std::size_t unsettled_ = 0;           // ... that were found amid a cycle
};

}  // namespace nntile::passes
