// SPDX-License-Identifier: BSD-3-Clause
// What a user of the StarPU runtime compiles, where it is installed.
#include <nntile/runtime/starpu/starpu.hh>

int main() {
  nntile::StarPU runtime({.workers = 1});
  runtime.wait_all();
}
