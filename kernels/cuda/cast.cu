// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/cast.hh"

#include "kernels/cuda/runs.hh"

namespace nntile::kernels::cuda {
namespace {

template <class To, class From> struct Cast {
  template <int length> struct Kernel {
    static constexpr int threads = loop_threads;
    DeviceCall<ops::Cast> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      From const* const x = buffers.template at<From const>(ops::Cast::Operand::x);
      To* const y = buffers.template at<To>(ops::Cast::Operand::y);
      Index const of_x = static_cast<Index>(args.columns.leading[0]);
      Index const of_y = static_cast<Index>(args.columns.leading[1]);
      for_each_run<length>(thread, args.n, args.columns.count,
                           [&]<int count>(Index i, Index c, Count<count>) {
                             auto const run = get_run<count>(thread, x + (i + c * of_x));
                             To* const to = y + (i + c * of_y);
                             if constexpr (std::same_as<From, float> && sizeof(To) == 2) {
                               Run<count, Vec<float>> values;
                               NNTILE_UNROLL()
                               for (int k = 0; k < count; ++k) values.of[k] = get(run.of + k);
                               put_run(thread, to, values);
                             } else {
                               Run<count, To> values;
                               NNTILE_UNROLL()
                               for (int k = 0; k < count; ++k)
                                 values.of[k] = nntile::detail::convert<To>(run.of[k]);
                               put_run(thread, to, values);
                             }
                           });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Cast>(call);
    bool const packs =
        begins_packs(call.buffers[0], Index{sizeof(From)} * args.columns.leading[0]) &&
        begins_packs(call.buffers[1], Index{sizeof(To)} * args.columns.leading[1]);
    return launch_over_runs<Kernel, run_length<To, From>>(args.n, args.columns.count, packs, stream,
                                                          call);
  }
};

constinit auto const kernels = op_kernels<ops::Cast, Cast>();

}  // namespace
NNTILE_KERNEL_LIST(cast, kernels)
}  // namespace nntile::kernels::cuda
