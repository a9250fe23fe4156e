// SPDX-License-Identifier: BSD-3-Clause
// Tiles: data on a runtime, and ops on single tiles. The runtime is a template argument.
#include <cstdio>
#include <nntile/nntile.hh>

int main() {
  nntile::Serial runtime;
  nntile::Tile<float, nntile::Serial> a(runtime, {2, 3}), b(runtime, {3, 2}), c(runtime, {2, 2});
  a.write(std::vector<float>{1, 2, 3, 4, 5, 6});  // column-major: the first column is 1, 2
  b.write(std::vector<float>{1, 0, 0, 0, 1, 0});
  nntile::gemm(a, b, c);  // blocks until this product is done, and no longer
  for (float const value : c.read()) std::printf("%g ", value);
  std::printf("\n");
  try {
    nntile::gemm(a, a, c);
  } catch (nntile::ShapeError const& error) {
    std::printf("%s\n", error.what());
  }
}
