#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Plan: how a graph is cut, ordered and laid out in memory. A value without runtime, hardware or
// pointers. Passes make it of a graph: graph/compile.hh.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/numerics.hh"
#include "nntile/core/place.hh"
#include "nntile/core/tiling.hh"
#include "nntile/graph/options.hh"
#include "nntile/graph/tensor_spec.hh"

namespace nntile {

class LogicalGraph;

struct PlannedTensor {
  std::string name;
  DType dtype = DType::fp32;
  Tiling tiling;
  Index column_unit = 1;  // leading dimensions of tiles are its multiples, in elements
  Shape file_shape;
  TensorAttributes attributes;
  bool open = false;  // in the graph: another plan of it may bind another shape
  Place place = {};   // of it between runs, and of the ops that make it
  Storage storage = Storage::arena;
  bool used = false;               // by an op of the plan, or a view of it is
  std::uint32_t first_buffer = 0;  // of its tiles, which follow one another in ascending order
  std::uint32_t buffer_count = 0;  // all tiles, but of a rank's part those that the rank ever has
  std::uint32_t base = no_id;      // of a view; of hidden sums of groups their result
  std::size_t view_axis = 0;
  Index view_index = 0;
  std::vector<TileHome> homes = {};  // ranks that store its tiles, on a mesh
  /// By dimension: the position in Numerics::groups, or no_groups; empty where the plan has none.
  DynamicArray<std::uint32_t> groups = {};
  static constexpr std::uint32_t no_groups = ~0u;
  bool operator==(PlannedTensor const&) const = default;

  /// Whether its memory is not the arena's, nor another tensor's.
  bool is_kept() const { return storage != Storage::arena && storage != Storage::view; }
};

/// Bytes of a tile, padding included.
constexpr Index tile_bytes(Shape extent, DType dtype, Index column_unit) {
  if (extent.size() > 0) extent[0] = leading_dimension(extent, column_unit);
  return std::max<Index>(1, byte_count(extent, size_of(dtype)));
}
/// Bytes of its buffer: whole cache lines.
constexpr Index buffer_bytes(Index tile_bytes) { return (tile_bytes + 63) / 64 * 64; }

/// Position among the buffers of a plan.
using BufferId = std::uint32_t;

/// A tile's memory: a handle of the store, or a slot of the arena that tiles use in turn.
struct PlannedBuffer {
  std::uint32_t tensor = 0;
  std::uint32_t tile = 0;
  std::uint32_t slot = no_id;
  Location location = {};
  Index bytes = 0;
  bool copy = false;      // of a tile that is kept elsewhere: it is in the arena here
  std::uint8_t tail = 0;  // bytes of its last cache line that are not the tile's

  /// Bytes of the tile, padding included: what a message carries.
  Index payload() const { return bytes - tail; }
  /// Whether a store of that rank keeps it, if it is a tile of a tensor that outlives runs.
  bool is_stored(int rank) const { return location.rank == rank && !copy; }
  bool operator==(PlannedBuffer const&) const = default;
};

/// A piece of the arena of a location: one handle, of the bytes of the largest tile that uses it.
struct PlannedSlot {
  Index bytes = 0;
  Location location = {};
  bool operator==(PlannedSlot const&) const = default;
};

/// Arguments of a task that sends or receives the tile that it names. `number` is that of the
/// message among those from one rank to another, in the order in which both run them.
struct TransferArgs {
  std::int64_t number = 0;
  std::int32_t peer = 0;
  std::int32_t reserved = 0;
};

/// Kinds of tasks: compute an op, or move a tile between locations.
enum class KernelKind : std::uint8_t { op, copy, send, receive };
/// Whether tasks of a kind move a tile between ranks.
constexpr bool is_transfer(KernelKind kind) {
  return kind == KernelKind::send || kind == KernelKind::receive;
}

/// The kernel of tasks, by the name and type of its op: codelets are looked up when the plan is
/// bound.
struct PlannedKernel {
  KernelKind kind = KernelKind::op;
  std::string name;
  DType element = DType::fp32;
  DType second = DType::fp32;
  Mode mode = Mode::exact;
  std::uint64_t type = 0;  // of an op: its OpInfo::type
  bool operator==(PlannedKernel const&) const = default;
};

struct PlannedTask {
  std::uint32_t node = 0;  // position of its op in the graph
  std::uint32_t kernel = 0;
  std::uint32_t first_use = 0;
  std::uint32_t args = 0;  // offset of the argument bytes; ascends with the tasks of a node
  std::uint16_t args_bytes = 0;
  std::uint16_t replaces = 0;  // bits of the uses over whose tiles the last one may be written
  std::uint8_t use_count = 0;
  std::uint16_t hints = 0;  // 1 + position in the plan's; 0: none but the priority
  std::int32_t priority = 0;
  std::uint32_t tensor = 0;  // its name in errors: the task's first result
  std::uint32_t tile = 0;
  Location location = {};
  Cost cost;
  bool operator==(PlannedTask const&) const = default;
};

/// Tasks of one phase, where the plan keeps phases apart.
struct PlannedPhase {
  std::string name;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;  // one past its last task
  bool operator==(PlannedPhase const&) const = default;
};

namespace detail {

/// The error of a plan with bytes that no number of them is for.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_bytes(char const* what,
                                                              std::string const& name,
                                                              Location const& at) {
  throw PlanError(concat(what, " '", name, "': more than 2^63 - 1 bytes at ", to_string(at),
                         "; make the model smaller, or share it out over more ranks"));
}

}  // namespace detail

