#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Where tasks of a job run: the ranks that homes of tiles fix, and for other tasks the rank at
// which their results are wanted.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/graph/passes/homes.hh"

namespace nntile::passes {

/// The ranks that run a task as far as the homes of its tiles fix them, and bits of the axes of the
/// mesh that they leave open.
struct TaskPlace {
  RankBox box;
  std::uint8_t open = 0;
};

/// Law: on each axis of the mesh a task runs where the tile that it writes is; else where the tiles
/// are that it reads of a tensor cut over that axis; else everywhere, if what it writes is stored
/// everywhere; else the axis is open. The sum of a canonical group is made where the tiles of
/// its terms are, wherever the result is, and a task that adds one to the result is open where the
/// result is not cut.
class FixedPlaces {
 public:
  FixedPlaces(PlanData const& plan, MeshShape const& mesh, std::vector<TileHome> const& homes)
      : plan_(plan), mesh_(mesh), homes_(homes), summed_(plan.tensors.size()) {
    for (PlannedTensor const& tensor : plan.tensors)
      if (is_partial(tensor)) summed_[tensor.base] = true;
  }

  /// Throws PlanError where a task writes stored tiles of several coordinates.
  TaskPlace of(PlannedTask const& task) const {
    auto const uses = plan_.uses_of(task);
    TaskPlace place;
    bool everywhere = false, adds = false, grouped = false;
    for (Use<BufferId> const& use : uses) {
      everywhere |= writes(use.access) && stored(use.handle);
      adds |= is_partial(tensor(use.handle)) && tensor(use.handle).base == task.tensor;
      grouped |= writes(use.access) && summed_[plan_.buffers[use.handle].tensor];
    }
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      std::int16_t& at = place.box.at[a];
      if (grouped && !adds) at = read_at(uses, a);
      if (at == all) at = written_at(task, uses, a, adds);
      if (at == all && !adds) at = read_at(uses, a);
      if (at == all && (adds || !everywhere))
        place.open = static_cast<std::uint8_t>(place.open | 1u << a);
    }
    return place;
  }
  /// Where a tile is between runs.
  RankBox const& home(std::uint32_t b) const { return homes_[b].box; }
  bool stored(std::uint32_t b) const {
    return plan_.tensors[plan_.buffers[b].tensor].storage != Storage::arena;
  }

 private:
  static constexpr std::int16_t all = RankBox::all;

  PlannedTensor const& tensor(std::uint32_t b) const {
    return plan_.tensors[plan_.buffers[b].tensor];
  }
  static bool is_partial(PlannedTensor const& tensor) {
    return tensor.storage == Storage::arena && tensor.base != no_id;
  }

