// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/global_norm.hh"

#include <limits>

#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

TEST_CASE("sum_squares sums in fp64, cut at any multiple of 64", "[ops][global_norm]") {
  auto c = op_case<ops::SumSquares>({}, {Shape{256 + 5, 6, 2}, Shape{6, 2}});
  c.terms = 1e3;
  c.canonical = {{{"k", {64, 197}}}, {{"k", {128, 133}}, {"j", {1, 5}}, {"j1", {1, 1}}}};
  c.whole_numbers = true;
  test::check_op(c);
  auto const operands = test::make_operands(c, DType::fp32);
  auto const got = test::run_kernel(c, DType::fp32, operands);
  auto const exact = test::run_reference(c, DType::fp32, operands);
  CHECK(std::fabs(got[1].get(0) / exact[1].get(0) - 1) < 1e-14);  // fp64 although x is fp32
}

TEST_CASE("sum_squares of a vector is one number", "[ops][global_norm]") {
  auto c = op_case<ops::SumSquares>({}, {Shape{100}, Shape{}});
  c.terms = 100;
  test::check_op(c);
}

TEST_CASE("global_norm_add starts anew where beta is 0", "[ops][global_norm]") {
  for (double const beta : {0.0, 1.0})
    test::check_op(op_case<ops::GlobalNormAdd>({.beta = beta}, {Shape{}, Shape{}}));
}

TEST_CASE("global_norm_add rounds once", "[ops][global_norm]") {
  auto const c = op_case<ops::GlobalNormAdd>({.beta = 1 + 0x1p-30}, {Shape{}, Shape{}});
  auto operands = test::make_operands(c, DType::fp64);
  operands[0].set(0, -1);
  operands[1].set(0, 1 - 0x1p-30);  // beta times this is 1 - 0x1p-60, and 1 once rounded
  CHECK(test::run_reference(c, DType::fp64, operands)[1].get(0) == -0x1p-60);
  for (Isa const isa : test::instruction_sets())
    if (isa != Isa::v2)  // has no fma
      CHECK(test::run_kernel(c, DType::fp64, operands, {.isa = isa})[1].get(0) == -0x1p-60);
}

TEST_CASE("clip_scale is at most 1, NaN for NaN and 0 for infinity", "[ops][global_norm]") {
  auto const scale = [](double total) {
    auto c = op_case<ops::ClipScale>({.max_norm = 2}, {Shape{}, Shape{}});
    c.prepare = [=](std::vector<Array>& operands) { operands[0].set(0, total); };
    return test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32))[1].get(0);
  };
  CHECK(scale(1) == 1);
  CHECK(scale(0) == 1);
  CHECK(std::fabs(scale(64) - 0.25) < 1e-6);
  CHECK(scale(std::numeric_limits<double>::infinity()) == 0);
  CHECK(std::isnan(scale(std::nan(""))));
}

TEST_CASE("clip_scale refuses a norm that would turn gradients around", "[ops][global_norm]") {
  auto const refused = [](double max_norm) {
    return test::message_of<ValueError>([&] {
      (void)test::axes_of(op_case<ops::ClipScale>({.max_norm = max_norm}, {Shape{}, Shape{}}));
    });
  };
  CHECK(refused(-1) == "clip_scale: max_norm of -1; 0 or more, finite, such as 1");
  for (double const wrong : {std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(test::contains(refused(wrong), "clip_scale: max_norm of "));
  CHECK(refused(0) == "(nothing was thrown)");
}

TEST_CASE("scale_by multiplies by a tensor of one element", "[ops][global_norm]") {
  auto c = op_case<ops::ScaleBy>({}, {Shape{}, Shape{100, 3}});
  c.whole_numbers = true;
  c.canonical = {{{"i", {1, 99}}, {"i1", {1, 2}}}};
  test::check_op(c);
}

}  // namespace
