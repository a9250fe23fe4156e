/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the program that it is linked with on 1, 2 and 8 workers. */
#include "program.h"

extern Program const program;

int main(void) {
  int32_t const workers[] = {1, 2, 8};
  int status = 0;
  for (int i = 0; i < 3; ++i) status |= run_program(&program, workers[i]);
  return status;
}