/// Exact bytes at one location: what the store keeps, the arena of everything else, the least that
/// any arena could be, which is the largest number of live bytes at a position of the plan, what
/// runs read in the caller's memory, and what a device lends its kernels, which is known of a plan
/// that is bound. Tiles count in units of 64 bytes, the caller's in bytes.
struct MemoryReport {
  Location location = {};
  Index stored = 0;
  Index arena = 0;
  Index arena_lower_bound = 0;
  Index adopted = 0;
  Index workspace = 0;
  /// Without the caller's.
  Index total() const { return stored + arena + workspace; }
  /// Counts a buffer that is in no slot. Throws PlanError where 63 bits do not hold the sum.
  void add(PlannedTensor const& tensor, PlannedBuffer const& buffer) {
    if (buffer.copy) return;
    auto const count = [&](Index& sum, Index bytes) {
      if (__builtin_add_overflow(sum, bytes, &sum))
        detail::fail_bytes("with tensor", tensor.name, location);
    };
    if (tensor.storage == Storage::stored || tensor.storage == Storage::double_buffered)
      count(stored, buffer.bytes);
    if (tensor.storage == Storage::double_buffered) count(stored, buffer.bytes);
    if (tensor.storage == Storage::adopted)
      count(adopted, byte_count(tensor.tiling.box(buffer.tile).extent, size_of(tensor.dtype)));
  }
  bool operator==(MemoryReport const&) const = default;
};

/// The lists of a plan, as passes fill them in; they refer to one another by position.
struct PlanData {
  std::string name;
  Index tile = 0;
  Numerics numerics;
  DynamicArray<std::size_t> nodes;  // of the graph, in the plan's order
  DynamicArray<PlannedTensor> tensors;
  DynamicArray<PlannedBuffer> buffers;
  DynamicArray<PlannedSlot> slots;
  DynamicArray<PlannedKernel> kernels;
  DynamicArray<PlannedTask> tasks;
  DynamicArray<Use<BufferId>> uses;
  DynamicArray<std::byte> args;
  DynamicArray<Hints> hints;  // that differ, without priorities; none where there is no policy
  DynamicArray<MemoryReport> memory;
  DynamicArray<PlannedPhase> phases;  // none where tasks of different phases may mix
  std::int64_t flops = 0;
  std::string uncanonical;
  int rank = 0;               // the part's; buffers of others are at theirs
  int ranks = 1;              // of the job
  std::int64_t messages = 0;  // the most that its rank sends to another, or receives from one
  bool operator==(PlanData const&) const = default;

  /// The position of a kernel in the list, to which it is added where it is not in it.
  std::uint32_t kernel(PlannedKernel const& wanted) {
    std::uint32_t at = 0;
    while (at < kernels.size() && !(kernels[at] == wanted)) ++at;
    if (at == kernels.size()) kernels.push_back(wanted);
    return at;
  }
  /// PlannedTask::hints of hints that are in the list then. Throws PlanError where it is full.
  std::uint16_t hint(Hints const& wanted) {
    auto const at = std::find(hints.begin(), hints.end(), wanted);
    auto const number = static_cast<std::size_t>(at - hints.begin()) + 1;
    if (number > UINT16_MAX)
      throw PlanError(concat("plan '", name, "': more than ", UINT16_MAX, " different hints"));
    if (at == hints.end()) hints.push_back(wanted);
    return static_cast<std::uint16_t>(number);
  }
  std::span<Use<BufferId> const> uses_of(PlannedTask const& task) const {
    return {uses.data() + task.first_use, task.use_count};
  }
  /// The buffer of a tile, a view's being its base's; no_id where a rank's part has none.
  inline std::uint32_t buffer_of(std::uint32_t tensor, Index tile) const;
  /// The tile of its base that a view's tile is.
  inline Index tile_of_base(std::uint32_t view, Index number) const;
  /// Whether a buffer takes turns with others in a slot.
  bool in_arena(BufferId buffer) const {
    return buffers[buffer].copy || tensors[buffers[buffer].tensor].storage == Storage::arena;
  }
};

/// The result of planning.
class Plan {
 public:
  explicit Plan(PlanData data) : data_(std::move(data)) {}
  /// Plans a graph: the passes of graph/passes/, for each candidate where the tile is automatic.
  /// Throws PlanError with what would work, OutOfMemory. Include graph/compile.hh to call it.
  inline explicit Plan(LogicalGraph const& graph, PlanOptions const& options = {});

  /// A rank's part of it, for the mesh of the options. Throws PlanError, OutOfMemory. Include
  /// graph/parts.hh to call it.
  inline Plan(LogicalGraph const& graph, PlanOptions const& options, int rank);

