#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Results of chains (nntile/ops/chain.hh) and of updates, by vectors.

#include "kernels/cpu/vec.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::NNTILE_ISA {

/// The result of a chain, by vectors too.
template <class T> struct ColumnResult : ChainResult<T> {
  using V = compute_t<T>;
  using ChainResult<T>::put;

  NNTILE_ALWAYS_INLINE ColumnResult at(Index offset) const { return {ChainResult<T>::at(offset)}; }
  NNTILE_ALWAYS_INLINE V start(Index i) const {
    V lanes[Vec<V>::lanes];
    if constexpr (Vec<V>::lanes == 1)  // First{1} is no part of one lane
      store(lanes, start(i, All{}), All{});
    else
      store(lanes, start(i, First{1}));
    return lanes[0];
  }
  template <class Part> NNTILE_ALWAYS_INLINE Vec<V> start(Index i, Part part) const {
    return this->template start_by<Vec<V>>(
        [=](auto const* from) __attribute__((always_inline)) { return load(from + i, part); });
  }
  template <class Part> NNTILE_ALWAYS_INLINE void put(Index i, Vec<V> value, Part part) const {
    this->put_by([=](auto* to) __attribute__((always_inline)) { store(to + i, value, part); });
  }
  /// `ends`: this task adds nothing more.
  template <class Part>
  NNTILE_ALWAYS_INLINE void put(Index i, Vec<V> value, Part part, bool ends) const {
    ColumnResult at_end = *this;
    at_end.chain.last = ends;
    at_end.put(i, value, part);
  }
};

/// p[i...] = value, or fma(beta, before, value) where beta is not 0.
template <class T, class Value, class Part>
NNTILE_ALWAYS_INLINE void update(T* p, double beta, Value value, Part part) {
  auto const before = [&]() __attribute__((always_inline)) {
    return load(static_cast<T const*>(p), part);
  };
  store(p, updated_by(beta, before, value), part);
}

}  // namespace nntile::kernels::NNTILE_ISA
