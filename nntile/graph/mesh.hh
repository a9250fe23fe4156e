#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Meshes of ranks, and rules that say which of them hold a tensor's tiles.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace nntile {

/// One axis of a mesh. Ranks are numbered from 0, and the first axis varies fastest.
struct MeshAxis {
  std::string name;
  int size = 1;
  bool operator==(MeshAxis const&) const = default;
};
inline constexpr std::size_t max_mesh_axes = 4;

/// A box of ranks: a coordinate on each axis of the mesh, or all.
struct RankBox {
  static constexpr std::int16_t all = -1;
  std::array<std::int16_t, max_mesh_axes> at{all, all, all, all};
  bool operator==(RankBox const&) const = default;
};

/// The ranks that hold a tile between runs. What a rule cuts over an axis of the mesh draws the
/// tasks that read it there; what is dealt out does not.
struct TileHome {
  RankBox box = {};
  std::uint8_t cut = 0;    // bits of the mesh's axes
  std::int32_t first = 0;  // the lowest of them
  bool operator==(TileHome const&) const = default;
};

/// What a tensor is in its graph.
enum class Role : std::uint8_t { any, parameter, state, input, output, transient };

constexpr char const* name_of(Role role) {
  constexpr char const* names[] = {"any", "parameter", "state", "input", "output", "transient"};
  return names[static_cast<int>(role)];
}

/// Shares the tensors that it names out over an axis of the mesh. With an `axis`, its tiles go in
/// contiguous runs, the longer ones first, and with them those of all tensors that ops identify
/// along it; without, whole tiles are dealt out, each to the coordinate that has the fewest bytes.
/// Without a `mesh` the axis, or the tensor, is held whole by all ranks. Of several rules that fit
/// a dimension, or a tensor, the first wins. What no rule fits is held by all ranks.
struct ShardRule {
  std::string tensors = "*";  // a name; with * at its end, all that begin so
  Role role = Role::any;
  std::string axis = {};
  std::string mesh = {};
  bool operator==(ShardRule const&) const = default;
};

/// Whether a name is one that a rule's `tensors` means.
constexpr bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

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
/// Heads, hidden units and words on different ranks.
inline std::vector<ShardRule> tensor_parallel(std::string const& mesh = "tensor") {
  return {{.axis = "head", .mesh = mesh},
          {.axis = "hidden", .mesh = mesh},
          {.axis = "vocab", .mesh = mesh}};
}
/// Positions on different ranks.
inline std::vector<ShardRule> sequence_parallel(std::string const& mesh = "seq") {
  return {{.axis = "seq", .mesh = mesh}};
}
/// Several sets of rules in one, for a mesh of several axes.
inline std::vector<ShardRule> product(std::initializer_list<std::vector<ShardRule>> sets) {
  std::vector<ShardRule> all;
  for (auto const& set : sets) all.insert(all.end(), set.begin(), set.end());
  return all;
}

}  // namespace nntile
