#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Chains of tile tasks that reduce into one result: how each starts, and what it stores.

#include <cmath>
#include <type_traits>

#include "nntile/core/dtype.hh"
#include "nntile/core/macros.hh"
#include "nntile/core/shape.hh"

namespace nntile {

/// The position of a task in the chain that ends in a result.
struct Chain {
  bool first = true;
  bool last = true;

  /// The partial result that a task goes on from: number `i` of those that the task before has
  /// left, or `none` in the first, which reads nothing.
  template <class V>
  NNTILE_ALWAYS_INLINE constexpr V start(V const* left, Index i, V none = V(0)) const {
    return first ? none : left[i];
  }
  /// The factor of a result's former value: of a partial result it is 1.
  NNTILE_ALWAYS_INLINE constexpr double factor(double beta) const { return first ? beta : 1; }
  /// The chain of what phase `made` of an op leaves, in a task of phase `phase`: a later phase
  /// reads it whole, and a task that does all phases (-1) is all of the chain.
  NNTILE_ALWAYS_INLINE constexpr Chain in_phase(int phase, int made) const {
    return phase < 0 ? Chain{} : Chain{first && phase <= made, last};
  }
  /// Whether the task leaves a partial result in `carry`, if that is not null.
  NNTILE_ALWAYS_INLINE constexpr bool leaves_in(void const* carry) const {
    return carry != nullptr && !last;
  }
};

/// beta times a former value, which is not read where beta is 0. `before()` gives it as a Value:
/// one number, or the lanes of a vector.
template <class Value, class Before>
NNTILE_ALWAYS_INLINE constexpr Value scaled(double beta, Before before) {
  return beta == 0 ? Value(0) : Value(beta) * before();
}

/// fma(beta, former value, value); the former one is not read where beta is 0.
template <class Value, class Before>
NNTILE_ALWAYS_INLINE constexpr Value updated_by(double beta, Before before, Value value) {
  using std::fma;
  return beta == 0 ? value : fma(Value(beta), before(), value);
}
template <class V, class T>
NNTILE_ALWAYS_INLINE constexpr V updated(double beta, T const& before, V value) {
  return updated_by(
      beta, [&]() __attribute__((always_inline)) { return static_cast<V>(before); }, value);
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
    return start_by<V>([i](auto const* from)
                           __attribute__((always_inline)) { return static_cast<V>(from[i]); });
  }
  /// As start, of any number of elements: load(pointer) gives them as a Value, from the result or
  /// the carry.
  template <class Value, class Load>
  NNTILE_ALWAYS_INLINE constexpr Value start_by(Load load) const {
    auto const before = [&]() __attribute__((always_inline)) {
      return load(static_cast<T const*>(out));
    };
    V const* const held = carry;
    if (finishing && held != nullptr) return updated_by<Value>(beta, before, load(held));
    return chain.first ? scaled<Value>(beta, before) : with_left(load);
  }
  /// use(pointer) with the partial results that earlier tasks have left: in the carry, or rounded
  /// in the result.
  template <class Use> NNTILE_ALWAYS_INLINE constexpr decltype(auto) with_left(Use use) const {
    if (carry == nullptr) return use(static_cast<T const*>(out));
    return use(static_cast<V const*>(carry));
  }
  /// The result of a task that sums a pair of canonical groups: their sum, and beta times what is
  /// there.
  NNTILE_ALWAYS_INLINE constexpr V of_pair(Index i, V left, V right) const {
    return beta == 0 ? left + right : updated(beta, out[i], left + right);
  }
  NNTILE_ALWAYS_INLINE constexpr void put(Index i, V value) const {
    put_by([i, value](auto* to) __attribute__((always_inline)) {
      to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(value);
    });
  }
  /// As put, of any number of elements: store(pointer) writes them to the result or the carry.
  template <class Store> NNTILE_ALWAYS_INLINE constexpr void put_by(Store store) const {
    if (chain.leaves_in(carry))
      store(carry);
    else
      store(out);
  }
  /// The same result from element `offset` on.
  NNTILE_ALWAYS_INLINE constexpr ChainResult at(Index offset) const {
    return {out == nullptr ? nullptr : out + offset, carry == nullptr ? nullptr : carry + offset,
            beta, chain, finishing};
  }
};

}  // namespace nntile
