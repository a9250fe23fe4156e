#pragma once
/* SPDX-License-Identifier: BSD-3-Clause
 * What an orchestration function needs around it, to be run and checked. A shared object that is
 * to be run by pto_run exports one of these, named `program`. */
#include <nntile/runtime/ring/pto.h>

enum { PROGRAM_ARGS = 8 };

typedef struct Program {
  char const* name;
  void (*orchestrate)(Runtime* rt, uint64_t* args);
  /* Registers kernels, makes data, fills args. Nonzero: it cannot. */
  int (*prepare)(Runtime* rt, uint64_t* args);
  /* All tasks have ended: the largest difference to a direct computation. */
  double (*check)(Runtime* rt, uint64_t* args);
  /* Gives the data back. */
  void (*finish)(uint64_t* args);
} Program;

/* Runs a program on so many workers (0: one a core), and prints what came out. 0: it was right. */
int run_program(Program const* program, int32_t workers);
