#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The derivative of attention, block by block. Where results are as wide as their sums, or carries
// hold those, each pair of blocks is visited once; a narrower result without a carry is summed in
// scratch, and pairs are visited twice.

#include "kernels/cpu/attention_block.hh"
#include "kernels/cpu/column_sums.hh"
#include "kernels/cpu/reduce.hh"

namespace nntile::kernels::NNTILE_ISA::sdpa {

template <class T> struct AttentionBackward {
  using V = compute_t<T>;
  using Operand = ops::AttentionBackward::Operand;
  static constexpr int lanes = Vec<V>::lanes;
  static constexpr Index depth = attention_depth<V>;
  static constexpr std::size_t workspace = scratch_bytes;

  /// A result of one head in one task: `d` elements of each row, rows `ld` apart.
  struct Result : ColumnResult<T> {
    Index ld, d;

    void load_rows(Index row, Index count, V* sums) const {
      Index const width = padded<V>(d);
      for (Index i = 0; i < count; ++i)
        for_each_vec<V>(d, [&](Index e, auto part) {
          store(sums + i * width + e, this->start((row + i) * ld + e, part), All{});
        });
    }
    void store_rows(Index row, Index count, V const* sums) const {
      store_rows(row, count, sums, this->chain.last);
    }
    /// `ends`: no later pair of blocks adds to the rows.
    void store_rows(Index row, Index count, V const* sums, bool ends) const {
      Index const width = padded<V>(d);
      for (Index i = 0; i < count; ++i)
        for_each_vec<V>(d, [&](Index e, auto part) {
          this->put((row + i) * ld + e, load(sums + i * width + e), part, ends);
        });
    }
  };

  /// One head of a task, elements of the results from `piece` on.
  struct Head {
    ops::AttentionArgs const& args;
    T const *q, *k, *v, *out, *dout;  // [d, i] or [d, j]
    V const *max, *sum;               // [i]
    Result dq, dk, dv;
    Index ld, piece, d;
  };

  struct Scratch {
    V *q_columns, *dout_columns;  // [query, element]: q scaled, dout
    V *q, *dout;                  // [element, query]
    V* dq;                        // [element, query]
    V *p, *ds;                    // [query, key]
    V *k, *v, *dk, *dv;           // [element, key]
    Index slots;                  // blocks that there is room for in each of the four
    alignas(64) V max[attention_block];
    alignas(64) V factor[attention_block];  // 1 / sum
    alignas(64) V dot[attention_block];     // dout . out
  };

  static Status run(KernelCall const& call) noexcept {
    if (call.workspace == nullptr) return {no_workspace};
    auto const args = arguments<ops::AttentionBackward>(call);
    Buffers<ops::AttentionBackward> const buffers(call);
    if (args.d == 0) return {};
    if (args.finishing) return finish(buffers, args), Status{};
    Room<V> room{static_cast<V*>(call.workspace)};
    Scratch scratch;
    Index const block = attention_block * padded<V>(at_most(args.d, depth));
    for (V** const rows :
         {&scratch.q_columns, &scratch.dout_columns, &scratch.q, &scratch.dout, &scratch.dq})
      *rows = room.take(block);
    for (V** const pairs : {&scratch.p, &scratch.ds})
      *pairs = room.take(attention_block * attention_block);
    scratch.slots = room.left() / (4 * block);
    for (V** const rows : {&scratch.k, &scratch.v, &scratch.dk, &scratch.dv})
      *rows = room.take(scratch.slots * block);
    for (Index batch = 0; batch < args.b; ++batch)
      for (Index h = 0; h < args.h; ++h)
        for (Index piece = 0; piece < args.d; piece += depth)
          run_head(head_of(buffers, args, h, batch, piece), scratch);
    return {};
  }

 private:
  /// dk and dv from the sums of all canonical groups.
  static void finish(Buffers<ops::AttentionBackward> const& buffers,
                     ops::AttentionArgs const& args) {
    auto const store_sums = [&](Operand to, Operand carry, double beta) {
      ColumnResult<T> const result{
          {buffers.at<T>(to), buffers.at<V>(carry), beta, args.queries, true}};
      for_each_vec<V>(args.d * args.h * args.j * args.b,
                      [&](Index at, auto part) { result.put(at, result.start(at, part), part); });
    };
    store_sums(Operand::dk, Operand::carry_dk, args.beta_dk);
    store_sums(Operand::dv, Operand::carry_dv, args.beta_dv);
  }

  static Head head_of(Buffers<ops::AttentionBackward> const& buffers,
                      ops::AttentionArgs const& args, Index h, Index batch, Index piece) {
    HeadLayout const at = head_layout(args, h, batch);
    Index const d = at_most(args.d - piece, depth);
    auto const result = [&](Operand to, Operand carry, Index offset, double beta, Chain chain) {
      ColumnResult<T> const whole{{buffers.at<T>(to), buffers.at<V>(carry), beta, chain}};
      return Result{whole.at(offset + piece), at.ld, d};
    };
    return {args,
            buffers.at<T>(Operand::q) + at.q,
            buffers.at<T>(Operand::k) + at.k,
            buffers.at<T>(Operand::v) + at.k,
            buffers.at<T>(Operand::out) + at.q,
            buffers.at<T>(Operand::dout) + at.q,
            buffers.at<V>(Operand::max) + at.statistics,
            buffers.at<V>(Operand::sum) + at.statistics,
            result(Operand::dq, Operand::carry_dq, at.q, args.beta_dq, args.keys),
            result(Operand::dk, Operand::carry_dk, at.k, args.beta_dk, args.queries),
            result(Operand::dv, Operand::carry_dv, at.k, args.beta_dv, args.queries),
            at.ld,
            piece,
            d};
  }

  /// Keys in stretches whose rows and results stay in scratch; in each, queries outside, keys
  /// inside, both upwards. So every element of dq meets keys upwards, of dk and dv queries upwards.
  static void run_head(Head const& head, Scratch& scratch) {
    ops::AttentionArgs const& args = head.args;
    bool const wide = sizeof(T) == sizeof(V) || head.dq.carry != nullptr;
    Index const stretch = scratch.slots * attention_block;
    if (!wide || args.j == 0)  // there is no stretch without keys
      for (Index query = 0; query < args.i; query += attention_block) add_dq(head, scratch, query);
    for (Index key = 0; key < args.j; key += stretch) {
      Index const keys = at_most(args.j - key, stretch);
      copy_rows(head.k + key * head.ld + head.piece, head.ld, keys, head.d, scratch.k);
      copy_rows(head.v + key * head.ld + head.piece, head.ld, keys, head.d, scratch.v);
      head.dk.load_rows(key, keys, scratch.dk);
      head.dv.load_rows(key, keys, scratch.dv);
      for (Index query = 0; query < args.i; query += attention_block)
        add_stretch(head, scratch, query, key, keys, wide);
      head.dk.store_rows(key, keys, scratch.dk);
      head.dv.store_rows(key, keys, scratch.dv);
    }
  }

  /// Loads the values of a block of queries that every pair needs.
  static void take_queries(Head const& head, Scratch& scratch, Index query, Index queries,
                           bool rows) {
    Index const d = head.args.d;
    for (Index i = 0; i < attention_block; ++i) {
      bool const there = i < queries;
      Index const row = (query + i) * head.ld;
      scratch.max[i] = there ? head.max[query + i] : V(0);
      scratch.factor[i] = there ? V(1) / head.sum[query + i] : V(0);
      scratch.dot[i] =
          !there
              ? V(0)
              : canonical_sum<V>(d, V(0), [&](Index e, auto part) __attribute__((always_inline)) {
                  return load(head.dout + row + e, part) * load(head.out + row + e, part);
                });
    }
    if (d <= depth) take_columns(head, scratch, query, queries, 0, d);
    if (!rows) return;
    copy_rows(head.q + query * head.ld + head.piece, head.ld, queries, head.d, scratch.q);
    copy_rows(head.dout + query * head.ld + head.piece, head.ld, queries, head.d, scratch.dout);
  }
  static void take_columns(Head const& head, Scratch& scratch, Index query, Index queries,
                           Index from, Index count) {
    Index const row = query * head.ld + from;
    transpose_rows(head.q + row, head.ld, queries, count, static_cast<V>(head.args.scale),
                   scratch.q_columns);
    transpose_rows(head.dout + row, head.ld, queries, count, V(1), scratch.dout_columns);
  }

  /// p = exp(s - max) / sum and ds = p (dp - dot) scale of a pair of blocks, the keys' rows being
  /// in `k` and `v`.
  static void take_pair(Head const& head, Scratch& scratch, Index query, Index queries, Index key,
                        Index keys, V* k, V* v) {
    ops::AttentionArgs const& args = head.args;
    Index const diagonal = args.diagonal + query - key;
    auto const add = [&](V const* columns, V const* rows, Index count, V* to, bool zero)
                         __attribute__((always_inline)) {
                           multiply<V, Rhs::columns>(queries, keys,
                                                     {.begin = 0,
                                                      .end = count,
                                                      .a = columns,
                                                      .lda = attention_block,
                                                      .b = rows,
                                                      .ldb = padded<V>(count),
                                                      .c = to,
                                                      .ldc = attention_block,
                                                      .zero = zero},
                                                     diagonal);
                         };
    for (Index from = 0; from < args.d; from += depth) {
      Index const count = at_most(args.d - from, depth);
      if (args.d > depth) {
        take_columns(head, scratch, query, queries, from, count);
        copy_rows(head.k + key * head.ld + from, head.ld, keys, count, k);
        copy_rows(head.v + key * head.ld + from, head.ld, keys, count, v);
      }
      add(scratch.q_columns, k, count, scratch.p, from == 0);
      add(scratch.dout_columns, v, count, scratch.ds, from == 0);
    }
    if (args.d > depth) {  // as they were
      copy_rows(head.k + key * head.ld + head.piece, head.ld, keys, head.d, k);
      copy_rows(head.v + key * head.ld + head.piece, head.ld, keys, head.d, v);
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
        Vec<V> const power = exp_of_shifted(load(static_cast<V const*>(p)) - top) * factor;
        store(p, power);
        store(ds, power * (load(static_cast<V const*>(ds)) - dot) * scale);
      }
    }
  }

