#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The derivative of attention, block by block. Where results are as wide as their sums, or carries hold those, each pair
// of blocks is visited once; a narrower result without a carry is summed in scratch, and pairs are visited twice.
// Stack: 640 KiB.

#include "kernels/cpu/attention_block.hh"
#include "kernels/cpu/reduce.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class T>
struct AttentionBackward {
  using V = compute_t<T>;
  static constexpr int lanes = Vec<V>::lanes;
  static constexpr Index depth = attention_depth<V>;

  /// [element, query] of q (scaled) and dout for scores; rows of all four where they cannot be used in place.
  struct Scratch {
    RowBlock<V> q_columns, dout_columns, q, dout, k, v;
    RowBlock<V> dq, dk, dv;
    alignas(64) V p[attention_block * attention_block];   // [query, key]
    alignas(64) V ds[attention_block * attention_block];  // [query, key]
    alignas(64) V max[attention_block];
    alignas(64) V factor[attention_block];  // 1 / sum
    alignas(64) V dot[attention_block];     // dout . out
  };

  /// One head in one task.
  struct Head {
    ops::AttentionArgs const& args;
    HeadLayout at;
    T const *q, *k, *v, *out, *dout;  // [d, i] or [d, j]
    V const *max, *sum;               // [i]
    T* result[3];                     // dq, dk, dv
    V* carry[3];
  };

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::AttentionBackward>(call);
    Scratch scratch;
    for (Index batch = 0; batch < args.b; ++batch)
      for (Index h = 0; h < args.h; ++h) {
        HeadLayout const at = head_layout(args, h, batch);
        Head head{args,
                  at,
                  buffer<T const>(call, 0) + at.q,
                  buffer<T const>(call, 1) + at.k,
                  buffer<T const>(call, 2) + at.k,
                  buffer<T const>(call, 3) + at.q,
                  buffer<T const>(call, 6) + at.q,
                  buffer<V const>(call, 4) + at.statistics,
                  buffer<V const>(call, 5) + at.statistics,
                  {buffer<T>(call, 7) + at.q, buffer<T>(call, 8) + at.k, buffer<T>(call, 9) + at.k},
                  {nullptr, nullptr, nullptr}};
        if (args.carried)
          for (int r = 0; r < 3; ++r) head.carry[r] = buffer<V>(call, 10 + r) + (r == 0 ? at.q : at.k);
        run_head(head, scratch);
      }
    return {};
  }

 private:
  static Index at_most(Index left, Index room) { return left < room ? left : room; }

  static void run_head(Head const& head, Scratch& scratch) {
    ops::AttentionArgs const& args = head.args;
    bool const wide = sizeof(T) == sizeof(V) || args.carried;
    for (Index piece = 0; piece < args.d; piece += depth) {
      if (wide) {
        if (args.first_k) start_keys(head, piece);
        for (Index query = 0; query < args.i; query += attention_block) over_keys(head, scratch, query, piece, true);
        if (args.last_k && args.carried) finish_keys(head, piece);
      } else {
        for (Index query = 0; query < args.i; query += attention_block) over_keys(head, scratch, query, piece, false);
        for (Index key = 0; key < args.j; key += attention_block) over_queries(head, scratch, key, piece);
      }
    }
  }

  /// dk and dv, or their carries, begin with beta times what is there.
  static void start_keys(Head const& head, Index piece) {
    Index const d = at_most(head.args.d - piece, depth);
    for (Index j = 0; j < head.args.j; ++j)
      for (int r = 1; r < 3; ++r) {
        double const beta = r == 1 ? head.args.beta_dk : head.args.beta_dv;
        for_each_vec<V>(d, [&](Index e, auto part) {
          Index const at = j * head.at.k_ld + piece + e;
          T* const result = head.result[r] + at;
          Vec<V> const value = beta == 0 ? Vec<V>(0) : Vec<V>(beta) * load(static_cast<T const*>(result), part);
          if (head.carry[r] != nullptr) store(head.carry[r] + at, value, part);
          else store(result, value, part);
        });
      }
  }
  static void finish_keys(Head const& head, Index piece) {
    Index const d = at_most(head.args.d - piece, depth);
    for (Index j = 0; j < head.args.j; ++j)
      for (int r = 1; r < 3; ++r)
        for_each_vec<V>(d, [&](Index e, auto part) {
          Index const at = j * head.at.k_ld + piece + e;
          store(head.result[r] + at, load(static_cast<V const*>(head.carry[r]) + at, part), part);
        });
  }

  /// Sums of a block of a result, `width` apart, from what is there.
  static void load_sums(Head const& head, int r, Index row, Index ld, Index count, Index piece, double beta, bool first,
                        V* sums) {
    Index const d = at_most(head.args.d - piece, depth);
    Index const width = padded<V>(d);
    for (Index i = 0; i < count; ++i)
      for_each_vec<V>(d, [&](Index e, auto part) {
        Index const at = (row + i) * ld + piece + e;
        Vec<V> value(0);
        if (!first && head.carry[r] != nullptr) value = load(static_cast<V const*>(head.carry[r]) + at, part);
        else if (!first) value = load(static_cast<T const*>(head.result[r]) + at, part);
        else if (beta != 0) value = Vec<V>(beta) * load(static_cast<T const*>(head.result[r]) + at, part);
        store(sums + i * width + e, value, All{});
      });
  }
  static void store_sums(Head const& head, int r, Index row, Index ld, Index count, Index piece, bool last, V const* sums) {
    Index const d = at_most(head.args.d - piece, depth);
    Index const width = padded<V>(d);
    for (Index i = 0; i < count; ++i)
      for_each_vec<V>(d, [&](Index e, auto part) {
        Index const at = (row + i) * ld + piece + e;
        Vec<V> const value = load(sums + i * width + e);
        if (head.carry[r] != nullptr && !last) store(head.carry[r] + at, value, part);
        else store(head.result[r] + at, value, part);
      });
  }

  /// What a block of queries brings to every pair.
  static void take_queries(Head const& head, Scratch& scratch, Index query, Index queries) {
    Index const d = head.args.d;
    for (Index i = 0; i < attention_block; ++i) {
      bool const there = i < queries;
      Index const row = (query + i) * head.at.q_ld;
      scratch.max[i] = there ? head.max[query + i] : V(0);
      scratch.factor[i] = there ? V(1) / head.sum[query + i] : V(0);
      scratch.dot[i] = !there ? V(0) : canonical_sum<V>(d, V(0), [&](Index e, auto part) __attribute__((always_inline)) {
        return load(head.dout + row + e, part) * load(head.out + row + e, part);
      });
    }
    if (d <= depth) take_columns(head, scratch, query, queries, 0, d);
  }
  static void take_columns(Head const& head, Scratch& scratch, Index query, Index queries, Index from, Index count) {
    Index const row = query * head.at.q_ld + from;
    transpose_rows(head.q + row, head.at.q_ld, queries, count, static_cast<V>(head.args.scale), scratch.q_columns.at);
    transpose_rows(head.dout + row, head.at.q_ld, queries, count, V(1), scratch.dout_columns.at);
  }

  /// p = exp(s - max) / sum and ds = p (dp - dot) scale of a pair of blocks.
  static void take_pair(Head const& head, Scratch& scratch, Index query, Index queries, Index key, Index keys) {
    ops::AttentionArgs const& args = head.args;
    Index const diagonal = args.diagonal + query - key;
    for (Index from = 0; from < args.d; from += depth) {
      Index const count = at_most(args.d - from, depth);
      if (args.d > depth) take_columns(head, scratch, query, queries, from, count);
      Index const row = key * head.at.k_ld + from;
      Rows<V> const k = rows_of(head.k + row, head.at.k_ld, keys, count, scratch.k);
      Rows<V> const v = rows_of(head.v + row, head.at.k_ld, keys, count, scratch.v);
      multiply<V, Rhs::columns>(queries, keys,
                                {.begin = 0, .end = count, .a = scratch.q_columns.at, .lda = attention_block, .b = k.at,
                                 .ldb = k.ld, .c = scratch.p, .ldc = attention_block, .zero = from == 0},
                                diagonal);
      multiply<V, Rhs::columns>(queries, keys,
                                {.begin = 0, .end = count, .a = scratch.dout_columns.at, .lda = attention_block, .b = v.at,
                                 .ldb = v.ld, .c = scratch.ds, .ldc = attention_block, .zero = from == 0},
                                diagonal);
    }
    Vec<V> const scale(args.scale);
    for (Index i = 0; i < queries; i += lanes) {
      Vec<V> const top = load(static_cast<V const*>(scratch.max) + i);
      Vec<V> const factor = load(static_cast<V const*>(scratch.factor) + i);
      Vec<V> const dot = load(static_cast<V const*>(scratch.dot) + i);
      Index const some = seen_keys(i, lanes, diagonal, keys).some;
      for (Index j = 0; j < some; ++j) {
        V* const p = scratch.p + j * attention_block + i;
        V* const ds = scratch.ds + j * attention_block + i;
        Vec<V> const power = exp(load(static_cast<V const*>(p)) - top) * factor;
        store(p, power);
        store(ds, power * (load(static_cast<V const*>(ds)) - dot) * scale);
      }
    }
  }

  /// sums[d, key] += rows[d, query] weights[query, key], queries that do not see a key left out.
  static void add_to_keys(Rows<V> rows, V const* weights, Index queries, Index keys, Index diagonal, Index width, V* sums,
                          Index ld) {
    multiply<V, Rhs::columns>(width, keys,
                              {.begin = diagonal + 1 < keys ? -diagonal : 0, .end = queries, .a = rows.at, .lda = rows.ld,
                               .b = weights, .ldb = attention_block, .c = sums, .ldc = ld,
                               .staggered = diagonal + 1 < keys});
  }

  /// A block of queries over all keys: dq, and with `both` dk and dv too, in place.
  static void over_keys(Head const& head, Scratch& scratch, Index query, Index piece, bool both) {
    ops::AttentionArgs const& args = head.args;
    Index const queries = at_most(args.i - query, attention_block);
    Index const d = at_most(args.d - piece, depth);
    Index const width = padded<V>(d);
    take_queries(head, scratch, query, queries);
    Index const row = query * head.at.q_ld + piece;
    Rows<V> const q = rows_of(head.q + row, head.at.q_ld, queries, d, scratch.q);
    Rows<V> const dout = rows_of(head.dout + row, head.at.q_ld, queries, d, scratch.dout);
    load_sums(head, 0, query, head.at.q_ld, queries, piece, args.beta_dq, args.first, scratch.dq.at);
    for (Index key = 0; key < args.j; key += attention_block) {
      Index const diagonal = args.diagonal + query - key;
      if (diagonal + queries <= 0) break;
      Index const keys = at_most(args.j - key, attention_block);
      take_pair(head, scratch, query, queries, key, keys);
      if (both) {
        add_in_place(head, 2, dout, scratch.p, queries, key, keys, diagonal, piece, scratch.dv.at);
        add_in_place(head, 1, q, scratch.ds, queries, key, keys, diagonal, piece, scratch.dk.at);
      }
      Rows<V> const k = rows_of(head.k + key * head.at.k_ld + piece, head.at.k_ld, keys, d, scratch.k);
      multiply<V, Rhs::rows>(width, queries,
                             {.begin = 0, .end = keys, .a = k.at, .lda = k.ld, .b = scratch.ds, .ldb = attention_block,
                              .c = scratch.dq.at, .ldc = width, .first_end = diagonal + 1,
                              .staggered = diagonal + 1 < keys});
    }
    store_sums(head, 0, query, head.at.q_ld, queries, piece, args.last, scratch.dq.at);
  }

  /// Adds to dk or dv, or its carry, through `room` where rows are no whole registers.
  static void add_in_place(Head const& head, int r, Rows<V> rows, V const* weights, Index queries, Index key, Index keys,
                           Index diagonal, Index piece, V* room) {
    Index const ld = head.at.k_ld;
    Index const d = at_most(head.args.d - piece, depth);
    Index const at = key * ld + piece;
    V* sums = head.carry[r] != nullptr ? head.carry[r] + at : nullptr;
    if constexpr (std::is_same_v<T, V>)
      if (sums == nullptr) sums = head.result[r] + at;
    if (d % lanes == 0) return add_to_keys(rows, weights, queries, keys, diagonal, d, sums, ld);
    Index const width = padded<V>(d);
    for (Index j = 0; j < keys; ++j)
      for_each_vec<V>(d, [&](Index e, auto part) {
        store(room + j * width + e, load(static_cast<V const*>(sums) + j * ld + e, part), All{});
      });
    add_to_keys(rows, weights, queries, keys, diagonal, width, room, width);
    for (Index j = 0; j < keys; ++j)
      for_each_vec<V>(d, [&](Index e, auto part) {
        store(sums + j * ld + e, load(static_cast<V const*>(room) + j * width + e), part);
      });
  }

  /// A block of keys over all queries: dk and dv, rounded once.
  static void over_queries(Head const& head, Scratch& scratch, Index key, Index piece) {
    ops::AttentionArgs const& args = head.args;
    Index const keys = at_most(args.j - key, attention_block);
    Index const d = at_most(args.d - piece, depth);
    Index const width = padded<V>(d);
    Index const ld = head.at.k_ld;
    load_sums(head, 1, key, ld, keys, piece, args.beta_dk, args.first_k, scratch.dk.at);
    load_sums(head, 2, key, ld, keys, piece, args.beta_dv, args.first_k, scratch.dv.at);
    for (Index query = 0; query < args.i; query += attention_block) {
      Index const queries = at_most(args.i - query, attention_block);
      Index const diagonal = args.diagonal + query - key;
      if (diagonal + queries <= 0) continue;
      take_queries(head, scratch, query, queries);
      take_pair(head, scratch, query, queries, key, keys);
      Index const row = query * head.at.q_ld + piece;
      Rows<V> const dout = rows_of(head.dout + row, head.at.q_ld, queries, d, scratch.dout);
      add_to_keys(dout, scratch.p, queries, keys, diagonal, width, scratch.dv.at, width);
      Rows<V> const q = rows_of(head.q + row, head.at.q_ld, queries, d, scratch.q);
      add_to_keys(q, scratch.ds, queries, keys, diagonal, width, scratch.dk.at, width);
    }
    store_sums(head, 1, key, ld, keys, piece, args.last_k, scratch.dk.at);
    store_sums(head, 2, key, ld, keys, piece, args.last_k, scratch.dv.at);
  }
};

}  // namespace nntile::kernels::NNTILE_ISA
