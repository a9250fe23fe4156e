#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Walk of a register tile of products through its operands: pointers that the compiler keeps as
// they are written.
//
// Left alone, g++ derives a pointer for each column and each step of an unrolled loop, which is
// more than there are registers for, and keeps them in vector registers and on the stack: up to a
// fifth of the rate of tiles whose operands are in place.

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA::detail {

/// Makes a value unknown to the compiler.
template <class X> NNTILE_ALWAYS_INLINE void hide(X& x) { asm("" : "+r"(x)); }

/// A pointer that takes steps of a constant number of elements, several at once, or (`step` is 0)
/// of a stride, one by one.
template <class T, int step> class Walk {
 public:
  NNTILE_ALWAYS_INLINE Walk(T const* at, Index) : at_(at) {}
  /// Its address after `count` steps, next() having been called as often since the last skip().
  NNTILE_ALWAYS_INLINE T const* at(int count) const { return at_ + count * step; }
  NNTILE_ALWAYS_INLINE void next() {}
  NNTILE_ALWAYS_INLINE void skip(int count) { at_ += count * step; }

 private:
  T const* at_;
};
template <class T> class Walk<T, 0> {
 public:
  NNTILE_ALWAYS_INLINE Walk(T const* at, Index stride) : at_(at), stride_(stride) {}
  NNTILE_ALWAYS_INLINE T const* at(int) const { return at_; }
  NNTILE_ALWAYS_INLINE void next() {
    at_ += stride_;
    hide(at_);
  }
  NNTILE_ALWAYS_INLINE void skip(int) {}

 private:
  T const* at_;
  Index stride_;
};

/// The first `count` multiples of a stride, each within one addressing mode of the CPU.
template <class T, int count> class Multiples {
 public:
  NNTILE_ALWAYS_INLINE explicit Multiples(Index stride)
      : one_(stride * static_cast<Index>(sizeof(T))) {
    if constexpr (count > 3) three_ = 3 * one_, hide(three_);
    if constexpr (count > 5) five_ = 5 * one_, hide(five_);
    if constexpr (count > 7) seven_ = 7 * one_, hide(seven_);
  }
  NNTILE_ALWAYS_INLINE T const* from(T const* at, int multiple) const {
    static_assert(count <= 9);
    char const* const base = reinterpret_cast<char const*>(at);
    return reinterpret_cast<T const*>(base + bytes(multiple));
  }

 private:
  NNTILE_ALWAYS_INLINE Index bytes(int multiple) const {
    switch (multiple) {
      case 3:
        return three_;
      case 5:
        return five_;
      case 6:
        return 2 * three_;
      case 7:
        return seven_;
      default:
        return multiple * one_;  // 0, 1, 2, 4, 8
    }
  }

  Index one_, three_ = 0, five_ = 0, seven_ = 0;
};

/// Asks for `count` elements, which are to be in the first cache.
template <int count, class T> NNTILE_ALWAYS_INLINE void fetch(T const* from) {
#pragma GCC unroll 16
  for (int i = 0; i < count; i += 64 / static_cast<int>(sizeof(T)))
    __builtin_prefetch(from + i, 0, 3);
}

}  // namespace nntile::kernels::NNTILE_ISA::detail
