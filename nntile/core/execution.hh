#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// ExecutionPolicy: the hints of tile tasks, as data.

#include <climits>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/hints.hh"
#include "nntile/core/shape.hh"

namespace nntile {

/// Hints of a runtime, under the name that policies use.
using ExecutionHints = Hints;

/// The rule by which a task's worker is chosen.
enum class Placement : std::uint8_t {
  automatic,       // the runtime
  owner_computes,  // the owner of the tile that it writes, its first result's
  affinity,        // the owner of the largest tile that it touches, the first among equals
  rules,           // the rules alone: what none names, the runtime decides
};

constexpr char const* name_of(Placement placement) {
  switch (placement) {
    case Placement::automatic:
      return "automatic";
    case Placement::owner_computes:
      return "owner_computes";
    case Placement::affinity:
      return "affinity";
    case Placement::rules:
      return "rules";
  }
  return "?";
}

/// Hints of the tasks that it names.
struct ExecutionRule {
  std::string tensor = {};  // the name of the first result begins so
  std::string op = {};      // "": any
  std::string phase = {};   // of the graph, "": any; eager calls have none
  Index tile = -1;          // of the first result, -1: any
  ExecutionHints hints = {};

  bool operator==(ExecutionRule const&) const = default;
};

/// Hints of every tile task of a plan or an eager call: those of the placement, then those of the
/// first rule that names the task. Tile t of any tensor is owned by worker workers[t mod n] and,
/// where `nodes` are named, kept at the memory nodes[t mod m]; without `workers` all of the
/// runtime's CPU workers take turns.
struct ExecutionPolicy {
  Placement placement = Placement::automatic;
  std::vector<int> workers = {};
  std::vector<int> nodes = {};
  int priority = 0;      // of every task; that of a rule is added
  bool prefetch = true;  // unless a rule says no
  bool offload = false;  // or a rule says so
  std::vector<ExecutionRule> rules = {};

  bool operator==(ExecutionPolicy const&) const = default;
};

/// Whether its tasks run where a tile is owned.
inline bool by_owner(ExecutionPolicy const& policy) {
  return policy.placement == Placement::owner_computes || policy.placement == Placement::affinity;
}

/// A tile task, as a policy sees it.
struct PlacedTask {
  std::string_view op;
  std::string_view phase;
  std::string_view tensor;  // its first result
  Index tile = 0;
  Index largest = 0;  // number of the largest tile that it touches
};

/// Hints over others: worker and node where they are named, the sum of the priorities, or the int
/// that is closest to it.
constexpr Hints over(Hints base, Hints const& hints) {
  if (hints.worker != -1) base.worker = hints.worker;
  if (hints.node != -1) base.node = hints.node;
  std::int64_t const sum = std::int64_t{base.priority} + hints.priority;
  base.priority = sum < INT_MIN ? INT_MIN : sum > INT_MAX ? INT_MAX : static_cast<int>(sum);
  base.prefetch &= hints.prefetch;
  base.offload |= hints.offload;
  if (hints.device >= 0) base.device = hints.device;
  return base;
}

inline bool names(ExecutionRule const& rule, PlacedTask const& task) {
  return task.tensor.starts_with(rule.tensor) && (rule.op.empty() || rule.op == task.op) &&
         (rule.phase.empty() || rule.phase == task.phase) &&
         (rule.tile == -1 || rule.tile == task.tile);
}

/// Hints of a task under a policy, on a runtime of `workers` CPU workers.
inline Hints hints_of(ExecutionPolicy const& policy, PlacedTask const& task, int workers) {
  Hints hints{.priority = policy.priority, .prefetch = policy.prefetch, .offload = policy.offload};
  if (by_owner(policy)) {
    auto const tile = static_cast<std::size_t>(
        policy.placement == Placement::affinity ? task.largest : task.tile);
    if (!policy.workers.empty())
      hints.worker = policy.workers[tile % policy.workers.size()];
    else if (workers > 0)  // all may be of devices
      hints.worker = static_cast<int>(tile % static_cast<std::size_t>(workers));
    if (!policy.nodes.empty()) hints.node = policy.nodes[tile % policy.nodes.size()];
  }
  for (ExecutionRule const& rule : policy.rules)
    if (names(rule, task)) return over(hints, rule.hints);
  return hints;
}

/// Names a statement of a policy that contradicts another or has no effect; empty if there is none.
inline std::string contradiction(ExecutionPolicy const& policy) {
  if (policy.placement > Placement::rules)
    return concat("the execution policy has placement ", static_cast<int>(policy.placement),
                  "; those from automatic (0) to rules (3) are possible");
  if (!by_owner(policy) && (!policy.workers.empty() || !policy.nodes.empty()))
    return concat(
        "the execution policy names workers or nodes, which own tiles under "
        "owner_computes and affinity; its placement is ",
        name_of(policy.placement));
  if (policy.placement == Placement::rules && policy.rules.empty())
    return "the execution policy places tasks by rules, and has none";
  for (ExecutionRule const& rule : policy.rules)
    if (rule.hints.device < -1)
      return concat("a rule of the execution policy has device ", rule.hints.device,
                    "; they count from 0, and -1 is any");
  return {};
}

}  // namespace nntile
