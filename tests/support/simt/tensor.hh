// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Work that the lanes of a warp do together, each of which brings its part.

namespace nntile::test::simt {

/// Of 32 lanes' `Product`s: sums += a b, each sum rounded once, from products and sums in fp64. Of
/// tf32 the low 13 bits of an element are left out, as tensor cores do.
void multiply_by_warp(void* const* lanes);
/// Of 32 lanes' `Matrices`: what each gets.
void share_matrices(void* const* lanes);

}  // namespace nntile::test::simt
