// error: an_attribute_is_misspelt_or_of_another_type|no matching function for call to object of type 'const Call<ops::Gemm>'
// error: an op takes Nodes of one graph, or Tiles, or Tensors, on one runtime: .* attributes stand first
// error: async\(\) is for Tiles, or Tensors, .* or Nodes, on which the plain call adds the op to their graph
// error: operator\+.*operand types are .*Node.* and .*Node|invalid operands to binary expression \('(const )?nntile::Node'
// error: a LogicalGraph is neither copied nor moved, since its nodes point to it
// error: an op needs `static Args args\(Attrs const&, TileRange const&\)`
// error: attributes of an op stand first, in braces
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with nodes, graphs and ops.
#include "nntile/graph/apply.hh"
#include "nntile/ops/gemm.hh"

using namespace nntile;

struct MyAttrs {};
struct MyArgs {};
struct MyOp {
  static constexpr char const* name = "my";
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  static constexpr std::span<DType const> dtypes{float_dtypes};
  using Attrs = MyAttrs;
  using Args = MyArgs;
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_reference = "it is never run";
  static constexpr char const* no_gradient = "it is never differentiated";
#if NNTILE_FAIL != 6
  static Args args(Attrs const&, TileRange const&) { return {}; }
#endif
};
inline constexpr Call<MyOp> my{};

int main() {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 4}}, "x");
#if NNTILE_FAIL == 1
  Node const y = gemm({.transpose_a = true}, x, x);
#elif NNTILE_FAIL == 2
  Node const y = gelutanh(x, 3.0);
#elif NNTILE_FAIL == 3
  auto const y = gelutanh.async(x);
#elif NNTILE_FAIL == 4
  Node const y = x + x;
#elif NNTILE_FAIL == 5
  LogicalGraph const copy = graph;
#elif NNTILE_FAIL == 7
  Node const y = gemm(x, x, {.trans_a = true});
#else
  Node const y = my(gemm({.trans_a = true, .alpha = 2}, x, gemm({}, x, x)));
#endif
}
