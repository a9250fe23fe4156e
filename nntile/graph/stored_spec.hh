#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a store knows of a tensor besides its bytes.

#include <string>
#include <vector>

#include "nntile/graph/plan.hh"

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

namespace detail {

/// Throws PlanError where a plan has the tensor otherwise than the store.
inline void check_same(StoredSpec const& stored, Storage storage, PlannedTensor const& planned) {
  if (stored.dtype != planned.dtype)
    throw PlanError(concat("store: '", planned.name, "' is ", name_of(stored.dtype), " here but ",
                           name_of(planned.dtype), " in the new graph"));
  if (!(stored.tiling.shape() == planned.tiling.shape()))
    throw PlanError(concat("store: '", planned.name, "' has shape ",
                           to_string(stored.tiling.shape()), " here but ",
                           to_string(planned.tiling.shape()), " in the new graph"));
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
  if (stored.homes != planned.homes)
    throw PlanError(concat("store: tiles of '", planned.name, "' are on other ranks here than in ",
                           "the new graph; plan both with the same mesh and rules, and the new ",
                           "one around TensorStore::tilings()"));
}

}  // namespace detail

}  // namespace nntile
