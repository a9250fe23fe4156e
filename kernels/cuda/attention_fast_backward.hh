#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The derivative of attention by tensor cores: a kernel for dk and dv, a block of threads for keys,
// and one for dq, a block for queries; each result has one order of its sums. Both compute scores
// anew. Bound: products of tensor cores, 8 d and 6 d flops a pair.

#include "kernels/cuda/attention_products.hh"

namespace nntile::kernels::cuda::sdpa {

/// Queries of heads whose numbers lie between the kernels at once, and their bytes.
inline constexpr Index backward_queries = 512 << 10;
inline constexpr std::uint32_t backward_workspace = backward_queries * 2 * sizeof(float);

template <class T, int d> struct FastAttentionBackward {
  using Operand = ops::AttentionBackward::Operand;
  using Call = DeviceCall<ops::AttentionBackward>;
  static constexpr int threads = 128, warps = threads / warp_size;
  static constexpr int padding = 128;  // queries of which numbers are there are a multiple of it
  static_assert(backward_queries % padding == 0);

  /// Of a query: log2(e) max + log2(sum), and sum_d dout out.
  struct Numbers {
    float level, dot;
  };
  /// The heads of a launch.
  struct Heads {
    Index first, count;
    float* numbers;  // [2, padded i, count]
    Index padded;
  };
  /// One head, by places: pointers are the call's, which take no registers.
  struct Head {
    HeadLayout at;
    float const* numbers;

    NNTILE_DEVICE Head(Call const& call, Heads const& heads, Index number)
        : at(head_layout(call.args(), (heads.first + number) % call.args().h,
                         (heads.first + number) / call.args().h)),
          numbers(heads.numbers + 2 * heads.padded * number) {}
  };

  /// The numbers of all queries, eight lanes for one. Those of a query that is not there make its
  /// powers 0.
  struct Prepare {
    static constexpr int threads = FastAttentionBackward::threads, lanes = 8;
    Call call;
    Heads heads;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      Index const number = thread.block() * (threads / lanes) + thread.rank() / lanes;
      Index const query = number % heads.padded, head = heads.first + number / heads.padded;
      HeadLayout const at = head_layout(args, head % args.h, head / args.h);
      bool const is = query < args.i;
      int const lane = thread.rank() % lanes;
      float dot = 0;
      if (is) {
        T const* const out = buffers.template at<T const>(Operand::out) + at.q + query * at.ld;
        T const* const dout = buffers.template at<T const>(Operand::dout) + at.q + query * at.ld;
        NNTILE_UNROLL()
        for (int e = 0; e < d; e += 4 * lanes) {
          auto const x = thread.four(out, e + 4 * lane), y = thread.four(dout, e + 4 * lane);
          NNTILE_UNROLL()
          for (int c = 0; c < 4; ++c)
            dot = __builtin_fmaf(static_cast<float>(x.of[c]), static_cast<float>(y.of[c]), dot);
        }
      }
      for (int mask = 1; mask < lanes; mask *= 2) dot += thread.exchange(dot, mask);
      if (lane != 0) return;
      float level = __builtin_inff();
      if (is) {
        float const max = buffers.template at<float const>(Operand::max)[at.statistics + query];
        float const sum = buffers.template at<float const>(Operand::sum)[at.statistics + query];
        level = (Vec<float>::raw(max) + log(Vec<float>::raw(sum))).v * log2_of_e;
      }
      heads.numbers[2 * number] = level;
      heads.numbers[2 * number + 1] = dot;
    }
  };

  /// dk and dv of a block of keys. Rows of pairs are keys, columns queries.
  struct OfKeys {
    static constexpr int threads = FastAttentionBackward::threads;
    static constexpr int tiles = d == 64 ? 2 : 1;  // of 16 keys a warp
    static constexpr int own = 16 * tiles, side = warps * own;
    static constexpr int queries = sizeof(T) * d == 256 && tiles == 1 ? 64 : 32;  // of a block
    using Keys = HeadRows<T, d, side, threads>;
    using Queries = HeadRows<T, d, queries, threads>;
    static constexpr std::size_t number_bytes = 2 * queries * sizeof(float);
    static constexpr std::size_t stage_bytes = 2 * Queries::bytes + number_bytes;
    static constexpr std::size_t shared_bytes = 2 * Keys::bytes + 2 * stage_bytes;
    static constexpr int least_blocks = sizeof(T) == 4 && d == 128 ? 1 : 2;
    Call call;
    Heads heads;
    BlockOrder order;

