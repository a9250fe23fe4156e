// error: an element of a tile is double, float, bf16_t, .*std::int32_t or bool
// note: Element<.*long double|T = long double|long double. does not satisfy .Element
// SPDX-License-Identifier: BSD-3-Clause
// A type that no DType stands for is no element of a tile.
#include "nntile/runtime/archetype.hh"
#include "nntile/tile/tile.hh"

#ifdef NNTILE_FAIL
using Number = long double;
#else
using Number = double;
#endif

static_assert(sizeof(nntile::Tile<Number, nntile::RuntimeArchetype>) > 0);
