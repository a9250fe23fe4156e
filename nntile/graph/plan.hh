#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Plan: how a graph is cut, ordered and laid out in memory. A value without runtime, hardware or
// pointers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/tiling.hh"
#include "nntile/graph/apply.hh"

namespace nntile {

/// How one named axis is cut: uniformly, or in the given sizes that are repeated until the extent
/// is covered.
struct AxisCut {
  std::string axis;
  std::vector<Index> sizes;
};

/// The tiling that a tensor has already.
struct KeptTiling {
  std::string tensor;
  Tiling tiling;
};

/// Machine parameters of the tile-size search. They never affect results; the number of workers
/// and the ratios matter, so that defaults suffice.
struct MachineModel {
  int workers = 2;
  Index cache = Index{1} << 20;   // bytes of a core's own cache, the L2
  double peak = 100e9;            // flop/s of a core
  double bandwidth = 20e9;        // bytes/s of a core, out of cache
  double task_overhead = 0.5e-6;  // seconds
};

/// Options of planning. `tile` is the target number of elements along each side of a tile's matrix;
/// 0 leaves every tensor whole. An axis inside a group (heads of an embedding, batches of tokens)
/// gets what its inner axes leave.
struct PlanOptions {
  /// Searches multiples of 64 whose square of floats fits the L2 cache for the shortest simulated
  /// makespan; axes are cut evenly.
  static constexpr Index automatic = -1;

  Index tile = automatic;
  std::vector<AxisCut> cuts = {};
  /// Tensors that exist, from TensorStore::tilings(): what agrees with them along an axis is cut
  /// like them.
  std::vector<KeptTiling> keep = {};
  MachineModel machine = {};
  /// Cuts an axis into equal multiples of 64 of at most `tile`, instead of tiles of `tile` and a
  /// rest.
  bool even = false;
};

/// Where a tensor's bytes are: kept by the store, in slots of the arena, or another tensor's.
enum class Storage : std::uint8_t { stored, arena, view };

struct PlannedTensor {
  std::string name;
  DType dtype = DType::fp32;
  Tiling tiling;
  Shape file_shape;
  TensorAttributes attributes;
  Storage storage = Storage::arena;
  std::uint32_t first_buffer = 0;  // of its tile 0; tile buffers follow one another
  std::uint32_t base = no_id;      // of a view
  std::size_t view_axis = 0;
  Index view_index = 0;
};

/// Bytes of a tile's buffer: whole cache lines.
constexpr Index buffer_bytes(Shape const& extent, DType dtype) {
  Index const bytes =
      std::max<Index>(1, byte_count(extent, size_of(dtype)));
  return (bytes + 63) / 64 * 64;
}

/// A tile's place: a handle of the store, or a slot of the arena that tiles use in turn.
struct PlannedBuffer {
  std::uint32_t tensor = 0;
  std::uint32_t tile = 0;
  std::uint32_t slot = no_id;
  Index bytes = 0;
};

struct PlannedUse {
  std::uint32_t buffer;
  Access access;
};

/// Names the kernel of a task without binding an instruction set.
struct PlannedKernel {
  OpInfo const* op;
  DType element;
  DType source;
  Mode mode;
  bool operator==(PlannedKernel const&) const = default;
};

struct PlannedTask {
  std::uint32_t op = 0;  // position in the graph
  std::uint32_t kernel = 0;
  std::uint32_t first_use = 0;
  std::uint16_t use_count = 0;
  std::uint16_t args_bytes = 0;
  std::uint32_t args = 0;  // offset of the argument bytes
  std::int32_t priority = 0;
  std::uint32_t tensor = 0;  // what an error names: the task's first result
  std::uint32_t tile = 0;
  Cost cost;
};

/// Exact bytes: what the store keeps, the arena of everything else, and the least that any arena
/// could be, the largest number of live bytes at a position of the plan. Tiles count in units of 64
/// bytes.
struct MemoryReport {
  Index stored = 0;
  Index arena = 0;
  Index arena_lower_bound = 0;
  Index total() const { return stored + arena; }
};

/// The result of planning.
class Plan {
 public:
  /// Runs the passes prune, order, tile, lower, by_tile and lifetime, for each candidate where the
  /// tile is automatic. Throws PlanError with what would work.
  /// A template, like the passes, so that a program which plans nothing does not pay for compiling
  /// them.
  template <std::same_as<LogicalGraph> Graph>
  explicit Plan(Graph const& graph, PlanOptions const& options = {});

  std::string const& name() const { return name_; }
  /// The target tile of the options, or the one chosen.
  Index tile() const { return tile_; }
  Numerics const& numerics() const { return numerics_; }
  std::span<PlannedTensor const> tensors() const { return tensors_; }
  std::span<PlannedBuffer const> buffers() const { return buffers_; }
  std::span<Index const> slots() const { return slots_; }
  std::span<PlannedKernel const> kernels() const { return kernels_; }
  std::span<PlannedTask const> tasks() const { return tasks_; }
  std::span<PlannedUse const> uses(PlannedTask const& task) const {
    return {uses_.data() + task.first_use, task.use_count};
  }
  std::span<std::byte const> args(PlannedTask const& task) const {
    return {args_.data() + task.args, task.args_bytes};
  }
  MemoryReport const& memory() const { return memory_; }
  /// 2mnk over all tasks.
  std::int64_t flops() const { return flops_; }
  /// Whether every cut is canonical, so that the bits are those of any other canonical tiling; else
  /// says which is not.
  bool canonical() const { return uncanonical_.empty(); }
  std::string const& uncanonical() const { return uncanonical_; }

  /// Position of a tensor by name; throws PlanError where there is none.
  std::uint32_t tensor(std::string_view name) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i].name == name && used_[i]) return static_cast<std::uint32_t>(i);
    throw PlanError(concat("plan '", name_, "': no tensor '", name,
                           "' is used; a tensor that nothing reads is pruned"));
  }
  bool used(std::size_t tensor) const { return used_[tensor]; }
  /// The buffer of a tile, a view's being its base's.
  inline std::uint32_t buffer_of(std::uint32_t tensor, Index tile) const;

 private:
  template <class Graph> friend class Planner;
  template <std::same_as<LogicalGraph> Graph>
  static Plan choose(Graph const& graph, PlanOptions const& options);
  template <std::same_as<MachineModel> M> void hurry(M const& machine, double elapsed);
  Plan() = default;

  std::string name_;
  Index tile_ = 0;
  Numerics numerics_;
  std::vector<PlannedTensor> tensors_;
  std::vector<bool> used_;
  std::vector<PlannedBuffer> buffers_;
  std::vector<Index> slots_;
  std::vector<PlannedKernel> kernels_;
  std::vector<PlannedTask> tasks_;
  std::vector<PlannedUse> uses_;
  std::vector<std::byte> args_;
  MemoryReport memory_;
  std::int64_t flops_ = 0;
  std::string uncanonical_;
};

inline std::uint32_t Plan::buffer_of(std::uint32_t id, Index tile) const {
  PlannedTensor const& tensor = tensors_[id];
  if (tensor.storage != Storage::view)
    return tensor.first_buffer + static_cast<std::uint32_t>(tile);
  Tiling const& base = tensors_[tensor.base].tiling;
  Shape const at = tensor.tiling.position(tile);
  Shape full;
  for (std::size_t d = 0, from = 0; d < base.rank(); ++d)
    full.push_back(d == tensor.view_axis ? tensor.view_index : at[from++]);
  return tensors_[tensor.base].first_buffer + static_cast<std::uint32_t>(base.number(full));
}

}  // namespace nntile
