#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// TensorStore: the tensors that outlive a run, by name, shared by the graphs of one model.

#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nntile/core/box.hh"
#include "nntile/core/rank_link.hh"
#include "nntile/core/spelling.hh"
#include "nntile/graph/adopted.hh"
#include "nntile/graph/plan.hh"
#include "nntile/tile/tile.hh"

namespace nntile {

/// Description of a stored tensor; the same for every graph that names it.
struct StoredSpec {
  std::string name;
  DType dtype = DType::fp32;
  Tiling tiling;
  Shape file_shape;  // row-major, as files have it
  TensorAttributes attributes;
  bool open = false;                 // in the graph: one of several of that name, perhaps
  Index column_unit = 1;             // leading dimensions of tiles are its multiples, in elements
  std::vector<TileHome> homes = {};  // ranks that store its tiles, on a mesh
};

/// Owns the parameters, states, inputs and outputs of one or more compiled graphs on one runtime. A
/// graph that is compiled adds what it stores and is not here yet; what is here keeps its dtype,
/// shape and tiling; an open one, an input or result of another size in each plan, is there once
/// for each shape. A tensor without elements has a value from the start. Outlives its graphs; the
/// runtime outlives it: after its end every use throws LifetimeError, and the destructor does
/// nothing.
template <Runtime R> class TensorStore {
 public:
  using Handle = typename R::Handle;
  struct Stored {
    StoredSpec spec;
    std::vector<Handle> tiles;    // what the next run reads and writes
    std::vector<bool> elsewhere;  // on another rank: there is no handle
    std::vector<bool> written;  // by the store or a run; what others wrote is found out when asked
    Storage storage = Storage::stored;
    std::uint64_t bindings = 0;  // how often other tiles took the place of `tiles`
    /// The buffer of a double-buffered input that the next binding fills; of an adopted one the
    /// memory that was bound before, so that two can be bound in turn.
    std::vector<Handle> spare = {};
    detail::CallerMemory memory = {}, spare_memory = {};  // of an adopted one
    bool has_release = false;                             // the caller waits for the end of `tiles`
    std::uint64_t bytes_bound = 0;                        // by `bind`, so far
  };

  explicit TensorStore(R& runtime, RankLink const& link = {}) : runtime_(runtime), link_(link) {}
  TensorStore(TensorStore const&) = delete;
  TensorStore& operator=(TensorStore const&) = delete;
  ~TensorStore() {
    for (auto const& stored : tensors_) retire(*stored);
  }

  R& runtime() const { return runtime_.get("store"); }
  RankLink const& link() const { return link_; }
  /// Whether a stored tile of a plan is kept here, not on another rank.
  bool holds(PlannedBuffer const& buffer) const {
    return buffer.location.rank == link_.rank && !buffer.copy;
  }
  /// Throws PlanError where the plan is not this rank's part.
  void check_ranks(Plan const& plan) const {
    if (plan.rank() != link_.rank || plan.ranks() != link_.ranks)
      throw PlanError(concat("compile: plan '", plan.name(), "' is the part of rank ", plan.rank(),
                             " of ", plan.ranks(), ", and the store is that of rank ", link_.rank,
                             " of ", link_.ranks,
                             ": plan with its rank, and give the store the communicator"));
  }

  /// The tensor of that name, an open one of that shape; a new one is allocated as the plan lists
  /// its buffers. Throws PlanError when dtype, shape or tiling differ, OutOfMemory.
  Stored& ensure(PlannedTensor const& planned, std::span<PlannedBuffer const> buffers) {
    Shape const shape = planned.tiling.shape();
    if (Stored* const stored = find_for(planned, shape)) {
      check_same(*stored, planned);
      stored->spec.attributes.output |= planned.attributes.output;
      return *stored;
    }
    Shape file = planned.file_shape;
    if (file.empty())
      for (std::size_t d = shape.size(); d-- > 0;) file.push_back(shape[d]);
    Stored& result = *tensors_.emplace_back(std::make_unique<Stored>());
    try {
      result.spec = {planned.name,       planned.dtype, planned.tiling,      file,
                     planned.attributes, planned.open,  planned.column_unit, planned.homes};
      result.storage = planned.storage;
      allocate(result.tiles, planned, buffers);
      if (planned.storage == Storage::double_buffered) allocate(result.spare, planned, buffers);
      for (PlannedBuffer const& buffer : buffers) {
        result.written.push_back(element_count(planned.tiling.box(buffer.tile).extent) == 0);
        result.elsewhere.push_back(!holds(buffer));
      }
      by_name_.emplace(planned.name, &result);
    } catch (...) {
      retire(result);
      tensors_.pop_back();
      throw;
    }
    return result;
  }

  /// All tensors, in the order in which they came.
  std::vector<std::unique_ptr<Stored>> const& tensors() const { return tensors_; }
  /// The tilings and storages of all tensors, for PlanOptions::keep.
  std::vector<KeptTiling> tilings() const {
    std::vector<KeptTiling> result;
    for (auto const& stored : tensors_)
      result.push_back({stored->spec.name, stored->spec.tiling, stored->storage,
                        stored->spec.column_unit, stored->spec.homes});
    return result;
  }
  bool contains(std::string const& name) const { return by_name_.contains(name); }
  /// The tensor of that name and shape; null where there is none.
  Stored* find(std::string const& name, Shape const& shape) const {
    for (auto [at, end] = by_name_.equal_range(name); at != end; ++at)
      if (at->second->spec.tiling.shape() == shape) return at->second;
    return nullptr;
  }
  /// Throws GraphError where there is none, or where plans bound an open one to several shapes.
  Stored& at(std::string const& name) const {
    auto const [first, last] = by_name_.equal_range(name);
    if (first != last && std::next(first) == last) return *first->second;
    if (first != last) {
      std::string shapes;
      for (auto const& stored : tensors_)
        if (stored->spec.name == name)
          shapes += (shapes.empty() ? "" : ", ") + to_string(stored->spec.tiling.shape());
      throw GraphError(concat("store: '", name, "' has several shapes, ", shapes,
                              "; use that of one compiled graph, by its bind_input or get_output"));
    }
    std::vector<std::string_view> names;
    for (auto const& stored : tensors_) names.push_back(stored->spec.name);
    std::string const near = did_you_mean(name, names);
    throw GraphError(concat("store: no tensor '", name, "' among its ", tensors_.size(),
                            near.empty() ? "; compile the graph that declares it, an input, "
                                           "parameter, state or output"
                                         : near));
  }

  /// Whether something has written a tile. Asks the runtime, and so waits for that tile's tasks,
  /// only where neither the store nor a run has written it.
  bool has_value(Stored& stored, Index tile) {
    auto const at = static_cast<std::size_t>(tile);
    if (stored.written[at]) return true;
    try {
      (void)HostView<std::int32_t, R, Access::read>(runtime(), stored.tiles[at]);
    } catch (LifetimeError const&) {
      return false;
    } catch (TaskError const&) {  // written by a task that failed
      return true;
    }
    return stored.written[at] = true;
  }

  /// Hands a whole column-major array to an input. Most copy it in, as `write` does, and call
  /// `release` at once. An adopted one reads it in place: it lives until `release` is called, after
  /// the last task that reads it and the binding of other memory; without one, until two others
  /// were bound or the store ends, and the runs in between have ended. Costs nothing where one of
  /// the last two is bound again. T is const, or nothing else that is adopted may overlap the
  /// memory. Throws ShapeError, TypeError, ValueError (alignment; an overlap); then nothing has
  /// changed.
  template <class T>
  requires Element<std::remove_const_t<T>>
  void bind(Stored& stored, std::span<T> values, Release release = {}) {
    using Value = std::remove_const_t<T>;
    if (stored.storage == Storage::adopted) {
      check<Value>(stored, values.size(), "bind_input");
      adopt(stored, {std::as_bytes(values), std::is_const_v<T>}, release);
    } else {
      write(stored, std::span<Value const>(values));
      release();
    }
    stored.bytes_bound += values.size_bytes();
  }

  /// Copies a whole column-major array into a tensor, of which each rank takes the tiles that it
  /// holds, waiting for that tensor's tasks alone: a
  /// double-buffered one's of the run before the last binding. Throws ShapeError, TypeError,
  /// GraphError (the tensor is the caller's memory).
  template <Element T> void write(std::string const& name, std::span<T const> values) {
    write(at(name), values);
  }
  template <Element T> void write(Stored& stored, std::span<T const> values) {
    check<T>(stored, values.size(), "write");
    write_bytes(stored, reinterpret_cast<std::byte const*>(values.data()));
  }
  /// Copies a tensor out, waiting for its tasks alone. Throws TypeError; TaskError where a task
  /// that wrote it failed.
  template <Element T> std::vector<T> read(std::string const& name) const {
    return read<T>(at(name));
  }
  template <Element T> std::vector<T> read(Stored const& stored) const {
    std::vector<T> values(static_cast<std::size_t>(element_count(stored.spec.tiling.shape())));
    read(stored, std::span<T>(values));
    return values;
  }
  template <Element T> void read(Stored const& stored, std::span<T> to) const {
    check<T>(stored, to.size(), "read");
    read_bytes(stored, reinterpret_cast<std::byte*>(to.data()));
  }

  /// The same without types: column-major bytes of the whole tensor.
  void write_bytes(Stored& stored, std::byte const* values) {
    if (stored.storage == Storage::adopted)
      throw GraphError(concat("write: '", stored.spec.name, "' is adopted, so that its values are ",
                              "in the caller's memory; change them there, or bind other memory by ",
                              "bind_input(\"", stored.spec.name, "\", span)"));
    bool const twice = stored.storage == Storage::double_buffered;
    for_each_tile<Access::write>(
        stored, twice ? stored.spare : stored.tiles,
        [&](std::byte* tile, TileBox const& box, Shape const& shape, std::size_t size) {
          copy_to_tile(tile, box, values, shape, size, stored.spec.column_unit);
        });
    stored.written.assign(stored.tiles.size(), true);
    if (!twice) return;
    stored.tiles.swap(stored.spare);
    ++stored.bindings;
  }
  void read_bytes(Stored const& stored, std::byte* values) const {
    for_each_tile<Access::read>(
        stored, stored.tiles,
        [&](std::byte const* tile, TileBox const& box, Shape const& shape, std::size_t size) {
          copy_from_tile(tile, box, values, shape, size, stored.spec.column_unit);
        });
  }

 private:
  /// Allocates a tensor's buffers as the plan lists them; of an adopted input a byte each, which
  /// nothing writes, until memory is bound.
  void allocate(std::vector<Handle>& tiles, PlannedTensor const& planned,
                std::span<PlannedBuffer const> buffers) {
    tiles.reserve(buffers.size());
    for (PlannedBuffer const& buffer : buffers) {
      if (!holds(buffer)) {
        tiles.push_back({});
        continue;
      }
      bool const placeholder = planned.storage == Storage::adopted;
      tiles.push_back(runtime().allocate(placeholder ? 1 : static_cast<std::size_t>(buffer.bytes),
                                         buffer.location.place, Lifetime::persistent));
      if (element_count(planned.tiling.box(buffer.tile).extent) == 0)
        (void)HostView<std::int32_t, R, Access::write>(runtime(), tiles.back());
    }
  }
  void retire(Stored& stored) {
    for (auto const* tiles : {&stored.tiles, &stored.spare})
      for (std::size_t i = 0; i < tiles->size(); ++i)
        if (i >= stored.elsewhere.size() || !stored.elsewhere[i]) runtime_.retire((*tiles)[i]);
  }

  void adopt(Stored& stored, detail::CallerMemory const& memory, Release release) {
    [[maybe_unused]] auto const inside = detail::drive(runtime(), "bind_input");
    bool const first = stored.bindings == 0, returned = release.call != nullptr;
    if (!first && !returned && !stored.has_release && stored.memory == memory) return;
    check_memory(stored, memory);
    if (returned || stored.spare.empty() || !(stored.spare_memory == memory)) {
      std::vector<Handle> tiles = adopt_tiles(stored, memory, release);
      for (Handle const& handle : stored.spare) runtime_.retire(handle);
      stored.spare.swap(tiles);
      stored.spare_memory = memory;
    }
    stored.tiles.swap(stored.spare);
    std::swap(stored.memory, stored.spare_memory);
    ++stored.bindings;
    if (first || stored.has_release) {  // placeholders, or memory that the caller wants back
      for (Handle const& handle : stored.spare) runtime_.retire(handle);
      stored.spare.clear();
    }
    stored.has_release = returned;
    stored.written.assign(stored.tiles.size(), true);
  }
  std::vector<Handle> adopt_tiles(Stored const& stored, detail::CallerMemory const& memory,
                                  Release release) {
    try {
      return detail::adopt_tiles(runtime(), stored.spec.tiling, size_of(stored.spec.dtype),
                                 memory.bytes, release);
    } catch (ValueError const& error) {
      throw ValueError(concat("bind_input: '", stored.spec.name, "': ", error.what()));
    }
  }
  /// Throws ValueError: alignment, an overlap with another input.
  void check_memory(Stored const& stored, detail::CallerMemory const& memory) const {
    std::size_t const size = size_of(stored.spec.dtype);
    auto const past = reinterpret_cast<std::uintptr_t>(memory.bytes.data()) % size;
    if (past != 0)
      throw ValueError(concat("bind_input: the memory for '", stored.spec.name, "' begins ", past,
                              " bytes past a multiple of ", size, ", which ",
                              name_of(stored.spec.dtype), " needs to be adopted; align it, or ",
                              "leave the input out of PlanOptions::adopted"));
    for (auto const& other : tensors_)
      if (other.get() != &stored && other->storage == Storage::adopted && other->bindings != 0 &&
          memory.conflicts(other->memory))
        throw ValueError(concat("bind_input: the ", memory.bytes.size(), " bytes for '",
                                stored.spec.name, "' overlap the ", other->memory.bytes.size(),
                                " that '", other->spec.name,
                                "' is bound to; bind both as spans of ",
                                "const elements, or memory that does not overlap"));
  }

  template <Access access, class F>
  void for_each_tile(Stored const& stored, std::vector<Handle> const& tiles, F&& f) const {
    using Byte = std::conditional_t<access == Access::read, std::byte const, std::byte>;
    Shape const shape = stored.spec.tiling.shape();
    for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
      if (stored.elsewhere[tile]) {
        if constexpr (access == Access::write) continue;
        fail_elsewhere(stored, tile);
      }
      HostView<std::int32_t, R, access> const view(runtime(), tiles[tile]);
      f(reinterpret_cast<Byte*>(view.span().data()),
        stored.spec.tiling.box(static_cast<Index>(tile)), shape, size_of(stored.spec.dtype));
    }
  }

