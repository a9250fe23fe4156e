// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and their sum back into it.
#include "nntile/ops/embedding.hh"

#include "kernels/cpu/column_sums.hh"
#include "kernels/cpu/text.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class Position>
NNTILE_ALWAYS_INLINE Status check_index(KernelCall const& call, Position const* index, Index n,
                                        Index rows) {
  for (Index i = 0; i < n; ++i)
    if (index[i] < 0 || index[i] >= rows)
      return FailureText(call) << "index " << index[i] << " at position " << i
                               << " of the tile is outside [0, " << rows << ")";
  return {};
}

/// The first position from `begin` on whose index is `wanted`, n where there is none; sixteen are
/// compared at once.
template <class Position>
Index find_index(Position const* index, Index begin, Index n, Index wanted) {
  constexpr Index run = 16;
  for (; begin + run <= n; begin += run) {
    Index found = 0;
    for (Index i = 0; i < run; ++i) found |= static_cast<Index>(index[begin + i] == wanted);
    if (found != 0) break;
  }
  while (begin < n && index[begin] != wanted) ++begin;
  return begin;
}

template <class T, class Position> struct Embedding {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Embedding>(call);
    using Operand = ops::Embedding::Operand;
    Buffers<ops::Embedding> const buffers(call);
    Position const* const index = buffers.at<Position const>(Operand::index);  // [n]
    T const* const table = buffers.at<T const>(Operand::table);                // [e, v]
    T* const out = buffers.at<T>(Operand::out);                                // [e, n]
    if (Status const status = check_index(call, index, args.n, args.whole_v); !status.ok())
      return status;
    std::size_t const bytes = static_cast<std::size_t>(args.e) * sizeof(T);
    for (Index i = 0; i < args.n; ++i) {
      Index const v = index[i] - args.v_begin;
      if (v >= 0 && v < args.v)
        __builtin_memcpy(out + i * args.ld_out, table + v * args.ld_table, bytes);
      else if (args.first)
        __builtin_memset(static_cast<void*>(out + i * args.ld_out), 0, bytes);
    }
    return {};
  }
};

