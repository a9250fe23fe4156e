// SPDX-License-Identifier: BSD-3-Clause
// Tensors: grids of tiles. Each op becomes a task per tile; the tiling does not change a bit.
#include <cstdio>
#include <cstring>
#include <nntile/nntile.hh>

using Matrix = nntile::Tensor<float, nntile::Ring>;

/// gelutanh(A B) of fixed matrices of 200 x 200, cut into tiles of the given extents.
std::vector<float> compute(nntile::Ring& runtime, nntile::Shape const& tile) {
  nntile::Shape const shape{200, 200};
  nntile::Tiling const tiling(shape, tile);
  Matrix a(runtime, tiling, "a"), b(runtime, tiling, "b"), c(runtime, tiling, "c"),
      d(runtime, tiling, "d");
  std::vector<float> values(200 * 200);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 17) / 17 - 0.5f;
  a.write(values);
  b.write(values);
  auto product = nntile::gemm.async(a, b, c);      // submits and returns
  auto activation = nntile::gelutanh.async(c, d);  // ordered after it by the tiles that it reads
  activation.wait_all();
  product.wait_all();
  return d.read();
}

int main() {
  nntile::Ring runtime;
  auto const whole = compute(runtime, {200, 200});
  auto const tiled = compute(runtime, {64, 64});
  bool const equal = std::memcmp(whole.data(), tiled.data(), whole.size() * sizeof(float)) == 0;
  std::printf("1 tile and 16 tiles: %s\n", equal ? "equal bits" : "different bits");
  return equal ? 0 : 1;
}
