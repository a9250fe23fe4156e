#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that finds the ranks which hold each tile between runs, from mesh and rules.

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/passes/mesh_shape.hh"
#include "nntile/graph/passes/rank_loads.hh"
#include "nntile/graph/passes/thin.hh"
#include "nntile/graph/passes/tile.hh"
#include "nntile/graph/spelling.hh"

namespace nntile::passes {

/// The homes of a graph's tiles, by buffer. Throws PlanError: a rule that names a tensor or axis
/// which the graph lacks, or an axis or coordinate which the mesh lacks, or cuts what has fewer
/// tiles or canonical groups than the mesh has ranks there; an axis of the mesh over which no rule
/// shares anything out; an owner that is no rank.
class HomePass {
 public:
  HomePass(PlanData const& plan, LogicalGraph const& graph, PlanOptions const& options,
           MeshShape const& mesh, TilePass& cuts)
      : plan_(plan),
        graph_(graph),
        options_(options),
        mesh_(mesh),
        cuts_(cuts),
        axes_(cuts.class_names(plan.nodes)) {}

  /// Finds the homes that rules give tiles of the graph's tensors, which need no buffers yet.
  void place() {
    for (ShardRule const& rule : options_.rules) check(rule);
    used_.resize(options_.rules.size());
    cuts_of_.resize(graph_.tensor_count());
    for (auto& axes : cuts_of_) axes.fill(ThinJob::uncut);
    at_.resize(graph_.tensor_count());
    dealt_of_.resize(graph_.tensor_count());
    kept_of_.resize(graph_.tensor_count());
    for (PlannedTensor const& tensor : plan_.tensors)
      if (tensor.attributes.persistent) kept_names_.insert(tensor.name);
    for (KeptTiling const& kept : options_.keep) find_homes(kept);
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t)
      if (plan_.tensors[t].used && plan_.tensors[t].storage != Storage::view) place(t);
    for (std::size_t r = 0; r < used_.size(); ++r)
      if (ShardRule const& rule = options_.rules[r];
          !used_[r] && !rule.optional && (!rule.axis.empty() || rule.tensors != "*"))
        fail_unused(rule);
    check_axes();
  }
  /// Deals out what tasks write together, and places hidden tensors; returns the homes of all
  /// buffers. Behind `place`. Of a thin job, the same homes as of the whole one.
  std::vector<TileHome> deal() {
    homes_.resize(plan_.buffers.size());
    dealt_.resize(plan_.buffers.size());
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      std::uint32_t const t = plan_.buffers[b].tensor;
      if (t >= graph_.tensor_count()) continue;
      homes_[b] = home(t, plan_.buffers[b].tile);
      dealt_[b] = kept_of_[t] == nullptr ? dealt_of_[t] : dealt_axes(homes_[b]);
    }
    for (std::uint32_t t = 0; options_.owners && t < graph_.tensor_count(); ++t)
      if (plan_.tensors[t].used && plan_.tensors[t].storage != Storage::view &&
          kept_of_[t] == nullptr)
        own(t);
    for (std::size_t a = 0; a < mesh_.axes(); ++a) deal(a);
    place_partials();
    return std::move(homes_);
  }
  /// The home that rules give a tile of one of the graph's tensors, before tiles are dealt out.
  TileHome home(std::uint32_t t, Index tile) const {
    if (kept_of_[t] != nullptr) return (*kept_of_[t])[static_cast<std::size_t>(tile)];
    TileHome home{at_[t], 0};
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      if (int const d = cuts_of_[t][a]; d >= 0) {
        Tiling const& tiling = plan_.tensors[t].tiling;
        auto const axis = static_cast<std::size_t>(d);
        TileRuns const runs{tiling.axis(axis).count(), mesh_.axis(a).size};
        home.box.at[a] = static_cast<std::int16_t>(runs.of(tiling.position(tile)[axis]));
      }
      if (home.box.at[a] != RankBox::all) home.cut = static_cast<std::uint8_t>(home.cut | 1u << a);
    }
    return home;
  }
  /// Names of the dimensions of the graph's tensors.
  AxesOfTensors const& axes() const { return axes_; }
  /// Bits of the mesh's axes at whose coordinates rules put tensors, and coordinates over which a
  /// rule shares an axis out. Behind `place`.
  std::uint32_t stages() const {
    std::uint32_t axes = 0;
    for (std::size_t r = 0; r < used_.size(); ++r)
      if (ShardRule const& rule = options_.rules[r]; used_[r] && rule.at != ShardRule::anywhere)
        if (std::size_t const a = mesh_.find(rule.mesh); mesh_.axis(a).size > 1) axes |= 1u << a;
    return axes;
  }
  Index runs(std::string const& axis) const {
    for (std::size_t r = 0; r < used_.size(); ++r)
      if (ShardRule const& rule = options_.rules[r];
          used_[r] && !rule.mesh.empty() && are_one(axes_, rule.axis, axis))
        return mesh_.axis(mesh_.find(rule.mesh)).size;
    return 1;
  }
  /// The thin job for a rank, along the axis of the mesh or the one whose coordinates do alike,
  /// over which tensors are cut in runs of tiles. Behind `place`. Throws NotThin.
  ThinJob thin(int rank) const {
    bool const line = mesh_.is_line();
    std::size_t axis = line ? 0 : mesh_.alike_axis(lasting_cuts());
    if (mesh_.ranks() < 3 || axis == mesh_.axes() || options_.owners || (!line && stages() != 0))
      throw NotThin{"a mesh of few ranks or odd axes, stages, or owners by tile"};
    while (line && mesh_.axis(axis).size == 1) ++axis;
    ThinJob job{.axis = axis,
                .coordinates = mesh_.axis(axis).size,
                .own = mesh_.coordinate(rank, axis),
                .rank = rank,
                .line = line};
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) job.cut.push_back(cut_of(t, axis));
    return job;
  }
  /// By tensor and axis of the mesh: the dimension that rules cut; else negative. Behind `place`.
  std::vector<std::array<int, max_mesh_axes>> const& cuts() const { return cuts_of_; }

 private:
  /// Bits of the mesh's axes over which tensors that outlive runs are cut, or at whose coordinates.
  std::uint32_t lasting_cuts() const {
    std::uint32_t axes = 0;
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t)
      for (std::size_t a = 0; a < mesh_.axes() && plan_.tensors[t].attributes.persistent; ++a)
        if (cuts_of_[t][a] != ThinJob::uncut) axes |= 1u << a;
    return axes;
  }
  /// The dimension of a tensor that is cut over an axis of the mesh. Throws NotThin where its tiles
  /// are elsewhere, or shared out over another axis too.
  int cut_of(std::uint32_t t, std::size_t a) const {
    PlannedTensor const& tensor = plan_.tensors[t];
    if (!tensor.used) return ThinJob::uncut;
    if (tensor.storage == Storage::view) {
      int const cut = cut_of(tensor.base, a), picked = static_cast<int>(tensor.view_axis);
      if (cut >= 0 && cut == picked) throw NotThin{"a view along a cut dimension"};
      return cut > picked ? cut - 1 : cut;
    }
    int const cut = cuts_of_[t][a];
    if (cut < ThinJob::uncut) throw NotThin{"a stage, or tiles that exist elsewhere"};
    if (cut >= 0 && dealt_of_[t] != 0) throw NotThin{"tiles that are cut and dealt out"};
    return cut;
  }

  /// Notes homes that a tensor of the graph has already: the first ones that are given.
  void find_homes(KeptTiling const& kept) {
    std::uint32_t const t = graph_.id_of(kept.tensor);
    if (t == no_id || kept.homes.empty() || kept_of_[t] != nullptr) return;
    PlannedTensor const& tensor = plan_.tensors[t];
    if (!tensor.used || tensor.storage == Storage::view || tensor.storage == Storage::arena ||
        !kept.is_of(tensor.name, tensor.tiling))
      return;
    kept_of_[t] = &kept.homes;
    kept_.push_back(t);
  }
  void place(std::uint32_t t) {
    PlannedTensor const& tensor = plan_.tensors[t];
    if (kept_of_[t] != nullptr) {
      for (std::size_t r = 0; r < options_.rules.size(); ++r)  // rules that placed it before
        if (ShardRule const& rule = options_.rules[r];
            fits(rule, tensor) && (rule.axis.empty() || has_axis(axes_[t], rule.axis)))
          used_[r] = true;
      return keep(t, *kept_of_[t]);
    }
    std::uint32_t taken = put(t);  // bits of the mesh's axes
    for (std::size_t d = 0; d < tensor.tiling.rank(); ++d) {
      ShardRule const* const rule = axes_[t][d].empty() ? nullptr : rule_for(t, axes_[t][d], taken);
      if (rule == nullptr || rule->mesh.empty()) continue;
      std::size_t const a = mesh_.find(rule->mesh);
      taken |= 1u << a;
      cut(t, d, a, *rule);
    }
    ShardRule const* const rule = rule_for(t, {}, taken);
    if (rule != nullptr && !rule->mesh.empty() && tensor.storage != Storage::arena)
      dealt_of_[t] = static_cast<std::uint8_t>(1u << mesh_.find(rule->mesh));
  }
  /// Puts a tensor at the coordinates of stages; bits of the axes.
  std::uint32_t put(std::uint32_t t) {
    PlannedTensor const& tensor = plan_.tensors[t];
    std::uint32_t taken = 0;
    for (std::size_t r = 0; r < options_.rules.size(); ++r) {
      ShardRule const& rule = options_.rules[r];
      if (rule.at == ShardRule::anywhere || !fits(rule, tensor) || passes_over(rule, tensor))
        continue;
      std::size_t const a = mesh_.find(rule.mesh);
      if ((taken >> a & 1u) != 0) continue;
      used_[r] = true;
      taken |= 1u << a;
      cuts_of_[t][a] = ThinJob::irregular;
      at_[t].at[a] = static_cast<std::int16_t>(rule.at);
    }
    return taken;
  }
  /// Whether a stage's rule for many names leaves a transient to the tasks that make and read it:
  /// its activations, which are sent where the next stage needs them. Gradients, which are named
  /// after what is kept, go with that.
  bool passes_over(ShardRule const& rule, PlannedTensor const& tensor) const {
    if (rule.role != Role::any || rule.tensors.find('*') == std::string::npos) return false;
    if (role_of(tensor.attributes) != Role::transient) return false;
    std::string_view name = tensor.name;
    for (std::size_t dot = name.rfind('.'); dot != name.npos; dot = name.rfind('.')) {
      name = name.substr(0, dot);
      if (kept_names_.contains(name)) return false;
    }
    return true;
  }
  void cut_at(std::uint32_t b, std::size_t a, Index coordinate) {
    homes_[b].box.at[a] = static_cast<std::int16_t>(coordinate);
    homes_[b].cut = static_cast<std::uint8_t>(homes_[b].cut | 1u << a);
  }
  /// Gives a tensor's tiles to the ranks that the options' function says.
  void own(std::uint32_t t) {
    PlannedTensor const& tensor = plan_.tensors[t];
    for (Index tile = 0; tile < tensor.tiling.tile_count(); ++tile) {
      int const rank = options_.owners(tensor.name, tile);
      if (rank == TileOwners::by_rules) continue;
      if (rank < 0 || rank >= mesh_.ranks())
        fail("PlanOptions::owners gives tile ", tile, " of '", tensor.name, "' to rank ", rank,
             " of ", mesh_.ranks(), "; from 0 to ", mesh_.ranks() - 1, ", or TileOwners::by_rules");
      std::uint32_t const b = tensor.first_buffer + static_cast<std::uint32_t>(tile);
      homes_[b] = {}, dealt_[b] = 0;
      for (std::size_t a = 0; a < mesh_.axes(); ++a)
        homes_[b].box.at[a] = static_cast<std::int16_t>(mesh_.coordinate(rank, a));
      if (tensor.storage != Storage::arena) load_.add(rank, plan_.buffers[b].bytes);
    }
  }
  /// Takes over the homes that a tensor has already.
  void keep(std::uint32_t t, std::vector<TileHome> const& homes) {
    check(plan_.tensors[t], homes);
    for (TileHome const& home : homes)
      dealt_of_[t] = static_cast<std::uint8_t>(dealt_of_[t] | dealt_axes(home));
    for (std::size_t a = 0; a < mesh_.axes(); ++a) cuts_of_[t][a] = kept_cut(t, homes, a);
  }
  /// Bits of the mesh's axes over which a tile has been dealt out.
  std::uint8_t dealt_axes(TileHome const& home) const {
    std::uint32_t axes = 0;
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      if (home.box.at[a] != RankBox::all && (home.cut >> a & 1u) == 0) axes |= 1u << a;
    return static_cast<std::uint8_t>(axes);
  }
  /// The dimension along which homes are runs of tiles.
  int kept_cut(std::uint32_t t, std::vector<TileHome> const& homes, std::size_t a) const {
    Tiling const& tiling = plan_.tensors[t].tiling;
    auto const is_cut = [&](TileHome const& home) { return (home.cut >> a & 1u) != 0; };
    if (std::none_of(homes.begin(), homes.end(), is_cut)) return ThinJob::uncut;
    for (std::size_t d = 0; d < tiling.rank(); ++d) {
      TileRuns const runs{tiling.axis(d).count(), mesh_.axis(a).size};
      bool fits = runs.tiles >= runs.runs;
      for (std::size_t tile = 0; tile < homes.size() && fits; ++tile)
        fits = is_cut(homes[tile]) &&
               homes[tile].box.at[a] == runs.of(tiling.position(static_cast<Index>(tile))[d]);
      if (fits) return static_cast<int>(d);
    }
    return ThinJob::irregular;
  }
  static bool fits(ShardRule const& rule, PlannedTensor const& tensor) {
    return matches(rule.tensors, tensor.name) &&
           (rule.role == Role::any || rule.role == role_of(tensor.attributes));
  }
  /// The first rule for an axis of these names of a tensor, or, without any, for the tensor as a
  /// whole, that does not name an axis of the mesh which is taken.
  ShardRule const* rule_for(std::uint32_t t, ClassNames const& axis, std::uint32_t taken) {
    PlannedTensor const& tensor = plan_.tensors[t];
    bool const whole = axis.empty();
    for (std::size_t r = 0; r < options_.rules.size(); ++r) {
      ShardRule const& rule = options_.rules[r];
      if (rule.axis.empty() != whole || (!whole && !is_called(axis, rule.axis))) continue;
      if (rule.at != ShardRule::anywhere || !fits(rule, tensor)) continue;
      if (!rule.mesh.empty() && (taken >> mesh_.find(rule.mesh) & 1u) != 0) continue;
      used_[r] = true;
      return &rule;
    }
    return nullptr;
  }
  void cut(std::uint32_t t, std::size_t d, std::size_t a, ShardRule const& rule) {
    PlannedTensor const& tensor = plan_.tensors[t];
    Index const tiles = tensor.tiling.axis(d).count(), parts = mesh_.axis(a).size;
    if (!tensor.groups.empty() && tensor.groups[d] != PlannedTensor::no_groups)
      check_groups(rule, plan_.numerics.groups[tensor.groups[d]], parts);
    if (tiles < parts) fail_tiles(t, d, rule, tiles, parts);
    cuts_of_[t][a] = static_cast<int>(d);
  }
  /// Deals out the tiles over an axis of the mesh, to one coordinate those that some task writes
  /// together, and the same tiles of what it reads: a gradient that is kept goes where its
  /// parameter's states are.
  void deal(std::size_t a) {
    auto const is_dealt = [&](std::uint8_t axes) { return (axes >> a & 1u) != 0; };
    if (std::none_of(dealt_.begin(), dealt_.end(), is_dealt)) return;
    std::vector<std::uint32_t> group(plan_.buffers.size());
    std::iota(group.begin(), group.end(), 0u);
    auto const find = [&](std::uint32_t b) {
      while (group[b] != b) b = group[b] = group[group[b]];
      return b;
    };
    std::vector<bool> exists(plan_.buffers.size());
    for (std::uint32_t const t : kept_)
      for (std::uint32_t tile = 0; tile < kept_of_[t]->size(); ++tile)
        if (std::uint32_t const b = plan_.buffer_of(t, tile); b != no_id) exists[b] = true;
    for (PlannedTask const& task : plan_.tasks) {
      std::uint32_t first = no_id;
      for (Use<BufferId> const& use : plan_.uses_of(task)) {
        if (!writes(use.access) || !is_dealt(dealt_[use.handle])) continue;
        if (first == no_id) first = use.handle;
        group[find(use.handle)] = find(first);
      }
      for (Use<BufferId> const& use : plan_.uses_of(task))
        if (first != no_id && is_dealt(dealt_[use.handle]) && !exists[use.handle] &&
            alike(use.handle, first))
          group[find(use.handle)] = find(first);
    }
    std::vector<Index> bytes(plan_.buffers.size());
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (is_dealt(dealt_[b])) add_saturated(bytes[find(b)], plan_.buffers[b].bytes);
    for (std::uint32_t const t : kept_)
      for (std::uint32_t tile = 0; tile < kept_of_[t]->size(); ++tile) {
        std::uint32_t const b = plan_.buffer_of(t, tile);
        if (b == no_id || !is_dealt(dealt_[b])) continue;
        std::uint32_t const root = find(b);
        std::int16_t const own = (*kept_of_[t])[tile].box.at[a];
        std::int16_t& at = homes_[root].box.at[a];
        if (at != RankBox::all && at != own)
          fail("tile ", tile, " of '", plan_.tensors[t].name, "' exists at ", own,
               " of mesh axis '", mesh_.axis(a).name, "', and is written together with one at ",
               at);
        at = own;
        load_.add(homes_[b].box, a, at, std::exchange(bytes[root], 0));
      }
    load_.begin(a);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      if (!is_dealt(dealt_[b])) continue;
      std::uint32_t const root = find(b);
      if (homes_[root].box.at[a] == RankBox::all)  // the first of its group
        homes_[root].box.at[a] = load_.deal(homes_[b].box, a, std::exchange(bytes[root], 0));
      homes_[b].box.at[a] = homes_[root].box.at[a];
    }
  }

  /// Whether two tiles are the same part of tensors of one tiling.
  bool alike(std::uint32_t a, std::uint32_t b) const {
    PlannedBuffer const &one = plan_.buffers[a], &other = plan_.buffers[b];
    return one.tile == other.tile &&
           plan_.tensors[one.tensor].tiling == plan_.tensors[other.tensor].tiling;
  }

  /// Puts the sums of canonical groups where rules cut their results, on axes of the mesh over
  /// which none of the terms is cut: terms are smaller than sums for each group.
  void place_partials() {
    std::vector<std::uint8_t> spread(plan_.tensors.size());  // bits of axes that cut terms
    auto const base = [&](std::uint32_t b) { return plan_.tensors[plan_.buffers[b].tensor].base; };
    auto const is_partial = [&](std::uint32_t b) {
      return plan_.tensors[plan_.buffers[b].tensor].storage == Storage::arena && base(b) != no_id;
    };
    for (PlannedTask const& task : plan_.tasks) {
      std::uint8_t cut = 0;
      for (Use<BufferId> const& use : plan_.uses_of(task))
        if (!writes(use.access)) cut = static_cast<std::uint8_t>(cut | homes_[use.handle].cut);
      for (Use<BufferId> const& use : plan_.uses_of(task))
        if (writes(use.access) && is_partial(use.handle)) {
          std::uint8_t& its = spread[plan_.buffers[use.handle].tensor];
          its = static_cast<std::uint8_t>(its | cut);
        }
    }
    for (std::uint32_t b = 0; b < homes_.size(); ++b) {
      if (!is_partial(b)) continue;
      std::uint32_t const own = plan_.buffer_of(base(b), plan_.buffers[b].tile);
      if (own == no_id) continue;
      TileHome const& result = homes_[own];
      for (std::size_t a = 0; a < mesh_.axes(); ++a)
        if ((result.cut >> a & 1u) != 0 && (spread[plan_.buffers[b].tensor] >> a & 1u) == 0)
          cut_at(b, a, result.box.at[a]);
    }
  }
  template <class... Text> [[noreturn]] void fail(Text const&... text) const {
    throw PlanError(concat("plan '", plan_.name, "': ", text...));
  }
  template <class... Text>
  [[noreturn]] void fail_rule(ShardRule const& rule, Text const&... text) const {
    fail("rule (", to_string(rule), ")", text...);
  }
  void check(ShardRule const& rule) const {
    std::size_t const a = mesh_.find(rule.mesh);
    if (!rule.mesh.empty() && a == mesh_.axes()) fail_mesh(rule);
    if (rule.at == ShardRule::anywhere) return;
    if (rule.mesh.empty() || !rule.axis.empty())
      fail_rule(rule, ": a stage has an axis of the mesh, and none of its tensors: leave out ",
                rule.mesh.empty() ? ".at" : ".axis, or .at");
    int const ranks = mesh_.axis(a).size;
    if (rule.at >= 0 && rule.at < ranks) return;
    bool const few = static_cast<std::uint32_t>(rule.at) < graph_.tensor_count();  // one for each
    fail_rule(rule, ": the mesh has ", ranks, " ranks along that axis; use at from 0 to ",
              ranks - 1, few ? concat(", or {\"", rule.mesh, "\", ", rule.at + 1, "}") : "");
  }
  void check(PlannedTensor const& tensor, std::vector<TileHome> const& homes) const {
    if (static_cast<Index>(homes.size()) != tensor.tiling.tile_count())
      fail("PlanOptions::keep has ", homes.size(), " homes of '", tensor.name,
           "', whose tiles are ", tensor.tiling.tile_count(), "; one for each is needed");
    for (std::size_t tile = 0; tile < homes.size(); ++tile)
      for (std::size_t a = 0; a < mesh_.axes(); ++a)
        if (int const at = homes[tile].box.at[a];
            at != RankBox::all && (at < 0 || at >= mesh_.axis(a).size))
          fail("PlanOptions::keep has tile ", tile, " of '", tensor.name, "' at ", at,
               " of mesh axis '", mesh_.axis(a).name, "'; from 0 to ", mesh_.axis(a).size - 1,
               ", or RankBox::all");
  }
  /// With rules, each axis of the mesh is one over which something is shared out.
  void check_axes() const {
    if (options_.rules.empty() || options_.owners) return;
    for (KeptTiling const& kept : options_.keep)
      if (!kept.homes.empty()) return;
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      bool shared = mesh_.axis(a).size == 1;
      for (std::size_t r = 0; r < used_.size(); ++r)
        shared = shared || (used_[r] && options_.rules[r].mesh == mesh_.axis(a).name);
      if (!shared)
        fail("no rule shares anything out over mesh axis '", mesh_.axis(a).name, "', whose ",
             mesh_.axis(a).size, " ranks would all do the same: leave it out, or add a rule with ",
             "that mesh axis");
    }
  }
  void check_groups(ShardRule const& rule, AxisGroups const& groups, Index parts) const {
    if (groups.groups == 1 || groups.groups >= parts) return;
    fail_rule(rule, ": axis '", groups.axis, "' has ", groups.groups, " canonical groups for ",
              parts, " ranks of mesh axis '", rule.mesh, "': use at most ", groups.groups,
              " ranks, or Numerics{.groups = {{\"", groups.axis, "\", ", parts, "}}}");
  }
  [[noreturn]] void fail_mesh(ShardRule const& rule) const {
    std::string names;
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      names += concat(a == 0 ? "" : ", ", mesh_.axis(a).name);
    if (names.empty()) fail_rule(rule, ": there is no mesh; give one, with that axis, as .mesh");
    fail_rule(rule, ": the mesh has no axis of that name; it has ", names);
  }
  std::string axis_list() const {
    ClassNames names;
    for (auto const& tensor : axes_)
      for (ClassNames const& axis : tensor)
        for (std::string const& name : axis)
          if (!is_called(names, name)) names.push_back(name);
    std::string list;
    for (std::string const& name : names) list += concat(list.empty() ? "" : ", ", name);
    return list;
  }
  [[noreturn]] void fail_unused(ShardRule const& rule) const {
    if (!rule.axis.empty())
      fail_rule(rule, " fits no tensor that another rule has not placed; axes are ", axis_list());
    DynamicArray<std::string_view> names;
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t)
      if (plan_.tensors[t].used) names.push_back(plan_.tensors[t].name);
    auto const is_of = [&](std::string_view name) { return matches(rule.tensors, name); };
    bool const placed = std::any_of(names.begin(), names.end(), is_of);
    std::string_view const stem(rule.tensors.data(), rule.tensors.find_last_not_of('*') + 1);
    fail_rule(rule, " fits no tensor that another rule has not placed",
              placed ? "" : did_you_mean(stem, names));
  }
  [[noreturn]] void fail_tiles(std::uint32_t t, std::size_t d, ShardRule const& rule, Index tiles,
                               Index parts) {
    PlannedTensor const& tensor = plan_.tensors[t];
    Index const extent = tensor.tiling.axis(d).extent();
    if (extent < parts)
      fail_rule(rule, ": '", tensor.name, "' has ", extent, " indices along '", rule.axis, "' for ",
                parts, " ranks of mesh axis '", rule.mesh, "': use at most ",
                std::max<Index>(1, extent));
    if (std::string const why = cuts_.obstacle(plan_.nodes, t, d); !why.empty())
      fail_rule(rule, ": '", tensor.name, "' has ", tiles, " tiles along '", rule.axis, "' for ",
                parts, " ranks of mesh axis '", rule.mesh, "', since ", why);
    fail_rule(rule, ": '", tensor.name, "' has ", tiles, " tiles along '", rule.axis, "' for ",
              parts, " ranks of mesh axis '", rule.mesh, "': cut it, .cuts = {{\"", rule.axis,
              "\", {", extent / parts, "}}}");
  }

  PlanData const& plan_;
  LogicalGraph const& graph_;
  PlanOptions const& options_;
  MeshShape const& mesh_;
  TilePass& cuts_;
  AxesOfTensors const axes_;
  std::vector<std::array<int, max_mesh_axes>> cuts_of_;  // dimensions, by tensor
  std::vector<RankBox> at_;                              // coordinates of stages, by tensor
  std::vector<std::uint8_t> dealt_of_;                   // bits of the mesh's axes, by tensor
  std::vector<std::vector<TileHome> const*> kept_of_;    // homes that a tensor has already
  std::vector<std::uint32_t> kept_;                      // those tensors, in the order of keep
  std::vector<std::uint8_t> dealt_;                      // bits of the mesh's axes, by buffer
  std::vector<TileHome> homes_;
  RankLoads load_{mesh_};
  std::vector<bool> used_;
  std::unordered_set<std::string_view> kept_names_;
};

}  // namespace nntile::passes
