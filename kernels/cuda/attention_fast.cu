// SPDX-License-Identifier: BSD-3-Clause
// Attention of fast numerics by tensor cores, a block of threads for 128 or 64 queries of a head
// and online softmax over blocks of keys. What it has not is the exact kernel's: heads of other
// sizes than 64 and 128, tasks that are part of a chain, caches, operands that are not aligned, and
// derivatives without a workspace, which not every runtime lends, or of more queries than it holds.
// Bound: products of tensor cores, 4 d flops a pair. Source: Dao 2023, FlashAttention-2.
#include "nntile/ops/attention.hh"

#include "kernels/cuda/attention_fast_backward.hh"

namespace nntile::kernels::cuda {

extern KernelList const attention_kernels;

namespace sdpa {
namespace {

/// The exact entry of an op, which has the computation of exact numerics.
template <class Op, DType dtype> CudaEntry exact_entry() {
  static CudaEntry const entry = [] {
    for (int i = 0; i < attention_kernels.count; ++i)
      if (attention_kernels.codelets[i].computation ==
          &computation_of<Op, dtype, dtype, Mode::exact>)
        return attention_kernels.codelets[i].cuda;
    return CudaEntry{};
  }();
  return entry;
}

template <class T, int d> struct FastAttention {
  using Operand = ops::Attention::Operand;
  static constexpr int threads = 128, warps = threads / warp_size;
  static constexpr int tiles = sizeof(T) * d > 256 ? 1 : 2;  // of 16 queries a warp
  static constexpr int own = 16 * tiles, side = warps * own;
  static constexpr int keys = sizeof(T) * d > 256 ? 16 : d > 64 ? 32 : 64;  // of a block
  using Queries = HeadRows<T, d, side, threads>;
  using Keys = HeadRows<T, d, keys, threads>;
  static constexpr bool holds_queries = Queries::steps * tiles <= 8;  // in registers
  static constexpr std::size_t shared_bytes = Queries::bytes + 2 * Keys::bytes;

  struct Kernel {
    static constexpr int threads = FastAttention::threads;
    static constexpr int least_blocks = 2;
    DeviceCall<ops::Attention> call;
    BlockOrder order;

    using Sums = SumTile<d>[tiles];
    using Scores = SumTile<keys>[tiles];
    /// Of rows l/4 and l/4 + 8 of a tile: the maximum of raw scores, what powers are less, and this
    /// lane's share of their sum.
    using Numbers = float[tiles][2];

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      auto const place = order.of(thread.block());
      int const query = (static_cast<int>(order.tiles) - 1 - place.tile) * side;
      HeadLayout const head = head_layout(args, place.head % args.h, place.head / args.h);
      Index at = head.k;  // of the first element of a block of keys, and of values
      int const first = thread.rank() / warp_size * own;  // of this warp's queries
      int const queries = rest_of(args.i, query, side);
      // Keys that the last query sees.
      int const diagonal_of_all = static_cast<int>(args.diagonal), all = static_cast<int>(args.j);
      int const seen = diagonal_of_all + query + queries, end = seen < all ? seen : all;

      Queries const q(thread, 0);
      Keys const k_rows(thread, Queries::bytes), v_rows(thread, Queries::bytes + Keys::bytes);
      q.fetch(buffers.template at<T const>(Operand::q) + head.q + query * head.ld, head.ld,
              queries);
      k_rows.fetch(buffers.template at<T const>(Operand::k) + at, head.ld, all);
      Quad<std::uint32_t> held[tiles][holds_queries ? Queries::steps : 1];
      Sums sums;
      Numbers top, base, total;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r) {
          top[i][r] = base[i][r] = -__builtin_inff();
          total[i][r] = 0;
        }
        NNTILE_UNROLL()
        for (int c = 0; c < d / 8; ++c) {
          NNTILE_UNROLL()
          for (int e = 0; e < 4; ++e) sums[i][c][e] = 0;
        }
      }
      for (int key = 0; key < end; key += keys) {
        int const there = all - key;
        await_words(thread);
        if (key == 0) q.round();
        k_rows.round();
        thread.sync();
        v_rows.fetch(buffers.template at<T const>(Operand::v) + at, head.ld, there);
        int const diagonal = diagonal_of_all + query + first - key;
        bool const sees = diagonal + own > 0 && first < queries;
        Scores scores;
        if (holds_queries && key == 0) {
          NNTILE_UNROLL()
          for (int i = 0; i < tiles; ++i) {
            NNTILE_UNROLL()
            for (int s = 0; s < (holds_queries ? Queries::steps : 1); ++s)
              held[i][s] = q.left(first + 16 * i, s);
          }
        }
        if (sees) {
          if constexpr (holds_queries)
            multiply_rows<tiles, keys, Queries::steps>(
                scores, [&](int i, int s) { return held[i][s]; }, k_rows);
          else
            multiply_rows<tiles, keys, 2>(
                scores, [&](int i, int s) { return q.left(first + 16 * i, s); }, k_rows);
        }
        await_words(thread);
        v_rows.round();
        thread.sync();
        at += keys * head.ld;
        if (key + keys < end)
          k_rows.fetch(buffers.template at<T const>(Operand::k) + at, head.ld, there - keys);
        if (!sees) continue;
        if (diagonal < keys - 1 || there < keys) hide(thread, scores, diagonal, there);
        take_powers(thread, scores, top, base, total, sums);
        add_rows<tiles, keys, d>(sums, scores, v_rows);
      }
      finish(thread, head, query, first, queries, top, base, total, sums);
    }

