// error: an op needs `static Args args\(Attrs const&, TileRange const&\)`
// error: has no non-static data member named .block.|field designator 'block' does not refer to any field
// error: (invalid user-defined|no viable) conversion from .* to .*OperandSet
// error: the enum `Operand` and the table `operands` have the same names in the same order
// error: could not convert .1. from .int. to .*OperandIndex|no viable conversion from 'int' to 'nntile::OperandIndex'|cannot convert .int. to .*OperandIndex|no matching
// error: an op needs `static constexpr Fields fields`: the members of its Attrs by name
// error: an op needs `template <class Builder> static void gradient\(Builder&\)`, or `no_gradient`, the reason why not
// error: an op needs `template <Element T> static void reference\(Args const&, Buffers<Op>\)`, or `no_reference`, the reason why not
// error: an op needs `static constexpr Hooks<Attrs> hooks`, \{\} where it has none
// error: an op has a result: an operand of Access::write, Access::update or Access::accumulate
// error: an operand of Carry::narrow holds sums of a result of the op's own dtype
// error: hidden operands, of a Carry, stand last: those before are what a call gives
// error: Args of an op that may lack operands take less than max_args_bytes
// error: Attrs and Args of an op are aligned to at most 8 bytes
// error: Attrs and Args of an op are aligned to at most 8 bytes
// error: `fields` of an op lists each member of its Attrs, once
// error: `fields` of an op lists each member of its Attrs, once
// error: `reference` of an op takes the op's own `Args const&` and `Buffers<Op>`
// error: axes of an operand are up to 8 letters parted by blanks
// error: axes of an operand are up to 8 letters parted by blanks
// error: axes of an operand are up to 8 letters parted by blanks
// error: an operand of Kind::second needs `types`, a table of ElementTypes, in place of `dtypes`
// error: an op has a result: .* and operands of no other access but Access::read
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes in an op of one's own.
#include "nntile/graph/apply.hh"
#include "nntile/ops/call.hh"

using namespace nntile;

#if NNTILE_FAIL == 14
struct alignas(16) MyAttrs {
#else
struct MyAttrs {
#endif
  double beta = 0;
#if NNTILE_FAIL == 16
  bool forgotten = false;
#elif NNTILE_FAIL == 17
  double gamma = 0;
#endif
};
#if NNTILE_FAIL == 15
struct alignas(32) MyArgs {
#else
struct MyArgs {
#endif
  Index n;
#if NNTILE_FAIL == 13
  std::byte table[max_args_bytes - sizeof(Index)];
#endif
};
struct OtherOp {
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  static constexpr Hooks<MyAttrs> hooks{};
};
struct MyOp {
  static constexpr char const* name = "my";
#if NNTILE_FAIL == 4
  enum class Operand : std::uint8_t { y, x };
#elif NNTILE_FAIL == 11
  enum class Operand : std::uint8_t { x, y, carry };
#elif NNTILE_FAIL == 12
  enum class Operand : std::uint8_t { x, carry, y };
#else
  enum class Operand : std::uint8_t { x, y };
#endif
#if NNTILE_FAIL == 10
  static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}};
#elif NNTILE_FAIL == 11
  static constexpr Operands operands{
      {"x", "i..."},
      {"y", "i...", Access::update, Kind::fp32},
      {"carry", "i...", Access::update, Kind::accumulator, Carry::narrow}};
#elif NNTILE_FAIL == 12
  static constexpr Operands operands{
      {"x", "i..."},
      {"carry", "i...", Access::update, Kind::accumulator, Carry::narrow},
      {"y", "i...", Access::update}};
#elif NNTILE_FAIL == 19
  static constexpr Operands operands{{"x", "a b c d e f g h i"}, {"y", "a", Access::update}};
#elif NNTILE_FAIL == 20
  static constexpr Operands operands{{"x", "i, j"}, {"y", "i", Access::update}};
#elif NNTILE_FAIL == 21
  static constexpr Operands operands{{"x", "i"}, {"y", "i i", Access::update}};
#elif NNTILE_FAIL == 22
  static constexpr Operands operands{{"x", "i...", Access::read, Kind::second},
                                     {"y", "i...", Access::update}};
#elif NNTILE_FAIL == 23
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write_disjoint}};
#else
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::update}};
#endif
  static constexpr std::span<DType const> dtypes{float_dtypes};
  using Attrs = MyAttrs;
  using Args = MyArgs;
#if NNTILE_FAIL == 17
  static constexpr Fields fields{field<&Attrs::beta>("beta"), field<&Attrs::gamma>("beta")};
#elif NNTILE_FAIL != 6
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
#endif
#if NNTILE_FAIL == 2
  static constexpr Hooks<Attrs> hooks{.block = [](Attrs const&) { return "i"; }};
#elif NNTILE_FAIL == 3
  static constexpr Hooks<Attrs> hooks{.replaces = [](Attrs const&) { return 1u; }};
#elif NNTILE_FAIL == 13
  static constexpr Hooks<Attrs> hooks{.present = [](Attrs const&, OperandIndex) { return true; }};
#elif NNTILE_FAIL != 9
  static constexpr Hooks<Attrs> hooks{.blocked = [](Attrs const&) { return "i"; }};
#endif
#if NNTILE_FAIL == 5
  static Args args(Attrs const&, TileRange const& range) { return {range.elements(1)}; }
#elif NNTILE_FAIL != 1
  static Args args(Attrs const&, TileRange const& range) {
    Args args{};
    args.n = range.extent('i');
    return args;
  }
#endif
#if NNTILE_FAIL == 18
  template <Element T> static void reference(Args const&, Buffers<OtherOp>) {}
#elif NNTILE_FAIL != 8
  template <Element T> static void reference(Args const& args, Buffers<MyOp> buffers) {
    T* const y = buffers.at<T>(Operand::y);
    for (Index i = 0; i < args.n; ++i) y[i] = buffers.at<T>(Operand::x)[i];
  }
#endif
#if NNTILE_FAIL != 7
  template <class Builder> static void gradient(Builder& b) {
    if (b.wants(Operand::x)) b.pass(Operand::x, Operand::y);
  }
#endif
};
inline constexpr Call<MyOp> my{};

int main() {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 4}}, "x");
  Node const y = my(x);
}
