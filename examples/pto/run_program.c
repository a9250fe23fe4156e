/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "program.h"

static int report(Program const* program, Runtime* rt) {
  fprintf(stderr, "%s: %s: %s\n", program->name, pto_code_name(pto_last_error(rt)),
          pto_error_message(rt));
  return 1;
}

int run_program(Program const* program, int32_t workers) {
  PtoOptions const options = {.workers = workers};
  PtoError error;
  Runtime* rt = pto_create(&options, &error);
  if (rt == NULL) {
    fprintf(stderr, "%s: %s\n", program->name, error.message);
    return 1;
  }
  uint64_t args[PROGRAM_ARGS] = {0};
  int status = program->prepare(rt, args);
  if (status == 0) {
    program->orchestrate(rt, args);
    pto_wait_all(rt);
    status = pto_last_error(rt) != PTO_OK;
    if (status == 0) {
      double const difference = program->check(rt, args);
      status = !(difference <= 1e-4);
      printf("%s on %d workers: largest difference %.1e\n", program->name, workers, difference);
    }
  }
  if (pto_last_error(rt) != PTO_OK) status = report(program, rt);
  pto_destroy(rt);
  program->finish(args);
  return status;
}