    /// Scores of keys that a query does not see, or that are not there, become -inf.
    static NNTILE_DEVICE void hide(Thread const& thread, Scores& scores, int diagonal, int there) {
      int const lane = lane_of(thread);
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int e = 0; e < 4; ++e) {
          int const last = 16 * i + lane / 4 + e / 2 * 8 + diagonal;
          int const end = last < there ? last + 1 : there;
          NNTILE_UNROLL()
          for (int c = 0; c < keys / 8; ++c)
            if (8 * c + 2 * (lane % 4) + e % 2 >= end) scores[i][c][e] = -__builtin_inff();
        }
      }
    }

    /// Scores become powers of 2 less a base. It becomes the maximum where that is above it by more
    /// than `slack`, for all rows of the warp: else powers are no more than 2^slack, and what was
    /// summed under the base stays as it is.
    NNTILE_DEVICE void take_powers(Thread const& thread, Scores& scores, Numbers& top,
                                   Numbers& base, Numbers& total, Sums& sums) const {
      constexpr float slack = 8;
      float const scale = static_cast<float>(call.args().scale) * log2_of_e;
      bool rises = false;
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r) {
          float best = top[i][r];
          NNTILE_UNROLL()
          for (int c = 0; c < keys / 8; ++c)
            best = fmaxf(best, fmaxf(scores[i][c][2 * r], scores[i][c][2 * r + 1]));
          best = fmaxf(best, thread.exchange(best, 1));
          best = fmaxf(best, thread.exchange(best, 2));
          top[i][r] = best;
          rises |= best * scale > base[i][r] * scale + slack;
        }
      }
      if (thread.ballot(rises) != 0) {
        NNTILE_UNROLL()
        for (int i = 0; i < tiles; ++i) {
          NNTILE_UNROLL()
          for (int r = 0; r < 2; ++r) {
            float const kept = kept_of(base[i][r], top[i][r], scale);
            base[i][r] = top[i][r];
            total[i][r] *= kept;
            NNTILE_UNROLL()
            for (int c = 0; c < d / 8; ++c) {
              sums[i][c][2 * r] *= kept;
              sums[i][c][2 * r + 1] *= kept;
            }
          }
        }
      }
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r) {
          float const shift = shift_of(base[i][r], scale);
          float sum = 0;
          NNTILE_UNROLL()
          for (int c = 0; c < keys / 8; ++c) {
            NNTILE_UNROLL()
            for (int e = 2 * r; e < 2 * r + 2; ++e) {
              float const power = exp2_estimate(__builtin_fmaf(scores[i][c][e], scale, -shift));
              scores[i][c][e] = power;
              sum += power;
            }
          }
          total[i][r] += sum;
        }
      }
    }
    /// The factor of what was summed under a base that is replaced; 0 or more.
    static NNTILE_DEVICE float kept_of(float base, float next, float scale) {
      return exp2_estimate(__builtin_fmaf(base, scale, -shift_of(next, scale)));
    }
    static NNTILE_DEVICE float shift_of(float base, float scale) {
      return base == -__builtin_inff() ? 0.0f : base * scale;
    }

    NNTILE_DEVICE void finish(Thread const& thread, HeadLayout const& head, int query, int first,
                              int queries, Numbers& top, Numbers& base, Numbers& total,
                              Sums& sums) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      T* const out = buffers.template at<T>(Operand::out) + head.q + query * head.ld;
      float* const max = buffers.template at<float>(Operand::max) + head.statistics + query;
      float* const sum = buffers.template at<float>(Operand::sum) + head.statistics + query;
      int const lane = lane_of(thread);
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        NNTILE_UNROLL()
        for (int r = 0; r < 2; ++r) {
          float all = total[i][r];
          all += thread.exchange(all, 1);
          all += thread.exchange(all, 2);
          int const row = first + 16 * i + lane / 4 + 8 * r;
          if (row >= queries) continue;
          if (lane % 4 == 0) {
            auto const scale = static_cast<float>(args.scale);
            // A NaN or infinite score has made the sum NaN; the maximum joins it.
            max[row] = all == all ? top[i][r] * scale : all;
            sum[row] = all * kept_of(base[i][r], top[i][r], scale * log2_of_e);
          }
          put_row<T, d>(thread, out + row * head.ld, sums[i], r, 1 / all, 0);
        }
      }
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Attention>(call);
    BlockOrder const order(Index{args.h} * args.b, (args.i + side - 1) / side,
                           2 * args.j * d * static_cast<Index>(sizeof(T)));
    return launch({order.blocks(), shared_bytes}, stream,
                  Kernel{DeviceCall<ops::Attention>(call), order});
  }
};

