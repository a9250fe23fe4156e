// SPDX-License-Identifier: BSD-3-Clause
// Exact fp32 products on a CUDA device, beside a loop of multiply-adds of the same run.

#include <cmath>
#include <cstdio>
#include <vector>

#include "bench/harness.hh"
#include "nntile/core/random.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/runtime/ring/cuda.hh"

double nntile_device_fma_rate(int rounds);  // fma_loop.cu

using namespace nntile;

namespace {

struct Product {
  char const* name;
  Index m, n, k;
  bool trans_a = false, trans_b = false;
};
/// A cube, and GPT-2 124M's products of 16 sequences of 1,024: forward, and the gradients of what
/// comes in (dx) and of weights (dw).
constexpr Product products[] = {{"cube_8192", 8192, 8192, 8192},
                                {"qkv", 2304, 16384, 768},
                                {"projection", 768, 16384, 768},
                                {"mlp_up", 3072, 16384, 768},
                                {"mlp_down", 768, 16384, 3072},
                                {"qkv_dx", 768, 16384, 2304, true, false},
                                {"projection_dx", 768, 16384, 768, true, false},
                                {"mlp_up_dx", 768, 16384, 3072, true, false},
                                {"mlp_down_dx", 3072, 16384, 768, true, false},
                                {"qkv_dw", 2304, 768, 16384, false, true},
                                {"projection_dw", 768, 768, 16384, false, true},
                                {"mlp_up_dw", 3072, 768, 16384, false, true},
                                {"mlp_down_dw", 768, 3072, 16384, false, true}};

std::vector<float> draw(Index count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(mix_bits(seed + i) >> 40) * 0x1p-23f - 1;
  return values;
}

/// Seconds of each run of the kernel; none where a sampled element is not the chain in ascending k.
std::vector<double> times_of(Product const& shape, int runs) {
  LogicalGraph graph("product");
  Index const m = shape.m, n = shape.n, of = shape.k;
  bool const trans_a = shape.trans_a, trans_b = shape.trans_b;
  Node const a = graph.input({.shape = trans_a ? Shape{of, m} : Shape{m, of}}, "a");
  Node const b = graph.input({.shape = trans_b ? Shape{n, of} : Shape{of, n}}, "b");
  gemm({.trans_a = trans_a, .trans_b = trans_b}, a, b).named("c").mark_output();
  DeviceLog log;
  CudaRing runtime(RuntimeOptions{}, CudaOptions{.devices = 1, .log = &log});
  TensorStore<CudaRing> store(runtime);
  auto step = compile(graph, store, {.tile = 0, .place = {{.place = device(0)}}});
  std::vector<float> const left = draw(m * of, 1), right = draw(of * n, 2);
  step.bind_input<float>("a", left);
  step.bind_input<float>("b", right);
  std::vector<double> times;
  for (int run = -1; run < runs; ++run) {
    log.clear();
    step.execute();
    if (run >= 0)
      for (LoggedJob const& job : log.jobs())
        if (!job.copied) times.push_back(static_cast<double>(job.end - job.begin) * 1e-9);
  }
  auto const c = step.get_output<float>("c");
  for (Index sample = 0; sample < 64; ++sample) {
    auto const at = static_cast<Index>(mix_bits(static_cast<std::uint64_t>(sample)) >> 8);
    Index const i = at % m, j = at / m % n;
    float sum = 0;
    for (Index k = 0; k < of; ++k)
      sum = std::fma(left[static_cast<std::size_t>(trans_a ? k + i * of : i + k * m)],
                     right[static_cast<std::size_t>(trans_b ? j + k * n : k + j * of)], sum);
    if (c[static_cast<std::size_t>(i + j * m)] != sum) return {};
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Records records(
      "device_gemm",
      bench::parse(argc, argv,
                   "Exact fp32 products on a device: flop/s of the kernel by events, and its share "
                   "of a loop of multiply-adds in registers, run in turn with it."));
  int const runs = records.options().quick ? 3 : 15;
  for (Product const& shape : products) {
    std::vector<double> const times = times_of(shape, runs);
    if (times.empty()) {
      std::fprintf(stderr, "wrong: %s is not a chain in ascending k\n", shape.name);
      return 1;
    }
    std::vector<double> rates, peaks;
    for (double const time : times) {
      rates.push_back(2e-12 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                      static_cast<double>(shape.k) / time);
      peaks.push_back(1e-12 * nntile_device_fma_rate(1 << 16));
    }
    records.add(shape.name, "ring-device", "rate", "Tflop/s", rates);
    records.add(shape.name, "fma_loop", "rate", "Tflop/s", peaks);
    records.add_ratio(shape.name, "ring-device", "share_of_fma_loop", rates, peaks);
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_device_gemm: %s\n", error.what());
  return 1;
}
