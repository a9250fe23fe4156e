// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/adamw_step.hh"

#include <cmath>

#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::op_case;

/// p, g, m, v, lr, step and, where the gradient is scaled, its factor.
template <class Op = ops::AdamwStep>
test::OpCase step_case(ops::AdamwStepAttrs const& attrs, Shape const& shape, Index step) {
  std::vector<Shape> shapes{shape, shape, shape, shape, {}, {}};
  if (attrs.scaled) shapes.push_back({});
  auto c = op_case<Op>(attrs, shapes);
  c.prepare = [=](std::vector<test::Array>& operands) {
    for (Index i = 0; i < operands[3].count(); ++i)
      operands[3].set(i, 0.25 + std::fabs(operands[3].get(i)));
    operands[4].set(0, 0x1p-6);
    operands[5].set(0, static_cast<double>(step));
    if (attrs.scaled) operands[6].set(0, 0.5);
  };
  return c;
}

}  // namespace

TEST_CASE("adamw_step follows its definition", "[ops][adamw_step]") {
  for (Index const step : {1, 2, 1000}) {
    auto c = step_case({.beta2 = 0.99, .scaled = step == 2}, {35, 9}, step);
    c.scale = 8;
    c.canonical = {{{"i0", {1, 34}}, {"i1", {5, 4}}}};
    test::check_op(c);
  }
}

TEST_CASE("adamw_step moves a parameter as PyTorch does", "[ops][adamw_step]") {
  // torch 2.15, torch.optim.AdamW(lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01), p=1,
  // g=0.5, in fp64: after one step p = 1 - 0.001 - 0.1 * 0.5 / (0.5 + 1e-8), m = 0.05, v = 0.00025.
  auto c = step_case({}, {1}, 1);
  auto operands = test::make_operands(c, DType::fp64);
  double const start[] = {1, 0.5, 0, 0};
  for (std::size_t o = 0; o < 4; ++o) operands[o].set(0, start[o]);
  operands[4].set(0, 0.1);
  auto const got = test::run_kernel(c, DType::fp64, operands);
  double const lr = static_cast<double>(0.1f);  // data is fp32
  CHECK(std::fabs(got[0].get(0) - (1 - lr * 0.01 - lr * 0.5 / (0.5 + 1e-8))) < 1e-13);
  CHECK(std::fabs(got[2].get(0) - 0.05) < 1e-16);
  CHECK(std::fabs(got[3].get(0) - 0.00025) < 1e-17);
}

TEST_CASE("adamw_step refuses a step before the first", "[ops][adamw_step]") {
  auto c = step_case({}, {4}, 0);
  CHECK_THROWS(test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32)));
}

TEST_CASE("adamw_step refuses constants out of range by their names", "[ops][adamw_step]") {
  auto const refused = [](ops::AdamwStepAttrs const& attrs) {
    return test::message_of<ValueError>([&] { (void)test::axes_of(step_case(attrs, {4}, 1)); });
  };
  double const none = std::nan("");
  for (double const beta : {-0.1, 1.0, none}) {
    CHECK(test::contains(refused({.beta1 = beta}), "adamw_step: beta1 of "));
    CHECK(test::contains(refused({.beta2 = beta}), "adamw_step: beta2 of "));
  }
  for (double const size : {-1e-8, HUGE_VAL, none}) {
    CHECK(test::contains(refused({.eps = size}), "adamw_step: eps of "));
    CHECK(test::contains(refused({.weight_decay = size}), "adamw_step: weight_decay of "));
  }
  CHECK(refused({.beta1 = 1.5}) == "adamw_step: beta1 of 1.5; 0 or more, below 1, such as 0.9");
  CHECK_NOTHROW(test::axes_of(step_case({.beta1 = 0, .beta2 = 0, .eps = 0}, {4}, 1)));
}

TEST_CASE("narrow parameters are moved by states in fp32", "[ops][adamw_step]") {
  for (DType const narrow : {DType::bf16, DType::fp16}) {
    auto c = step_case({.scaled = true}, {35, 9}, 3);
    c.second = DType::fp32;
    auto operands = test::make_operands(c, narrow);
    auto const got = test::run_kernel(c, narrow, operands);
    CHECK(got[0].dtype == narrow);
    CHECK(got[2].dtype == DType::fp32);
    operands[0] = operands[0].as(DType::fp32);
    auto const wide = test::run_kernel(c, DType::fp32, operands);
    CHECK(got[0].bytes == wide[0].as(narrow).bytes);  // rounded once
    CHECK(got[2].bytes == wide[2].bytes);
    CHECK(got[3].bytes == wide[3].bytes);
  }
}

TEST_CASE("a narrow gradient moves what is in fp32 as its cast does", "[ops][adamw_step]") {
  for (DType const narrow : {DType::bf16, DType::fp16})
    for (bool const scaled : {false, true}) {
      auto c = step_case<ops::AdamwStepNarrow>({.scaled = scaled}, {35, 9}, 3);
      c.second = narrow;
      auto operands = test::make_operands(c, DType::fp32);
      REQUIRE(operands[1].dtype == narrow);
      auto const got = test::run_kernel(c, DType::fp32, operands);
      operands[1] = operands[1].as(DType::fp32);
      auto const by_cast =
          test::run_kernel(step_case({.scaled = scaled}, {35, 9}, 3), DType::fp32, operands);
      for (std::size_t const o : {0, 2, 3}) CHECK(got[o].bytes == by_cast[o].bytes);
    }
}