  bool operator==(Plan const&) const = default;

  std::string const& name() const { return data_.name; }
  /// The target tile of the options, or the one chosen.
  Index tile() const { return data_.tile; }
  Numerics const& numerics() const { return data_.numerics; }
  std::span<PlannedTensor const> tensors() const { return data_.tensors; }
  std::span<PlannedBuffer const> buffers() const { return data_.buffers; }
  std::span<PlannedSlot const> slots() const { return data_.slots; }
  std::span<PlannedKernel const> kernels() const { return data_.kernels; }
  std::span<PlannedTask const> tasks() const { return data_.tasks; }
  std::span<Use<BufferId> const> uses(PlannedTask const& task) const { return data_.uses_of(task); }
  std::span<std::byte const> args(PlannedTask const& task) const {
    return {data_.args.data() + task.args, task.args_bytes};
  }
  /// The policy's requests to the runtime for a task.
  Hints hints(PlannedTask const& task) const {
    Hints result = task.hints == 0 ? Hints{} : data_.hints[task.hints - 1u];
    result.priority = task.priority;
    return result;
  }
  /// Memory of the plan at a location; none at one that it does not use.
  MemoryReport memory(Location const& at = {}) const {
    for (MemoryReport const& report : data_.memory)
      if (report.location == at) return report;
    return {.location = at};
  }
  /// The same for each location that it uses.
  std::span<MemoryReport const> memories() const { return data_.memory; }
  /// The phases in turn; none unless planned with PlanOptions::by_phase.
  std::span<PlannedPhase const> phases() const { return data_.phases; }
  /// Position of a phase by name. Throws PlanError, with those that there are.
  std::size_t phase(std::string_view name) const {
    std::string list;
    for (std::size_t p = 0; p < data_.phases.size(); ++p) {
      if (data_.phases[p].name == name) return p;
      list += concat(p == 0 ? "; it has '" : ", '", data_.phases[p].name, "'");
    }
    throw PlanError(concat("plan '", data_.name, "': no phase '", name, "'",
                           !list.empty() ? list
                                         : ": it does not keep phases apart; plan with "
                                           "PlanOptions::by_phase"));
  }
  /// The rank whose part it is, of the ranks() that run together.
  int rank() const { return data_.rank; }
  int ranks() const { return data_.ranks; }
  /// 2mnk over all tasks.
  std::int64_t flops() const { return data_.flops; }
  /// Whether every cut is canonical, so that the bits are those of any other canonical tiling; else
  /// says which is not.
  bool canonical() const { return data_.uncanonical.empty(); }
  std::string const& uncanonical() const { return data_.uncanonical; }

  /// Position of a tensor by name; throws PlanError where there is none.
  std::uint32_t tensor(std::string_view name) const {
    for (std::size_t i = 0; i < data_.tensors.size(); ++i)
      if (data_.tensors[i].name == name && used(i)) return static_cast<std::uint32_t>(i);
    throw PlanError(concat("plan '", data_.name, "': no tensor '", name,
                           "' is used; a tensor that nothing reads is pruned"));
  }
  bool used(std::size_t tensor) const { return data_.tensors[tensor].used; }
  /// The buffer of a tile, a view's being its base's; no_id where a rank's part has none.
  std::uint32_t buffer_of(std::uint32_t tensor, Index tile) const {
    return data_.buffer_of(tensor, tile);
  }

  /// The lists themselves, for passes, files and tests; those of a temporary to be changed.
  PlanData const& data() const& { return data_; }
  PlanData data() && { return std::move(data_); }

 private:
  PlanData data_;
};

inline Index PlanData::tile_of_base(std::uint32_t id, Index number) const {
  PlannedTensor const& view = tensors[id];
  Tiling const& base = tensors[view.base].tiling;
  Shape const at = view.tiling.position(number);
  Shape full;
  for (std::size_t d = 0, from = 0; d < base.rank(); ++d)
    full.push_back(d == view.view_axis ? view.view_index : at[from++]);
  return base.number(full);
}

inline std::uint32_t PlanData::buffer_of(std::uint32_t id, Index number) const {
  PlannedTensor const* tensor = &tensors[id];
  if (tensor->storage == Storage::view) {
    number = tile_of_base(id, number);
    tensor = &tensors[tensor->base];
  }
  PlannedBuffer const* const first = buffers.data() + tensor->first_buffer;
  auto const wanted = static_cast<std::uint32_t>(number);
  if (wanted < tensor->buffer_count && first[wanted].tile == wanted)
    return tensor->first_buffer + wanted;
  PlannedBuffer const* const end = first + std::min(wanted, tensor->buffer_count);
  auto const* const at = std::lower_bound(
      first, end, wanted,
      [](PlannedBuffer const& buffer, std::uint32_t other) { return buffer.tile < other; });
  if (at == end || at->tile != wanted) return no_id;
  return tensor->first_buffer + static_cast<std::uint32_t>(at - first);
}

}  // namespace nntile
