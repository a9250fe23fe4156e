// SPDX-License-Identifier: BSD-3-Clause
// Axes of extent 0: every op, each of its axes in turn.
#include <algorithm>
#include <set>

#include "nntile/core/error.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

std::string described(OpCase const& c, DType element, Execution const& how) {
  std::string text = concat(c.op->name, " ", name_of(element), " ", name_of(how.isa), " ",
                            how.runtime, how.cuts.empty() ? " whole" : " cut");
  for (Shape const& shape : c.shapes) text += concat(" ", to_string(shape));
  return text;
}

void check_empty(OpCase const& c, DType element) {
  auto const operands = make_operands(c, element);
  bool const defined = c.op->reference(usual_types(*c.op, DType::fp64)) != nullptr ||
                       c.op->reference(c.types(element)) != nullptr;
  auto const exact = defined ? run_reference(c, element, operands) : operands;  // casts have none
  std::vector<Execution> ways;
  for (Isa const isa : instruction_sets()) ways.push_back({.isa = isa});
  ways.push_back({.cuts = canonical_cuts(c)});
  if (element == DType::fp32)
    ways.push_back({.cuts = canonical_cuts(c), .runtime = "ring", .workers = 2});
  for (Execution const& how : ways) {
    INFO(described(c, element, how));
    CHECK(deviation(c, element, run_kernel(c, element, operands, how), exact) == "");
  }
}

}  // namespace

TEST_CASE("every op has a case", "[ops][empty]") {
  std::set<std::string> known, cases;
  auto const learn = [&](std::vector<std::string> const& names) {
    known.insert(names.begin(), names.end());
  };
  std::apply([&](auto... lists) { (learn(names_of(lists)), ...); }, EveryOp{});
  for (OpCase const& c : every_op()) cases.insert(c.op->name);
  CHECK(cases == known);
}

TEST_CASE("every op computes what its definition says over axes of extent 0", "[ops][empty]") {
  for (OpCase const& whole : every_op()) {
    std::size_t const count = axes_of(whole).axes.size();
    for (std::size_t axis = 0; axis < count; ++axis) {
      OpCase const c = without(whole, axis);
      if (means_nothing(c)) {
        INFO(described(c, DType::fp32, {}));
        CHECK_THROWS_AS(run_kernel(c, DType::fp32, make_operands(c, DType::fp32)), Error);
        continue;
      }
      for (DType const element : {DType::fp64, DType::fp32, DType::bf16})
        if (std::count(c.op->dtypes.begin(), c.op->dtypes.end(), element) > 0)
          check_empty(c, element);
    }
  }
}

TEST_CASE("a product over nothing is beta times what was there", "[ops][empty]") {
  auto c = op_case<ops::Gemm>({.beta = 0.5}, {{2, 0}, {0, 3}, {2, 3}});
  c.prepare = [](std::vector<Array>& x) { test::set_all(x[2], 7); };
  auto const got = run_kernel(c, DType::fp32, make_operands(c, DType::fp32));
  for (Index i = 0; i < 6; ++i) CHECK(got[2].get(i) == 3.5);
}

TEST_CASE("attention without keys gives 0, a maximum of -inf and a sum of 0", "[ops][empty]") {
  auto const c =
      op_case<ops::Attention>({}, {{4, 1, 3}, {4, 1, 0}, {4, 1, 0}, {4, 1, 3}, {3, 1}, {3, 1}});
  auto const got = run_kernel(c, DType::bf16, make_operands(c, DType::bf16));
  for (Index i = 0; i < 12; ++i) CHECK(got[3].get(i) == 0);
  for (Index i = 0; i < 3; ++i) CHECK(got[4].get(i) == -INFINITY);
  for (Index i = 0; i < 3; ++i) CHECK(got[5].get(i) == 0);
}

TEST_CASE("the mean of nothing is NaN, as its quotient is", "[ops][empty]") {
  auto const c = op_case<ops::LayerNorm>({}, {{0, 2}, {0}, {0}, {0, 2}, {2}, {2}});
  auto const got = run_kernel(c, DType::fp32, make_operands(c, DType::fp32));
  for (Index i = 0; i < 2; ++i) CHECK(std::isnan(got[4].get(i)));
}

TEST_CASE("what has no meaning over an empty axis is refused by a sentence", "[ops][empty]") {
  auto const message = [](OpCase const& c) -> std::string {
    try {
      (void)axes_of(c);
    } catch (ShapeError const& error) {
      return error.what();
    }
    return {};
  };
  CHECK(message(op_case<ops::Argmax>({.axis = 1}, {{2, 0}, {2}})) ==
        "argmax: axis 1 is empty, and nothing has no largest element");
  CHECK(message(op_case<ops::Sample>({}, {{0, 2}, {}, {2}})) ==
        "sample: logits[v]=0; there is no class to draw");
}
