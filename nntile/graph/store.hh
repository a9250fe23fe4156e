#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// TensorStore: the tensors that outlive a run, by name, shared by the graphs of one model.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/box.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/exchange.hh"
#include "nntile/graph/name_table.hh"
#include "nntile/graph/stored_bytes.hh"
#include "nntile/graph/stored_ranks.hh"
#include "nntile/graph/stored_reads.hh"
#include "nntile/graph/stored_tensor.hh"
#include "nntile/runtime/device.hh"
#include "nntile/tile/elements.hh"
#include "nntile/tile/tile.hh"

namespace nntile {

/// Owns the parameters, states, inputs and outputs of one or more compiled graphs on one runtime. A
/// graph that is compiled adds what it stores and is not here yet, nothing where that throws; what
/// is here keeps its dtype, shape and tiling; an open one, an input or result of another size in
/// each plan, is there once for each shape. A tensor without elements has a value from the start.
/// Outlives its graphs; the runtime outlives it: after its end every use throws LifetimeError, and
/// the destructor does nothing.
template <Runtime R> class TensorStore {
 public:
  using Handle = typename R::Handle;
  using Stored = StoredTensor<Handle>;
  using Reads = detail::StoredReads<R>;

  explicit TensorStore(R& runtime, RankLink const& link = {}) : runtime_(runtime), link_(link) {}
  TensorStore(TensorStore const&) = delete;
  TensorStore& operator=(TensorStore const&) = delete;
  ~TensorStore() {
    for (auto const& stored : tensors_) retire(*stored);
  }

  R& runtime() const { return runtime_.get("store"); }
  RankLink const& link() const { return link_; }
  /// Whether a stored tile of a plan is kept here, not on another rank.
  bool holds(PlannedBuffer const& buffer) const { return buffer.is_stored(link_.rank); }
  /// Throws PlanError where the plan is not this rank's part.
  void check_ranks(Plan const& plan) const { detail::check_part(plan, link_); }

  /// The tensor of that name, an open one of that shape, as it was; a new one is allocated as the
  /// plan lists its buffers. Throws PlanError when dtype, shape or tiling differ, OutOfMemory.
  Stored& ensure(PlannedTensor const& planned, std::span<PlannedBuffer const> buffers) {
    Shape const shape = planned.tiling.shape();
    auto const tiles = static_cast<std::size_t>(planned.tiling.tile_count());
    DynamicArray<bool> elsewhere(tiles, true);
    for (PlannedBuffer const& buffer : buffers) elsewhere[buffer.tile] = !holds(buffer);
    if (Stored* const stored = find_for(planned, shape)) {
      detail::check_same(stored->spec, stored->storage, planned, stored->elsewhere == elsewhere);
      return *stored;
    }
    Shape file = planned.file_shape;
    if (file.empty()) file = detail::reversed(shape);
    Stored& result = *tensors_.emplace_back(std::make_unique<Stored>());
    try {
      result.spec = {planned.name,       planned.dtype, planned.tiling,      file,
                     planned.attributes, planned.open,  planned.column_unit, planned.homes,
                     planned.place};
      result.storage = planned.storage;
      for (std::size_t tile = 0; tile < tiles; ++tile)
        result.written.push_back(
            element_count(planned.tiling.box(static_cast<Index>(tile)).extent) == 0);
      result.elsewhere = std::move(elsewhere);
      allocate(result.spec, result.tiles, planned, buffers);
      if (planned.storage == Storage::double_buffered)
        allocate(result.spec, result.spare, planned, buffers);
      result.held = detail::held_box(planned.tiling, result.elsewhere);
      auto const index = static_cast<std::uint32_t>(tensors_.size() - 1);
      if (std::uint32_t* const last = by_name_.find(planned.name)) {
        result.same_name = tensors_[*last].get();
        *last = index;
      } else {
        by_name_.add(planned.name, index);
      }
    } catch (...) {
      retire(result);
      tensors_.pop_back();
      throw;
    }
    return result;
  }

  /// Removes the tensors behind the first `count`, to which nothing refers: those of a graph that
  /// could not be bound.
  void take_back(std::size_t count) {
    for (; tensors_.size() > count; tensors_.pop_back()) {
      Stored& last = *tensors_.back();
      retire(last);
      if (last.same_name == nullptr) by_name_.erase(last.spec.name);
      for (std::uint32_t i = 0; last.same_name != nullptr && i < tensors_.size(); ++i)
        if (tensors_[i].get() == last.same_name) *by_name_.find(last.spec.name) = i;
    }
  }

  /// All tensors, in the order in which they came.
  DynamicArray<std::unique_ptr<Stored>> const& tensors() const { return tensors_; }
  /// The tilings and storages of all tensors, for PlanOptions::keep.
  std::vector<KeptTiling> tilings() const {
    std::vector<KeptTiling> result;
    for (auto const& stored : tensors_)
      result.push_back({stored->spec.name, stored->spec.tiling, stored->storage,
                        stored->spec.column_unit, stored->spec.homes, stored->spec.place});
    return result;
  }
  bool contains(std::string const& name) const { return by_name_.contains(name); }
  /// The tensor of that name and shape; null where there is none.
  Stored* find(std::string const& name, Shape const& shape) const {
    for (Stored* stored = newest(name); stored != nullptr; stored = stored->same_name)
      if (stored->spec.tiling.shape() == shape) return stored;
    return nullptr;
  }
  /// Throws GraphError where there is none, or where plans bound an open one to several shapes.
  Stored& at(std::string const& name) const {
    Stored* const found = newest(name);
    if (found != nullptr && found->same_name == nullptr) return *found;
    if (found != nullptr) {
      std::string shapes;
      for (auto const& stored : tensors_)
        if (stored->spec.name == name)
          shapes += (shapes.empty() ? "" : ", ") + to_string(stored->spec.tiling.shape());
      throw GraphError(concat("store: '", name, "' has several shapes, ", shapes,
                              "; use that of one compiled graph, by its bind_input or get_output"));
    }
    DynamicArray<std::string_view> names;
    for (auto const& stored : tensors_) names.push_back(stored->spec.name);
    detail::fail_no_tensor(name, names);
  }

  /// Whether something has written a tile. Asks the runtime, and so waits for that tile's tasks,
  /// only where neither the store nor a run has written it.
  bool has_value(Stored& stored, Index tile) {
    auto const at = static_cast<std::size_t>(tile);
    if (stored.written[at]) return true;
    try {
      (void)detail::StoredBytes<R, Access::read>(runtime(), stored.spec, stored.tiles[at], tile);
    } catch (LifetimeError const&) {
      return false;
    } catch (TaskError const&) {  // written by a task that failed
      return true;
    }
    return stored.written[at] = true;
  }

  /// Hands a column-major array to an input: the whole tensor, of which each rank takes the tiles
  /// that it holds, or what this rank holds of it. Most copy it in, as `write` does, and call
  /// `release` at once. An adopted one reads it in place: it lives until `release` is called, after
  /// the last task that reads it and the binding of other memory; without one, until two others
  /// were bound or the store ends, and the runs in between have ended. Costs nothing where one of
  /// the last two is bound again. T is const, or nothing else that is adopted may overlap the
  /// memory. Throws ShapeError, TypeError, ValueError (alignment; an overlap; memory of a device
  /// that the host cannot follow, as `write` and `read` do); then nothing has changed.
  template <class T>
  requires Element<std::remove_const_t<T>>
  void bind(Stored& stored, std::span<T> values, Release release = {}) {
    TileBox const box = detail::box_of_values<std::remove_const_t<T>>(stored.spec, stored.held,
                                                                      values.size(), "bind_input");
    if (stored.storage == Storage::adopted) {
      adopt(stored, {std::as_bytes(values), std::is_const_v<T>}, box, release);
    } else {
      check_followed(stored, "bind_input", values.data());
      copy_in(stored, std::as_bytes(values).data(), box);
      release();
    }
    stored.bytes_bound += values.size_bytes();
  }

  /// Copies a whole column-major array into a tensor, of which each rank takes the tiles that it
  /// holds, waiting for that tensor's tasks alone: a double-buffered one's of the run before the
  /// last binding. Of several ranks not between the phases of a run: CompiledGraph::execute_async.
  /// Throws ShapeError, TypeError, GraphError (the tensor is the caller's memory).
  template <Element T> void write(std::string const& name, std::span<T const> values) {
    write(at(name), values);
  }
  template <Element T> void write(Stored& stored, std::span<T const> values) {
    detail::check_values<T>(stored.spec, values.size(), "write");
    write_bytes(stored, reinterpret_cast<std::byte const*>(values.data()));
  }
  /// Copies a tensor out, or, to a span of that size, what this rank holds of it; waits for its
  /// tasks alone. Throws TypeError; TaskError where a task that wrote it failed; GraphError, with
  /// tile and rank, where another rank holds some of the whole: `gather` gives that.
  template <Element T> std::vector<T> read(std::string const& name) const {
    return read<T>(at(name));
  }
  template <Element T> std::vector<T> read(Stored const& stored) const {
    detail::Elements<T> values(static_cast<std::size_t>(element_count(stored.spec.tiling.shape())));
    read(stored, std::span<T>(values));
    return detail::vector_of(std::move(values));
  }
  template <Element T> void read(Stored const& stored, std::span<T> to) const {
    TileBox const box = detail::box_of_values<T>(stored.spec, stored.held, to.size(), "read");
    if (box.extent == stored.spec.tiling.shape()) check_here(stored, "read");
    check_followed(stored, "read", to.data());
    copy_out(stored, reinterpret_cast<std::byte*>(to.data()), box);
  }

  /// Whether this rank holds a tile.
  bool holds(std::string const& name, Index tile) const {
    Stored const& stored = at(name);
    detail::check_number(stored.spec, tile, "holds");
    return !stored.elsewhere[static_cast<std::size_t>(tile)];
  }
  /// Copies a column-major array into one tile that this rank holds, and out of it; tiles are those
  /// of spec.tiling. Waits for the tile's tasks alone. Throws as `write` and `read` do; GraphError
  /// where another rank holds it, or the input is bound as a whole.
  template <Element T>
  void write_tile(std::string const& name, Index tile, std::span<T const> values) {
    Stored& stored = at(name);
    Shape const extent = check_tile<T>(stored, tile, "write_tile", values.size());
    if (stored.storage != Storage::stored)
      throw GraphError(concat("write_tile: '", name, "' is ", name_of(stored.storage),
                              "; bind the whole by bind_input(\"", name, "\", span)"));
    check_followed(stored, "write_tile", values.data());
    auto const number = static_cast<std::size_t>(tile);
    [[maybe_unused]] auto const inside = drive("write_tile");
    detail::StoredBytes<R, Access::write> const bytes(runtime(), stored.spec, stored.tiles[number],
                                                      tile);
    copy_to_tile(bytes.data(), {Shape(extent.size(), 0), extent}, values.data(), extent, sizeof(T),
                 stored.spec.column_unit);
    stored.written[number] = true;
  }
  template <Element T> std::vector<T> read_tile(std::string const& name, Index tile) const {
    Stored const& stored = at(name);
    Shape const extent = check_tile<T>(stored, tile, "read_tile");
    detail::Elements<T> values(static_cast<std::size_t>(element_count(extent)));
    [[maybe_unused]] auto const inside = drive("read_tile");
    detail::StoredBytes<R, Access::read> const bytes(
        runtime(), stored.spec, stored.tiles[static_cast<std::size_t>(tile)], tile);
    copy_from_tile(bytes.data(), {Shape(extent.size(), 0), extent}, values.data(), extent,
                   sizeof(T), stored.spec.column_unit);
    return detail::vector_of(std::move(values));
  }

  /// Copies a whole tensor out on every rank: all call it together, for the same tensors in one
  /// order. Waits for the runs of the store that are in flight, whether they fail or not. Throws
  /// what `read` does; where one rank throws, all others throw CommError with its number and words.
  /// On one rank it is `read`. Cost: every rank receives the tensor, in pieces.
  template <Element T> std::vector<T> gather(std::string const& name) const {
    std::optional<Reads> from;
    detail::Elements<T> values;
    auto const call = [&] { return concat("gather of '", name, "'"); };
    (void)together(call, [&] {
      Stored const& stored = at(name);
      values.resize(static_cast<std::size_t>(element_count(stored.spec.tiling.shape())));
      detail::check_values<T>(stored.spec, values.size(), "gather");
      from.emplace(stored);
      return std::vector<std::byte>();
    });
    std::span<std::byte> const to = std::as_writable_bytes(std::span(values));
    for (std::size_t at = 0; at < to.size(); at += piece_bytes)
      gather_bytes(*from, at, to.subspan(at, std::min(piece_bytes, to.size() - at)));
    return detail::vector_of(std::move(values));
  }
  /// The same for the column-major bytes from `offset`, at most 2 GiB - 1, as MPI counts.
  void gather_bytes(Reads& from, std::uint64_t offset, std::span<std::byte> to) const {
    if (link_.ranks == 1) return read_bytes(from, offset, to);
    Stored const& stored = from.stored();
    auto const call = [&] { return concat("gather of '", stored.spec.name, "' at byte ", offset); };
    DynamicArray<std::size_t> taken;
    auto const all = together(call, [&] {
      taken.resize(static_cast<std::size_t>(link_.ranks));
      std::vector<std::byte> own;
      from.read(
          runtime(), offset, to.size(),
          [&](std::size_t tile) { return detail::owner(stored.spec, tile, link_) == link_.rank; },
          [&](std::uint64_t, std::span<std::byte const> run) {
            own.insert(own.end(), run.begin(), run.end());
          });
      return own;
    });
    detail::for_each_run_in(
        stored.spec.tiling, size_of(stored.spec.dtype), stored.spec.column_unit, offset, to.size(),
        [&](std::size_t tile, std::uint64_t, std::uint64_t at, std::uint64_t count) {
          auto const owner = static_cast<std::size_t>(detail::owner(stored.spec, tile, link_));
          if (count > all[owner].size() - taken[owner])
            throw CommError(concat("gather: rank ", owner, " gives ", all[owner].size(),
                                   " bytes of '", stored.spec.name, "', too few for tile ", tile,
                                   ": all ranks plan with the same options"));
          std::memcpy(to.data() + at, all[owner].data() + taken[owner], count);
          taken[owner] += count;
        });
  }
  /// Gives every rank what each of them gives, as exchange() of graph/exchange.hh does, behind the
  /// runs that are in flight.
  template <class Call, class Give>
  std::vector<std::vector<std::byte>> together(Call const& call, Give&& give) const {
    if (link_.ranks > 1)
      for (auto const& run : runs_)
        for (Event const event : *run) runtime_.wait(event);
    return exchange(link_, call, give);
  }
  /// Throws GraphError, naming `call`, where another rank holds some of a tensor.
  void check_here(Stored const& stored, char const* call) const {
    for (std::size_t tile = 0; tile < stored.elsewhere.size(); ++tile)
      if (stored.elsewhere[tile]) detail::fail_elsewhere(stored.spec, tile, link_, call);
  }
  /// Copies the column-major bytes from `offset` out of a tensor that is all here.
  void read_bytes(Reads& from, std::uint64_t offset, std::span<std::byte> to) const {
    check_here(from.stored(), "read");
    from.read(
        runtime(), offset, to.size(), [](std::size_t) { return true; },
        [&](std::uint64_t at, std::span<std::byte const> run) {
          std::memcpy(to.data() + at, run.data(), run.size());
        });
  }
  /// For a compiled graph, which writes down there what ends its last run, of each phase.
  std::shared_ptr<DynamicArray<Event>> add_run() {
    erase_if(runs_, [](auto const& run) { return run.use_count() == 1; });
    return runs_.emplace_back(std::make_shared<DynamicArray<Event>>());
  }

  /// The same without types: column-major bytes of the whole tensor.
  void write_bytes(Stored& stored, std::byte const* values) {
    if (stored.storage == Storage::adopted)
      throw GraphError(concat("write: '", stored.spec.name, "' is adopted, so that its values are ",
                              "in the caller's memory; change them there, or bind other memory by ",
                              "bind_input(\"", stored.spec.name, "\", span)"));
    check_followed(stored, "write", values);
    copy_in(stored, values, detail::whole_box(stored.spec.tiling));
  }
  void read_bytes(Stored const& stored, std::byte* values) const {
    check_here(stored, "read");
    copy_out(stored, values, detail::whole_box(stored.spec.tiling));
  }

 private:
  /// Notes on which tiles have values, and which are bound, are the driving thread's.
  auto drive(char const* call) const { return detail::drive(runtime(), call); }

  /// Allocates a tensor's buffers as the plan lists them; of an adopted input a byte each, which
  /// nothing writes, until memory is bound.
  void allocate(StoredSpec const& spec, DynamicArray<Handle>& tiles, PlannedTensor const& planned,
                std::span<PlannedBuffer const> buffers) {
    auto const count = static_cast<std::size_t>(planned.tiling.tile_count());
    tiles.reserve(count);
    for (auto buffer = buffers.begin(); tiles.size() < count;) {
      while (buffer != buffers.end() && (buffer->tile < tiles.size() || !holds(*buffer))) ++buffer;
      if (buffer == buffers.end() || buffer->tile > tiles.size()) {
        tiles.push_back({});
        continue;
      }
      bool const placeholder = planned.storage == Storage::adopted;
      tiles.push_back(runtime().allocate(placeholder ? 1 : static_cast<std::size_t>(buffer->bytes),
                                         buffer->location.place, Lifetime::persistent));
      if (element_count(planned.tiling.box(buffer->tile).extent) == 0)
        (void)detail::StoredBytes<R, Access::write>(runtime(), spec, tiles.back(), buffer->tile);
    }
  }
  void retire(Stored& stored) {
    for (auto const* tiles : {&stored.tiles, &stored.spare}) retire(*tiles, stored.elsewhere);
  }
  void retire(DynamicArray<Handle> const& tiles, DynamicArray<bool> const& elsewhere) {
    for (std::size_t i = 0; i < tiles.size(); ++i)
      if (!elsewhere[i]) runtime_.retire(tiles[i]);
  }

  /// Throws ValueError where the runtime's devices know values to be memory of theirs.
  void check_followed([[maybe_unused]] Stored const& stored, [[maybe_unused]] char const* call,
                      [[maybe_unused]] void const* values) const {
    if constexpr (requires(R& r) { nntile::check_followed(r.device(), call, "", values); })
      nntile::check_followed(runtime().device(), call, stored.spec.name, values);
  }

  /// Copies the values of a box of a tensor into the tiles that are here.
  void copy_in(Stored& stored, std::byte const* values, TileBox const& box) {
    [[maybe_unused]] auto const inside = drive("write");
    bool const twice = stored.storage == Storage::double_buffered;
    for_each_tile<Access::write>(stored, twice ? stored.spare : stored.tiles, box,
                                 [&](std::byte* tile, TileBox const& in, std::size_t size) {
                                   copy_to_tile(tile, in, values, box.extent, size,
                                                stored.spec.column_unit);
                                 });
    stored.written.assign(stored.tiles.size(), true);
    if (!twice) return;
    stored.tiles.swap(stored.spare);
    ++stored.bindings;
  }
  void copy_out(Stored const& stored, std::byte* values, TileBox const& box) const {
    [[maybe_unused]] auto const inside = drive("read");
    for_each_tile<Access::read>(
        stored, stored.tiles, box, [&](std::byte const* tile, TileBox const& in, std::size_t size) {
          copy_from_tile(tile, in, values, box.extent, size, stored.spec.column_unit);
        });
  }
  void adopt(Stored& stored, detail::CallerMemory const& memory, TileBox const& box,
             Release release) {
    [[maybe_unused]] auto const inside = drive("bind_input");
    bool const first = stored.bindings == 0, returned = release.call != nullptr;
    if (!first && !returned && !stored.has_release && stored.memory == memory) return;
    check_memory(stored, memory);
    if (returned || stored.spare.empty() || !(stored.spare_memory == memory)) {
      DynamicArray<Handle> tiles = adopt_tiles(stored, memory, box, release);
      retire(stored.spare, stored.elsewhere);
      stored.spare.swap(tiles);
      stored.spare_memory = memory;
    }
    stored.tiles.swap(stored.spare);
    std::swap(stored.memory, stored.spare_memory);
    ++stored.bindings;
    if (first || stored.has_release) {  // placeholders, or memory that the caller wants back
      retire(stored.spare, stored.elsewhere);
      stored.spare.clear();
    }
    stored.has_release = returned;
    stored.written.assign(stored.tiles.size(), true);
  }
  DynamicArray<Handle> adopt_tiles(Stored const& stored, detail::CallerMemory const& memory,
                                   TileBox const& box, Release release) {
    try {
      return detail::adopt_tiles(runtime(), stored.spec.tiling, stored.elsewhere, box,
                                 size_of(stored.spec.dtype), memory.bytes, release);
    } catch (ValueError const& error) {
      throw ValueError(concat("bind_input: '", stored.spec.name, "': ", error.what()));
    }
  }
  /// Throws ValueError: alignment, an overlap with another input.
  void check_memory(Stored const& stored, detail::CallerMemory const& memory) const {
    detail::check_alignment(stored.spec, memory);
    for (auto const& other : tensors_)
      if (other.get() != &stored && other->storage == Storage::adopted && other->bindings != 0)
        detail::check_apart(stored.spec, memory, other->spec, other->memory);
  }

  /// Calls f(bytes of a tile, its box in `within`, bytes of an element) for the tiles that are
  /// here.
  template <Access access, class F>
  void for_each_tile(Stored const& stored, DynamicArray<Handle> const& tiles, TileBox const& within,
                     F&& f) const {
    for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
      if (stored.elsewhere[tile]) continue;
      detail::StoredBytes<R, access> const bytes(runtime(), stored.spec, tiles[tile],
                                                 static_cast<Index>(tile), stored.written[tile]);
      TileBox box = stored.spec.tiling.box(static_cast<Index>(tile));
      for (std::size_t d = 0; d < box.begin.size(); ++d) box.begin[d] -= within.begin[d];
      f(bytes.data(), box, size_of(stored.spec.dtype));
    }
  }

