// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/embedding.hh"

#include "tests/support/eager_gradient.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

/// Indices below `rows`, some of them often, some never.
auto set_index(Index rows) {
  return [rows](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i)
      operands[0].set(i, static_cast<double>((i * i + 3 * i) % rows));
  };
}

TEST_CASE("embedding finds rows in whichever tile they are", "[ops][embedding]") {
  auto c = op_case<ops::Embedding>({}, {Shape{9, 2}, Shape{50, 31}, Shape{50, 9, 2}});
  c.prepare = set_index(31);
  c.whole_numbers = true;
  c.canonical = {{{"v", {1, 30}}}, {{"v", {10, 11, 10}}, {"e", {20, 30}}, {"i", {4, 5}}}};
  test::check_op(c);
}

TEST_CASE("embedding_backward adds in ascending token position, however it is cut",
          "[ops][embedding]") {
  for (double const beta : {0.0, 1.0, 0.5}) {
    auto c = op_case<ops::EmbeddingBackward>({.beta = beta},
                                             {Shape{40, 3}, Shape{33, 40, 3}, Shape{33, 17}});
    c.prepare = set_index(17);
    c.terms = 120;
    c.scale = 2;
    c.whole_numbers = beta != 0.5;
    c.canonical = {{{"v", {5, 12}}},
                   {{"i", {7, 33}}},  // one task an outer index, so that tokens keep their order
                   {{"i", {7, 33}}, {"i1", {2, 1}}, {"e", {1, 32}}, {"v", {8, 9}}},
                   {{"i1", {1, 1, 1}}}};
    test::check_op(c);
  }
}

TEST_CASE("rows of any length add their tokens, which are anywhere", "[ops][embedding]") {
  for (double const beta : {0.0, 1.0, 0.5}) {
    auto c = op_case<ops::EmbeddingBackward>({.beta = beta},
                                             {Shape{41}, Shape{4100, 41}, Shape{4100, 3}});
    c.prepare = [](std::vector<Array>& operands) {
      for (Index i = 0; i < 41; ++i) operands[0].set(i, i == 0 || i == 31 || i == 40 ? 2 : 0);
    };
    c.terms = 41;
    c.scale = 2;
    c.whole_numbers = beta != 0.5;
    c.canonical = {{{"e", {4099, 1}}}};
    test::check_op(c);
  }
}

TEST_CASE("embedding has a gradient for its table", "[ops][embedding]") {
  auto c = op_case<ops::Embedding>({}, {Shape{4, 2}, Shape{3, 5}, Shape{3, 4, 2}});
  c.prepare = set_index(5);
  test::check_gradient<ops::Embedding>(c, 2, {1});
}

TEST_CASE("embedding fails for an index outside the table, in words", "[ops][embedding]") {
  auto c = op_case<ops::Embedding>({}, {Shape{4}, Shape{3, 5}, Shape{3, 4}});
  for (Index const bad : {Index(-1), Index(5)}) {
    auto operands = test::make_operands(c, DType::fp32);
    operands[0].set(3, static_cast<double>(bad));
    CHECK_THROWS_WITH(
        test::run_kernel(c, DType::fp32, operands),
        Catch::Contains(concat("index ", bad, " at position 3 of the tile is outside [0, 5)")));
  }
}

}  // namespace