    using Sums = SumTile<d>[tiles];
    using Pairs = SumTile<queries>[tiles];

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      auto const place = order.of(thread.block());
      int const key = place.tile * side;
      Head const head(call, heads, place.head);
      int const there = rest_of(args.j, key, side), first = thread.rank() / warp_size * own;
      Keys const k(thread, 0), v(thread, Keys::bytes);
      auto const buffers = call.buffers();
      Index const to = head.at.k + key * head.at.ld;
      k.fetch(buffers.template at<T const>(Operand::k) + to, head.at.ld, there);
      v.fetch(buffers.template at<T const>(Operand::v) + to, head.at.ld, there);
      int const diagonal_of_all = static_cast<int>(args.diagonal), end = static_cast<int>(args.i);
      int const seen = key - diagonal_of_all;  // by this query and later ones
      int const begin = seen > 0 ? seen / queries * queries : 0;
      fetch(thread, head, begin, 0);
      Sums of_k, of_v;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int c = 0; c < d / 8; ++c) {
          NNTILE_UNROLL()
          for (int e = 0; e < 4; ++e) of_k[i][c][e] = of_v[i][c][e] = 0;
        }
      }
      int stage = 0;
      for (int query = begin; query < end; query += queries, stage ^= 1) {
        std::size_t const at = 2 * Keys::bytes + static_cast<std::size_t>(stage) * stage_bytes;
        Queries const q(thread, at), dout(thread, at + Queries::bytes);
        await_words(thread);
        if (query == begin) {
          k.round();
          v.round();
        }
        q.round();
        dout.round();
        thread.sync();
        if (query + queries < end) fetch(thread, head, query + queries, stage ^ 1);
        // Row x is seen by column y where x <= y + diagonal.
        int const diagonal = diagonal_of_all + query - key - first;
        if (diagonal + queries <= 0 || first >= there) continue;
        Shared<float> const numbers =
            thread.template shared<float>(at + 2 * Queries::bytes, 2 * queries);
        Pairs powers, slopes;
        multiply_rows<tiles, queries, 2>(
            powers, [&](int i, int s) { return k.left(first + 16 * i, s); }, q);
        take_powers(thread, powers, numbers, diagonal);
        multiply_rows<tiles, queries, 2>(
            slopes, [&](int i, int s) { return v.left(first + 16 * i, s); }, dout);
        add_rows<tiles, queries, d>(of_v, powers, dout);
        take_slopes(thread, powers, slopes, numbers);
        add_rows<tiles, queries, d>(of_k, slopes, q);
      }
      finish(thread, head, key, first, there, of_k, of_v);
    }

    NNTILE_DEVICE void fetch(Thread const& thread, Head const& head, int query, int stage) const {
      std::size_t const at = 2 * Keys::bytes + static_cast<std::size_t>(stage) * stage_bytes;
      int const there = static_cast<int>(call.args().i) - query;
      auto const buffers = call.buffers();
      Index const from = head.at.q + query * head.at.ld;
      Queries(thread, at).fetch(buffers.template at<T const>(Operand::q) + from, head.at.ld, there);
      Queries(thread, at + Queries::bytes)
          .fetch(buffers.template at<T const>(Operand::dout) + from, head.at.ld, there);
      auto const numbers =
          thread.template shared<std::uint32_t>(at + 2 * Queries::bytes, 2 * queries);
      if (thread.rank() < queries / 2)
        thread.copy_four_or_zeros(numbers, 4 * thread.rank(),
                                  head.numbers + 2 * query + 4 * thread.rank(), true);
    }

    /// Products of keys and queries become powers, 0 for keys that a query does not see.
    NNTILE_DEVICE void take_powers(Thread const& thread, Pairs& pairs, Shared<float> const& numbers,
                                   int diagonal) const {
      float const scale = static_cast<float>(call.args().scale) * log2_of_e;
      int const lane = lane_of(thread);
      bool const all = diagonal >= own - 1;
      NNTILE_UNROLL()
      for (int c = 0; c < queries / 8; ++c) {
        int const column = 8 * c + lane % 4 * 2;
        Quad<float> const of = thread.four(numbers, 2 * column);
        NNTILE_UNROLL()
        for (int i = 0; i < tiles; ++i) {
          NNTILE_UNROLL()
          for (int e = 0; e < 4; ++e) {
            float& x = pairs[i][c][e];
            x = exp2_estimate(__builtin_fmaf(x, scale, -of.of[e % 2 * 2]));
            if (!all && 16 * i + lane / 4 + e / 2 * 8 > column + e % 2 + diagonal) x = 0;
          }
        }
      }
    }
    /// slopes = powers (slopes - dot).
    static NNTILE_DEVICE void take_slopes(Thread const& thread, Pairs const& powers, Pairs& slopes,
                                          Shared<float> const& numbers) {
      NNTILE_UNROLL()
      for (int c = 0; c < queries / 8; ++c) {
        Quad<float> const of = thread.four(numbers, 2 * (8 * c + lane_of(thread) % 4 * 2));
        NNTILE_UNROLL()
        for (int i = 0; i < tiles; ++i) {
          NNTILE_UNROLL()
          for (int e = 0; e < 4; ++e)
            slopes[i][c][e] = powers[i][c][e] * (slopes[i][c][e] - of.of[e % 2 * 2 + 1]);
        }
      }
    }

    NNTILE_DEVICE void finish(Thread const& thread, Head const& head, int key, int first, int there,
                              Sums const& of_k, Sums const& of_v) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      int const lane = lane_of(thread);
      Index const to = head.at.k + key * head.at.ld;
      T* const dk = buffers.template at<T>(Operand::dk) + to;
      T* const dv = buffers.template at<T>(Operand::dv) + to;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r) {
          int const row = first + 16 * i + lane / 4 + 8 * r;
          if (row >= there) continue;
          put_row<T, d>(thread, dk + row * head.at.ld, of_k[i], r, static_cast<float>(args.scale),
                        args.beta_dk);
          put_row<T, d>(thread, dv + row * head.at.ld, of_v[i], r, 1, args.beta_dv);
        }
      }
    }
  };

  /// dq of a block of queries. Rows of pairs are queries, columns keys.
  struct OfQueries {
    static constexpr int threads = FastAttentionBackward::threads;
    static constexpr int tiles = 2;  // of 16 queries a warp
    static constexpr int own = 16 * tiles, side = warps * own;
    static constexpr bool holds = sizeof(T) * d == 128;         // queries' factors in registers
    static constexpr int keys = sizeof(T) * d > 256 ? 16 : 32;  // of a block
    using Queries = HeadRows<T, d, side, threads>;
    using Keys = HeadRows<T, d, keys, threads>;
    static constexpr std::size_t stage_bytes = 2 * Keys::bytes;
    static constexpr std::size_t shared_bytes = 2 * Queries::bytes + 2 * stage_bytes;
    static constexpr int least_blocks = sizeof(T) == 4 && d == 128 ? 1 : 2;
    static_assert(padding % side == 0);
    Call call;
    Heads heads;
    BlockOrder order;

    using Sums = SumTile<d>[tiles];
    using Pairs = SumTile<keys>[tiles];

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      auto const place = order.of(thread.block());
      int const query = (static_cast<int>(order.tiles) - 1 - place.tile) * side;
      Head const head(call, heads, place.head);
      int const there = rest_of(args.i, query, side), first = thread.rank() / warp_size * own;
      int const lane = lane_of(thread);
      Queries const q(thread, 0), dout(thread, Queries::bytes);
      auto const buffers = call.buffers();
      Index const to = head.at.q + query * head.at.ld;
      q.fetch(buffers.template at<T const>(Operand::q) + to, head.at.ld, there);
      dout.fetch(buffers.template at<T const>(Operand::dout) + to, head.at.ld, there);
      fetch(thread, head, 0, 0);
      Quad<std::uint32_t> held[2][tiles][holds ? Queries::steps : 1];
      Numbers numbers[tiles][2];
      Sums sums;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r) {
          Index const at = 2 * (query + first + 16 * i + lane / 4 + 8 * r);
          numbers[i][r] = {head.numbers[at], head.numbers[at + 1]};
        }
        NNTILE_UNROLL()
        for (int c = 0; c < d / 8; ++c) {
          NNTILE_UNROLL()
          for (int e = 0; e < 4; ++e) sums[i][c][e] = 0;
        }
      }
      // Keys that the last query sees.
      int const diagonal_of_all = static_cast<int>(args.diagonal), all = static_cast<int>(args.j);
      int const end = diagonal_of_all + query + there < all ? diagonal_of_all + query + there : all;
      int stage = 0;
      for (int key = 0; key < end; key += keys, stage ^= 1) {
        std::size_t const at = 2 * Queries::bytes + static_cast<std::size_t>(stage) * stage_bytes;
        Keys const k(thread, at), v(thread, at + Keys::bytes);
        await_words(thread);
        if (key == 0) {
          q.round();
          dout.round();
        }
        k.round();
        v.round();
        thread.sync();
        if (key + keys < end) fetch(thread, head, key + keys, stage ^ 1);
        if (holds && key == 0) {
          NNTILE_UNROLL()
          for (int i = 0; i < tiles; ++i) {
            NNTILE_UNROLL()
            for (int s = 0; s < (holds ? Queries::steps : 1); ++s) {
              held[0][i][s] = q.left(first + 16 * i, s);
              held[1][i][s] = dout.left(first + 16 * i, s);
            }
          }
        }
        int const diagonal = diagonal_of_all + query + first - key;
        if (diagonal + own <= 0 || first >= there) continue;
        Pairs powers, slopes;
        auto const left = [&](Queries const& rows, int number, int i, int s) {
          return holds ? held[number][i][holds ? s : 0] : rows.left(first + 16 * i, s);
        };
        multiply_rows<tiles, keys, holds ? Queries::steps : 2>(
            powers, [&](int i, int s) { return left(q, 0, i, s); }, k);
        take_powers(lane, powers, numbers, diagonal, all - key);
        multiply_rows<tiles, keys, holds ? Queries::steps : 2>(
            slopes, [&](int i, int s) { return left(dout, 1, i, s); }, v);
        NNTILE_UNROLL()
        for (int i = 0; i < tiles; ++i) {
          NNTILE_UNROLL()
          for (int c = 0; c < keys / 8; ++c) {
            NNTILE_UNROLL()
            for (int e = 0; e < 4; ++e)
              slopes[i][c][e] = powers[i][c][e] * (slopes[i][c][e] - numbers[i][e / 2].dot);
          }
        }
        add_rows<tiles, keys, d>(sums, slopes, k);
      }
      T* const dq = call.buffers().template at<T>(Operand::dq) + head.at.q + query * head.at.ld;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r)
          if (int const row = first + 16 * i + lane / 4 + 8 * r; row < there)
            put_row<T, d>(thread, dq + row * head.at.ld, sums[i], r, static_cast<float>(args.scale),
                          args.beta_dq);
      }
    }

    NNTILE_DEVICE void fetch(Thread const& thread, Head const& head, int key, int stage) const {
      std::size_t const at = 2 * Queries::bytes + static_cast<std::size_t>(stage) * stage_bytes;
      int const there = static_cast<int>(call.args().j) - key;
      auto const buffers = call.buffers();
      Index const from = head.at.k + key * head.at.ld;
      Keys(thread, at).fetch(buffers.template at<T const>(Operand::k) + from, head.at.ld, there);
      Keys(thread, at + Keys::bytes)
          .fetch(buffers.template at<T const>(Operand::v) + from, head.at.ld, there);
    }

    NNTILE_DEVICE void take_powers(int lane, Pairs& pairs, Numbers const (&numbers)[tiles][2],
                                   int diagonal, int there) const {
      float const scale = static_cast<float>(call.args().scale) * log2_of_e;
      bool const all = diagonal >= keys - 1 && there >= keys;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int e = 0; e < 4; ++e) {
          int const last = 16 * i + lane / 4 + e / 2 * 8 + diagonal;
          int const end = last < there ? last + 1 : there;
          NNTILE_UNROLL()
          for (int c = 0; c < keys / 8; ++c) {
            float& x = pairs[i][c][e];
            x = exp2_estimate(__builtin_fmaf(x, scale, -numbers[i][e / 2].level));
            if (!all && 8 * c + 2 * (lane % 4) + e % 2 >= end) x = 0;
          }
        }
      }
    }
  };

  static constexpr std::size_t shared_bytes = OfKeys::shared_bytes > OfQueries::shared_bytes
                                                  ? OfKeys::shared_bytes
                                                  : OfQueries::shared_bytes;

  /// Blocks of `rows`, each of which reads rows of `others`.
  template <class Kernel>
  static Status over(Index rows, Index others, Call const& call, Heads const& heads,
                     void* stream) noexcept {
    BlockOrder const order(heads.count, (rows + Kernel::side - 1) / Kernel::side,
                           2 * others * d * static_cast<Index>(sizeof(T)));
    return launch({order.blocks(), Kernel::shared_bytes}, stream, Kernel{call, heads, order});
  }

  /// As many heads at once as the workspace has numbers for, one at least.
  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    Call const call(from);
    ops::AttentionArgs const& args = call.arguments.args;
    Index const all = Index{args.h} * args.b;
    Heads heads{0, 0, static_cast<float*>(from.workspace),
                (args.i + padding - 1) / padding * padding};
    Index const most = backward_queries / heads.padded;
    Status status;
    for (; status.ok() && heads.first < all; heads.first += heads.count) {
      heads.count = all - heads.first < most ? all - heads.first : most;
      Index const rows = heads.count * heads.padded;
      status = launch({rows / (threads / Prepare::lanes)}, stream, Prepare{call, heads});
      if (status.ok()) status = over<OfKeys>(args.j, args.i, call, heads, stream);
      if (status.ok()) status = over<OfQueries>(args.i, args.j, call, heads, stream);
    }
    return status;
  }
};

}  // namespace nntile::kernels::cuda::sdpa
