// SPDX-License-Identifier: BSD-3-Clause
// randn and sample.
#include <cmath>
#include <initializer_list>
#include <limits>

#include "nntile/graph/apply.hh"
#include "nntile/ops/randn.hh"
#include "nntile/ops/sample.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

test::OpCase sampling(ops::SampleAttrs const& attrs, Shape const& logits, double step = 5) {
  Shape columns;
  for (std::size_t d = 1; d < logits.size(); ++d) columns.push_back(logits[d]);
  auto c = op_case<ops::Sample>(attrs, {logits, {}, columns});
  c.prepare = [=](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i) operands[0].set(i, 3 * operands[0].get(i));
    operands[1].set(0, step);
  };
  return c;
}

/// How often each class is drawn from one column of logits, in 4,000 columns.
std::vector<double> shares(ops::SampleAttrs const& attrs, std::vector<double> const& logits) {
  auto const v = static_cast<Index>(logits.size());
  auto c = sampling(attrs, {v, 4000});
  c.prepare = [&](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i)
      operands[0].set(i, logits[static_cast<std::size_t>(i % v)]);
    operands[1].set(0, 1);
  };
  auto const got = test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32));
  std::vector<double> result(logits.size(), 0);
  for (Index i = 0; i < 4000; ++i) result[static_cast<std::size_t>(got[2].get(i))] += 1.0 / 4000;
  return result;
}

bool near(double a, double b) {
  return std::fabs(a - b) < 0.04;
}  // five standard deviations of 4,000 draws

}  // namespace

TEST_CASE("randn follows its definition, whatever the tiles", "[ops][random]") {
  auto c = op_case<ops::Randn>({.seed = 7, .name = hash_name("w"), .mean = 0.5, .stddev = 2},
                               {{35, 9, 3}});
  c.scale = 4;
  c.canonical = {{{"i0", {1, 34}}}, {{"i0", {17, 18}}, {"i1", {5, 4}}, {"i2", {1, 2}}}};
  test::check_op(c);
  test::check_op(op_case<ops::Randn>({.seed = 1}, {Shape{}}));
}

