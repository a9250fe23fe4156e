// SPDX-License-Identifier: BSD-3-Clause
// Attention over blocks of 64 queries and 64 keys, queries in the lanes.
#include "kernels/cpu/attention_backward.hh"
#include "kernels/cpu/attention_block.hh"
#include "kernels/cpu/cache_start.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace sdpa {
namespace {

/// The running state of a block of queries.
template <class V> struct Running {
  alignas(64) V max[attention_block];
  alignas(64) V sum[attention_block];
  alignas(64) V kept[attention_block];  // factor of sum and out for the last block's maximum
};

template <class T> struct Attention {
  using V = compute_t<T>;
  using Operand = ops::Attention::Operand;
  static constexpr int lanes = Vec<V>::lanes;
  static constexpr Index depth = attention_depth<V>;
  static constexpr std::size_t workspace = scratch_bytes;

  /// One head of a task, elements of out from `piece` on.
  struct Head {
    ops::AttentionArgs const& args;
    T const *q, *k, *v;    // [d, i], [d, j]
    ColumnResult<T> sums;  // [d, i]
    V *max, *sum;          // [i]
    Index ld, piece, d;
  };

  struct Scratch {
    V* columns;  // [query, element]: q, scaled
    V* scores;   // [query, key]
    V* sums;     // [element, query]: out before it is scaled
    V* keys;
    V* values;
    Index slots;  // blocks that there is room for in `keys`, and in `values`
    Running<V> running;
  };

  static Status run(KernelCall const& call) noexcept {
    if (call.workspace == nullptr) return {no_workspace};
    auto args = arguments<ops::Attention>(call);
    Buffers<ops::Attention> const buffers(call);
    if (Index const* const start = buffers.at<Index const>(Operand::start)) {
      if (Status const status = check_start(call, *start, args.last_start); !status.ok())
        return status;
      args.diagonal += *start;
    }
    if (args.j == 0) return see_nothing(buffers, args);
    ColumnResult<T> const sums{{buffers.at<T>(Operand::out), buffers.at<V>(Operand::carry), 0,
                                args.keys}};  // [d, h, i, b]
    Room<V> room{static_cast<V*>(call.workspace)};
    Scratch scratch;
    Index const block = attention_block * padded<V>(args.d == 0 ? 1 : at_most(args.d, depth));
    scratch.columns = room.take(block);
    scratch.scores = room.take(attention_block * attention_block);
    scratch.sums = room.take(block);
    scratch.slots = room.left() / (2 * block);
    scratch.keys = room.take(scratch.slots * block);
    scratch.values = room.take(scratch.slots * block);
    for (Index batch = 0; batch < args.b; ++batch)
      for (Index h = 0; h < args.h; ++h)
        for (Index piece = 0; piece == 0 || piece < args.d; piece += depth) {
          HeadLayout const at = head_layout(args, h, batch);
          run_head({args, buffers.at<T>(Operand::q) + at.q, buffers.at<T>(Operand::k) + at.k,
                    buffers.at<T>(Operand::v) + at.k, sums.at(at.q),
                    buffers.at<V>(Operand::max) + at.statistics,
                    buffers.at<V>(Operand::sum) + at.statistics, at.ld, piece,
                    at_most(args.d - piece, depth)},
                   scratch);
        }
    return {};
  }

  /// Writes the results of queries that see no key.
  static Status see_nothing(Buffers<ops::Attention> const& buffers,
                            ops::AttentionArgs const& args) {
    Index const rows = args.i * args.h * args.b;
    for_each_vec<V>(rows, [&](Index i, auto part) {
      store(buffers.at<V>(Operand::max) + i, Vec<V>(-__builtin_inf()), part);
      store(buffers.at<V>(Operand::sum) + i, Vec<V>(0), part);
    });
    for_each_vec<V>(args.d * rows, [&](Index i, auto part) {
      store(buffers.at<T>(Operand::out) + i, Vec<V>(0), part);
    });
    return {};
  }

  static void run_head(Head const& head, Scratch& scratch) {
    ops::AttentionArgs const& args = head.args;
    bool const once = args.i <= attention_block;
    HeldRows<T> keys(head.k, head.ld, args.j, at_most(args.d, depth), once, scratch.keys,
                     scratch.slots);
    HeldRows<T> values(head.v + head.piece, head.ld, args.j, head.d, once, scratch.values,
                       scratch.slots);
    for (Index query = 0; query < args.i; query += attention_block) {
      Index const queries = at_most(args.i - query, attention_block);
      start(head, scratch, query, queries);
      bool fresh = args.keys.first;
      for (Index key = 0; key < args.j; key += attention_block) {
        Index const diagonal = args.diagonal + query - key;
        if (diagonal + queries <= 0) break;
        Index const count = at_most(args.j - key, attention_block);
        score(head, scratch, keys, query, queries, key, count, diagonal);
        for (Index i = 0; i < queries; i += lanes) take_block(scratch, i, count, diagonal);
        RowsAt<V> const rows = values.block(key);
        Index const width = padded<V>(head.d);
        multiply<V, Rhs::rows>(width, queries,
                               {.begin = 0,
                                .end = count,
                                .a = rows.at,
                                .lda = rows.ld,
                                .b = scratch.scores,
                                .ldb = attention_block,
                                .c = scratch.sums,
                                .ldc = width,
                                .scale = scratch.running.kept,
                                .first_end = diagonal + 1,
                                .zero = fresh,
                                .staggered = diagonal + 1 < count});
        fresh = false;
      }
      finish(head, scratch, query, queries);
    }
  }

  /// The state that earlier tasks left, and the queries' columns.
  NNTILE_ALWAYS_INLINE static void start(Head const& head, Scratch& scratch, Index query,
                                         Index queries) {
    ops::AttentionArgs const& args = head.args;
    Running<V>& running = scratch.running;
    for (Index i = 0; i < attention_block; ++i) {
      Chain const chain = i < queries ? args.keys : Chain{};
      running.max[i] = chain.start(head.max, query + i, -static_cast<V>(__builtin_inf()));
      running.sum[i] = chain.start(head.sum, query + i);
    }
    if (!args.keys.first)
      head.sums.at(query * head.ld + head.piece).with_left([&](auto const* rows) {
        copy_rows(rows, head.ld, queries, head.d, scratch.sums);
      });
    if (args.d <= depth)
      transpose_rows(head.q + query * head.ld, head.ld, queries, args.d, static_cast<V>(args.scale),
                     scratch.columns);
  }

  /// scores[query, key] = scale q.k, lanes that no key of a panel wants left out.
  NNTILE_ALWAYS_INLINE static void score(Head const& head, Scratch& scratch, HeldRows<T>& keys,
                                         Index query, Index queries, Index key, Index count,
                                         Index diagonal) {
    ops::AttentionArgs const& args = head.args;
    auto const add = [&](RowsAt<V> rows, Index depth_here, bool zero)
                         __attribute__((always_inline)) {
                           multiply<V, Rhs::columns>(queries, count,
                                                     {.begin = 0,
                                                      .end = depth_here,
                                                      .a = scratch.columns,
                                                      .lda = attention_block,
                                                      .b = rows.at,
                                                      .ldb = rows.ld,
                                                      .c = scratch.scores,
                                                      .ldc = attention_block,
                                                      .zero = zero},
                                                     diagonal);
                         };
    if (args.d <= depth) return add(keys.block(key), args.d, true);
    for (Index from = 0; from < args.d; from += depth) {
      Index const part = at_most(args.d - from, depth);
      transpose_rows(head.q + query * head.ld + from, head.ld, queries, part,
                     static_cast<V>(args.scale), scratch.columns);
      add(copy_rows(head.k + key * head.ld + from, head.ld, count, part, scratch.keys), part,
          from == 0);
    }
  }

  /// For queries i and following, one register of them: the new maximum, scores to powers, their
  /// sum.
  NNTILE_ALWAYS_INLINE static void take_block(Scratch& scratch, Index i, Index keys,
                                              Index diagonal) {
    using Value = Vec<V>;
    Running<V>& running = scratch.running;
    V* const scores = scratch.scores + i;
    SeenKeys const seen = seen_keys(i, lanes, diagonal, keys);
    Value const lowest(-__builtin_inf());
    auto const score = [&](Index key) {
      return load(static_cast<V const*>(scores) + key * attention_block);
    };
    Value const before = load(static_cast<V const*>(running.max) + i);
    // Four chains hide the latency; max passes over NaN, which the sum finds.
    Value tops[4] = {before, before, before, before};
    Index whole = 0;
    for (; whole + 4 <= seen.all; whole += 4)
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) tops[c] = max(score(whole + c), tops[c]);
    Value top = max(max(tops[0], tops[1]), max(tops[2], tops[3]));
    for (Index key = whole; key < seen.all; ++key) top = max(score(key), top);
    for (Index key = seen.all; key < seen.some; ++key)
      top = max(select(seen_by<V>(i, key, diagonal), score(key), lowest), top);
    Value const base = select(top == lowest, Value(0), top);
    Value const kept = exp_of_shifted(before - base);
    Value sum = load(static_cast<V const*>(running.sum) + i) * kept;
    for (Index key = 0; key < seen.all; ++key) {
      Value const power = exp_of_shifted(score(key) - base);
      store(scores + key * attention_block, power);
      sum += power;
    }
    for (Index key = seen.all; key < seen.some; ++key) {
      Value const power = exp_of_shifted(score(key) - base);
      store(scores + key * attention_block, power);
      sum = select(seen_by<V>(i, key, diagonal), sum + power, sum);
    }
    // A NaN or infinite score has made the sum NaN; the maximum joins it, so that the chain goes on
    // as NaN. Of zeros of either sign, +0 is the largest, whatever max has chosen.
    store(running.max + i, select(sum == sum, top + Value(0), sum));
    store(running.sum + i, sum);
    store(running.kept + i, kept);
  }

