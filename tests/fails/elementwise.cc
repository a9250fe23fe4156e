// error: an elementwise op needs `template <class V> static constexpr V apply\(Attrs const&, V x, V y, ...\)`: a value for each operand but the last
// error: an elementwise op whose result is of Access::update needs `double beta` in its Attrs
// error: an elementwise op needs `template <class V> static constexpr V apply
// error: an elementwise op needs `template <class V> static constexpr V apply
// error: operands of an elementwise op have the same axes and the op's dtype
// error: operands of an elementwise op have the same axes and the op's dtype
// error: operands of an elementwise op have the same axes and the op's dtype
// error: `reference` of an op takes .* an elementwise Op is derived from Elementwise<Op, Attrs>
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes in an elementwise op of one's own.
#include "nntile/ops/elementwise.hh"
#include "nntile/graph/apply.hh"

using namespace nntile;

struct MyAttrs {
#if NNTILE_FAIL != 2
  double beta = 0;
#endif
};
struct OtherOp : Elementwise<OtherOp, MyAttrs> {
  static constexpr char const* name = "other";
  enum class Operand : std::uint8_t { x, y, z };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}, {"z", "i...", Access::write}};
  template <class V> static constexpr V apply(MyAttrs const&, V x, V y) { return x - y; }
};
#if NNTILE_FAIL == 8
struct MyOp : Elementwise<OtherOp, MyAttrs> {
#else
struct MyOp : Elementwise<MyOp, MyAttrs> {
#endif
  static constexpr char const* name = "my";
  enum class Operand : std::uint8_t { x, y, z };
#if NNTILE_FAIL == 5
  static constexpr Operands operands{{"x", "i... j"},
                                     {"y", "j"},
                                     { "z",
                                       "i... j",
                                       Access::update }};
#elif NNTILE_FAIL == 6
  static constexpr Operands operands{
      {"x", "i..."}, {"y", "i...", Access::read, Kind::boolean}, {"z", "i...", Access::update}};
#elif NNTILE_FAIL == 7
static constexpr Operands operands{
    {"x", "i..."}, {"y", "i...", Access::write}, {"z", "i...", Access::update}};
#else
static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}, {"z", "i...", Access::update}};
#endif
#if NNTILE_FAIL == 2
  static constexpr Fields fields{};
#else
  static constexpr Fields fields{field<&MyAttrs::beta>("beta")};
#endif
  static constexpr char const* no_gradient = "it is not needed";
#if NNTILE_FAIL == 1
  template <class V> static constexpr V apply(MyAttrs const&, V x) { return x; }
#elif NNTILE_FAIL == 4
  template <class V> static constexpr V apply(V x, V y) { return x + y; }
#elif NNTILE_FAIL != 3
template <class V> static constexpr V apply(MyAttrs const&, V x, V y) { return x + y; }
#endif
};
inline constexpr Call<MyOp> my{};

int main() {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 4}}, "x");
  Node const z = my(x, x);
}
