#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Elements of tiles whose columns are padded, for ops that take elements one by one.

#include <cstdint>
#include <initializer_list>

#include "nntile/ops/tile_range.hh"

namespace nntile {

/// Tiles of one shape, one of each of up to `operands` operands, as columns of equally many
/// elements, `leading[o]` elements from one to the next. Tiles without padding are one column.
template <std::size_t operands> struct Columns {
  std::uint32_t count = 1;
  std::uint32_t leading[operands] = {};
};

/// The columns of a task, and in `rows` how many elements each has. The operands have the same
/// axes.
template <std::size_t most>
Columns<most> columns_of(TileRange const& range, std::size_t operands, Index& rows,
                         OperandIndex first = {}) {
  Columns<most> result;
  rows = range.elements(first);
  bool padded = false;
  for (std::size_t o = 0; o < operands; ++o)
    padded |= range.padded(OperandIndex(first.position() + o));
  if (!padded || rows == 0) return result;
  Index const column = range.rows(first);
  result.count = static_cast<std::uint32_t>(rows / column);
  rows = column;
  for (std::size_t o = 0; o < operands; ++o)
    result.leading[o] =
        static_cast<std::uint32_t>(range.leading(OperandIndex(first.position() + o)));
  return result;
}

}  // namespace nntile