  /// A block of queries over a stretch of keys: dk and dv in scratch and, with `both`, dq.
  static void add_stretch(Head const& head, Scratch& scratch, Index query, Index begin, Index count,
                          bool both) {
    ops::AttentionArgs const& args = head.args;
    Index const queries = at_most(args.i - query, attention_block);
    // dq is finished where the stretch holds the last keys that the block sees in this task.
    Index const horizon = at_most(args.j, args.diagonal + query + queries);
    bool const begins = begin == 0, ends = begin + count >= horizon;
    bool const unseen = begin >= horizon;
    if (unseen && !(begins && both && head.dq.chain.last && head.dq.carry != nullptr)) return;
    Index const width = padded<V>(head.d);
    if (!unseen) take_queries(head, scratch, query, queries, true);
    if (both && begins)
      head.dq.load_rows(query, queries, scratch.dq);
    else if (both)
      resume(head.dq, query, queries, scratch.dq);
    for (Index at = 0; at < count; at += attention_block) {
      Index const key = begin + at;
      Index const diagonal = args.diagonal + query - key;
      if (diagonal + queries <= 0) break;
      Index const keys = at_most(count - at, attention_block);
      bool const staggered = diagonal + 1 < keys;
      take_pair(head, scratch, query, queries, key, keys, scratch.k + at * width,
                scratch.v + at * width);
      auto const add = [&](V const* rows, V const* weights, V* to) __attribute__((always_inline)) {
        multiply<V, Rhs::columns>(width, keys,
                                  {.begin = staggered ? -diagonal : 0,
                                   .end = queries,
                                   .a = rows,
                                   .lda = width,
                                   .b = weights,
                                   .ldb = attention_block,
                                   .c = to,
                                   .ldc = width,
                                   .staggered = staggered});
      };
      add(scratch.dout, scratch.p, scratch.dv + at * width);
      add(scratch.q, scratch.ds, scratch.dk + at * width);
      if (both) add_block_to_dq(scratch, scratch.k + at * width, queries, keys, diagonal, width);
    }
    if (both) head.dq.store_rows(query, queries, scratch.dq, ends && head.dq.chain.last);
  }

