#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The few preprocessor names of the library.

/// Inlines even at -O0. For functions that kernel objects call: an out-of-line weak copy compiled
/// for one instruction set could be kept by the linker for all of them.
#ifdef __CUDACC__
#define NNTILE_ALWAYS_INLINE __host__ __device__ inline __attribute__((always_inline))
#else
#define NNTILE_ALWAYS_INLINE inline __attribute__((always_inline))
#endif
