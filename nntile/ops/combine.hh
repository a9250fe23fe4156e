#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The task that adds the sum of one canonical group to that of another, and the arguments of all.

#include "nntile/ops/scale.hh"
#include "nntile/ops/tiled_call.hh"

namespace nntile {

/// Its op: y = x + y, elements alone.
inline constexpr OpInfo const* combine_op = &op_info<ops::Scale>;

/// Its dtype.
inline DType combine_dtype(TiledCall const& call, TileTask const& task) {
  OperandInfo const& result = call.operands[task.uses[0].handle.operand];
  return accumulator_of(dtype_of_kind(result.kind, {call.element, call.second}));
}

/// Writes its arguments. Tiles of a result and of its partials are alike, padding included.
inline void write_combine_arguments(TiledCall const& call, TileTask const& task, void* out) {
  OperandIndex const result = call.table.present.at(task.uses[0].handle.operand);
  ops::Scale::Args args{task.range.elements(result), {.alpha = 1, .beta = 1}};
  Index const rows = task.range.rows(result), leading = task.range.leading(result);
  if (leading != rows && args.n > 0) {
    args.columns.count = static_cast<std::uint32_t>(args.n / rows);
    args.n = rows;
    for (int o = 0; o < 2; ++o) args.columns.leading[o] = static_cast<std::uint32_t>(leading);
  }
  static_assert(sizeof(Arguments<ops::Scale>) == sizeof args);
  std::memset(out, 0, sizeof args);
  ::new (out) ops::Scale::Args(args);
}

/// Writes the arguments of any task of a call. Throws ShapeError, which names no op, for a tile of
/// more elements than the kernel counts.
inline void write_arguments(TiledCall const& call, TileTask const& task, void* out) {
  if (task.combines)
    write_combine_arguments(call, task, out);
  else
    call.op->args(call.attrs, task.range, out);
}

}  // namespace nntile
