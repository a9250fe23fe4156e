// SPDX-License-Identifier: BSD-3-Clause
// What a user of the StarPU runtime compiles, where it is installed.
#include <vector>

#include <nntile/nntile.hh>
#include <nntile/runtime/starpu/starpu.hh>

int main() {
  using namespace nntile;
  StarPU runtime({.workers = 1});
  Tile<float, StarPU> x(runtime, Shape{3}, "x"), y(runtime, Shape{3}, "y");
  x.write(std::vector{-1.0f, 0.0f, 1.0f});
  gelutanh(x, y);
  return y.read()[1] == 0 ? 0 : 1;
}
