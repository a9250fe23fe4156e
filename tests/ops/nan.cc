// SPDX-License-Identifier: BSD-3-Clause
// Infinities, NaNs and zeros of either sign among the operands of every op.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// A NaN of a sign and a payload that the CPU would not make.
double odd_nan() { return std::copysign(std::nan("0x1234500000000"), -1.0); }

/// Puts one value into each float operand that the op reads, at another place in each.
void put(OpCase const& c, std::vector<Array>& operands, double value) {
  for (std::size_t o = 0; o < operands.size(); ++o)
    if (is_float(operands[o].dtype) && operands[o].count() > 1)
      operands[o].set(static_cast<Index>(17 * o + 3) % operands[o].count(), value);
  (void)c;
}

bool takes_any_number(OpCase const& c) { return std::string_view(c.op->name) != "sample"; }

}  // namespace

TEST_CASE("a result with infinities or NaNs does not depend on instruction set and tiling",
          "[ops][nan]") {
  for (OpCase const& c : every_op())
    for (DType const element : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
      if (std::count(c.op->dtypes.begin(), c.op->dtypes.end(), element) == 0 ||
          !takes_any_number(c))
        continue;
      for (double const value : {static_cast<double>(INFINITY), static_cast<double>(-INFINITY),
                                 odd_nan(), -0.0, 60000.0}) {
        INFO(c.op->name << " " << name_of(element) << " " << value);
        auto operands = make_operands(c, element);
        put(c, operands, value);
        auto const whole = run_kernel(c, element, operands);
        CHECK(difference(c, run_kernel(c, element, operands, {.cuts = canonical_cuts(c)}), whole) ==
              "");
        if (kernels::available(Isa::v3) && kernels::available(Isa::v4))
          CHECK(difference(c, run_kernel(c, element, operands, {.isa = Isa::v3}), whole) == "");
      }
    }
}
