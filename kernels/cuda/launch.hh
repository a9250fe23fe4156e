#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// clang-format off
// Threads as a kernel sees them, and its launch. nvcc compiles it for a device; any other compiler
// takes the threads of NNTILE_SIMT, a header that names an emulator.
//
// A kernel is a struct of plain data, at most 4 KiB:
//
//   struct Kernel {
//     static constexpr int threads = 128;                     of a block, a multiple of warp_size
//     static constexpr int least_blocks = 4;                  that a multiprocessor has registers for; 1
//     NNTILE_DEVICE void operator()(Thread& thread) const;    what each thread runs
//   };
//   launch({.blocks = 7, .shared = bytes}, stream, kernel)    enqueues; a failure has the device's words
//
// A thread knows
//
//   rank(), block(), blocks()         its place in the block, the block's in the grid, how many there are
//   shared<T>(offset, count)          elements of the block's shared memory, from a byte on: float or double
//   four(array, i)                    elements i to i + 3 of shared memory, or of memory, read at once: their
//                                     place is a multiple of their bytes, or of 16
//   set_four(array, i, values)        the same of shared memory, written
//   sync()                            all threads of the block have come here, and see what each wrote
//   sync_warp()                       the same of the 32 threads of its warp
//   exchange(value, mask)             the value of lane (own lane xor mask), all lanes of the warp at once
//   from(value, lane)                 the value of one lane, likewise
//   ballot(vote)                      bit l is the vote of lane l, likewise
//
// first_lane(votes) is the least lane whose bit is set, of votes that are not 0: nvcc 13.0 makes a constant of
// std::countr_zero on a device.
//
// Every thread of a block, or of a warp, comes to the same calls in the same order. The host knows
//
//   multiprocessors()                 how many blocks the calling thread's device runs at once, at least
// clang-format on

#include <cstddef>
#include <cstdint>

#include "nntile/core/codelet.hh"
#include "nntile/core/macros.hh"
#include "nntile/core/shape.hh"

namespace nntile::kernels::cuda {

inline constexpr int warp_size = 32;

/// Blocks of a launch, and the bytes that the threads of each share.
struct Grid {
  Index blocks = 1;
  std::size_t shared = 0;
};

/// Elements that are read or written at once.
template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Quad {
  T of[4];
};

}  // namespace nntile::kernels::cuda

#ifdef __CUDACC__

#define NNTILE_DEVICE __device__ __forceinline__
// The loop that follows, all of it or a number of steps at once: what it indexes stays in
// registers.
#define NNTILE_PRAGMA(text) _Pragma(#text)
#define NNTILE_UNROLL(...) NNTILE_PRAGMA(unroll __VA_ARGS__)

namespace nntile::kernels::cuda {

class Thread {
 public:
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ Index block() const { return blockIdx.x; }
  __device__ Index blocks() const { return gridDim.x; }

  template <class T> __device__ T* shared(std::size_t offset, std::size_t) const {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory + offset);
  }
  template <class T> __device__ Quad<T> four(T const* array, Index i) const {
    return *reinterpret_cast<Quad<T> const*>(array + i);
  }
  template <class T> __device__ void set_four(T* array, Index i, Quad<T> const& values) const {
    *reinterpret_cast<Quad<T>*>(array + i) = values;
  }
  __device__ void sync() const { __syncthreads(); }
  __device__ void sync_warp() const { __syncwarp(); }
  template <class T> __device__ T exchange(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  template <class T> __device__ T from(T value, int lane) const {
    return __shfl_sync(0xffffffffu, value, lane);
  }
  __device__ std::uint32_t ballot(bool vote) const { return __ballot_sync(0xffffffffu, vote); }
};

template <class T> using Shared = T*;

inline __device__ int first_lane(std::uint32_t votes) { return __ffs(static_cast<int>(votes)) - 1; }

inline int multiprocessors() {
  int device = 0, count = 1;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

template <class Kernel> consteval int least_blocks() {
  if constexpr (requires { Kernel::least_blocks; })
    return Kernel::least_blocks;
  else
    return 1;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, least_blocks<Kernel>())
    run_kernel(__grid_constant__ Kernel const kernel) {
  Thread thread;
  kernel(thread);
}

template <class Kernel> Status launch(Grid grid, void* stream, Kernel const& kernel) noexcept {
  run_kernel<<<static_cast<unsigned>(grid.blocks), Kernel::threads, grid.shared,
               static_cast<cudaStream_t>(stream)>>>(kernel);
  cudaError_t const error = cudaGetLastError();
  return error == cudaSuccess ? Status{} : Status{cudaGetErrorString(error)};
}

}  // namespace nntile::kernels::cuda

#else

#define NNTILE_DEVICE NNTILE_ALWAYS_INLINE
#define NNTILE_UNROLL(...)
#include NNTILE_SIMT

#endif
