#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Options of planning.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/dims.hh"
#include "nntile/core/execution.hh"
#include "nntile/core/machine_model.hh"
#include "nntile/core/place.hh"
#include "nntile/core/tiling.hh"
#include "nntile/graph/mesh.hh"
#include "nntile/graph/tensor_spec.hh"

namespace nntile {

/// The cut of one axis, by any name that a dimension which ops make one with it has: uniform, or in
/// the given sizes that are repeated until the extent is covered.
struct AxisCut {
  std::string axis;
  std::vector<Index> sizes;
};

/// The tiling that a tensor has already; an input may be adopted or double-buffered already.
struct KeptTiling {
  std::string tensor;
  Tiling tiling;
  Storage storage = Storage::stored;
  Index column_unit = 1;
  std::vector<TileHome> homes = {};  // of its tiles, on a mesh
  Place place = {};

  /// Of one name there may be several, each of another shape.
  bool is_of(std::string_view name, Tiling const& other) const {
    return tensor == name && tiling.shape() == other.shape();
  }
};

/// Padding of a tensor's tiles: dimension 0 is followed by what brings the next column to a
/// multiple of `bytes`, whole elements and at most 4096. Without a name, of all that have two
/// dimensions or more and of which every op takes padded tiles.
struct TilePadding {
  std::string tensor;
  Index bytes = 64;
};

/// The place of the tensors that it names: {.tensors = "*", .place = device(0)}. Ops run on the
/// device that a result of theirs lives on, and on the host where none does; one that adds to a
/// transient on a device runs on the device of most of its operands. Of several rules that fit a
/// tensor the first wins, what no rule fits lives on the host, and so do adopted inputs. A rule
/// that fits nothing is an error, unless it names all or is `optional`.
struct PlaceRule {
  std::string tensors = "*";  // a name; each * in it stands for any text
  Role role = Role::any;
  Place place = {};
  bool optional = false;
};

/// The most bytes that a plan may use of a place.
struct PlaceCapacity {
  Place place = {};
  Index bytes = 0;
};
/// A plan needs more of a place than it may use. `least`: the bytes of it that are enough; 0 where
/// no number of them is, or none was looked for.
struct PlaceFull : PlanError {
  PlaceFull(std::string const& text, Place full, Index enough = 0)
      : PlanError(text), place(full), least(enough) {}
  Place place;
  Index least;
};

/// In which order a stage of a pipeline works: layer by layer, each for all micro-batches; or with
/// as few micro-batches forward as keep the other stages busy, then one backward and one forward in
/// turn (1F1B), so that it keeps the activations of no more than there are stages from it to the
/// last.
enum class PipelineSchedule : std::uint8_t { layer_by_layer, one_forward_one_backward };

/// Options of planning. `tile` is the target number of elements along each side of a tile's matrix;
/// 0 leaves every tensor whole. An axis inside a group (heads of an embedding, batches of tokens)
/// gets what its inner axes leave.
struct PlanOptions {
  /// Searches multiples of 64 whose square of floats fits the L2 cache for the shortest simulated
  /// makespan; axes are cut evenly. On devices 0, where that fits: one task fills a device.
  static constexpr Index automatic = -1;

  Index tile = automatic;
  std::vector<AxisCut> cuts = {};
  /// The numbers of the graph's open dimensions, each once: {{"seq", 512}, {"batch", 8}}.
  std::vector<BoundDim> dims = {};
  /// Tensors that exist, from TensorStore::tilings(): what agrees with them along an axis is cut
  /// like them, and so is a transient of their name, of which plan_around() makes an exception.
  std::vector<KeptTiling> keep = {};
  /// Inputs that runs read where the caller has them: bind_input adopts the memory. Each is cut
  /// along its outermost axis alone, so that its tiles are pieces of that memory; other tensors'
  /// axes that must agree with its inner ones stay whole as well. On a mesh each rank hands over
  /// the memory of what it holds, or of the whole.
  std::vector<std::string> adopted = {};
  /// Inputs with two buffers, which bind_input fills in turn: the next batch is copied in while a
  /// run reads this one. Costs the memory of each once more.
  std::vector<std::string> double_buffered = {};
  /// Tensors whose tiles have padded columns, which changes no bit: where rows end within a line of
  /// the cache, as 50,257 logits in bf16 do, vectors would cross two. Later entries win over a name
  /// before them, and over what `keep` says.
  std::vector<TilePadding> pad = {};
  /// Keeps the graph's phases apart, in the order in which they were first set, so that each can be
  /// run by its name. Costs the overlap of phases, and memory where updates free gradients early.
  bool by_phase = false;
  MachineModel machine = {};
  /// Hints of the tile tasks: where they had best run. Never affects results. Without `workers` of
  /// its own it counts on those of `machine`, compile(graph, store) on those of the store's
  /// runtime.
  ExecutionPolicy policy = {};
  /// The ranks that share the work, each of which plans its own part: Plan(graph, options, rank),
  /// graph/parts.hh. None: one rank.
  std::vector<MeshAxis> mesh = {};
  /// The part of the graph that each rank holds: rules of one's own, or ddp(), zero1(), fsdp() ...
  /// of presets.hh. An axis that a rule shares out is cut for as many ranks, where `cuts` and
  /// `keep` leave it open. Refused without a mesh, as `owners` are; one of one rank will do.
  std::vector<ShardRule> rules = {};
  /// If rules put tensors at stages, as pipeline() does: the order of their micro-batches, which
  /// are the tiles along an axis, {.cuts = {{"batch", {1}}}}. No bit depends on it. What a sum
  /// reads is kept until the sums are made that come before it: so of a tied embedding one gradient
  /// for each micro-batch. Where phases are kept apart, layer by layer.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  /// That axis, by any of its names. Refused where no tensor has it, but for this one.
  std::string micro_batches = "batch";
  /// Ranks of tiles that rules cannot name: [](std::string_view tensor, Index tile) { return 0; }.
  TileOwners owners = {};
  /// Places of tensors on a machine of several memories. Tiles that a task needs elsewhere are
  /// copied, by tasks of the plan; kept tensors are at their place when a run ends.
  std::vector<PlaceRule> place = {};
  /// For a runtime that moves values itself, as StarPU does (CoherentRuntime): all values are on
  /// the host, nothing is copied by tasks, and the device of a task is a hint, heeded where there
  /// is one. compile(graph, store) sets it for such a runtime.
  bool places_are_hints = false;
  /// If they are given, values that are needed late leave a place that is full, a device's for the
  /// host, the host's for the disk, and come back in time.
  std::vector<PlaceCapacity> capacity = {};
  /// The number of ops in a row that may do without a kept tile that a rank was sent; when the next
  /// one reads it, it is sent again. So gathered parameters are not held from forward to backward,
  /// which are far apart: less memory, more traffic.
  static constexpr std::uint32_t to_last_reader = UINT32_MAX;
  std::uint32_t keep_received = to_last_reader;
  /// Cuts an axis into equal multiples of 64 of at most `tile`, instead of tiles of `tile` and a
  /// rest; one that is summed in blocks of 64 into nothing less, as bits would depend on it.
  bool even = false;
  /// Proves the plan by passes/check.hh, for a twentieth of the time of planning.
#ifdef NNTILE_CHECK_PLANS
  bool check = true;  // the test suite's
#else
  bool check = false;
#endif
};

}  // namespace nntile