template <class T, class Position> struct EmbeddingBackward {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::EmbeddingBackward>(call);
    using Operand = ops::EmbeddingBackward::Operand;
    Buffers<ops::EmbeddingBackward> const buffers(call);
    Position const* const index =
        buffers.at<Position const>(Operand::index) + args.index_offset;     // [n]
    T const* const dy = buffers.at<T const>(Operand::dy) + args.dy_offset;  // [e, n]
    T* const dtable = buffers.at<T>(Operand::dtable);                       // [e, v]
    if (Status const status = check_index(call, index, args.n, args.whole_v); !status.ok())
      return status;
    V* const carry = buffers.at<V>(Operand::carry);  // [e, v] or null
    if (args.left_terms > 0) {
      if (carry != nullptr)
        add_pair(args, index, dy, carry);
      else
        add_pair(args, index, dy, dtable);
      return {};
    }
    if constexpr (sizeof(T) == sizeof(V)) {
      if (carry == nullptr) {
        start(args, dtable, dtable);
        add_rows(args, index, dy, dtable);
        return {};
      }
    }
    if (carry != nullptr) {
      start(args, dtable, carry);
      add_rows(args, index, dy, carry);
      if (args.chain.last)
        for_each_element(args, [&](Index i, auto part) __attribute__((always_inline)) {
          auto const sum = load(static_cast<V const*>(carry) + i, part);
          if (args.finishing)
            finish(args, dtable + i, sum, part);
          else
            store(dtable + i, sum, part);
        });
      return {};
    }
    add_rows_rounding_once(args, index, dy, dtable);
    return {};
  }

  /// Calls body(position, part) over the table's tile, whose rows may be padded.
  template <class Body>
  NNTILE_ALWAYS_INLINE static void for_each_element(ops::EmbeddingBackward::Args const& args,
                                                    Body body) {
    bool const dense = args.ld_table == args.e;
    Index const length = dense ? args.e * args.v : args.e;
    for (Index begin = 0, v = 0; v < (dense ? 1 : args.v); ++v, begin += args.ld_table)
      for_each_vec<V>(length, [&](Index i, auto part)
                                  __attribute__((always_inline)) { body(begin + i, part); });
  }

  /// sums = beta dtable, where the chain begins.
  template <class S>
  NNTILE_ALWAYS_INLINE static void start(ops::EmbeddingBackward::Args const& args, T const* dtable,
                                         S* sums) {
    if (!args.chain.first) return;
    if (static_cast<void const*>(sums) == dtable && args.beta == 1)
      return;  // in place: only rows of tokens are touched
    for_each_element(args, [&](Index i, auto part) __attribute__((always_inline)) {
      store(sums + i, scaled_row(args, dtable + i, part), part);
    });
  }

  template <class S, class Part>
  NNTILE_ALWAYS_INLINE static Vec<V> scaled_row(ops::EmbeddingBackward::Args const& args,
                                                S const* from, Part part) {
    return scaled<Vec<V>>(args.beta,
                          [&]() __attribute__((always_inline)) { return load(from, part); });
  }

  template <class S>
  NNTILE_ALWAYS_INLINE static void add_rows(ops::EmbeddingBackward::Args const& args,
                                            Position const* index, T const* dy, S* sums) {
    for (Index i = 0; i < args.n; ++i) {
      Index const v = index[i] - args.v_begin;
      if (v < 0 || v >= args.v) continue;
      add_row(args.e, dy + i * args.lddy, sums + v * args.ld_table);
    }
  }
  template <class S> NNTILE_ALWAYS_INLINE static void add_row(Index count, T const* dy, S* sums) {
    for_each_vec<V>(count, [&](Index e, auto part) {
      store(sums + e, load(static_cast<S const*>(sums) + e, part) + load(dy + e, part), part);
    });
  }

  /// For a result narrower than its sums and no carry: a row is finished when its first token comes
  /// by, which looks ahead for the others. Quadratic in the tokens of the tile, in comparisons
  /// alone: for each token once, and again for each stretch of its row.
  NNTILE_ALWAYS_INLINE static void add_rows_rounding_once(ops::EmbeddingBackward::Args const& args,
                                                          Position const* index, T const* dy,
                                                          T* dtable) {
    for_each_element(args, [&](Index i, auto part) __attribute__((always_inline)) {
      if (args.beta == 0) store(dtable + i, Vec<V>(0), part);
    });
    for (Index i = 0; i < args.n; ++i) {
      Index const v = index[i] - args.v_begin;
      if (v < 0 || v >= args.v || met_before(index, i)) continue;
      for (Index begin = 0; begin < args.e; begin += column_stretch<V>) {
        T* const row = dtable + v * args.ld_table + begin;
        Index const left = args.e - begin,
                    width = left < column_stretch<V> ? left : column_stretch<V>;
        alignas(64) V sums[column_stretch<V>];
        for_each_vec<V>(width, [&](Index e, auto part) {
          store(sums + e, scaled_row(args, static_cast<T const*>(row) + e, part), part);
        });
        for (Index of = i; of < args.n; of = find_index(index, of + 1, args.n, index[i]))
          add_row(width, dy + of * args.lddy + begin, sums);
        for_each_vec<V>(width, [&](Index e, auto part) {
          store(row + e, load(static_cast<V const*>(sums) + e, part), part);
        });
      }
    }
    scale_other_rows(args, index, dtable);
  }

  /// The sums of a pair of canonical groups, and what that leaves: rows of tokens alone are touched
  /// where beta is 1.
  template <class S>
  NNTILE_ALWAYS_INLINE static void add_pair(ops::EmbeddingBackward::Args const& args,
                                            Position const* index, T const* dy, S* sums) {
    for_each_element(args, [&](Index i, auto part) __attribute__((always_inline)) {
      if (args.beta == 0) store(sums + i, Vec<V>(0), part);
    });
    std::uint16_t tokens[2 * ops::EmbeddingBackward::hooks.paired_terms];  // of a row, ascending
    for (Index i = 0; i < args.n; ++i) {
      Index const v = index[i] - args.v_begin;
      if (v < 0 || v >= args.v || met_before(index, i)) continue;
      Index count = 0, left = 0;  // of both groups, of the left one
      for (Index other = i; other < args.n;
           other = find_index(index, other + 1, args.n, index[i])) {
        tokens[count++] = static_cast<std::uint16_t>(other);
        left += other < args.left_terms ? 1 : 0;
      }
      for_each_vec<V>(args.e, [&](Index e, auto part) {
        auto const chain = [&](Index begin, Index end) __attribute__((always_inline)) {
          Vec<V> sum(0);
          for (Index at = begin; at < end; ++at) sum += load(dy + tokens[at] * args.lddy + e, part);
          return sum;
        };
        finish(args, sums + v * args.ld_table + e, chain(0, left) + chain(left, count), part);
      });
    }
    scale_other_rows(args, index, sums);
  }

  /// ops::EmbeddingBackward::finished, by vectors.
  template <class S, class Part>
  NNTILE_ALWAYS_INLINE static void finish(ops::EmbeddingBackward::Args const& args, S* at,
                                          Vec<V> sum, Part part) {
    if (args.beta != 0) {
      Vec<V> const beta(args.beta), before = load(static_cast<S const*>(at), part);
      sum = select(sum == Vec<V>(0), beta * before, fma(beta, before, sum));
    }
    store(at, sum, part);
  }
  /// Rows that no token has, times beta.
  template <class S>
  static void scale_other_rows(ops::EmbeddingBackward::Args const& args, Position const* index,
                               S* table) {
    if (args.beta == 0 || args.beta == 1) return;
    auto const met = [&](Index v) {
      return find_index(index, 0, args.n, v + args.v_begin) < args.n;
    };
    for (Index v = 0; v < args.v; ++v)
      if (!met(v))
        for_each_vec<V>(args.e, [&](Index e, auto part) {
          S* const at = table + v * args.ld_table + e;
          store(at, Vec<V>(args.beta) * load(static_cast<S const*>(at), part), part);
        });
  }
  static bool met_before(Position const* index, Index i) {
    return find_index(index, 0, i, index[i]) < i;
  }
};

constinit auto const kernels = join(op_kernels<ops::Embedding, Embedding>(),
                                    op_kernels<ops::EmbeddingBackward, EmbeddingBackward>());

}  // namespace
NNTILE_KERNEL_LIST(embedding, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