  std::int16_t written_at(PlannedTask const& task, std::span<Use<BufferId> const> uses,
                          std::size_t a, bool cut) const {
    std::uint32_t first = no_id;
    for (Use<BufferId> const& use : uses) {
      std::int16_t const at = homes_[use.handle].box.at[a];
      if (!writes(use.access) || at == all) continue;
      if (cut && (homes_[use.handle].cut >> a & 1u) == 0) continue;
      if (first == no_id)
        first = use.handle;
      else if (homes_[first].box.at[a] != at && stored(first) && stored(use.handle))
        fail_owners(task, first, use.handle, a);
    }
    return first == no_id ? all : homes_[first].box.at[a];
  }
  /// The coordinate at which the tiles are that are read of tensors cut over an axis; all, if there
  /// are none, or at several.
  std::int16_t read_at(std::span<Use<BufferId> const> uses, std::size_t a) const {
    std::int16_t found = all;
    for (Use<BufferId> const& use : uses) {
      TileHome const& home = homes_[use.handle];
      if (!reads(use.access) || (home.cut >> a & 1u) == 0) continue;
      if (found != all && found != home.box.at[a]) return all;
      found = home.box.at[a];
    }
    return found;
  }
  [[noreturn]] void fail_owners(PlannedTask const& task, std::uint32_t first, std::uint32_t second,
                                std::size_t a) const {
    auto const at = [&](std::uint32_t b) {
      return concat("tile ", plan_.buffers[b].tile, " of '",
                    plan_.tensors[plan_.buffers[b].tensor].name, "' at ", homes_[b].box.at[a]);
    };
    throw PlanError(concat("plan '", plan_.name, "': ", plan_.kernels[task.kernel].name, " writes ",
                           at(first), " and ", at(second), " of mesh axis '", mesh_.axis(a).name,
                           "'; place both tensors by one rule"));
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> const& homes_;
  std::vector<bool> summed_;  // tensors of which canonical groups have sums
};

/// Where a value is wanted: coordinates that are known, and the root that the others are those of.
/// All values of one tree of sums have one root.
struct Target {
  static constexpr std::int16_t several = -2;
  RankBox box = {};
  std::uint32_t root = no_id;
};

/// Goes through the tasks backwards, from the readers of a value to the tasks that make it, and
/// finds a target for each task that homes leave open: where its largest result is read, if that is
/// one place, else where others of its tree run. So a sum over ranks comes together at the owner
/// who updates a state by it. Cost: linear in the tasks.
class TargetPass {
 public:
  TargetPass(PlanData const& plan, MeshShape const& mesh, FixedPlaces const& places)
      : plan_(plan), mesh_(mesh), places_(places), wanted_(plan.buffers.size()) {
    for (std::uint32_t b = 0; b < wanted_.size(); ++b)
      if (places.stored(b)) wanted_[b].box = places.home(b);
  }

  /// By task; without a meaning for tasks with a fixed place.
  std::vector<Target> run() {
    std::vector<Target> targets(plan_.tasks.size());
    for (std::size_t t = plan_.tasks.size(); t-- > 0;) {
      PlannedTask const& task = plan_.tasks[t];
      auto const uses = plan_.uses_of(task);
      TaskPlace const place = places_.of(task);
      Target& target = targets[t];
      target.box = place.box;
      if (place.open != 0) choose(uses, place.open, target);
      for (Use<BufferId> const& use : uses) {
        bool const stored = places_.stored(use.handle);
        if (writes(use.access))
          wanted_[use.handle] = {stored ? places_.home(use.handle) : RankBox{}};
        if (stored ? use.access == Access::update : reads(use.access))
          want(wanted_[use.handle], target, place.open);
      }
    }
    return targets;
  }
  /// The number of roots.
  std::uint32_t roots() const { return roots_; }

 private:
  /// Takes coordinates on open axes from the largest tiles of a task, the results first.
  void choose(std::span<Use<BufferId> const> uses, std::uint8_t open, Target& target) {
    Index most = 0;
    for (Use<BufferId> const& use : uses) most = std::max(most, plan_.buffers[use.handle].bytes);
    bool known = true;
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      if ((open >> a & 1u) == 0) continue;
      for (std::size_t u = uses.size(); u-- > 0 && target.box.at[a] < 0;)
        if (plan_.buffers[uses[u].handle].bytes == most)
          target.box.at[a] = std::max(RankBox::all, wanted_[uses[u].handle].box.at[a]);
      known = known && target.box.at[a] >= 0;
    }
    if (known) return;
    for (std::size_t u = uses.size(); u-- > 0 && target.root == no_id;)
      if (plan_.buffers[uses[u].handle].bytes == most) target.root = wanted_[uses[u].handle].root;
    if (target.root == no_id) target.root = roots_++;
  }
  void want(Target& value, Target const& reader, std::uint8_t open) const {
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      std::int16_t const at = reader.box.at[a];
      std::int16_t& wanted = value.box.at[a];
      if (at == RankBox::all || at == wanted) continue;
      if (wanted == RankBox::all)
        wanted = at;
      else if ((open >> a & 1u) == 0)
        wanted = Target::several;
    }
    if (value.root == no_id && open != 0) value.root = reader.root;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  FixedPlaces const& places_;
  std::vector<Target> wanted_;  // of the value that a buffer has, by its readers so far
  std::uint32_t roots_ = 0;
};

}  // namespace nntile::passes
