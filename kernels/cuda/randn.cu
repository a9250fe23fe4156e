// SPDX-License-Identifier: BSD-3-Clause
// Two elements a thread. Bound: some 120 operations in fp64 per pair.
#include "nntile/ops/randn.hh"

#include "kernels/cuda/kernel.hh"

#include "kernels/cpu/normal.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct Randn {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::Randn> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    Randn const kernel{DeviceCall<ops::Randn>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_over(pairs(args) * runs(args), threads, stream, kernel);
  }

  NNTILE_DEVICE void operator()(Thread& thread) const {
    auto const& args = call.args();
    T* const results = call.buffers().template at<T>(ops::Randn::Operand::y);
    for_each_pair(thread, pairs(args), runs(args), [&](Index pair, Index run) {
      Index first = args.begin;  // of the run, in the whole tensor
      Index rest = run;
      for (std::int64_t d = 1; d < args.rank; ++d) {
        first += rest % args.extent[d] * args.stride[d];
        rest /= args.extent[d];
      }
      Index const number = first / 2 + pair;
      UniformPair const uniform = uniform_pair(args.key, static_cast<std::uint64_t>(number));
      Vec<double> normal[2];
      normal_pair(Vec<double>(uniform.u), Vec<double>(uniform.turn), normal[0], normal[1]);
      T* const y = results + run * args.leading;
      for (int part = 0; part < 2; ++part)
        if (Index const at = 2 * number + part - first; at >= 0 && at < length(args))
          y[at] =
              rounded_to<T>(fma(Vec<double>(args.stddev), normal[part], Vec<double>(args.mean)).v);
    });
  }

 private:
  using Args = ops::Randn::Args;
  /// Elements of a run: those along dimension 0, which follow one another in the whole tensor.
  static NNTILE_ALWAYS_INLINE Index length(Args const& args) {
    return args.rank > 0 ? args.extent[0] : 1;
  }
  /// Pairs that a run may have elements of.
  static NNTILE_ALWAYS_INLINE Index pairs(Args const& args) { return length(args) / 2 + 1; }
  static NNTILE_ALWAYS_INLINE Index runs(Args const& args) {
    Index count = length(args) > 0 ? 1 : 0;
    for (std::int64_t d = 1; d < args.rank; ++d) count *= args.extent[d];
    return count;
  }
};

constinit auto const kernels = op_kernels<ops::Randn, Randn>();

}  // namespace
NNTILE_KERNEL_LIST(randn, kernels)
}  // namespace nntile::kernels::cuda
