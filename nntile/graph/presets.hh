#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sets of rules that have a name: what each rank of a mesh holds.

#include <initializer_list>
#include <string>
#include <vector>

#include "nntile/graph/options.hh"

namespace nntile {

/// Batches on different ranks, all else on each of them: data parallel.
inline std::vector<ShardRule> ddp(std::string const& mesh = "data") {
  return {{.axis = "batch", .mesh = mesh}};
}
/// The same, and each state of the optimizer on one rank.
inline std::vector<ShardRule> zero1(std::string const& mesh = "data") {
  return {{.axis = "batch", .mesh = mesh}, {.role = Role::state, .mesh = mesh}};
}
/// The same, and each parameter too.
inline std::vector<ShardRule> fsdp(std::string const& mesh = "data") {
  return {{.axis = "batch", .mesh = mesh},
          {.role = Role::state, .mesh = mesh},
          {.role = Role::parameter, .mesh = mesh}};
}
/// Heads, hidden units and words on different ranks: those of them that a graph has.
inline std::vector<ShardRule> tensor_parallel(std::string const& mesh = "tensor") {
  return {{.axis = "head", .mesh = mesh, .optional = true},
          {.axis = "hidden", .mesh = mesh, .optional = true},
          {.axis = "vocab", .mesh = mesh, .optional = true}};
}
/// Positions on different ranks.
inline std::vector<ShardRule> sequence_parallel(std::string const& mesh = "seq") {
  return {{.axis = "seq", .mesh = mesh}};
}
/// The tensors of each stage, by name, on different ranks: pipeline({{"wte*", "wpe*", "h.0.*"},
/// {"h.1.*", "ln_f*"}}). Gradients and states of the optimizer, which are named after parameters,
/// go with these.
inline std::vector<ShardRule> pipeline(std::vector<std::vector<std::string>> const& stages,
                                       std::string const& mesh = "pipe") {
  std::vector<ShardRule> rules;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (std::string const& tensors : stages[s]) {
      int const at = static_cast<int>(s);
      rules.push_back({.tensors = tensors, .mesh = mesh, .at = at});
      rules.push_back({.tensors = "*/" + tensors, .mesh = mesh, .at = at, .optional = true});
    }
  return rules;
}
/// Several sets of rules in one, for a mesh of several axes.
inline std::vector<ShardRule> product(std::initializer_list<std::vector<ShardRule>> sets) {
  std::vector<ShardRule> all;
  for (auto const& set : sets)
    for (ShardRule const& rule : set) all.push_back(rule);
  return all;
}

/// The same under other names: each adds to options an axis of a mesh, of so many ranks, and its
/// rules, so that several make a product, nearest ranks first.
struct DistributionPreset {
  static void apply_ddp(PlanOptions& options, int ranks) { apply(options, "data", ranks, ddp()); }
  static void apply_zero1(PlanOptions& options, int ranks) {
    apply(options, "data", ranks, zero1());
  }
  static void apply_fsdp(PlanOptions& options, int ranks) { apply(options, "data", ranks, fsdp()); }
  static void apply_tensor_parallel(PlanOptions& options, int ranks) {
    apply(options, "tensor", ranks, tensor_parallel());
  }
  static void apply_sequence_parallel(PlanOptions& options, int ranks) {
    apply(options, "seq", ranks, sequence_parallel());
  }
  /// A rank for each stage.
  static void apply_pipeline(PlanOptions& options,
                             std::vector<std::vector<std::string>> const& stages) {
    apply(options, "pipe", static_cast<int>(stages.size()), pipeline(stages));
  }

 private:
  static void apply(PlanOptions& options, char const* mesh, int ranks,
                    std::vector<ShardRule> const& rules) {
    options.mesh.push_back({mesh, ranks});
    for (ShardRule const& rule : rules) options.rules.push_back(rule);
  }
};

}  // namespace nntile
