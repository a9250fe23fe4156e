// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/simt/tensor.hh"

#include <bit>
#include <cstdint>

#include "kernels/cuda/launch.hh"

namespace nntile::test::simt {
namespace {

/// Element `x` of a word.
double element(Factor of, std::uint32_t word, int x) {
  auto const half = static_cast<std::uint16_t>(x == 0 ? word : word >> 16);
  if (of == Factor::bf16) return static_cast<double>(nntile::detail::bf16_to_float(half));
  if (of == Factor::fp16) return static_cast<double>(nntile::detail::fp16_to_float(half));
  return static_cast<double>(std::bit_cast<float>(word & ~0x1fffu));
}

}  // namespace

void multiply_by_warp(void* const* lanes) {
  double a[16][16], b[8][16];
  auto const product = [&](int lane) -> Product const& {
    return *static_cast<Product const*>(lanes[lane]);
  };
  Factor const of = product(0).of;
  int const elements = of == Factor::tf32 ? 1 : 2, depth = 8 * elements;
  for (int lane = 0; lane < 32; ++lane) {
    int const g = lane / 4, t = lane % 4;
    for (int part = 0; part < 4; ++part)
      for (int x = 0; x < elements; ++x) {
        int const k = elements * (t + part / 2 * 4) + x;
        a[g + part % 2 * 8][k] = element(of, product(lane).a[part], x);
        if (part % 2 == 0) b[g][k] = element(of, product(lane).b[part / 2], x);
      }
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int part = 0; part < 4; ++part) {
      int const row = lane / 4 + part / 2 * 8, column = 2 * (lane % 4) + part % 2;
      auto sum = static_cast<double>(product(lane).sums[part]);
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[column][k];
      product(lane).sums[part] = static_cast<float>(sum);
    }
}

void share_matrices(void* const* lanes) {
  auto const half = [&](int matrix, int row, int column) {
    auto const& from = *static_cast<Matrices const*>(lanes[8 * matrix + row]);
    return from.row[column / 2] >> column % 2 * 16 & 0xffffu;
  };
  for (int lane = 0; lane < 32; ++lane) {
    int const g = lane / 4, t = lane % 4;
    auto& mine = *static_cast<Matrices*>(lanes[lane]);
    for (int m = 0; m < 4; ++m)
      mine.got[m] = mine.transposed ? half(m, 2 * t, g) | half(m, 2 * t + 1, g) << 16
                                    : half(m, g, 2 * t) | half(m, g, 2 * t + 1) << 16;
  }
}

}  // namespace nntile::test::simt
