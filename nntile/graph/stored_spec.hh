#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A store's description of a tensor, besides its bytes.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/traits.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/spelling.hh"

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
  Place place = {};
};

namespace detail {

/// The dimensions of a shape, as files have them where nothing else is said.
inline Shape reversed(Shape const& shape) {
  Shape result;
  for (std::size_t d = shape.size(); d-- > 0;) result.push_back(shape[d]);
  return result;
}

/// Throws PlanError where a plan has the tensor otherwise than the store; whether it has the `same`
/// tiles on this rank, as homes on another mesh may be of other ranks.
inline void check_same(StoredSpec const& stored, Storage storage, PlannedTensor const& planned,
                       bool same) {
  if (stored.dtype != planned.dtype)
    throw PlanError(concat("store: '", planned.name, "' is ", name_of(stored.dtype), " here but ",
                           name_of(planned.dtype), " in the new graph"));
  if (!(stored.tiling.shape() == planned.tiling.shape()))
    throw PlanError(concat(
        "store: '", planned.name, "' has shape ", to_string(stored.tiling.shape()), " here but ",
        to_string(planned.tiling.shape()), " in the new graph; give one another name",
        planned.attributes.persistent ? "" : ", or both an open dimension, as in {2, \"batch\"}"));
  if (storage != planned.storage)
    throw PlanError(concat("store: '", planned.name, "' is ", name_of(storage), " here but ",
                           name_of(planned.storage),
                           " in the new graph; plan both with the same options"));
  if (!(stored.tiling == planned.tiling))
    throw PlanError(concat("store: '", planned.name, "' is cut into a grid of ",
                           to_string(stored.tiling.grid()), " tiles here but ",
                           to_string(planned.tiling.grid()),
                           " in the new graph; plan both with the same tile options"));
  if (stored.column_unit != planned.column_unit)
    throw PlanError(concat("store: columns of '", planned.name, "' begin at multiples of ",
                           stored.column_unit, " elements here but of ", planned.column_unit,
                           " in the new graph; plan both with the same ",
                           "padding, or the new one around TensorStore::tilings()"));
  if (!(stored.place == planned.place))
    throw PlanError(concat("store: '", planned.name, "' lives at ", to_string(stored.place),
                           " here but at ", to_string(planned.place),
                           " in the new graph; plan both with the same places, or the new one ",
                           "around TensorStore::tilings()"));
  if (!planned.file_shape.empty() && !(planned.file_shape == stored.file_shape) &&
      !(stored.file_shape == reversed(planned.tiling.shape())))
    throw PlanError(concat("store: '", planned.name, "' has shape ", to_string(stored.file_shape),
                           " in files here but ", to_string(planned.file_shape),
                           " in the new graph; give both the same TensorSpec::file_shape"));
  if (!same || stored.homes != planned.homes)
    throw PlanError(concat("store: tiles of '", planned.name, "' are on other ranks here than in ",
                           "the new graph; plan both with the same mesh and rules, and the new ",
                           "one around TensorStore::tilings()"));
}

/// Adds what another graph declares a tensor as: what is a parameter or state of one, and an input
/// or constant of another, is the former, and saved.
inline void join(StoredSpec& known, PlannedTensor const& other) noexcept {
  known.attributes.requires_grad |= other.attributes.requires_grad;
  known.attributes.persistent |= other.attributes.persistent;
  known.attributes.external &= other.attributes.external;
  known.attributes.output |= other.attributes.output;
  if (!other.file_shape.empty()) known.file_shape = other.file_shape;
}

inline TileBox whole_box(Tiling const& tiling) { return {Shape(tiling.rank(), 0), tiling.shape()}; }
/// The box that the tiles of this rank fill, those which are not elsewhere; none where they fill no
/// box.
inline std::optional<TileBox> held_box(Tiling const& tiling, DynamicArray<bool> const& elsewhere) {
  TileBox held{Shape(tiling.rank(), 0), Shape(tiling.rank(), 0)};
  Index elements = 0;
  bool first = true;
  for (std::size_t tile = 0; tile < elsewhere.size(); ++tile) {
    if (elsewhere[tile]) continue;
    TileBox const box = tiling.box(static_cast<Index>(tile));
    elements += element_count(box.extent);
    if (std::exchange(first, false)) held = box;
    for (std::size_t d = 0; d < tiling.rank(); ++d) {
      Index const end = std::max(held.begin[d] + held.extent[d], box.begin[d] + box.extent[d]);
      held.begin[d] = std::min(held.begin[d], box.begin[d]);
      held.extent[d] = end - held.begin[d];
    }
  }
  if (elements != element_count(held.extent)) return {};
  return held;
}

/// Throws the error of a lock of one of a tensor's tiles, in words about the tensor.
[[noreturn, gnu::cold]] inline void fail_lock(StoredSpec const& spec, bool written,
                                              LifetimeError const& error) {
  throw LifetimeError(concat("store: '", spec.name,
                             written ? "': "
                                     : "' has no value until a graph that computes it has run, or "
                                       "values are bound or written: ",
                             error.what()));
}

[[noreturn]] inline void fail_no_tensor(std::string const& name,
                                        DynamicArray<std::string_view> const& names) {
  std::string const near = did_you_mean(name, names);
  throw GraphError(concat("store: no tensor '", name, "' among its ", names.size(),
                          near.empty() ? "; compile the graph that declares it, an input, "
                                         "parameter, state or output"
                                       : near));
}

inline void check_number(StoredSpec const& spec, Index tile, char const* call) {
  if (tile < 0 || tile >= spec.tiling.tile_count())
    throw ShapeError(concat(call, ": tile ", tile, " of '", spec.name, "', which has ",
                            spec.tiling.tile_count()));
}
template <Element T> void check_type(StoredSpec const& spec, char const* call) {
  if (spec.dtype != dtype_of<T>)
    throw TypeError(concat(call, ": '", spec.name, "' is ", name_of(spec.dtype), ", not ",
                           name_of(dtype_of<T>), "; its elements are ",
                           element_name_of(spec.dtype)));
}
/// Throws TypeError, ShapeError where `count` values are not the whole tensor.
template <Element T>
void check_values(StoredSpec const& spec, std::size_t count, char const* call) {
  check_type<T>(spec, call);
  if (static_cast<Index>(count) != element_count(spec.tiling.shape()))
    throw ShapeError(concat(call, ": ", count, " values for '", spec.name, "' of shape ",
                            to_string(spec.tiling.shape())));
}
/// The box that `count` values fill: the whole tensor, or what this rank holds of it. Throws
/// TypeError, ShapeError.
template <Element T>
TileBox box_of_values(StoredSpec const& spec, std::optional<TileBox> const& held, std::size_t count,
                      char const* call) {
  check_type<T>(spec, call);
  Shape const shape = spec.tiling.shape();
  if (static_cast<Index>(count) == element_count(shape)) return whole_box(spec.tiling);
  if (held && static_cast<Index>(count) == element_count(held->extent)) return *held;
  bool const part = held && !(held->extent == shape);
  throw ShapeError(concat(call, ": ", count, " values for '", spec.name, "' of shape ",
                          to_string(shape),
                          part ? concat(", of which this rank holds ", to_string(held->extent),
                                        " from ", to_string(held->begin))
                               : std::string()));
}

}  // namespace detail

}  // namespace nntile
