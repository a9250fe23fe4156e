#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Meshes of ranks, and rules that say which of them hold a tensor's tiles.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/shape.hh"
#include "nntile/graph/tensor_spec.hh"

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

/// The ranks that hold a tile between runs. What a rule cuts over an axis of the mesh, or puts at
/// one coordinate of it, draws the tasks that read it there; what is dealt out does not.
struct TileHome {
  RankBox box = {};
  std::uint8_t cut = 0;    // bits of the mesh's axes
  std::int32_t first = 0;  // the lowest of them
  bool operator==(TileHome const&) const = default;
};

/// The role of a tensor in its graph.
enum class Role : std::uint8_t { any, parameter, state, input, output, transient };

constexpr char const* name_of(Role role) {
  constexpr char const* names[] = {"any", "parameter", "state", "input", "output", "transient"};
  return names[static_cast<int>(role)];
}

constexpr Role role_of(TensorAttributes const& attributes) {
  if (attributes.persistent) return attributes.requires_grad ? Role::parameter : Role::state;
  if (attributes.external) return Role::input;
  return attributes.output ? Role::output : Role::transient;
}

/// Shares the tensors that it names out over an axis of the mesh. With an `axis`, by any name that
/// a dimension which ops make one with it has, its tiles go in contiguous runs, the longer ones
/// first, and with them those of all tensors that ops identify along it; without, whole tiles are
/// dealt out, each to the coordinate that has the fewest bytes. Without a `mesh` the axis, or the
/// tensor, is held whole by all ranks. With `at`, and without an axis, the tensors are at one
/// coordinate, as the layers of a pipeline's stage are; transients only if the rule has their role
/// or full name, or they are named after a parameter or state, as its gradient is. Of several rules
/// that fit a dimension, or a tensor, the first wins; stages stand beside the other rules. A tensor
/// that no rule fits is held by all ranks. A rule that fits nothing is an error, unless it is
/// `optional`.
struct ShardRule {
  static constexpr int anywhere = -1;
  std::string tensors = "*";  // a name; each * in it stands for any text
  Role role = Role::any;
  std::string axis = {};
  std::string mesh = {};
  int at = anywhere;
  bool optional = false;
  bool operator==(ShardRule const&) const = default;
};

/// "tensors '*', role any, axis 'batch', mesh 'data'".
inline std::string to_string(ShardRule const& rule) {
  return concat("tensors '", rule.tensors, "', role ", name_of(rule.role), ", axis '", rule.axis,
                "', mesh '", rule.mesh, "'",
                rule.at == ShardRule::anywhere ? std::string() : concat(", at ", rule.at));
}

/// The owner of each tile, where no rule gives it: a function of a tensor's name and a tile that
/// gives a rank, or by_rules. All ranks have the same.
class TileOwners {
 public:
  static constexpr int by_rules = -1;

  TileOwners() = default;
  template <class Function>
  requires requires(Function const& f) { int{f(std::string_view(), Index{})}; }
  TileOwners(Function function)
      : function_(std::make_shared<Function>(std::move(function))),
        call_([](void const* f, std::string_view tensor, Index tile) -> int {
          return (*static_cast<Function const*>(f))(tensor, tile);
        }) {}

  explicit operator bool() const { return call_ != nullptr; }
  int operator()(std::string_view tensor, Index tile) const {
    return call_(function_.get(), tensor, tile);
  }

 private:
  std::shared_ptr<void const> function_;
  int (*call_)(void const*, std::string_view, Index) = nullptr;
};

/// Whether a name is one that a rule's `tensors` means.
constexpr bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, behind = 0;  // behind the last star, in the name
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*')
      star = p++, behind = n;
    else if (p < pattern.size() && pattern[p] == name[n])
      ++p, ++n;
    else if (star != pattern.npos)
      p = star + 1, n = ++behind;
    else
      return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace nntile
