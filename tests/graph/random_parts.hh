// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A random graph with a random mesh, rules and tiling, all from one seed.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/parts.hh"
#include "tests/graph/random_graph.hh"

namespace nntile::test {

/// What can be planned on one rank and on the mesh, or the reason why not.
class RandomParts {
 public:
  /// `wide`: on a mesh of two axes with more than eight ranks.
  explicit RandomParts(std::uint64_t seed, bool wide = false)
      : random_(static_cast<std::uint32_t>(seed)),
        wide_(wide),
        extents_{.shorter = 2,
                 .longer = wide ? 6 + 2 * below(2) : 3 + 2 * below(2),
                 .named = below(4) != 0 || wide},
        drawn_(seed, extents_, any_groups()) {
    drawn_.loss.mark_output();
    options_.tile = 1 + below(3);
    options_.check = true;
    if (extents_.named) options_.micro_batches = "longer";
    if (seed % 4 == 0) options_.schedule = PipelineSchedule::layer_by_layer;
    if (!can_plan()) return;
    bool const is_line = !wide_ && below(3) == 0;
    int const longest = static_cast<int>(extents_.longer);
    if (wide_) {
      options_.mesh = {{"a", 2}, {"b", longest}};
      if (below(2) == 0 && longest == 8) std::swap(options_.mesh[0], options_.mesh[1]);
      for (Role const role : {Role::parameter, Role::state})
        options_.rules.push_back({.role = role, .axis = "longer", .optional = true});
      try_cut("b");
      try_cut("a");
    } else {
      options_.mesh = {{"a", is_line ? longest : 2 + below(2)}, {"b", is_line ? 1 : 1 + below(2)}};
    }
    char const* const axes[] = {"a", "b", "a", "b", ""};
    for (int cuts = extents_.named && !wide_ ? below(3) : 0; cuts > 0; --cuts)
      try_cut(axes[below(5)]);
    for (Role const role : {Role::parameter, Role::state, Role::output})
      options_.rules.push_back({.role = role, .mesh = axes[below(5)]});
    for (int w = 0; w < 3; ++w)
      if (MeshAxis const& axis = options_.mesh[below(2) == 0 ? 0 : 1]; below(4) == 0 && !is_line)
        options_.rules.push_back({.tensors = concat("w", w, "*"),
                                  .mesh = axis.name,
                                  .at = below(axis.size),
                                  .optional = true});
    if (below(4) == 0 && !is_line && !wide_)
      options_.owners = [ranks = ranks(), seed](std::string_view tensor, Index tile) {
        std::uint64_t mixed = seed + static_cast<std::uint64_t>(tile);
        for (char const c : tensor) mixed = mixed * 31 + static_cast<unsigned char>(c);
        return static_cast<int>(mixed / 7 % 3) == 0 ? static_cast<int>(mixed % 97) % ranks
                                                    : TileOwners::by_rules;
      };
    for (MeshAxis& axis : options_.mesh)
      if (!options_.owners && !shares_out(axis.name)) {
        axis.size = 1;
        std::erase_if(options_.rules, [&](ShardRule const& rule) {
          return rule.mesh == axis.name && rule.at != ShardRule::anywhere;
        });
      }
    if (below(3) == 0) options_.keep_received = static_cast<std::uint32_t>(below(6));
    refusal_ = refusal_of(options_);
  }

  LogicalGraph const& graph() const { return drawn_.graph; }
  RandomGraph const& drawn() const { return drawn_; }
  PlanOptions const& options() const { return options_; }
  /// Options of the same tiling on one rank.
  PlanOptions alone() const {
    PlanOptions options = options_;
    options.mesh.clear();
    options.rules.clear();
    options.owners = {};
    Plan const part(drawn_.graph, options_, 0);  // rules cut axes, too
    for (PlannedTensor const& tensor : part.tensors().subspan(0, drawn_.graph.tensor_count()))
      if (tensor.used && tensor.storage != Storage::view)
        options.keep.push_back({tensor.name, tensor.tiling, Storage::stored, tensor.column_unit});
    return options;
  }
  int ranks() const { return options_.mesh[0].size * options_.mesh[1].size; }
  /// Whether a rule shares a named axis out.
  bool cuts_axes() const {
    return std::any_of(options_.rules.begin(), options_.rules.end(), [](ShardRule const& rule) {
      return !rule.axis.empty() && !rule.mesh.empty();
    });
  }
  /// "" where it can be planned.
  std::string const& refusal() const { return refusal_; }
  /// What was said of rules that were left out then.
  std::vector<std::string> const& refused_cuts() const { return refused_cuts_; }
  /// Whether not even one rank can: attention takes no sliced heads.
  bool is_useless() const { return options_.mesh.empty(); }
  /// Further choices, from the same seed.
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

 private:
  bool shares_out(std::string const& mesh) const {
    for (ShardRule const& rule : options_.rules)
      if (rule.mesh == mesh && rule.role != Role::state && !rule.optional) return true;
    return false;
  }
  Numerics any_groups() {
    Numerics numerics;
    if (!extents_.named) return numerics;
    if (below(3) == 0) numerics.groups.push_back({"shorter", 2});
    if (below(2) == 0) {
      int const longest = static_cast<int>(extents_.longer);
      numerics.groups.push_back({"longer", longest - below(2)});
    }
    return numerics;
  }
  bool can_plan() {
    refusal_ = refusal_of(options_);
    return refusal_.empty();
  }
  /// "" of options by which the graph can be planned.
  std::string refusal_of(PlanOptions const& options) const {
    try {
      (void)Plan(drawn_.graph, options, 0);
      return {};
    } catch (PlanError const& error) {
      return error.what();
    }
  }
  bool cuts_shorter(std::string_view mesh) {
    return wide_ ? mesh == "a" : options_.mesh[0].size <= 3 && below(2) == 0;
  }
  /// Adds a rule that cuts an axis, of all tensors or of some, unless that cannot be planned.
  void try_cut(char const* mesh) {
    PlanOptions with = options_;
    char const* const tensors[] = {"*", "*", "*", "w*", "t*", "c*"};
    ShardRule const rule{.tensors = tensors[below(6)],
                         .axis = cuts_shorter(mesh) ? "shorter" : "longer",
                         .mesh = mesh,
                         .optional = true};
    with.rules.push_back(rule);
    for (MeshAxis& axis : with.mesh)
      if (axis.name != rule.mesh) axis.size = 1;
    if (std::string const text = refusal_of(with); !text.empty())
      refused_cuts_.push_back(text);
    else
      options_.rules.push_back(rule);
  }

  std::minstd_rand random_;
  bool const wide_;
  RandomExtents const extents_;
  RandomGraph drawn_;
  PlanOptions options_;
  std::string refusal_;
  std::vector<std::string> refused_cuts_;
};

}  // namespace nntile::test
