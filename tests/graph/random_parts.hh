// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A random graph with a random mesh, rules and tiling, all from one seed.

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "nntile/graph/parts.hh"
#include "tests/graph/random_graph.hh"

namespace nntile::test {

/// What can be planned on one rank and on the mesh, or the reason why not.
class RandomParts {
 public:
  explicit RandomParts(std::uint64_t seed)
      : random_(static_cast<std::uint32_t>(seed)), drawn_(seed) {
    drawn_.loss.mark_output();
    options_.tile = 1 + below(3);
    options_.check = true;
    if (!try_plan(options_)) return;
    options_.mesh = {{"a", 2 + below(2)}, {"b", 1 + below(2)}};
    char const* const axes[] = {"a", "b", "a", "b", ""};
    for (Role const role : {Role::parameter, Role::state, Role::output})
      options_.rules.push_back({.role = role, .mesh = axes[below(5)]});
    for (int w = 0; w < 3; ++w)
      if (MeshAxis const& axis = options_.mesh[below(2) == 0 ? 0 : 1]; below(4) == 0)
        options_.rules.push_back({.tensors = concat("w", w, "*"),
                                  .mesh = axis.name,
                                  .at = below(axis.size),
                                  .optional = true});
    if (below(4) == 0)
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
    try {
      (void)Plan(drawn_.graph, options_, 0);
    } catch (PlanError const& error) {
      refusal_ = error.what();
    }
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
    return options;
  }
  int ranks() const { return options_.mesh[0].size * options_.mesh[1].size; }
  /// "" where it can be planned.
  std::string const& refusal() const { return refusal_; }
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
  bool try_plan(PlanOptions const& options) {
    try {
      (void)Plan(drawn_.graph, options);
      return true;
    } catch (PlanError const& error) {
      refusal_ = error.what();
      return false;
    }
  }

  std::minstd_rand random_;
  RandomGraph drawn_;
  PlanOptions options_;
  std::string refusal_;
};

}  // namespace nntile::test
