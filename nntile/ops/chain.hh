#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Chains of tile tasks that reduce into one result: how each starts, and what it stores.

#include <cmath>

#include "nntile/core/dtype.hh"
#include "nntile/core/macros.hh"
#include "nntile/core/shape.hh"

namespace nntile {

/// The position of a task in the chain that ends in a result.
struct Chain {
  bool first = true;
  bool last = true;
};

/// The new value of a result: `value`, or fma(beta, before, value) where beta is not 0.
template <class V, class T>
NNTILE_ALWAYS_INLINE constexpr V updated(double beta, T const& before, V value) {
  return beta == 0 ? value : std::fma(static_cast<V>(beta), static_cast<V>(before), value);
}

/// A result that a chain of tasks adds to, rounded once, by the last: it starts from beta times
/// what is there, and partial sums are held in `carry` between tasks, where there is one. A task of
/// a canonical group that sums in the carry has no `out`.
template <class T> struct ChainResult {
  using V = compute_t<T>;
  T* out;
  V* carry;  // or null
  double beta;
  Chain chain;
  /// The carry holds what canonical groups gave together, and what was there is yet to be added.
  bool finishing = false;

  NNTILE_ALWAYS_INLINE constexpr V start(Index i) const {
    if (finishing && carry != nullptr) return updated(beta, out[i], carry[i]);
    if (!chain.first) return carry == nullptr ? static_cast<V>(out[i]) : carry[i];
    return beta == 0 ? V(0) : static_cast<V>(beta) * static_cast<V>(out[i]);
  }
  /// The result of a task that sums a pair of canonical groups: their sum, and beta times what is
  /// there.
  NNTILE_ALWAYS_INLINE constexpr V of_pair(Index i, V left, V right) const {
    return beta == 0 ? left + right : updated(beta, out[i], left + right);
  }
  NNTILE_ALWAYS_INLINE constexpr void put(Index i, V value) const {
    if (carry != nullptr && !chain.last)
      carry[i] = value;
    else
      out[i] = static_cast<T>(value);
  }
  /// The same result from element `offset` on.
  NNTILE_ALWAYS_INLINE constexpr ChainResult at(Index offset) const {
    return {out == nullptr ? nullptr : out + offset, carry == nullptr ? nullptr : carry + offset,
            beta, chain, finishing};
  }
};

}  // namespace nntile
