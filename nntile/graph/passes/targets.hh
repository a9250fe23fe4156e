#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ranks at which tasks of a job run: those that homes of tiles fix, and for other tasks the rank at
// which their results are wanted.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
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
      : plan_(plan),
        mesh_(mesh),
        homes_(homes),
        alike_(mesh.alike_axis(lasting_cuts())),
        summed_(plan.tensors.size()) {
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
    if (grouped && everywhere) everywhere = !is_first_sum(uses);
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
  /// The ranks that hold a tile between runs.
  RankBox const& home(std::uint32_t b) const { return homes_[b].box; }
  bool stored(std::uint32_t b) const {
    return plan_.tensors[plan_.buffers[b].tensor].storage != Storage::arena;
  }
  /// Calls visit(b) for each buffer that is stored, in ascending order: of a thin job also those of
  /// tiles which it leaves out, and some task reads.
  template <class Visit> void each_stored(Visit visit) const {
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (stored(b)) visit(b);
  }
  /// The axis of the mesh whose coordinates do alike; that behind the last where there is none.
  std::size_t alike_axis() const { return alike_; }
  /// Whether rules cut a tile over the axis of the mesh whose coordinates do alike.
  bool at_coordinate(std::uint32_t b) const {
    return alike_ < mesh_.axes() && (homes_[b].cut >> alike_ & 1u) != 0;
  }
  /// Whether such tiles fix the coordinate of a task, which leaves some axes open.
  bool alike(std::span<Use<BufferId> const> uses, std::uint8_t open) const {
    if (alike_ == mesh_.axes() || (open >> alike_ & 1u) != 0) return false;
    return std::any_of(uses.begin(), uses.end(),
                       [&](Use<BufferId> const& use) { return at_coordinate(use.handle); });
  }
  /// Whether a tile is a sum of canonical groups.
  bool is_partial(std::uint32_t b) const { return is_partial(tensor(b)); }

 private:
  static constexpr std::int16_t all = RankBox::all;

  std::uint32_t lasting_cuts() const {
    std::uint32_t axes = 0;
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (tensor(b).attributes.persistent) axes |= homes_[b].cut;
    return axes;
  }
  PlannedTensor const& tensor(std::uint32_t b) const {
    return plan_.tensors[plan_.buffers[b].tensor];
  }
  static bool is_partial(PlannedTensor const& tensor) {
    return tensor.storage == Storage::arena && tensor.base != no_id;
  }

  /// Whether a task of one coordinate makes a sum of canonical groups in the place of the result,
  /// which is that of all: it does so where others make theirs, as coordinates do alike.
  bool is_first_sum(std::span<Use<BufferId> const> uses) const {
    if (alike_ == mesh_.axes()) return false;
    bool at_one = false, first = false;
    for (Use<BufferId> const& use : uses) {
      if (is_partial(use.handle)) return false;
      at_one |= at_coordinate(use.handle);
      first |= writes(use.access) && summed_[plan_.buffers[use.handle].tensor] &&
               !at_coordinate(use.handle);
    }
    return at_one && first;
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
  std::size_t const alike_;   // axis of the mesh whose coordinates do alike
  std::vector<bool> summed_;  // tensors of which canonical groups have sums
};

/// The ranks at which a value is wanted: coordinates that are known, and the root that the others
/// are those of. All values of one tree of sums have one root.
struct Target {
  static constexpr std::int16_t several = -2;
  RankBox box = {};
  std::uint32_t root = no_id;
  std::uint8_t spread = 0;  // bits of axes of which several coordinates read it in the end
  std::uint8_t open = 0;    // of a task's: as in its place

  /// Of a task's target, where the task runs as far as homes fix it.
  TaskPlace place() const {
    TaskPlace place{box, open};
    for (std::size_t a = 0; a < max_mesh_axes; ++a)
      if ((open >> a & 1u) != 0) place.box.at[a] = RankBox::all;
    return place;
  }
};

/// Goes through the tasks backwards, from the readers of a value to the tasks that make it, and
/// finds a target for each task that homes leave open: where its largest result is read, if that is
/// one place, else where others of its tree run. So a sum over ranks comes together at the owner
/// who updates a state by it. Roots are dealt out, the heaviest first, each to the rank with the
/// fewest bytes of them among those that make the terms of its tree. Cost: linear in the tasks, and
/// in the roots times the ranks of their trees.
class TargetPass {
 public:
  TargetPass(PlanData const& plan, MeshShape const& mesh, FixedPlaces const& places,
             ThinJob const* thin = nullptr)
      : plan_(plan), mesh_(mesh), places_(places), thin_(thin), wanted_(plan.buffers.size()) {
    places.each_stored([&](std::uint32_t b) { wanted_[b].box = places.home(b); });
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
      target.open = place.open;
      if (thin_ != nullptr && task.priority > 0) note_block(uses);
      if (place.open != 0) choose(uses, place.open, target);
      if (thin_ != nullptr && task.priority < 0) {
        pass_on(task, uses, target);
        continue;
      }
      Index const largest = spread(uses, place.open, target);
      bool const alike = place.open != 0 && places_.alike(uses, place.open);
      for (Use<BufferId> const& use : uses) {
        bool const stored = places_.stored(use.handle);
        if (writes(use.access)) {
          if (wanted_[use.handle].root != no_id) join(trees_[wanted_[use.handle].root], place);
          wanted_[use.handle] = {stored ? places_.home(use.handle) : RankBox{}};
        }
        if (stored ? reads(use.access) && writes(use.access) : reads(use.access)) {
          Target& wanted = wanted_[use.handle];
          bool const rooted = wanted.root != no_id;
          // A value that all coordinates read alike is not wanted where one of them has its sums.
          bool const for_all = alike && !writes(use.access) && !places_.is_partial(use.handle) &&
                               !places_.at_coordinate(use.handle);
          want(wanted, target, place.open,
               plan_.buffers[use.handle].bytes <= largest && !places_.is_partial(use.handle),
               !for_all);
          if (task.location.rank > 0 && !rooted && wanted.root != no_id && !is_cut(use.handle))
            trees_[wanted.root].passed_on = true;
          if (thin_ != nullptr && thin_->rows.all_read(task.node, plan_.buffers[use.handle].tensor))
            want_in_rows(wanted, place.open);
        }
      }
    }
    weigh(targets);
    return targets;
  }
  /// Of a thin job, where the results of tasks that stand for blocks are wanted, in reverse order.
  std::vector<Target> take_blocks() { return std::move(blocks_); }
  /// Ranks of the roots. Behind `run`. Throws NotThin.
  std::vector<int> roots() const {
    struct Least {
      Index bytes;
      int rank;
      bool operator<(Least const& other) const {  // of a heap, whose first is the least
        return bytes != other.bytes ? bytes > other.bytes : rank > other.rank;
      }
    };
    struct Load {
      RankBox box;
      std::vector<Least> ranks;  // a heap
    };
    std::vector<Load> loads;
    std::vector<std::uint32_t> order(trees_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return trees_[a].bytes != trees_[b].bytes ? trees_[a].bytes > trees_[b].bytes : a < b;
    });
    std::vector<int> roots(trees_.size());
    for (std::uint32_t const root : order) {
      RankBox const box = ranks_of(trees_[root]);
      if (trees_[root].cut && (trees_[root].whole || box.at[thin_->axis] == RankBox::all))
        throw NotThin{"a tree of cut tiles over all coordinates"};
      if (trees_[root].passed_on && (trees_[root].cut || thin_->line))
        throw NotThin{"a root that a task of cut tiles passes on"};
      auto load = std::find_if(loads.begin(), loads.end(),
                               [&](Load const& each) { return each.box == box; });
      if (load == loads.end()) {
        load = loads.insert(load, {box, {}});
        mesh_.each(box, [&](int rank) { load->ranks.push_back({0, rank}); });  // already a heap
      }
      std::pop_heap(load->ranks.begin(), load->ranks.end());
      Least& least = load->ranks.back();
      add_saturated(least.bytes, trees_[root].bytes);
      roots[root] = least.rank;
      std::push_heap(load->ranks.begin(), load->ranks.end());
    }
    return roots;
  }

 private:
  /// Tasks that share a root: the ranks that make its terms, and bytes of its results.
  struct Tree {
    static constexpr std::int16_t none = -2;
    RankBox box{{none, none, none, none}};
    Index bytes = 0;
    bool cut = false, whole = false;  // of a thin job: whether results that are cut count, others,
    bool passed_on = false;           // and whether a task of cut tiles has it from a reader
  };
  void join(Tree& tree, TaskPlace const& place) const {
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      if ((place.open >> a & 1u) != 0) continue;
      std::int16_t& at = tree.box.at[a];
      if (at != place.box.at[a]) at = at == Tree::none ? place.box.at[a] : RankBox::all;
    }
  }
  RankBox ranks_of(Tree const& tree) const {
    RankBox box;
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      box.at[a] = std::max(RankBox::all, tree.box.at[a]);
    return box;
  }
  /// Counts the bytes of results that tasks with a root write: each once for each node.
  void weigh(std::vector<Target> const& targets) {
    std::vector<std::uint32_t> counted(plan_.buffers.size(), no_id);  // the last node, by buffer
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t].root == no_id || targets[t].spread != 0) continue;  // these run everywhere
      Tree& tree = trees_[targets[t].root];
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t])) {
        if (!writes(use.access) || places_.is_partial(use.handle)) continue;
        if (std::exchange(counted[use.handle], plan_.tasks[t].node) == plan_.tasks[t].node)
          continue;
        add_saturated(tree.bytes, plan_.buffers[use.handle].bytes);
        (is_cut(use.handle) ? tree.cut : tree.whole) = true;
      }
    }
  }
  bool is_cut(std::uint32_t b) const {
    return thin_ != nullptr && thin_->cut[plan_.buffers[b].tensor] >= 0;
  }
  /// The sum to which blocks are added in turn is wanted where the task is. Their own terms are at
  /// other coordinates, and their sums are new values.
  void pass_on(PlannedTask const& task, std::span<Use<BufferId> const> uses, Target const& target) {
    if ((target.open >> thin_->axis & 1u) == 0) throw NotThin{"blocks that are added at one rank"};
    if (target.root != no_id) trees_[target.root].box.at[thin_->axis] = RankBox::all;
    for (Use<BufferId> const& use : uses)
      wanted_[use.handle] = {places_.stored(use.handle) ? places_.home(use.handle) : RankBox{}};
    std::uint32_t const own = uses[1 - thin_->blocks_of(task)[0].use].handle;
    want(wanted_[own], target, target.open, false);
  }
  /// A value that all rows read.
  void want_in_rows(Target& wanted, std::uint8_t open) const {
    if (open != 0) throw NotThin{"a task of few rows that homes leave open"};
    wanted.box.at[thin_->rows.axis] = Target::several;
    wanted.spread = static_cast<std::uint8_t>(wanted.spread | 1u << thin_->rows.axis);
  }
  void note_block(std::span<Use<BufferId> const> uses) {
    for (std::size_t u = uses.size(); u-- > 0;) {
      if (!writes(uses[u].access) || is_cut(uses[u].handle)) continue;
      Target& wanted = blocks_.emplace_back(wanted_[uses[u].handle]);
      for (std::int16_t& at : wanted.box.at) at = std::max(RankBox::all, at);
    }
  }

  /// Takes coordinates on open axes from the largest tiles of a task, the results first. Sums of
  /// groups come together wherever their result is, which may be narrower than they are.
  void choose(std::span<Use<BufferId> const> uses, std::uint8_t open, Target& target) {
    bool const ends = std::any_of(uses.begin(), uses.end(), [&](Use<BufferId> const& use) {
      return writes(use.access) && !places_.is_partial(use.handle);
    });
    Index most = 0;
    for (Use<BufferId> const& use : uses)
      if (!ends || !places_.is_partial(use.handle))
        most = std::max(most, plan_.buffers[use.handle].bytes);
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
    if (target.root != no_id) return;
    target.root = static_cast<std::uint32_t>(trees_.size());
    trees_.emplace_back();
  }
  /// Notes the open axes of which several coordinates read the largest result; its bytes. Sums of
  /// canonical groups are added at one rank.
  Index spread(std::span<Use<BufferId> const> uses, std::uint8_t open, Target& target) const {
    Index largest = 0;
    for (Use<BufferId> const& use : uses)
      if (places_.is_partial(use.handle)) return 0;
    for (Use<BufferId> const& use : uses)
      if (Index const bytes = plan_.buffers[use.handle].bytes;
          writes(use.access) && bytes > largest) {
        largest = bytes;
        target.spread = static_cast<std::uint8_t>(wanted_[use.handle].spread & open);
      }
    return largest;
  }
  void want(Target& value, Target const& reader, std::uint8_t open, bool passes_on,
            bool has_root = true) const {
    if (passes_on) value.spread = static_cast<std::uint8_t>(value.spread | reader.spread);
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      std::int16_t const at = reader.box.at[a];
      std::int16_t& wanted = value.box.at[a];
      if (at == RankBox::all || at == wanted) continue;
      if (wanted == RankBox::all)
        wanted = at;
      else if ((open >> a & 1u) == 0)
        wanted = Target::several, value.spread = static_cast<std::uint8_t>(value.spread | 1u << a);
    }
    if (has_root && value.root == no_id && open != 0 && reader.spread != open)
      value.root = reader.root;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  FixedPlaces const& places_;
  ThinJob const* thin_;
  std::vector<Target> blocks_;
  std::vector<Target> wanted_;  // of the value that a buffer has, by its readers so far
  std::vector<Tree> trees_;     // by root
};

}  // namespace nntile::passes
