// SPDX-License-Identifier: BSD-3-Clause
// Attention over blocks of 64 queries and 64 keys, queries in the lanes. Stack: 352 KiB at most.
#include "kernels/cpu/attention_block.hh"
#include "kernels/cpu/attention_backward.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// The running state of a block of queries.
template <class V>
struct Running {
  alignas(64) V max[attention_block];
  alignas(64) V sum[attention_block];
  alignas(64) V kept[attention_block];  // what the last block's new maximum leaves of sum and out
};

template <class T>
struct Attention {
  using V = compute_t<T>;
  static constexpr int lanes = Vec<V>::lanes;
  static constexpr Index depth = attention_depth<V>;

  struct Scratch {
    RowBlock<V> q, k, v, out;
    alignas(64) V scores[attention_block * attention_block];  // [query, key]
    Running<V> running;
  };

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Attention>(call);
    Scratch scratch;
    for (Index batch = 0; batch < args.b; ++batch)
      for (Index head = 0; head < args.h; ++head) {
        HeadLayout const at = head_layout(args, head, batch);
        for (Index query = 0; query < args.i; query += attention_block)
          for (Index piece = 0; piece < args.d; piece += depth) run_queries(call, args, at, query, piece, scratch);
      }
    return {};
  }

  /// One block of queries, elements of out from `piece` on, over all keys of the task.
  static void run_queries(KernelCall const& call, ops::AttentionArgs const& args, HeadLayout const& at, Index query,
                          Index piece, Scratch& scratch) {
    T const* const q = buffer<T const>(call, 0) + at.q + query * at.q_ld;  // [d, i]
    T const* const k = buffer<T const>(call, 1) + at.k;                    // [d, j]
    T const* const v = buffer<T const>(call, 2) + at.k;                    // [d, j]
    T* const out = buffer<T>(call, 3) + at.q + query * at.q_ld;            // [d, i]
    V* const carry = args.carried ? buffer<V>(call, 6) + at.q + query * at.q_ld : nullptr;
    V* const max = buffer<V>(call, 4) + at.statistics + query;
    V* const sum = buffer<V>(call, 5) + at.statistics + query;
    Index const queries = args.i - query < attention_block ? args.i - query : attention_block;
    Index const d = args.d - piece < depth ? args.d - piece : depth;
    Index const width = padded<V>(d);
    bool const one_piece = args.d <= depth;
    V const scale = static_cast<V>(args.scale);

    Running<V>& running = scratch.running;
    for (Index i = 0; i < attention_block; ++i) {
      bool const has = i < queries && !args.first;
      running.max[i] = has ? max[i] : -static_cast<V>(__builtin_inf());
      running.sum[i] = has ? sum[i] : V(0);
    }
    V* const sums = scratch.out.at;  // [width, query]
    bool fresh = args.first;
    if (!fresh)
      for (Index i = 0; i < queries; ++i)
        for_each_vec<V>(d, [&](Index e, auto part) {
          Index const from = i * at.q_ld + piece + e;
          store(sums + i * width + e, carry != nullptr ? load(static_cast<V const*>(carry) + from, part)
                                                       : load(static_cast<T const*>(out) + from, part), All{});
        });
    if (one_piece) transpose_rows(q, at.q_ld, queries, args.d, scale, scratch.q.at);
    for (Index key = 0; key < args.j; key += attention_block) {
      Index const diagonal = args.diagonal + query - key;
      if (diagonal + queries <= 0) break;
      Index const keys = args.j - key < attention_block ? args.j - key : attention_block;
      for (Index from = 0; from < args.d; from += depth) {
        Index const count = args.d - from < depth ? args.d - from : depth;
        if (!one_piece) transpose_rows(q + from, at.q_ld, queries, count, scale, scratch.q.at);
        Rows<V> const rows = rows_of(k + key * at.k_ld + from, at.k_ld, keys, count, scratch.k);
        multiply<V, Rhs::columns>(queries, keys,
                                  {.begin = 0, .end = count, .a = scratch.q.at, .lda = attention_block, .b = rows.at,
                                   .ldb = rows.ld, .c = scratch.scores, .ldc = attention_block, .zero = from == 0},
                                  diagonal);
      }
      for (Index i = 0; i < queries; i += lanes) take_block(scratch, i, keys, diagonal);
      Rows<V> const rows = rows_of(v + key * at.k_ld + piece, at.k_ld, keys, d, scratch.v);
      multiply<V, Rhs::rows>(width, queries,
                             {.begin = 0, .end = keys, .a = rows.at, .lda = rows.ld, .b = scratch.scores,
                              .ldb = attention_block, .c = sums, .ldc = width, .scale = running.kept,
                              .first_end = diagonal + 1, .zero = fresh, .staggered = diagonal + 1 < keys});
      fresh = false;
    }
    bool const last_piece = piece + depth >= args.d;
    for (Index i = 0; i < queries; ++i) {
      if (last_piece) {
        max[i] = running.max[i];
        sum[i] = running.sum[i];
      }
      Vec<V> const factor = Vec<V>(1) / Vec<V>(static_cast<double>(running.sum[i]));
      for_each_vec<V>(d, [&](Index e, auto part) {
        Vec<V> const value = load(static_cast<V const*>(sums) + i * width + e);
        Index const to = i * at.q_ld + piece + e;
        if (args.last) store(out + to, value * factor, part);
        else if (carry != nullptr) store(carry + to, value, part);
        else store(out + to, value, part);
      });
    }
  }

  /// For queries i and following, one register of them: the new maximum, scores to powers, their sum.
  NNTILE_ALWAYS_INLINE static void take_block(Scratch& scratch, Index i, Index keys, Index diagonal) {
    using Value = Vec<V>;
    Running<V>& running = scratch.running;
    V* const scores = scratch.scores + i;
    SeenKeys const seen = seen_keys(i, lanes, diagonal, keys);
    Value const lowest(-__builtin_inf());
    auto const score = [&](Index key) { return load(static_cast<V const*>(scores) + key * attention_block); };
    Value const before = load(static_cast<V const*>(running.max) + i);
    Value top = before;
    Mask<V> nan = top != top;
    for (Index key = 0; key < seen.all; ++key) {
      Value const s = score(key);
      top = max(s, top);
      nan = nan | (s != s);
    }
    for (Index key = seen.all; key < seen.some; ++key) {
      Value const s = select(seen_by<V>(i, key, diagonal), score(key), lowest);
      top = max(s, top);
      nan = nan | (s != s);
    }
    top = select(nan, Value(__builtin_nan("")), top);
    Value const base = select(top == lowest, Value(0), top);
    Value const kept = exp(before - base);
    Value sum = load(static_cast<V const*>(running.sum) + i) * kept;
    for (Index key = 0; key < seen.all; ++key) {
      Value const power = exp(score(key) - base);
      store(scores + key * attention_block, power);
      sum += power;
    }
    for (Index key = seen.all; key < seen.some; ++key) {
      Value const power = exp(score(key) - base);
      store(scores + key * attention_block, power);
      sum = select(seen_by<V>(i, key, diagonal), sum + power, sum);
    }
    store(running.max + i, top);
    store(running.sum + i, sum);
    store(running.kept + i, kept);
  }
};

constinit auto const kernels =
    join(float_kernels<ops::Attention, Attention>(), float_kernels<ops::AttentionBackward, AttentionBackward>());

}  // namespace
NNTILE_KERNEL_LIST(attention, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
