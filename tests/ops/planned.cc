// SPDX-License-Identifier: BSD-3-Clause
// Every op as a graph of one op: planned whole and cut, in every dtype, and over empty axes.
#include <algorithm>

#include "nntile/runtime/ring/ring.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/planned_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

bool takes(OpCase const& c, DType element) {
  return std::count(c.op->dtypes.begin(), c.op->dtypes.end(), element) > 0;
}

}  // namespace

TEST_CASE("a planned op has the same bits cut and whole, in every dtype", "[ops][planned]") {
  for (OpCase const& c : every_op())
    for (DType const element : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
      if (!takes(c, element)) continue;
      INFO(c.op->name << " " << name_of(element) << " " << to_string(c.shapes[0]));
      auto const operands = make_operands(c, element);
      PlanOptions const cut{.tile = 0, .cuts = plan_cuts(canonical_cuts(c))};
      auto const whole = run_kernel(c, element, operands);
      CHECK(difference(c, run_planned<Serial>(c, element, operands), whole) == "");
      CHECK(difference(c, run_planned<Serial>(c, element, operands, cut), whole) == "");
      CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), whole) == "");
    }
}

TEST_CASE("a planned op has the same bits cut and whole, in every pair of dtypes",
          "[ops][planned]") {
  for (OpCase c : every_op())
    for (ElementTypes const& types : c.op->types) {
      if (types.element != DType::fp32 && types.element != DType::bf16) continue;
      c.second = types.second;
      INFO(c.op->name << " " << name_of(types.element) << " " << name_of(types.second));
      auto const operands = make_operands(c, types.element);
      PlanOptions const cut{.tile = 0, .cuts = plan_cuts(canonical_cuts(c))};
      CHECK(difference(c, run_planned<Serial>(c, types.element, operands, cut),
                       run_kernel(c, types.element, operands)) == "");
    }
}

TEST_CASE("a planned op over an axis of extent 0 gives what the eager one gives",
          "[ops][planned]") {
  for (OpCase const& whole : every_op()) {
    std::size_t const count = axes_of(whole).axes.size();
    for (std::size_t axis = 0; axis < count; ++axis) {
      OpCase const c = without(whole, axis);
      if (means_nothing(c)) continue;
      INFO(c.op->name << " axis " << axis << " of " << to_string(c.shapes[0]));
      DType const element = takes(c, DType::bf16) ? DType::bf16 : c.op->dtypes[0];
      auto const operands = make_operands(c, element);
      PlanOptions const cut{.tile = 0, .cuts = plan_cuts(canonical_cuts(c))};
      auto const eager = run_kernel(c, element, operands);
      CHECK(difference(c, run_planned<Serial>(c, element, operands), eager) == "");
      CHECK(difference(c, run_planned<Serial>(c, element, operands, cut), eager) == "");
    }
  }
}
