/* SPDX-License-Identifier: BSD-3-Clause
 * (A + B) * C by two tasks, whose outputs the runtime gives. */
#include <math.h>
#include <stdlib.h>

#include "program.h"

enum { KERNEL_ADD, KERNEL_MUL };

/* The orchestration function, as it is in the plan. */
void simple_orch(Runtime* rt, uint64_t* args) {
  float *A = (float*)args[0], *B = (float*)args[1], *C = (float*)args[2];

  /* Task outputs implicitly allocated, addresses returned in task descriptor */
  int32_t t0 = pto_submit_task(rt, KERNEL_ADD, WORKER_VECTOR,
      (TaskParam[]){
          {PARAM_INPUT,  A, 1024},
          {PARAM_INPUT,  B, 1024},
          {PARAM_OUTPUT, NULL, 1024}  /* Implicit allocation */
      }, 3);

  /* Get output address from task descriptor */
  void* t0_out = rt->task_descriptors[t0].packed_buffer_base;

  pto_submit_task(rt, KERNEL_MUL, WORKER_VECTOR,
      (TaskParam[]){
          {PARAM_INPUT,  t0_out, 1024},
          {PARAM_INPUT,  C, 1024},
          {PARAM_OUTPUT, NULL, 1024}
      }, 3);
}

enum { COUNT = 1024 / sizeof(float) };

static int32_t add(PtoCall const* call) {
  float const *a = call->buffers[0], *b = call->buffers[1];
  float* sum = call->buffers[2];
  for (size_t i = 0; i < call->sizes[2] / sizeof(float); ++i) sum[i] = a[i] + b[i];
  return 0;
}

static int32_t mul(PtoCall const* call) {
  float const *a = call->buffers[0], *b = call->buffers[1];
  float* product = call->buffers[2];
  for (size_t i = 0; i < call->sizes[2] / sizeof(float); ++i) product[i] = a[i] * b[i];
  return 0;
}

static int prepare(Runtime* rt, uint64_t* args) {
  pto_register_kernel(rt, KERNEL_ADD, "add", add, NULL);
  pto_register_kernel(rt, KERNEL_MUL, "mul", mul, NULL);
  for (int i = 0; i < 3; ++i) {
    float* data = malloc(COUNT * sizeof(float));
    if (data == NULL) return 1;
    for (int j = 0; j < COUNT; ++j) data[j] = (float)((j * (i + 3)) % 17) - 8.0f;
    args[i] = (uintptr_t)data;
  }
  return 0;
}

/* Ids are given in turn: the product is of task 1. */
static double check(Runtime* rt, uint64_t* args) {
  float const *a = (float*)args[0], *b = (float*)args[1], *c = (float*)args[2];
  float const* product = rt->task_descriptors[1].packed_buffer_base;
  double largest = 0;
  for (int i = 0; i < COUNT; ++i)
    largest = fmax(largest, fabs((double)(product[i] - (a[i] + b[i]) * c[i])));
  return largest;
}

static void finish(uint64_t* args) {
  for (int i = 0; i < 3; ++i) free((void*)args[i]);
}

Program const program = {"simple", simple_orch, prepare, check, finish};
