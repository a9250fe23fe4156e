#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The derivative of attention: a kernel for dk and dv, a block of threads for 64 keys, and one for
// dq, a block for 64 queries. Both compute scores anew. Bound: FMAs, 4 d and 3 d of them a pair.

#include "kernels/cuda/attention_pairs.hh"

namespace nntile::kernels::cuda::sdpa {

template <class T> struct AttentionBackward {
  using V = compute_t<T>;
  using Operand = ops::AttentionBackward::Operand;
  using Call = DeviceCall<ops::AttentionBackward>;
  static constexpr int width = 256 / sizeof(V);
  using Block = Pairs<T, width>;
  static constexpr int side = Block::side;
  enum Number { top, factor, dot };

  /// One head: what is in memory begins with its first element, of results with the piece's.
  struct Head {
    T const *q, *k, *v, *out, *dout;  // [d, i] or [d, j]
    V const *max, *sum;               // [i]
    Index ld, to_queries, to_keys;    // of the results
    int d;                            // elements of the piece

    NNTILE_DEVICE Head(ops::AttentionArgs const& args,
                       Buffers<ops::AttentionBackward> const& buffers, Index number, Index piece) {
      HeadLayout const at = head_layout(args, number % args.h, number / args.h);
      q = buffers.template at<T const>(Operand::q) + at.q;
      k = buffers.template at<T const>(Operand::k) + at.k;
      v = buffers.template at<T const>(Operand::v) + at.k;
      out = buffers.template at<T const>(Operand::out) + at.q;
      dout = buffers.template at<T const>(Operand::dout) + at.q;
      max = buffers.template at<V const>(Operand::max) + at.statistics;
      sum = buffers.template at<V const>(Operand::sum) + at.statistics;
      ld = at.ld;
      to_queries = at.q + piece;
      to_keys = at.k + piece;
      d = args.d - piece < width ? static_cast<int>(args.d - piece) : width;
    }
  };

  /// A result as a chain: rows of this thread, read and written.
  static NNTILE_DEVICE void start(Block const& block, ChainResult<T> const& result, int rows,
                                  Head const& head, typename Block::Result& sums) {
    NNTILE_UNROLL()
    for (int c = 0; c < Block::columns; ++c) {
      NNTILE_UNROLL()
      for (int i = 0; i < Block::own; ++i) sums[c][i] = Vec<V>(0);
    }
    block.for_each_result(rows, head.d, [&](int c, int i) {
      sums[c][i] = Vec<V>::raw(result.start(block.outer(i) * head.ld + block.column(c)));
    });
  }
  static NNTILE_DEVICE void put(Block const& block, ChainResult<T> const& result, int rows,
                                Head const& head, typename Block::Result& sums) {
    block.for_each_result(rows, head.d, [&](int c, int i) {
      result.put(block.outer(i) * head.ld + block.column(c), sums[c][i].v);
    });
  }

  /// The numbers of a block of queries, a warp after another. A barrier of `add` lies behind the
  /// last use of those before, and one of `multiply` before the first of these.
  static NNTILE_DEVICE void take_queries(Block const& block, ops::AttentionArgs const& args,
                                         Head const& head, Index query, int queries) {
    Team<warp_size> const team(block.thread());
    for (int i = block.thread().rank() / warp_size; i < side; i += Block::threads / warp_size) {
      Index const row = (query + i) * head.ld;
      V const product = canonical_sum<V>(team, i < queries ? args.d : 0, V(0), [&](Index e) {
        return get(head.dout + row + e) * get(head.out + row + e);
      });
      if (team.rank() != 0) continue;
      block.number(top, i) = i < queries ? head.max[query + i] : V(0);
      block.number(factor, i) = i < queries ? V(1) / head.sum[query + i] : V(0);
      block.number(dot, i) = product;
    }
  }

  /// The side of a pair that is the query.
  enum class QueryIs { outer, inner };

  /// A number of the queries of row j of this thread's pairs. Read for each row anew: registers
  /// that are kept for all rows are more than sm_80 has.
  template <QueryIs is> struct OfQuery {
    static constexpr int count = is == QueryIs::outer ? Block::own : 1;
    Vec<V> value[count];

    NNTILE_DEVICE OfQuery(Block const& block, Number number, int j) {
      NNTILE_UNROLL()
      for (int n = 0; n < count; ++n) {
        int const query = is == QueryIs::outer ? block.outer(n) : block.inner_at(j);
        value[n] = Vec<V>::raw(block.number(number, query));
      }
    }
    NNTILE_DEVICE Vec<V> operator()(int i) const { return value[is == QueryIs::outer ? i : 0]; }
  };

  /// The pairs become p = exp(s - max) / sum.
  template <QueryIs is>
  static NNTILE_DEVICE void take_powers(Block const& block, typename Block::Sums const& scores) {
    NNTILE_UNROLL()
    for (int j = 0; j < Block::inner; ++j) {
      OfQuery<is> const tops(block, top, j), factors(block, factor, j);
      NNTILE_UNROLL()
      for (int i = 0; i < Block::own; ++i)
        block.pair(j, i) = (exp_of_shifted(scores[j][i] - tops(i)) * factors(i)).v;
    }
  }
  /// And then p (dp - dot) scale.
  template <QueryIs is>
  static NNTILE_DEVICE void take_slopes(Block const& block, typename Block::Sums const& products,
                                        Vec<V> scale) {
    NNTILE_UNROLL()
    for (int j = 0; j < Block::inner; ++j) {
      OfQuery<is> const dots(block, dot, j);
      NNTILE_UNROLL()
      for (int i = 0; i < Block::own; ++i) {
        Vec<V> const power = Vec<V>::raw(block.pair(j, i));
        block.pair(j, i) = (power * (products[j][i] - dots(i)) * scale).v;
      }
    }
  }

  static NNTILE_DEVICE int left(Index all, Index from) {
    return all - from < side ? static_cast<int>(all - from) : side;
  }
  static NNTILE_ALWAYS_INLINE Index blocks(Index extent) { return (extent + side - 1) / side; }
  static NNTILE_ALWAYS_INLINE Index pieces(ops::AttentionArgs const& args) {
    return (args.d + width - 1) / width;
  }

  struct OfKeys {
    static constexpr int threads = Block::threads;
    static constexpr int least_blocks = 2;
    Call call;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      Index const rows = blocks(args.j), all = pieces(args);
      for (Index at = thread.block(); at < rows * all * args.h * args.b; at += thread.blocks())
        run(Block(thread), at % rows * side, at / rows % all * width, at / rows / all);
    }
    NNTILE_DEVICE void run(Block const& block, Index key, Index piece, Index number) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      Head const head(args, buffers, number, piece);
      int const keys = left(args.j, key);
      Index const to = head.to_keys + key * head.ld;
      auto const result = [&](Operand of, Operand carry, double beta) {
        return ChainResult<T>{buffers.template at<T>(of), buffers.template at<V>(carry), beta,
                              args.queries}
            .at(to);
      };
      ChainResult<T> const dk = result(Operand::dk, Operand::carry_dk, args.beta_dk);
      ChainResult<T> const dv = result(Operand::dv, Operand::carry_dv, args.beta_dv);
      typename Block::Result of_k, of_v;
      start(block, dk, keys, head, of_k);
      start(block, dv, keys, head, of_v);
      Rows<T> const k{head.k + key * head.ld, head.ld, keys};
      Rows<T> const v{head.v + key * head.ld, head.ld, keys};
      for (Index query = 0; query < args.i; query += side) {
        int const queries = left(args.i, query);
        int const diagonal = Block::diagonal(args.diagonal + query - key);
        if (diagonal + queries <= 0) continue;
        take_queries(block, args, head, query, queries);
        Index const row = query * head.ld;
        auto const sees = [&](int j, int i) { return j <= i + diagonal; };
        bool const all = diagonal >= side - 1;
        typename Block::Sums sums;
        block.multiply(sums, k, {head.q + row, head.ld, queries, static_cast<V>(args.scale)},
                       args.d);
        if (args.d == 0) block.thread().sync();
        take_powers<QueryIs::inner>(block, sums);
        block.add(of_v, {head.dout + row + piece, head.ld, queries}, head.d, all, sees);
        block.multiply(sums, v, {head.dout + row, head.ld, queries}, args.d);
        take_slopes<QueryIs::inner>(block, sums, Vec<V>(args.scale));
        block.add(of_k, {head.q + row + piece, head.ld, queries}, head.d, all, sees);
      }
      put(block, dk, keys, head, of_k);
      put(block, dv, keys, head, of_v);
    }
  };

  struct OfQueries {
    static constexpr int threads = Block::threads;
    static constexpr int least_blocks = sizeof(V) == 4 ? 3 : 2;
    Call call;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      Index const rows = blocks(args.i), all = pieces(args);
      for (Index at = thread.block(); at < rows * all * args.h * args.b; at += thread.blocks())
        run(Block(thread), (rows - 1 - at % rows) * side, at / rows % all * width, at / rows / all);
    }
    NNTILE_DEVICE void run(Block const& block, Index query, Index piece, Index number) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      Head const head(args, buffers, number, piece);
      int const queries = left(args.i, query);
      auto const dq = [&] {  // made twice: in between its addresses are registers that sm_80 lacks
        return ChainResult<T>{buffers.template at<T>(Operand::dq),
                              buffers.template at<V>(Operand::carry_dq), args.beta_dq, args.keys}
            .at(head.to_queries + query * head.ld);
      };
      typename Block::Result of_q;
      start(block, dq(), queries, head, of_q);
      take_queries(block, args, head, query, queries);
      Index const row = query * head.ld;
      Rows<T> const q{head.q + row, head.ld, queries, static_cast<V>(args.scale)};
      Rows<T> const dout{head.dout + row, head.ld, queries};
      for (Index key = 0; key < args.j; key += side) {
        int const diagonal = Block::diagonal(args.diagonal + query - key);
        if (diagonal + queries <= 0) break;
        int const keys = left(args.j, key);
        Rows<T> const k{head.k + key * head.ld, head.ld, keys};
        Rows<T> const v{head.v + key * head.ld, head.ld, keys};
        typename Block::Sums sums;
        block.multiply(sums, q, k, args.d);
        take_powers<QueryIs::outer>(block, sums);
        block.multiply(sums, dout, v, args.d);
        take_slopes<QueryIs::outer>(block, sums, Vec<V>(args.scale));
        block.add(of_q, {k.at + piece, head.ld, keys}, head.d, diagonal >= side - 1,
                  [&](int i, int j) { return j <= i + diagonal; });
      }
      put(block, dq(), queries, head, of_q);
    }
  };

  /// dk and dv from the sums of all canonical groups.
  struct Finish {
    static constexpr int threads = loop_threads;
    Call call;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      auto const result = [&](Operand of, Operand carry, double beta) {
        return ChainResult<T>{buffers.template at<T>(of), buffers.template at<V>(carry), beta,
                              args.queries, true};
      };
      ChainResult<T> const dk = result(Operand::dk, Operand::carry_dk, args.beta_dk);
      ChainResult<T> const dv = result(Operand::dv, Operand::carry_dv, args.beta_dv);
      for_each(thread, args.d * args.h * args.j * args.b, [&](Index at) {
        dk.put(at, dk.start(at));
        dv.put(at, dv.start(at));
      });
    }
  };

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    Call const call(from);
    ops::AttentionArgs const& args = call.arguments.args;
    if (args.finishing)
      return launch_over(args.d * args.h * args.j * args.b, loop_threads, stream, Finish{call});
    Index const heads = Index{args.h} * args.b * pieces(args);
    Status const status =
        launch_over(blocks(args.j) * heads, 1, stream, OfKeys{call}, Block::shared_bytes);
    if (!status.ok()) return status;
    return launch_over(blocks(args.i) * heads, 1, stream, OfQueries{call}, Block::shared_bytes);
  }
};

}  // namespace nntile::kernels::cuda::sdpa
