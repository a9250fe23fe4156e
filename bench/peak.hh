#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The machine's peaks at this moment: multiply-adds and triad, on one thread or several at once.

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bench/harness.hh"
#include "nntile/runtime/support/aligned.hh"

namespace nntile::bench {

/// Runs `work(thread)` on `threads` threads at once, which each return their own rate; the sum.
inline double together(int threads, std::function<double(int)> const& work) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t)
    others.emplace_back([&, t] { rates[static_cast<std::size_t>(t)] = work(t); });
  rates[0] = work(0);
  for (std::thread& other : others) other.join();
  double sum = 0;
  for (double const rate : rates) sum += rate;
  return sum;
}

/// fp32 multiply-add peak in flop/s, about 20 ms; 0 where no kernel measures it.
inline double fma_peak(Isa isa, int threads) {
  auto const* const codelet = kernels::find("fma_peak", DType::fp32, DType::fp32, Mode::exact, isa);
  if (codelet == nullptr) return 0;
  return together(threads, [&](int) {
    std::int64_t const iterations = 8'000'000;
    double flops = 0;
    float sink = 0;
    void* const buffers[] = {&flops, &sink};
    char text[status_text_bytes];
    double const begin = seconds();
    codelet->cpu({buffers, &iterations, text});
    return flops / (seconds() - begin);
  });
}

/// Arrays for the triad, beyond any cache, in pages like the arenas', touched by the thread that
/// uses them.
class Triad {
 public:
  explicit Triad(int threads, double (*clock)() = seconds)
      : clock_(clock), arrays_(static_cast<std::size_t>(threads)) {
    together(threads, [&](int t) {
      Arrays& arrays = arrays_[static_cast<std::size_t>(t)];
      arrays.a = make(0), arrays.b = make(1), arrays.c = make(2);
      return 0.0;
    });
  }
  /// Bytes per second of a = b + s c, reads and writes counted once.
  double operator()(int threads) {
    return together(threads, [&](int t) {
      Arrays& arrays = arrays_[static_cast<std::size_t>(t)];
      double const begin = clock_();
      float* const a = arrays.a.get();
      float const* const b = arrays.b.get();
      float const* const c = arrays.c.get();
      for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
      double const rate = 3.0 * n * sizeof(float) / (clock_() - begin);
      arrays.b.get()[0] = a[n / 2];  // so that no round is left out
      return rate;
    });
  }

 private:
  static constexpr std::size_t n = std::size_t{8} << 20;  // 32 MiB each
  struct Free {
    void operator()(float* data) const { support::free_aligned(data); }
  };
  using Memory = std::unique_ptr<float, Free>;
  static Memory make(float value) {
    Memory memory(static_cast<float*>(support::allocate_aligned(n * sizeof(float))));
    std::fill_n(memory.get(), n, value);
    return memory;
  }
  struct Arrays {
    Memory a, b, c;
  };
  double (*clock_)();
  std::vector<Arrays> arrays_;
};

}  // namespace nntile::bench
