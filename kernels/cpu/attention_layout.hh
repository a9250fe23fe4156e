#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The place of a head in attention's tiles, and the size of its blocks.

#include "kernels/cpu/kernel.hh"
#include "nntile/ops/attention_tiles.hh"

namespace nntile::kernels::NNTILE_ISA::sdpa {

/// Queries and keys of a block.
inline constexpr Index attention_block = 64;

/// Positions of one head in the tiles, all with rows `ld` apart.
struct HeadLayout {
  Index q, k;  // of its first element in tiles of queries and of keys
  Index ld;
  Index statistics;  // of its first query in max and sum
};
NNTILE_ALWAYS_INLINE HeadLayout head_layout(ops::AttentionArgs const& args, Index head,
                                            Index batch) {
  Index const ld = args.d * args.h;
  Index const queries = args.i + args.rest;
  return {args.d * head + ld * (queries * batch + args.skipped),
          args.d * head + ld * args.j * batch, ld,
          queries * (head + args.h * batch) + args.skipped};
}

}  // namespace nntile::kernels::NNTILE_ISA::sdpa
