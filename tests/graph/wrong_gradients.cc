// SPDX-License-Identifier: BSD-3-Clause
// Gradients of ops of one's own with mistakes that look right: refused.
#include <cstdint>
#include <span>
#include <string>

#include "nntile/graph/gradient.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/graph/gradient_check.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// The sum over the first dimension, whose gradient has one mistake of those that look right.
enum class Mistake : std::uint8_t { passes, asks, overwrites };
struct WrongAttrs {
  Mistake mistake = Mistake::passes;
};
struct Wrong {
  static constexpr char const* name = "wrong";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "e i..."}, {"y", "i...", Access::write}};
  using Attrs = WrongAttrs;
  struct Args {};
  static constexpr Fields fields{field<&Attrs::mistake>("mistake")};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_reference = "it is never run";
  static Args args(Attrs const&, TileRange const&) { return {}; }
  template <class Builder> static void gradient(Builder& b) {
    Mistake const mistake = b.template attrs<Wrong>().mistake;
    if (mistake == Mistake::passes) return b.pass(Operand::x, Operand::y);
    auto const dx = b.target(Operand::x);
    if (mistake == Mistake::overwrites)
      b.template op<ops::BroadcastSlice>({.axis = 0}, b.grad(Operand::y), dx.node);
    else
      (void)b.grad(Operand::y);
  }
};

/// A right one, of two operands, which asks for both targets before it writes either.
struct Both {
  static constexpr char const* name = "both";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, z, y };
  static constexpr Operands operands{{"x", "i..."}, {"z", "i..."}, {"y", "i...", Access::write}};
  struct Attrs {};
  struct Args {};
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_reference = "it is never run";
  static Args args(Attrs const&, TileRange const&) { return {}; }
  template <class Builder> static void gradient(Builder& b) {
    GradientTarget const targets[] = {b.target(Operand::x), b.target(Operand::z)};
    Node const dy = b.grad(Operand::y);
    for (auto const& [node, beta] : targets)
      b.template op<ops::Add>({.alpha = 1, .beta = beta}, dy, beta == 0 ? dy : node, node);
  }
};

std::string refusal_of(Mistake mistake) {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {4, 3}}, "w");
  Node const first = Call<Wrong>{}({.mistake = mistake}, w);  // its gradient is called last
  Node const y = add(first, sum_slice({.axis = 0}, gelutanh(w)));
  std::size_t const ops = graph.op_count();
  std::string const text = message_of<GraphError>([&] { add_gradients(graph, sum(y)); });
  CHECK(graph.op_count() == ops + 1);  // that of the sum
  return text;
}

}  // namespace

TEST_CASE("a gradient that is passed to a tensor of another shape is refused",
          "[graph][gradient]") {
  CHECK(contains(refusal_of(Mistake::passes), "wrong ('wrong'): its gradient passes that of y"));
}

TEST_CASE("a gradient that writes nothing to the target that it asked for is refused",
          "[graph][gradient]") {
  CHECK(contains(refusal_of(Mistake::asks),
                 "wrong ('wrong'): its gradient asks for the target of x"));
}

TEST_CASE("a gradient that overwrites what others added to its target is refused",
          "[graph][gradient]") {
  CHECK(contains(refusal_of(Mistake::overwrites),
                 "wrong ('wrong'): its gradient overwrites 'w.grad', to which others have added"));
}

TEST_CASE("a gradient may ask for one tensor's target twice before it writes it",
          "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {4}}, "w");
  CHECK_NOTHROW(add_gradients(graph, sum(Call<Both>{}(w, w))));
}