/// Whether the kernels of tensor cores do the task.
template <class Op>
bool is_for_tensor_cores(ops::AttentionArgs const& args, KernelCall const& call,
                         std::size_t shared) {
  constexpr bool forward = std::same_as<Op, ops::Attention>;
  constexpr int pointers = forward ? 4 : 10;
  Index const heads = Index{args.h} * args.b;
  return args.keys.first && args.keys.last && args.queries.first && args.queries.last &&
         !args.finishing && args.diagonal >= 0 && args.scale > 0 && args.i > 0 && args.j > 0 &&
         heads > 0 && args.i + args.j < INT32_MAX / 2 &&
         (args.i + args.j) / 16 * heads < INT32_MAX && shared <= most_shared() &&
         (forward || (call.workspace != nullptr && args.i <= backward_queries)) &&
         whole_vectors(call.buffers, pointers);
}

template <class Op, template <class, int> class Fast, DType dtype>
Status enqueue_fast(KernelCall const& call, void* stream) noexcept {
  using T = stored_t<dtype>;
  auto const args = arguments<Op>(call);
  if constexpr (std::same_as<Op, ops::Attention>)
    if (Buffers<Op>(call).template at<Index const>(Op::Operand::start) != nullptr)
      return exact_entry<Op, dtype>()(call, stream);
  if (args.d == 64 && is_for_tensor_cores<Op>(args, call, Fast<T, 64>::shared_bytes))
    return Fast<T, 64>::enqueue(call, stream);
  if (args.d == 128 && is_for_tensor_cores<Op>(args, call, Fast<T, 128>::shared_bytes))
    return Fast<T, 128>::enqueue(call, stream);
  return exact_entry<Op, dtype>()(call, stream);
}

template <class Op, template <class, int> class Fast, std::uint32_t workspace, DType... dtypes>
consteval auto fast() {
  return join(
      Kernels<1>{{Codelet{Op::name, nullptr, &enqueue_fast<Op, Fast, dtypes>, nullptr, 0,
                          &computation_of<Op, dtypes, dtypes, Mode::fast>, false, workspace}}}...);
}
/// fp32 and fp64 allow no reduced format; one of fp32_fast is tf32, which has at least its bits.
template <class Op, template <class, int> class Fast, std::uint32_t workspace = 0>
consteval auto fast_of() {
  return fast<Op, Fast, workspace, DType::bf16, DType::fp16, DType::fp32_fast_tf32,
              DType::fp32_fast_fp16, DType::fp32_fast_bf16>();
}

constinit auto const fast_kernels =
    join(fast_of<ops::Attention, FastAttention>(),
         fast_of<ops::AttentionBackward, FastAttentionBackward, backward_workspace>());

}  // namespace
}  // namespace sdpa
NNTILE_KERNEL_LIST(attention_fast, sdpa::fast_kernels)
}  // namespace nntile::kernels::cuda