  /// out = sums / sum where the chain ends, else the state for the next task.
  NNTILE_ALWAYS_INLINE static void finish(Head const& head, Scratch& scratch, Index query,
                                          Index queries) {
    ops::AttentionArgs const& args = head.args;
    Index const width = padded<V>(head.d);
    for (Index i = 0; i < queries; ++i) {
      if (head.piece + head.d == args.d) {  // other pieces begin from the same state
        head.max[query + i] = scratch.running.max[i];
        head.sum[query + i] = scratch.running.sum[i];
      }
      Vec<V> const factor = Vec<V>(1) / Vec<V>(static_cast<double>(scratch.running.sum[i]));
      Index const to = (query + i) * head.ld + head.piece;
      for_each_vec<V>(head.d, [&](Index e, auto part) {
        Vec<V> const value = load(static_cast<V const*>(scratch.sums) + i * width + e);
        head.sums.put(to + e, args.keys.last ? value * factor : value, part);
      });
    }
  }
};

constinit auto const kernels = join(op_kernels<ops::Attention, Attention>(),
                                    op_kernels<ops::AttentionBackward, AttentionBackward>());

}  // namespace
}  // namespace sdpa
NNTILE_KERNEL_LIST(attention, sdpa::kernels)
}  // namespace nntile::kernels::NNTILE_ISA
