/* SPDX-License-Identifier: BSD-3-Clause
 * C = A * B by tiles of 128 x 128, row-major. */
#include <math.h>
#include <stdlib.h>

#include "program.h"

enum { KERNEL_GEMM, KERNEL_COPY };

/* The orchestration function, as it is in the plan. */
void matmul_orch(Runtime* rt, uint64_t* args) {
  float *A = (float*)args[0], *B = (float*)args[1], *C = (float*)args[2];
  int M = args[3], K = args[4], N = args[5];

  const int TILE_M = 128, TILE_K = 128, TILE_N = 128;

  for (int i = 0; i < M; i += TILE_M) {
    for (int j = 0; j < N; j += TILE_N) {
      pto_scope_begin(rt);

      /* Explicit allocation for shared output tile */
      size_t tile_size = TILE_M * TILE_N * sizeof(float);
      void* C_tile = pto_alloc(rt, tile_size);

      /* Multiple tasks write to DIFFERENT regions of C_tile in parallel */
      for (int k = 0; k < K; k += TILE_K) {
        size_t partial_size = TILE_M * TILE_N * sizeof(float);
        TaskParam params[] = {
            {PARAM_INPUT,  &A[i*K + k], TILE_M*TILE_K*4},
            {PARAM_INPUT,  &B[k*N + j], TILE_K*TILE_N*4},
            {PARAM_OUTPUT, .region = {
                .buffer_ptr = C_tile,
                .offset = 0,  /* All write to same tile (accumulate) */
                .size = partial_size
            }}
        };
        pto_submit_task(rt, KERNEL_GEMM, WORKER_CUBE, params, 3);
      }

      /* Copy result to final output */
      pto_submit_task(rt, KERNEL_COPY, WORKER_VECTOR,
          (TaskParam[]){
              {PARAM_INPUT,  C_tile, tile_size},
              {PARAM_OUTPUT, &C[i*N + j], tile_size}
          }, 2);

      /* Signal no more references will be added to C_tile */
      pto_free(rt, C_tile);

      pto_scope_end(rt);  /* C_tile freed after copy completes */
    }
  }
}

enum { TILE = 128, ROWS = 256, INNER = 384, COLUMNS = 256 };

/* The plan's tasks name the corner of a tile, not the matrix that it is of: the kernels know it. */
static int32_t gemm(PtoCall const* call) {
  uint64_t const* args = call->context;
  float const *a = call->buffers[0], *b = call->buffers[1];
  float* c = call->buffers[2];
  /* The plan has PARAM_OUTPUT: the first product of a tile overwrites, the others add to it. */
  int const first = (a - (float const*)args[0]) % INNER == 0;
  for (int i = 0; i < TILE; ++i) {
    for (int j = 0; j < TILE; ++j)
      if (first) c[i * TILE + j] = 0;
    for (int k = 0; k < TILE; ++k)
      for (int j = 0; j < TILE; ++j) c[i * TILE + j] += a[i * INNER + k] * b[k * COLUMNS + j];
  }
  return 0;
}

static int32_t copy(PtoCall const* call) {
  float const* tile = call->buffers[0];
  float* c = call->buffers[1];
  for (int i = 0; i < TILE; ++i)
    for (int j = 0; j < TILE; ++j) c[i * COLUMNS + j] = tile[i * TILE + j];
  return 0;
}

static float* matrix(int rows, int columns, int seed) {
  size_t const count = (size_t)rows * (size_t)columns;
  float* data = malloc(count * sizeof(float));
  for (size_t i = 0; data != NULL && i < count; ++i)
    data[i] = (float)((i * 7 + (size_t)seed) % 13) - 6.0f;
  return data;
}

/* Tasks name parts of the three matrices, which the runtime must know as a whole. */
static int prepare(Runtime* rt, uint64_t* args) {
  pto_register_kernel(rt, KERNEL_GEMM, "gemm", gemm, args);
  pto_register_kernel(rt, KERNEL_COPY, "copy", copy, NULL);
  int const shapes[3][2] = {{ROWS, INNER}, {INNER, COLUMNS}, {ROWS, COLUMNS}};
  for (int i = 0; i < 3; ++i) {
    float* data = matrix(shapes[i][0], shapes[i][1], i);
    if (data == NULL) return 1;
    args[i] = (uintptr_t)data;
    pto_adopt(rt, data, (size_t)shapes[i][0] * (size_t)shapes[i][1] * sizeof(float));
  }
  args[3] = ROWS, args[4] = INNER, args[5] = COLUMNS;
  return 0;
}

static double check(Runtime* rt, uint64_t* args) {
  (void)rt;
  float const *a = (float*)args[0], *b = (float*)args[1], *c = (float*)args[2];
  double largest = 0;
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) {
      double sum = 0;
      for (int k = 0; k < INNER; ++k) sum += (double)a[i * INNER + k] * (double)b[k * COLUMNS + j];
      largest = fmax(largest, fabs((double)c[i * COLUMNS + j] - sum));
    }
  return largest;
}

static void finish(uint64_t* args) {
  for (int i = 0; i < 3; ++i) free((void*)args[i]);
}

Program const program = {"matmul", matmul_orch, prepare, check, finish};
