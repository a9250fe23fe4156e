// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/cross_entropy.hh"

#include <limits>

#include "tests/support/eager_gradient.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

constexpr Index ignored = -100;

void set_labels(std::vector<Array>& operands, Index classes) {
  for (Index i = 0; i < operands[1].count(); ++i)
    operands[1].set(i,
                    static_cast<double>(i % 5 == 4 ? ignored : (i * 71 + classes - 1) % classes));
}

/// logits, labels, loss, max, sum.
test::OpCase forward_case(Index classes, Shape const& tokens) {
  Shape logits{classes};
  for (Index const extent : tokens) logits.push_back(extent);
  auto c = op_case<ops::CrossEntropy>({}, {logits, tokens, tokens, tokens, tokens});
  c.prepare = [=](std::vector<Array>& operands) { set_labels(operands, classes); };
  c.terms = static_cast<double>(classes);
  c.scale = 4;
  return c;
}

TEST_CASE("cross_entropy gives equal bits for every cut at multiples of 64",
          "[ops][cross_entropy]") {
  auto c = forward_case(256 + 11, Shape{7, 2});
  c.canonical = {{{"v", {64, 203}}}, {{"v", {128, 64, 64, 11}}, {"i", {3, 4}}, {"i1", {1, 1}}}};
  test::check_op(c);
}

TEST_CASE("cross_entropy of equal logits is log V, and 0 where the label is ignored",
          "[ops][cross_entropy]") {
  auto c = forward_case(50257, Shape{5});
  auto const set = c.prepare;
  c.prepare = [=](std::vector<Array>& operands) {
    set(operands);
    for (Index i = 0; i < operands[0].count(); ++i) operands[0].set(i, 7.5);
  };
  auto const got = test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32));
  CHECK(std::fabs(got[2].get(0) - std::log(50257.0)) < 1e-5);
  CHECK(got[2].get(4) == 0);
}

TEST_CASE("cross_entropy_backward gives equal bits for every cut", "[ops][cross_entropy]") {
  for (double const beta : {0.0, 1.0}) {
    auto const forward = forward_case(200, Shape{6});
    Shape const logits{200, 6}, tokens{6};
    auto c = op_case<ops::CrossEntropyBackward>({.scale = 0.25, .beta = beta},
                                                {logits, tokens, tokens, tokens, tokens, logits});
    c.prepare = [=](std::vector<Array>& operands) {
      set_labels(operands, 200);
      std::vector<Array> given{operands[0], operands[1], operands[2], operands[3], operands[4]};
      auto const done = test::run_reference(forward, operands[0].dtype, given);
      operands[2] = done[3].as(operands[2].dtype);
      operands[3] = done[4].as(operands[3].dtype);
    };
    c.scale = 16;
    c.canonical = {{{"v", {64, 136}}}, {{"v", {1, 199}}, {"i", {2, 4}}}};
    test::check_op(c);
  }
}

TEST_CASE("a class of the logits may stand for ignored labels, and they have no gradient",
          "[ops][cross_entropy]") {
  Shape const logits{7, 4}, tokens{4};
  auto c = op_case<ops::CrossEntropyBackward>({.ignore_index = 2},
                                              {logits, tokens, tokens, tokens, tokens, logits});
  c.prepare = [](std::vector<Array>& operands) {
    for (Index i = 0; i < 4; ++i) operands[1].set(i, static_cast<double>(i));
    for (Index i = 0; i < 4; ++i) operands[3].set(i, 3);
  };
  c.scale = 16;
  c.canonical = {{{"v", {3, 4}}}};
  test::check_op(c);
  auto const got = test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32));
  for (Index v = 0; v < 7; ++v) CHECK(got[5].get(2 * 7 + v) == 0);
}

TEST_CASE("the least of all numbers may stand for ignored labels", "[ops][cross_entropy]") {
  constexpr Index least = std::numeric_limits<Index>::min();
  Shape const logits{130, 3}, tokens{3};
  auto c =
      op_case<ops::CrossEntropy>({.ignore_index = least}, {logits, tokens, tokens, tokens, tokens});
  c.prepare = [](std::vector<Array>& operands) {
    for (Index const i : {0, 2}) operands[1].set(i, 100);
    operands[1].set(1, static_cast<double>(least));
  };
  auto const operands = test::make_operands(c, DType::fp32);
  auto const whole = test::run_kernel(c, DType::fp32, operands);
  CHECK(whole[2].get(1) == 0);
  // The second tile counts its labels from 64.
  auto const cut = test::run_kernel(c, DType::fp32, operands, {.cuts = {{"v", {64, 66}}}});
  CHECK(test::difference(c, cut, whole) == "");
}

TEST_CASE("cross_entropy has a gradient", "[ops][cross_entropy]") {
  test::check_gradient<ops::CrossEntropy>(forward_case(6, Shape{3, 2}), 2, {0});
}

TEST_CASE("count_labels leaves out the ignored ones, however labels are cut",
          "[ops][cross_entropy]") {
  auto c = op_case<ops::CountLabels>({}, {{20, 3}, {}});
  c.prepare = [](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i)
      operands[0].set(i, static_cast<double>(i % 5 == 4 ? ignored : i));
  };
  c.canonical = {{{"i", {7, 13}}, {"i1", {1, 2}}}};
  test::check_op(c);
  CHECK(test::run_kernel(c, DType::fp64, test::make_operands(c, DType::fp64))[1].get(0) == 48);
}

TEST_CASE("cross_entropy fails for a label outside the classes, in words", "[ops][cross_entropy]") {
  auto c = forward_case(10, Shape{4});
  auto operands = test::make_operands(c, DType::fp32);
  operands[1].set(2, 10);
  CHECK_THROWS_WITH(
      test::run_kernel(c, DType::fp32, operands),
      Catch::Contains(
          "label 10 at position 2 of the tile is outside [0, 10) and is not ignore_index=-100"));
}

}  // namespace