TEST_CASE("randn is normal", "[ops][random]") {
  auto c = op_case<ops::Randn>({.seed = 3}, {{100'000}});
  auto const x = test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32))[0];
  double sums[5] = {};
  for (Index i = 0; i < x.count(); ++i)
    for (int power = 1; power <= 4; ++power)
      sums[power] += std::pow(x.get(i), power) / static_cast<double>(x.count());
  CHECK(std::fabs(sums[1]) < 0.02);
  CHECK(std::fabs(sums[2] - 1) < 0.02);
  CHECK(std::fabs(sums[3]) < 0.05);
  CHECK(std::fabs(sums[4] - 3) < 0.1);
}

TEST_CASE("randn refuses a mean and a deviation that no distribution has", "[ops][random]") {
  auto const refused = [](double mean, double stddev) {
    return test::message_of<ValueError>(
        [&] { (void)test::axes_of(op_case<ops::Randn>({.mean = mean, .stddev = stddev}, {{3}})); });
  };
  CHECK(refused(0, -1) ==
        "randn: a mean of 0 and a deviation of -1; both are finite, and the latter is 0 or more");
  for (double const wrong : {std::nan(""), HUGE_VAL}) {
    CHECK(test::contains(refused(wrong, 1), "randn: a mean of "));
    CHECK(test::contains(refused(0, wrong), "randn: a mean of "));
  }
  CHECK(refused(-2, 0) == "(nothing was thrown)");
}

TEST_CASE("randn is rounded to 16 bits once", "[ops][random]") {
  auto c = op_case<ops::Randn>({.seed = 3}, {{100'000}});
  auto const wide = test::run_kernel(c, DType::fp64, test::make_operands(c, DType::fp64))[0];
  auto const half = test::run_kernel(c, DType::fp16, test::make_operands(c, DType::fp16))[0];
  Index wrong = 0;  // of 100,000, about six would be wrong with a stop at fp32
  for (Index i = 0; i < wide.count(); ++i)
    wrong += half.word(i) == fp16_t(wide.get(i)).bits ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("randn differs by seed and by name", "[ops][random]") {
  auto const draw = [](std::uint64_t seed, std::uint64_t name) {
    auto c = op_case<ops::Randn>({.seed = seed, .name = name}, {{64}});
    return test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32))[0].bytes;
  };
  CHECK(draw(1, 1) == draw(1, 1));
  CHECK(draw(1, 1) != draw(2, 1));
  CHECK(draw(1, 1) != draw(1, 2));
}

TEST_CASE("sample follows its definition, whatever the tiles", "[ops][random]") {
  for (ops::SampleAttrs const& attrs :
       {ops::SampleAttrs{.seed = 9}, ops::SampleAttrs{.temperature = 0},
        ops::SampleAttrs{.temperature = 0.7, .top_k = 5}, ops::SampleAttrs{.top_p = 0.6},
        ops::SampleAttrs{.top_k = 9, .top_p = 0.8}, ops::SampleAttrs{.top_k = 1}}) {
    auto c = sampling(attrs, {70, 7, 2});
    c.canonical = {{{"j0", {3, 4}}, {"j1", {1, 1}}}};
    INFO("temperature " << attrs.temperature << " top_k " << attrs.top_k << " top_p "
                        << attrs.top_p);
    test::check_op(c);
  }
}

TEST_CASE("sample draws classes by their probabilities", "[ops][random]") {
  auto const logs =
      std::vector<double>{std::log(0.5), std::log(0.25), -INFINITY, std::log(0.15), std::log(0.1)};
  auto const all = shares({}, logs);
  CHECK(near(all[0], 0.5));
  CHECK(near(all[1], 0.25));
  CHECK(near(all[3], 0.15));
  CHECK(near(all[4], 0.1));
  CHECK(all[2] == 0);
  auto const two = shares({.top_k = 2}, logs);
  CHECK(near(two[0], 2.0 / 3));
  CHECK(near(two[1], 1.0 / 3));
  CHECK(two[3] == 0);
  CHECK(two[4] == 0);
  auto const most = shares({.top_p = 0.8}, logs);
  CHECK(near(most[0], 0.5 / 0.9));
  CHECK(near(most[1], 0.25 / 0.9));
  CHECK(near(most[3], 0.15 / 0.9));
  CHECK(most[4] == 0);
  auto const sharp = shares({.temperature = 0.5}, logs);
  CHECK(near(sharp[0], 0.25 / (0.25 + 0.0625 + 0.0225 + 0.01)));
}

TEST_CASE("sample keeps the first of equal logits", "[ops][random]") {
  auto const two = shares({.top_k = 2}, {1, 1, 1, 1});
  CHECK(near(two[0], 0.5));
  CHECK(near(two[1], 0.5));
  CHECK(two[2] == 0);
  auto const half = shares({.top_p = 0.5}, {1, 1, 1, 1});
  CHECK(near(half[0], 0.5));
  CHECK(near(half[1], 0.5));
  CHECK(half[2] == 0);
}

TEST_CASE("sample draws anew at each step", "[ops][random]") {
  auto const draw = [](double step) {
    auto c = sampling({.seed = 4}, {100, 50}, step);
    return test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32))[2].bytes;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("sample refuses logits that are not numbers", "[ops][random]") {
  for (double const bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    auto c = sampling({}, {10, 2});
    auto operands = test::make_operands(c, DType::fp32);
    operands[0].set(13, bad);
    CHECK_THROWS(test::run_kernel(c, DType::fp32, operands));
  }
}

TEST_CASE("sample names the logit that cannot be drawn from", "[ops][random]") {
  auto const error = [](std::initializer_list<Index> where, double bad) {
    auto c = sampling({}, {4, 3});
    auto operands = test::make_operands(c, DType::fp32);
    for (Index const i : where) operands[0].set(i, bad);
    return test::message_of<TaskError>([&] { test::run_kernel(c, DType::fp32, operands); });
  };
  CHECK(test::contains(error({6}, INFINITY), "logit 2 of column 1 is inf"));
  CHECK(test::contains(error({11}, NAN), "logit 3 of column 2 is nan"));
  CHECK(test::contains(error({4, 5, 6, 7}, -INFINITY), "no logit of column 1 is finite"));
}

TEST_CASE("sample refuses attributes that mean nothing, eagerly and in a graph", "[ops][random]") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (ops::SampleAttrs const& attrs :
       {ops::SampleAttrs{.temperature = -1}, ops::SampleAttrs{.temperature = nan},
        ops::SampleAttrs{.temperature = INFINITY}, ops::SampleAttrs{.top_k = -1},
        ops::SampleAttrs{.top_p = 0}, ops::SampleAttrs{.top_p = nan},
        ops::SampleAttrs{.top_p = -0.5}, ops::SampleAttrs{.top_p = 1.5}}) {
    INFO("temperature " << attrs.temperature << " top_k " << attrs.top_k << " top_p "
                        << attrs.top_p);
    auto const c = sampling(attrs, {10, 2});
    CHECK_THROWS_AS(test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32)),
                    ValueError);
    LogicalGraph graph;
    Node const logits = graph.input({.shape = {10, 2}}, "logits");
    Node const step = graph.input({.shape = {}, .dtype = DType::int64}, "step");
    CHECK_THROWS_AS(ops::sample(attrs, logits, step), ValueError);
  }
}

TEST_CASE("what sample refuses, it names", "[ops][random]") {
  auto const c = op_case<ops::Sample>({.top_p = 0}, {{10}, {}, {}});
  CHECK_THROWS_WITH(test::axes_of(c), "sample: top_p=0; it must be above 0 and at most 1");
}

TEST_CASE("sample refuses more classes than 64 bits hold the weights of", "[ops][random]") {
  auto const refused = [](Index classes) {
    return test::message_of<ShapeError>(
        [&] { (void)test::axes_of(op_case<ops::Sample>({}, {Shape{classes, 2}, {}, Shape{2}})); });
  };
  CHECK(refused(8'388'607) == "(nothing was thrown)");
  CHECK(refused(8'388'608) ==
        "sample: logits[v]=8388608; at most 8388607 classes have weights that 64 bits add up");
}

TEST_CASE("sample at temperature 0 takes the first of the largest logits", "[ops][random]") {
  auto const first = shares({.temperature = 0}, {1, 3, 2, 3});
  CHECK(near(first[1], 1));
  CHECK(first[3] == 0);
}