  template <Element T>
  static void check(Stored const& stored, std::size_t count, char const* call) {
    std::string const& name = stored.spec.name;
    if (stored.spec.dtype != dtype_of<T>)
      throw TypeError(concat(call, ": '", name, "' is ", name_of(stored.spec.dtype), ", not ",
                             name_of(dtype_of<T>)));
    if (static_cast<Index>(count) != element_count(stored.spec.tiling.shape()))
      throw ShapeError(concat(call, ": ", count, " values for '", name, "' of shape ",
                              to_string(stored.spec.tiling.shape())));
  }

  [[noreturn]] void fail_elsewhere(Stored const& stored, std::size_t tile) const {
    throw GraphError(concat("read: tile ", tile, " of '", stored.spec.name,
                            "' is on another rank than ", link_.rank, " of ", link_.ranks,
                            ": mark an output that all ranks hold, or read its tiles there"));
  }

  /// The tensor that a plan means: of open ones there is one for each shape.
  Stored* find_for(PlannedTensor const& planned, Shape const& shape) const {
    if (Stored* const same = find(planned.name, shape)) return same;
    for (auto [at, end] = by_name_.equal_range(planned.name); at != end; ++at)
      if (!planned.open || !at->second->spec.open) return at->second;  // to be refused
    return nullptr;
  }