  /// Goes on with rows of a wide result that store_rows left.
  static void resume(Result const& result, Index row, Index count, V* sums) {
    Result same = result;
    same.chain.first = false;
    same.load_rows(row, count, sums);
  }

  static void add_block_to_dq(Scratch& scratch, V const* k, Index queries, Index keys,
                              Index diagonal, Index width) {
    multiply<V, Rhs::rows>(width, queries,
                           {.begin = 0,
                            .end = keys,
                            .a = k,
                            .lda = width,
                            .b = scratch.ds,
                            .ldb = attention_block,
                            .c = scratch.dq,
                            .ldc = width,
                            .first_end = diagonal + 1,
                            .staggered = diagonal + 1 < keys});
  }

  /// dq of a block of queries over all keys, rounded once.
  static void add_dq(Head const& head, Scratch& scratch, Index query) {
    ops::AttentionArgs const& args = head.args;
    Index const queries = at_most(args.i - query, attention_block);
    take_queries(head, scratch, query, queries, false);
    head.dq.load_rows(query, queries, scratch.dq);
    for (Index key = 0; key < args.j; key += attention_block) {
      Index const diagonal = args.diagonal + query - key;
      if (diagonal + queries <= 0) break;
      Index const keys = at_most(args.j - key, attention_block);
      if (args.d <= depth) {
        copy_rows(head.k + key * head.ld, head.ld, keys, args.d, scratch.k);
        copy_rows(head.v + key * head.ld, head.ld, keys, args.d, scratch.v);
      }
      take_pair(head, scratch, query, queries, key, keys, scratch.k, scratch.v);
      add_block_to_dq(scratch, scratch.k, queries, keys, diagonal, padded<V>(head.d));
    }
    head.dq.store_rows(query, queries, scratch.dq);
  }
};

}  // namespace nntile::kernels::NNTILE_ISA::sdpa
