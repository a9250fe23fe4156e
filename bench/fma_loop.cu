// SPDX-License-Identifier: BSD-3-Clause
// What the first device reaches at best: a loop of fp32 multiply-adds in registers, beside which
// products stand, and a copy, beside which all else does.
#include <cuda_runtime_api.h>

#include <cstddef>

namespace {

constexpr int threads = 256, blocks_of_each = 8, chains = 16;

__global__ void multiply_add(float factor, int rounds, float* sink) {
  float values[chains];
  for (int i = 0; i < chains; ++i) values[i] = static_cast<float>(threadIdx.x + i);
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < chains; ++i) values[i] = __fmaf_rn(values[i], factor, 0.5f);
  float sum = 0;
  for (int i = 0; i < chains; ++i) sum += values[i];
  if (sum == -1.0f) *sink = sum;  // never, but the compiler must not know
}

/// Milliseconds of what `enqueue` puts on the default stream; 0 where it fails.
template <class Enqueue> float time(Enqueue const& enqueue) {
  cudaEvent_t begin = nullptr, end = nullptr;
  float ms = 0;
  if (cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess) {
    (void)cudaEventRecord(begin);
    enqueue();
    (void)cudaEventRecord(end);
    if (cudaGetLastError() != cudaSuccess || cudaEventSynchronize(end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
      ms = 0;
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return ms;
}

}  // namespace

/// Flop/s of one run of about 10 ms; 0 where it fails.
double nntile_device_fma_rate(int rounds) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return 0;
  int const blocks = blocks_of_each * properties.multiProcessorCount;
  float const ms = time([=] { multiply_add<<<blocks, threads>>>(0.999f, rounds, nullptr); });
  return ms == 0 ? 0 : 2e3 * blocks * threads * static_cast<double>(chains) * rounds / ms;
}

/// Bytes a second, read and written, of a copy of `bytes` on the device; 0 where it fails.
double nntile_device_copy_rate(std::size_t bytes) {
  void *from = nullptr, *to = nullptr;
  float ms = 0;
  if (cudaMalloc(&from, bytes) == cudaSuccess && cudaMalloc(&to, bytes) == cudaSuccess)
    ms = time([=] { (void)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr); });
  (void)cudaFree(from);
  (void)cudaFree(to);
  return ms == 0 ? 0 : 2e3 * static_cast<double>(bytes) / ms;
}