  static void check_same(Stored const& stored, PlannedTensor const& planned) {
    if (stored.spec.dtype != planned.dtype)
      throw PlanError(concat("store: '", planned.name, "' is ", name_of(stored.spec.dtype),
                             " here but ", name_of(planned.dtype), " in the new graph"));
    if (!(stored.spec.tiling.shape() == planned.tiling.shape()))
      throw PlanError(concat("store: '", planned.name, "' has shape ",
                             to_string(stored.spec.tiling.shape()), " here but ",
                             to_string(planned.tiling.shape()), " in the new graph"));
    if (stored.storage != planned.storage)
      throw PlanError(concat("store: '", planned.name, "' is ", name_of(stored.storage),
                             " here but ", name_of(planned.storage),
                             " in the new graph; plan both with the same options"));
    if (!(stored.spec.tiling == planned.tiling))
      throw PlanError(concat("store: '", planned.name, "' is cut into a grid of ",
                             to_string(stored.spec.tiling.grid()), " tiles here but ",
                             to_string(planned.tiling.grid()),
                             " in the new graph; plan both with the same tile options"));
    if (stored.spec.column_unit != planned.column_unit)
      throw PlanError(concat("store: columns of '", planned.name, "' begin at multiples of ",
                             stored.spec.column_unit, " elements here but of ", planned.column_unit,
                             " in the new graph; plan both with the same ",
                             "padding, or the new one around TensorStore::tilings()"));
    if (stored.spec.homes != planned.homes)
      throw PlanError(concat("store: tiles of '", planned.name,
                             "' are on other ranks here than in ",
                             "the new graph; plan both with the same mesh and rules, and the new ",
                             "one around TensorStore::tilings()"));
  }

  RuntimeRef<R> runtime_;
  RankLink link_;
  std::vector<std::unique_ptr<Stored>> tensors_;
  std::unordered_multimap<std::string, Stored*> by_name_;
};

}  // namespace nntile
