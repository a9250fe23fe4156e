/* SPDX-License-Identifier: BSD-3-Clause
 * A shared object that pto_run cannot run. */
int no_program(void);
int no_program(void) {
  return 0;
}