  /// The extent of a tile that is here; as many values, where they are given.
  template <Element T>
  Shape check_tile(Stored const& stored, Index tile, char const* call,
                   std::optional<std::size_t> values = {}) const {
    detail::check_type<T>(stored.spec, call);
    detail::check_number(stored.spec, tile, call);
    Shape const extent = stored.spec.tiling.box(tile).extent;
    if (values && static_cast<Index>(*values) != element_count(extent))
      throw ShapeError(concat(call, ": ", *values, " values for tile ", tile, " of '",
                              stored.spec.name, "', of shape ", to_string(extent)));
    if (stored.elsewhere[static_cast<std::size_t>(tile)])
      detail::fail_elsewhere(stored.spec, static_cast<std::size_t>(tile), link_, call);
    return extent;
  }

  /// The tensor that a plan means: of open ones there is one for each shape.
  Stored* find_for(PlannedTensor const& planned, Shape const& shape) const {
    if (Stored* const same = find(planned.name, shape)) return same;
    for (Stored* stored = newest(planned.name); stored != nullptr; stored = stored->same_name)
      if (!planned.open || !stored->spec.open) return stored;  // to be refused
    return nullptr;
  }
  /// The last of that name, null where there is none; `same_name` leads to the others.
  Stored* newest(std::string_view name) const {
    std::uint32_t const* const index = by_name_.find(name);
    return index == nullptr ? nullptr : tensors_[*index].get();
  }

  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;

  RuntimeRef<R> runtime_;
  RankLink link_;
  DynamicArray<std::shared_ptr<DynamicArray<Event>>> runs_;  // the last of each compiled graph
  DynamicArray<std::unique_ptr<Stored>> tensors_;
  NameTable by_name_;  // of the last of each name among `tensors_`
};

}  // namespace nntile
