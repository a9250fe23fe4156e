// SPDX-License-Identifier: BSD-3-Clause
// Attention, a block of threads for 64 queries of a head. Bound: FMAs, 2 d of them a pair, or 3 for
// heads that are wider than 64, whose scores are computed anew for each stretch of 64 elements.
#include "nntile/ops/attention.hh"

#include "kernels/cuda/attention_backward.hh"

namespace nntile::kernels::cuda {
namespace sdpa {
namespace {

template <class T> struct Attention {
  using V = compute_t<T>;
  using Operand = ops::Attention::Operand;

  struct Kernel {
    static constexpr int width = 64;  // 128 would take more registers than a thread has
    using Block = Pairs<T, width>;
    static constexpr int threads = Block::threads;
    static constexpr int least_blocks = sizeof(V) == 4 ? 3 : 2;
    static constexpr int side = Block::side;
    enum Number { base, kept, sum };
    DeviceCall<ops::Attention> call;
    Index piece;  // the first of the elements that this launch has

    /// One block of queries of a head: what is in memory begins with its first.
    struct Task {
      T const *q, *k, *v;
      ChainResult<T> sums;  // without keys all of its chain
      V *max, *sum;
      Index ld, diagonal;
      int d, queries;
    };

    NNTILE_DEVICE void operator()(Thread& thread) const {
      ops::AttentionArgs const& args = call.args();
      auto const buffers = call.buffers();
      ChainResult<T> const sums{buffers.template at<T>(Operand::out),
                                buffers.template at<V>(Operand::carry), 0,
                                args.j == 0 ? Chain{} : args.keys};  // [d, h, i, b]
      Index diagonal = args.diagonal;
      if (Index const* const start = buffers.template at<Index const>(Operand::start))
        // Without a key, and none asked for, 0 times 1 / 0: NaN.
        diagonal = *start < 0 || *start > args.last_start ? -args.i : diagonal + *start;
      Index const blocks = (args.i + side - 1) / side;
      for (Index at = thread.block(); at < blocks * args.h * args.b; at += thread.blocks()) {
        Index const query = (blocks - 1 - at % blocks) * side;  // most keys first
        HeadLayout const head = head_layout(args, at / blocks % args.h, at / blocks / args.h);
        Index const to = head.q + query * head.ld;
        run(Block(thread),
            {buffers.template at<T const>(Operand::q) + to,
             buffers.template at<T const>(Operand::k) + head.k,
             buffers.template at<T const>(Operand::v) + head.k + piece, sums.at(to + piece),
             buffers.template at<V>(Operand::max) + head.statistics + query,
             buffers.template at<V>(Operand::sum) + head.statistics + query, head.ld,
             diagonal + query, args.d - piece < width ? static_cast<int>(args.d - piece) : width,
             args.i - query < side ? static_cast<int>(args.i - query) : side});
      }
    }

    NNTILE_DEVICE void run(Block const& block, Task const& task) const {
      ops::AttentionArgs const& args = call.args();
      Chain const chain = task.sums.chain;
      int const query = block.thread().rank();  // this thread has its maximum and sum
      V top = -static_cast<V>(__builtin_inf()), total = 0;
      if (query < task.queries) {
        top = chain.start(task.max, query, top);
        total = chain.start(task.sum, query);
      }
      typename Block::Result sums;
      NNTILE_UNROLL()
      for (int c = 0; c < Block::columns; ++c) {
        NNTILE_UNROLL()
        for (int i = 0; i < Block::own; ++i) sums[c][i] = Vec<V>(0);
      }
      if (!chain.first)
        block.for_each_result(task.queries, task.d, [&](int c, int i) {
          Index const at = block.outer(i) * task.ld + block.column(c);
          sums[c][i] = Vec<V>::raw(task.sums.start(at));
        });
      for (Index key = 0; key < args.j && task.diagonal - key + task.queries > 0; key += side)
        add_keys(block, task, key, top, total, sums);
      finish(block, task, top, total, sums);
    }

    /// A block of keys: scores to powers under the new maximum, their sums, and the values' sums.
    NNTILE_DEVICE void add_keys(Block const& block, Task const& task, Index key, V& top, V& total,
                                typename Block::Result& sums) const {
      ops::AttentionArgs const& args = call.args();
      Thread& thread = block.thread();
      int const query = thread.rank();
      int const keys = args.j - key < side ? static_cast<int>(args.j - key) : side;
      int const diagonal = Block::diagonal(task.diagonal - key);
      auto const sees = [&](int i, int j) { return j <= i + diagonal; };
      typename Block::Sums scores;
      block.multiply(scores, {task.q, task.ld, task.queries, static_cast<V>(args.scale)},
                     {task.k + key * task.ld, task.ld, keys}, args.d);
      thread.sync();
      NNTILE_UNROLL()
      for (int i = 0; i < Block::own; ++i) {
        Vec<V> best(-__builtin_inf());  // passes over NaN, which the sum finds
        NNTILE_UNROLL()
        for (int j = 0; j < Block::inner; ++j)
          if (block.inner_at(j) < keys && sees(block.outer(i), block.inner_at(j)))
            best = max(scores[j][i], best);
        block.panels()[thread.rank() / Block::across * side + block.outer(i)] = best.v;
      }
      thread.sync();
      V next = top;
      if (query < side) {
        Vec<V> best = Vec<V>::raw(top);
        for (int part = 0; part < Block::down; ++part)
          best = max(Vec<V>::raw(block.panels()[part * side + query]), best);
        next = best.v;
        V const shift = next == -static_cast<V>(__builtin_inf()) ? V(0) : next;
        block.number(base, query) = shift;
        block.number(kept, query) = exp_of_shifted(Vec<V>::raw(top) - Vec<V>::raw(shift)).v;
      }
      thread.sync();
      NNTILE_UNROLL()
      for (int i = 0; i < Block::own; ++i) {
        Vec<V> const shift = Vec<V>::raw(block.number(base, block.outer(i)));
        Vec<V> const factor = Vec<V>::raw(block.number(kept, block.outer(i)));
        NNTILE_UNROLL()
        for (int j = 0; j < Block::inner; ++j)
          block.pair(j, i) = exp_of_shifted(scores[j][i] - shift).v;
        NNTILE_UNROLL()
        for (int c = 0; c < Block::columns; ++c) sums[c][i] *= factor;
      }
      thread.sync();
      if (query < side) {
        total = total * block.number(kept, query);
        for (int j = 0; j < keys && sees(query, j); ++j) total += block.pair_at(j, query);
        // A NaN or infinite score has made the sum NaN; the maximum joins it. It is never -0.
        top = total == total ? next + V(0) : total;
      }
      block.add(sums, {task.v + key * task.ld, task.ld, keys}, task.d, diagonal >= side - 1, sees);
    }

    NNTILE_DEVICE void finish(Block const& block, Task const& task, V top, V total,
                              typename Block::Result& sums) const {
      ops::AttentionArgs const& args = call.args();
      int const query = block.thread().rank();
      block.thread().sync();
      if (query < side) block.number(sum, query) = total;
      if (query < task.queries && piece + task.d == args.d) {  // other pieces begin alike
        task.max[query] = top;
        task.sum[query] = total;
      }
      block.thread().sync();
      block.for_each_result(task.queries, task.d, [&](int c, int i) {
        Index const at = block.outer(i) * task.ld + block.column(c);
        Vec<V> const factor = Vec<V>(1) / Vec<V>::raw(block.number(sum, block.outer(i)));
        Vec<V> const value = task.sums.chain.last ? sums[c][i] * factor : sums[c][i];
        task.sums.put(at, args.j == 0 ? V(0) : value.v);
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Attention>(call);
    Index const blocks = (args.i + attention_block - 1) / attention_block * args.h * args.b;
    Status status;
    for (Index piece = 0; status.ok() && (piece == 0 || piece < args.d); piece += Kernel::width)
      status = launch_over(blocks, 1, stream, Kernel{DeviceCall<ops::Attention>(call), piece},
                           Kernel::Block::shared_bytes);
    return status;
  }
};

constinit auto const kernels = join(op_kernels<ops::Attention, Attention>(),
                                    op_kernels<ops::AttentionBackward, AttentionBackward>());

}  // namespace
}  // namespace sdpa
NNTILE_KERNEL_LIST(attention, sdpa::kernels)
}  // namespace nntile::kernels::cuda
