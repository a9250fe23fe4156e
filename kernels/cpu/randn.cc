// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/randn.hh"

#include "kernels/cpu/normal.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

constexpr int block = 32;  // pairs worked on at once

/// The normal pairs of Philox blocks first, first + 1, ...: elements 2*first to 2*(first + block).
NNTILE_ALWAYS_INLINE void normal_pairs(std::uint64_t key, std::uint64_t first, double* normal) {
  double u[block], turn[block];
  for (int i = 0; i < block; ++i) {
    UniformPair const uniform = uniform_pair(key, first + static_cast<std::uint64_t>(i));
    u[i] = uniform.u;
    turn[i] = uniform.turn;
  }
  double evens[block], odds[block];
  for (int i = 0; i < block; i += Vec<double>::lanes) {
    Vec<double> even, odd;
    normal_pair(load(u + i), load(turn + i), even, odd);
    store(evens + i, even);
    store(odds + i, odd);
  }
  for (int i = 0; i < block; ++i) {
    normal[2 * i] = evens[i];
    normal[2 * i + 1] = odds[i];
  }
}

/// Elements first, ..., first + n - 1 of the whole tensor, to y.
template <class T> void draw(ops::Randn::Args const& args, Index first, Index n, T* y) {
  double normal[2 * block];
  Index at = first / 2;
  Index skip = first % 2;
  for (Index done = 0; done < n; at += block, skip = 0) {
    normal_pairs(args.key, static_cast<std::uint64_t>(at), normal);
    Vec<double> const mean(args.mean), stddev(args.stddev);
    for (int i = 0; i < 2 * block; i += Vec<double>::lanes)
      store(normal + i, fma(stddev, load(normal + i), mean));
    for (Index i = skip; i < 2 * block && done < n; ++i, ++done) y[done] = rounded_to<T>(normal[i]);
  }
}

template <class T> struct Randn {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Randn>(call);
    using Operand = ops::Randn::Operand;
    Buffers<ops::Randn> const buffers(call);
    T* y = buffers.at<T>(Operand::y);
    for (std::int64_t d = 0; d < args.rank; ++d)
      if (args.extent[d] == 0) return {};
    Index const run_length = args.rank > 0 ? args.extent[0] : 1;
    Index at[max_rank] = {};
    Index element = args.begin;
    for (;;) {
      draw(args, element, run_length, y);
      y += args.leading;
      int d = 1;
      for (; d < args.rank; ++d) {
        element += args.stride[d];
        if (++at[d] < args.extent[d]) break;
        element -= args.extent[d] * args.stride[d];
        at[d] = 0;
      }
      if (d >= args.rank) return {};
    }
  }
};

constinit auto const kernels = op_kernels<ops::Randn, Randn>();

}  // namespace
NNTILE_KERNEL_LIST(randn, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
