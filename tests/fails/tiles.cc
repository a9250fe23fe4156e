// error: an op takes Nodes of one graph, or Tiles, or Tensors, on one runtime: these operands are of several kinds
// error: async\(\) is for Tiles, or Tensors, on one runtime: these operands are of several kinds
// error: wrong number of template arguments \(1, should be 2\)|too few template arguments for class template 'Tile'
// error: conversion from .*vector<float.* requested|no viable conversion from 'vector<float>' to '(const )?vector<double>'
// warning: .*nodiscard
// error: an_attribute_is_misspelt_or_of_another_type|no matching member function for call to 'async'
// error: has no non-static data member named .wroker|field designator 'wroker' does not refer to any field
// error: values are a span of the tile's element type or, with tile/views.hh, a matrix as Eigen's
// error: a view has elements of the type of the tile's: cast them first
// error: use of deleted function .*Tile<|call to deleted constructor of .*Tile<
// error: use of deleted function .*Tile<|call to deleted constructor of .*Tile<
// error: the extents of a tile stand in braces, one for each dimension
// error: attributes of an op stand first, in braces
// error: the context of async\(\) stands first, in braces, before attributes
// error: a tile names the type of its elements, and its runtime: Tile<float, Ring>
// error: a tile names the type of its elements, and its runtime: Tile<float, Ring>
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with tiles and tensors.
#include "nntile/ops/gelutanh.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
#include "nntile/tile/views.hh"

using namespace nntile;

int main() {
  Serial runtime;
  Tile<float, Serial> const a(runtime, {4}), b(runtime, {4});
#if NNTILE_FAIL == 1
  Record<Serial> other;
  Tile<float, Record<Serial>> const c(other, {4});
  gelutanh(a, c);
#elif NNTILE_FAIL == 2
  Tensor<float, Serial> const c(runtime, Tiling({4}, {4}));
  gelutanh.async({}, a, c).wait();
#elif NNTILE_FAIL == 3
  Tile<float> const c(runtime, {4});
#elif NNTILE_FAIL == 4
  std::vector<double> const values = a.read();
#elif NNTILE_FAIL == 5
  gelutanh.async(a, b);
#elif NNTILE_FAIL == 6
  gelutanh.async({.mod = Mode::fast}, a, b).wait();
#elif NNTILE_FAIL == 7
  gelutanh.async(ExecutionContext{.hints = {.wroker = 1}}, a, b).wait();
#elif NNTILE_FAIL == 8
  a.write(std::vector<double>(4));
#elif NNTILE_FAIL == 9
  double values[4] = {};
  a.write(StridedView(values, {4}, {1}));
#elif NNTILE_FAIL == 10
  Tile<float, Serial> const c(runtime, 4);
#elif NNTILE_FAIL == 11
  Tile<float, Serial> const c({4}, runtime);
#elif NNTILE_FAIL == 12
  Tensor<float, Serial> const c(runtime, Tiling({4}, 2));
#elif NNTILE_FAIL == 13
  gelutanh.async(a, b, {}).wait();
#elif NNTILE_FAIL == 14
  gelutanh.async(a, b, {.isa = Isa::v3}).wait();
#elif NNTILE_FAIL == 15
  Tile const c(runtime, {4, 4});
#elif NNTILE_FAIL == 16
  Tensor const c(runtime, Tiling({4}, {2}));
#else
  float values[4] = {};
  Tile const over(runtime, {4}, std::span<float>(values));
  gelutanh.async({.hints = {.worker = 1}}, a, b).wait();
#endif
}
