#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// clang-format off
// Four registers that take the same steps: long chains, such as exp's, run side by side and hide
// each other's latency. Each lane has the bits that a register alone gives it.
//
//   Group<T>                        what vec.hh says of Vec<T>, four of them; a Vec<T> stands for
//                                   four copies
//   Four{}                          a part as All{} and First{}: four whole registers
//   load, store, load_as            with that part give and take groups
//   for_each_group<T>(count, body)  body(i, part): groups, then registers, then the rest
//
// Members have names and no indices, or g++ would keep groups in memory.
// clang-format on

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Four whole registers.
struct Four {};

template <class T> struct GroupMask {
  Mask<T> a, b, c, d;
  NNTILE_ALWAYS_INLINE friend GroupMask operator&(GroupMask x, GroupMask y) {
    return {x.a & y.a, x.b & y.b, x.c & y.c, x.d & y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask operator|(GroupMask x, GroupMask y) {
    return {x.a | y.a, x.b | y.b, x.c | y.c, x.d | y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask operator!(GroupMask x) { return {!x.a, !x.b, !x.c, !x.d}; }
};

template <class T> struct GroupBits {
  Bits<T> a, b, c, d;
  NNTILE_ALWAYS_INLINE GroupBits(Bits<T> same) : a(same), b(same), c(same), d(same) {}
  NNTILE_ALWAYS_INLINE GroupBits(Bits<T> p, Bits<T> q, Bits<T> r, Bits<T> s)
      : a(p), b(q), c(r), d(s) {}
  NNTILE_ALWAYS_INLINE friend GroupBits operator+(GroupBits x, GroupBits y) {
    return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupBits operator-(GroupBits x, GroupBits y) {
    return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupBits operator&(GroupBits x, GroupBits y) {
    return {x.a & y.a, x.b & y.b, x.c & y.c, x.d & y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupBits operator|(GroupBits x, GroupBits y) {
    return {x.a | y.a, x.b | y.b, x.c | y.c, x.d | y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupBits operator^(GroupBits x, GroupBits y) {
    return {x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d};
  }
};

template <class T> struct Group {
  static constexpr int lanes = 4 * Vec<T>::lanes;
  Vec<T> a, b, c, d;

  Group() = default;
  NNTILE_ALWAYS_INLINE explicit Group(double value) : Group(Vec<T>(value)) {}
  NNTILE_ALWAYS_INLINE Group(Vec<T> same) : a(same), b(same), c(same), d(same) {}
  NNTILE_ALWAYS_INLINE Group(Vec<T> p, Vec<T> q, Vec<T> r, Vec<T> s) : a(p), b(q), c(r), d(s) {}

  NNTILE_ALWAYS_INLINE friend Group operator+(Group x, Group y) {
    return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
  }
  NNTILE_ALWAYS_INLINE friend Group operator-(Group x, Group y) {
    return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d};
  }
  NNTILE_ALWAYS_INLINE friend Group operator*(Group x, Group y) {
    return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d};
  }
  NNTILE_ALWAYS_INLINE friend Group operator/(Group x, Group y) {
    return {x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d};
  }
  NNTILE_ALWAYS_INLINE friend Group operator-(Group x) { return {-x.a, -x.b, -x.c, -x.d}; }
  NNTILE_ALWAYS_INLINE friend GroupMask<T> operator<(Group x, Group y) {
    return {x.a < y.a, x.b < y.b, x.c < y.c, x.d < y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask<T> operator<=(Group x, Group y) {
    return {x.a <= y.a, x.b <= y.b, x.c <= y.c, x.d <= y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask<T> operator>(Group x, Group y) {
    return {x.a > y.a, x.b > y.b, x.c > y.c, x.d > y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask<T> operator>=(Group x, Group y) {
    return {x.a >= y.a, x.b >= y.b, x.c >= y.c, x.d >= y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask<T> operator==(Group x, Group y) {
    return {x.a == y.a, x.b == y.b, x.c == y.c, x.d == y.d};
  }
  NNTILE_ALWAYS_INLINE friend GroupMask<T> operator!=(Group x, Group y) {
    return {x.a != y.a, x.b != y.b, x.c != y.c, x.d != y.d};
  }
  NNTILE_ALWAYS_INLINE friend Group max(Group x, Group y) {
    return {max(x.a, y.a), max(x.b, y.b), max(x.c, y.c), max(x.d, y.d)};
  }
  NNTILE_ALWAYS_INLINE friend Group min(Group x, Group y) {
    return {min(x.a, y.a), min(x.b, y.b), min(x.c, y.c), min(x.d, y.d)};
  }
  NNTILE_ALWAYS_INLINE friend Group copysign(Group x, Group y) {
    return {copysign(x.a, y.a), copysign(x.b, y.b), copysign(x.c, y.c), copysign(x.d, y.d)};
  }
  NNTILE_ALWAYS_INLINE friend Group sqrt(Group x) {
    return {sqrt(x.a), sqrt(x.b), sqrt(x.c), sqrt(x.d)};
  }
  NNTILE_ALWAYS_INLINE friend Group abs(Group x) {
    return {abs(x.a), abs(x.b), abs(x.c), abs(x.d)};
  }
  NNTILE_ALWAYS_INLINE friend Group fma(Group x, Group y, Group z) {
    return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b), fma(x.c, y.c, z.c), fma(x.d, y.d, z.d)};
  }
  NNTILE_ALWAYS_INLINE friend Group select(GroupMask<T> m, Group yes, Group no) {
    return {select(m.a, yes.a, no.a), select(m.b, yes.b, no.b), select(m.c, yes.c, no.c),
            select(m.d, yes.d, no.d)};
  }
};

template <int n, class T> NNTILE_ALWAYS_INLINE GroupBits<T> shl(GroupBits<T> x) {
  return {shl<n>(x.a), shl<n>(x.b), shl<n>(x.c), shl<n>(x.d)};
}
template <int n, class T> NNTILE_ALWAYS_INLINE GroupBits<T> shr(GroupBits<T> x) {
  return {shr<n>(x.a), shr<n>(x.b), shr<n>(x.c), shr<n>(x.d)};
}
template <class T> NNTILE_ALWAYS_INLINE GroupBits<T> bits(Group<T> x) {
  return {bits(x.a), bits(x.b), bits(x.c), bits(x.d)};
}
template <class T> NNTILE_ALWAYS_INLINE Group<T> from_bits(GroupBits<T> x) {
  return {from_bits(x.a), from_bits(x.b), from_bits(x.c), from_bits(x.d)};
}

template <class T> NNTILE_ALWAYS_INLINE Group<compute_t<T>> load(T const* p, Four) {
  constexpr int lanes = Vec<compute_t<T>>::lanes;
  return {load(p, All{}), load(p + lanes, All{}), load(p + 2 * lanes, All{}),
          load(p + 3 * lanes, All{})};
}
template <class T> NNTILE_ALWAYS_INLINE Group<compute_t<T>> load_halves(T const* p, Four) {
  constexpr int lanes = Vec<compute_t<T>>::lanes;
  return {load_halves(p, All{}), load_halves(p + lanes, All{}), load_halves(p + 2 * lanes, All{}),
          load_halves(p + 3 * lanes, All{})};
}
template <class T> NNTILE_ALWAYS_INLINE Group<compute_t<T>> load_twice(T const* p, Four) {
  constexpr int lanes = Vec<compute_t<T>>::lanes;
  return {load_twice(p, All{}), load_twice(p + lanes, All{}), load_twice(p + 2 * lanes, All{}),
          load_twice(p + 3 * lanes, All{})};
}
template <class T> NNTILE_ALWAYS_INLINE void store(T* p, Group<compute_t<T>> x, Four) {
  constexpr int lanes = Vec<compute_t<T>>::lanes;
  store(p, x.a, All{});
  store(p + lanes, x.b, All{});
  store(p + 2 * lanes, x.c, All{});
  store(p + 3 * lanes, x.d, All{});
}
template <class V, class T> NNTILE_ALWAYS_INLINE Group<V> load_as(T const* p, Four) {
  constexpr int lanes = Vec<V>::lanes;
  return {load_as<V>(p, All{}), load_as<V>(p + lanes, All{}), load_as<V>(p + 2 * lanes, All{}),
          load_as<V>(p + 3 * lanes, All{})};
}

/// The kernels that fetch rows ahead of the CPU's own prefetching where there is no AVX-512: few
/// gain by it. With AVX-512 all do, but none on AMD's CPUs, where it is in the way
/// (nntile/DECISIONS.md, 2026-12-01).
enum class Fetching { everywhere, with_avx512 };

#if defined(__AVX512F__)
/// Asked for each fetch, which is one comparison: loops that ask once are compiled twice, and
/// slower.
template <Fetching> NNTILE_ALWAYS_INLINE bool fetches() { return !__builtin_cpu_is("amd"); }
#else
template <Fetching on> constexpr bool fetches() { return on == Fetching::everywhere; }
#endif

/// Fetches what lies 4 KiB behind p + part: the row after this one, before the
/// CPU's own prefetching has found where it begins.
template <Fetching on = Fetching::with_avx512, class T>
NNTILE_ALWAYS_INLINE void fetch_ahead(T const* p, Four) {
  if (!fetches<on>()) return;
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  T const* const at = p + 64 * line;
#pragma GCC unroll 8
  for (Index i = 0; i < 4 * Vec<compute_t<T>>::lanes; i += line) __builtin_prefetch(at + i);
}
template <Fetching on = Fetching::with_avx512, class T>
NNTILE_ALWAYS_INLINE void fetch_ahead(T const* p, All) {
  if (fetches<on>()) __builtin_prefetch(p + 4096 / static_cast<Index>(sizeof(T)));
}
template <Fetching on = Fetching::with_avx512, class T>
NNTILE_ALWAYS_INLINE void fetch_ahead(T const*, First) {}

/// The element type of lanes: float or double.
template <class V> struct element_of;
template <class T> struct element_of<Vec<T>> {
  using type = T;
};
template <class T> struct element_of<Group<T>> {
  using type = T;
};
template <class V> using element_t = typename element_of<V>::type;
/// A register or four of them.
template <class V>
concept Lanewise = requires { typename element_of<V>::type; };

/// A range as groups, then what is left as for_each_vec has it; registers alone
/// where they are one value.
template <class T, class Body> NNTILE_ALWAYS_INLINE void for_each_group(Index n, Body body) {
  constexpr int lanes = Vec<T>::lanes;
  Index i = 0;
  if constexpr (lanes > 1)
    for (; i + 4 * lanes <= n; i += 4 * lanes) body(i, Four{});
  for (; i + lanes <= n; i += lanes) body(i, All{});
  if constexpr (lanes > 1)
    if (i < n) body(i, First{static_cast<int>(n - i)});
}

}  // namespace nntile::kernels::NNTILE_ISA
