#pragma once
// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/cpu/kernel.hh"

namespace nntile::kernels::NNTILE_ISA {

/// The largest element so far and where it is: of equal ones the lowest, and the first NaN.
template <class V> struct Best {
  V value;
  Index where;

  /// An element behind those so far.
  NNTILE_ALWAYS_INLINE void offer(V next, Index at) {
    if (value != value || !(next > value || next != next)) return;  // the first NaN stays
    value = next;
    where = at;
  }
};

}  // namespace nntile::kernels::NNTILE_ISA
