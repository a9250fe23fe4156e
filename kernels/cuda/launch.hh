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
//   shared<T>(offset, count)          elements of the block's shared memory, from a byte on: float, double or words
//   four(array, i)                    elements i to i + 3 of shared memory, or of memory, read at once: their
//                                     place is a multiple of their bytes, or of 16
//   set_four(array, i, values)        the same, written
//   pack(from)                        the elements of 16 bytes of memory, read at once: their place is a multiple of 16
//   copy(array, i, from, wanted)      begins to copy the element of memory `from` to element i of shared memory,
//                                     if `wanted`: 4 or 8 bytes, which nothing may touch until they have arrived
//   copy_four(array, i, from, wanted) the same of four elements, of 16 bytes at a multiple of 16
//   copy_four_or_zeros(words, i, from, wanted)   the same of words, which become zeros if not `wanted`
//   end_copies()                      what this thread began to copy since the last call is a group
//   wait_for_copies<n>()              all groups of this thread but its last n have arrived, as if it had written
//                                     them now; n of a thread's end is 0
//   put(to, word)                     a word of 4 or 8 bytes, or a pack, is written to memory, its place a multiple of them
//   sync()                            all threads of the block have come here, and see what each wrote
//   sync_warp()                       the same of the 32 threads of its warp
//   exchange(value, mask)             the value of lane (own lane xor mask), all lanes of the warp at once
//   from(value, lane)                 the value of one lane, likewise
//   ballot(vote)                      bit l is the vote of lane l, likewise
//   matrices(words, i)                four matrices of 8 rows of 16 bytes, of words of shared memory: row l%8 of
//                                     matrix l/8 is 4 words from i, a place that lane l gives. Lane l has word l%4
//                                     of row l/4 of each
//   matrices_transposed(words, i)     the same of 16-bit elements, of which lane l has (2(l%4), l/4) and
//                                     (2(l%4) + 1, l/4) of each: row, column
//   multiply<of>(sums, a, b0, b1)     sums += a b by tensor cores, all lanes of the warp at once: 16 by 8 sums of 16
//                                     products of 16-bit elements, or of 8 of tf32. With g = l/4 and t = l%4, lane l has
//                                     words t of rows g and g+8 of a, then words t+4; words t and t+4 of column g of b;
//                                     sums (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1). A word is one element of tf32, or
//                                     two of 16 bits, the first in its low half. Sums are fp32, added in no stated order
//
// packed<of>(low, high) is two floats as a word of 16-bit elements, rounded to nearest; rounded_to_tf32(value) a
// word of tf32. exp2_estimate(x) is 2^x within 2 units in the last place, 0 below the normal numbers.
//
// kept(value), of an int or a pointer to const, is the value, but what is computed from it is computed after this
// place: registers need not hold it from an earlier one.
//
// first_lane(votes) is the least lane whose bit is set, of votes that are not 0: nvcc 13.0 makes a constant of
// std::countr_zero on a device.
//
// Every thread of a block, or of a warp, comes to the same calls in the same order. The host knows
//
//   multiprocessors()                 how many blocks the calling thread's device runs at once, at least
//   most_shared()                     bytes of shared memory that a block of it can have
// clang-format on

#include <cstddef>
#include <cstdint>

#include "nntile/core/codelet.hh"
#include "nntile/core/dtype.hh"
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

/// The elements of 16 bytes of memory, the most that a thread reads or writes at once.
template <class T> struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T of[size];
};

/// Elements of what tensor cores multiply.
enum class Factor : std::uint8_t { bf16, fp16, tf32 };

/// Bytes of shared memory that a block of any device has without asking.
inline constexpr std::size_t shared_unasked = 48 << 10;

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
  template <class T> __device__ Pack<T> pack(T const* from) const {
    return *reinterpret_cast<Pack<T> const*>(from);
  }
  template <class T> __device__ void copy(T* array, Index i, T const* from, bool wanted) const {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3;}"
        :
        : "r"(place_of(array + i)), "l"(from), "r"(static_cast<int>(wanted)), "n"(sizeof(T))
        : "memory");
  }
  template <class T>
  __device__ void copy_four(T* array, Index i, T const* from, bool wanted) const {
    static_assert(sizeof(T) == 4);
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16;}"
        :
        : "r"(place_of(array + i)), "l"(from), "r"(static_cast<int>(wanted))
        : "memory");
  }
  __device__ void copy_four_or_zeros(std::uint32_t* words, Index i, void const* from,
                                     bool wanted) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place_of(words + i)),
                 "l"(from), "r"(wanted ? 16 : 0)
                 : "memory");
  }
  __device__ void end_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int pending> __device__ void wait_for_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
  }
  /// 16 bytes at once: the compiler may write the members of a struct one by one.
  template <class Word> __device__ void put(void* to, Word const& word) const {
    if constexpr (sizeof(Word) == sizeof(uint4)) {
      auto const words = __builtin_bit_cast(uint4, word);
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                   "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                   : "memory");
    } else {
      *static_cast<Word*>(to) = word;
    }
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

  __device__ Quad<std::uint32_t> matrices(std::uint32_t const* words, int i) const {
    Quad<std::uint32_t> out;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.of[0]), "=r"(out.of[1]), "=r"(out.of[2]), "=r"(out.of[3])
                 : "r"(place_of(words + i))
                 : "memory");
    return out;
  }
  __device__ Quad<std::uint32_t> matrices_transposed(std::uint32_t const* words, int i) const {
    Quad<std::uint32_t> out;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.of[0]), "=r"(out.of[1]), "=r"(out.of[2]), "=r"(out.of[3])
                 : "r"(place_of(words + i))
                 : "memory");
    return out;
  }
#define NNTILE_MMA(shape)                                                                          \
  asm("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                 \
      : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b0), "r"(b1))
  template <Factor of>
  __device__ void multiply(float (&sums)[4], Quad<std::uint32_t> const& a, std::uint32_t b0,
                           std::uint32_t b1) const {
    if constexpr (of == Factor::bf16)
      NNTILE_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
    else if constexpr (of == Factor::fp16)
      NNTILE_MMA("m16n8k16.row.col.f32.f16.f16.f32");
    else
      NNTILE_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef NNTILE_MMA

 private:
  static __device__ std::uint32_t place_of(void const* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }
};

template <Factor of> __device__ std::uint32_t packed(float low, float high) {
  std::uint32_t word;
  if constexpr (of == Factor::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
inline __device__ std::uint32_t rounded_to_tf32(float value) {
  std::uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
  return word;
}
inline __device__ float exp2_estimate(float x) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

template <class T> using Shared = T*;

template <class T> __device__ __forceinline__ T const* kept(T const* value) {
  asm volatile("" : "+l"(value));
  return value;
}
__device__ __forceinline__ int kept(int value) {
  asm volatile("" : "+r"(value));
  return value;
}
inline __device__ int first_lane(std::uint32_t votes) { return __ffs(static_cast<int>(votes)) - 1; }

inline int multiprocessors() {
  int device = 0, count = 1;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

inline std::size_t most_shared() {
  int device = 0, bytes = shared_unasked;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return static_cast<std::size_t>(bytes);
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
  if (grid.shared > shared_unasked)
    (void)cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(grid.shared));
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
