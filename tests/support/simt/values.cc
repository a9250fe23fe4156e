// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/simt/values.hh"

#include <string>

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct OfPairs {
  static constexpr int threads = loop_threads;
  std::array<T, 2> const* x;
  test::Values<T>* y;
  Index n;

  void operator()(Thread& thread) const {
    for_each(thread, n, [&](Index i) {
      Vec<T> const a = Vec<T>::raw(x[i][0]), b = Vec<T>::raw(x[i][1]);
      y[i] = {max(a, b).v,    min(a, b).v, (a / b).v,        sqrt(a).v,
              fma(a, b, a).v, abs(a).v,    copysign(a, b).v, (a - b).v};
    });
  }
};

}  // namespace
}  // namespace nntile::kernels::cuda

namespace nntile::test {

template <class T> std::vector<Values<T>> values_on_device(std::vector<std::array<T, 2>> const& x) {
  using Kernel = kernels::cuda::OfPairs<T>;
  std::vector<Values<T>> y(x.size());
  auto const n = static_cast<Index>(x.size());
  Status const status =
      kernels::cuda::launch_over(n, Kernel::threads, nullptr, Kernel{x.data(), y.data(), n});
  if (!status.ok()) throw std::string(status.error);
  return y;
}
template std::vector<Values<float>> values_on_device(std::vector<std::array<float, 2>> const&);
template std::vector<Values<double>> values_on_device(std::vector<std::array<double, 2>> const&);

}  // namespace nntile::test
