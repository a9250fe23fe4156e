// SPDX-License-Identifier: BSD-3-Clause
// Gradients where ops read and overwrite views of tensors: right, or refused.
#include "nntile/graph/gradient.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/scale.hh"
#include "tests/graph/gradient_check.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("the rest of a tensor keeps its gradient where a view is overwritten",
          "[graph][gradient]") {
  auto const total = [](Node const& y) { return sum(sum_slice({.axis = 1}, gelutanh(y))); };
  check_right(
      [&](LogicalGraph& g, Node const& w) {
        Node const y = gelutanh(w);
        ops::fill({.value = 3}, g.slice(y, 1, 0));
        return total(y);
      },
      {4, 2});
  check_right(
      [&](LogicalGraph& g, Node const& w) {
        Node const y = scale({.alpha = 2}, w), part = g.slice(y, 1, 0);
        scale({.alpha = 3}, part, part);
        ops::copy(g.slice(w, 1, 1), g.slice(y, 1, 1));
        return total(y);
      },
      {4, 2});
}

TEST_CASE("a view that is overwritten is gone for who read its base, or a view across",
          "[graph][gradient]") {
  auto const axis = GENERATE(std::size_t{0}, std::size_t{1});
  CHECK(contains(refusal(
                     [&](LogicalGraph& g, Node const& w) {
                       Node const y = scale({.alpha = 2}, w);
                       Node const loss = sum(gelutanh(g.slice(y, 0, 1)));
                       ops::fill({.value = 3}, g.slice(y, axis, 1, "part"));
                       return loss;
                     },
                     {3, 3}),
                 "which node 3, fill ('part'), has overwritten"));
}

TEST_CASE("a view is gone though its neighbour was overwritten before it", "[graph][gradient]") {
  CHECK(contains(refusal(
                     [](LogicalGraph& g, Node const& w) {
                       Node const y = scale({.alpha = 2}, w);
                       Node const loss = sum(gelutanh(g.slice(y, 0, 1)));
                       ops::fill({.value = 3}, g.slice(y, 0, 0, "neighbour"));
                       ops::fill({.value = 3}, g.slice(y, 0, 1, "part"));
                       return loss;
                     },
                     {3, 3}),
                 "which node 4, fill ('part'), has overwritten"));
}

TEST_CASE("a view varies though a constant overwrites its neighbour", "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const y = scale({.alpha = 2}, w);
        ops::fill({.value = 3}, g.slice(y, 1, 0));
        return sum(gelutanh(g.slice(y, 1, 1)));
      },
      {3, 2});
}

TEST_CASE("a view that is not overwritten is there though its neighbour is", "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const y = scale({.alpha = 2}, w);
        Node const loss = sum(gelutanh(g.slice(y, 0, 1)));
        ops::fill({.value = 3}, g.slice(y, 0, 2));
        return loss;
      },
      {3, 3});
}

TEST_CASE("views of one part, and across each other, add their gradients", "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const a = gelutanh(g.slice(w, 0, 1)), b = scale({.alpha = 2}, g.slice(w, 0, 1));
        return add(sum(add(a, b)), sum(gelutanh(g.slice(w, 1, 1))));
      },
      {3, 3});
}

TEST_CASE("a view of an older version has the gradient of that version", "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const y = scale({.alpha = 2}, w), part = g.slice(y, 1, 0);
        Node const before = scale({.alpha = 0.5}, part);
        scale({.alpha = -1}, y, y);
        Node const after = scale({.alpha = 0.25}, part);
        return add(sum(gelutanh(before)), sum(gelutanh(after)));
      },
      {3, 2});
}

TEST_CASE("what was copied into a view keeps its gradient when the view's older one is written",
          "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const x = scale({.alpha = 3}, g.slice(w, 1, 1)), y = scale({.alpha = 2}, w);
        Node const before = scale({.alpha = 0.5}, g.slice(y, 1, 0));
        ops::copy(x, g.slice(y, 1, 0));
        return add(sum(gelutanh(before)), sum(sum_slice({.axis = 1}, gelutanh(y))));
      },
      {3, 2});
}

TEST_CASE("a slice's gradient does not leak into a tensor that shares its base's",
          "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const y = scale({.alpha = 2}, w), z = scale({.alpha = 3}, w);
        Node const early = sum(gelutanh(g.slice(y, 1, 0)));
        return add(early, sum(sum_slice({.axis = 1}, gelutanh(add(y, z)))));
      },
      {3, 2});
}

TEST_CASE("operands that are one tensor, or meet in a view, get the sum of their gradients",
          "[graph][gradient]") {
  auto const attend = [](Node const& q, Node const& k, Node const& v) {
    Node const y = attention(q, k, v);  // [2, 1, 3, 1]
    return sum(sum(sum(sum(gelutanh(y)))));
  };
  check_right([&](LogicalGraph&, Node const& w) { return attend(w, w, w); }, {2, 1, 3, 1});
  check_right([&](LogicalGraph&, Node const& w) { return attend(scale(w), w, w); }, {2, 1, 3, 1});
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const row = g.slice(w, 0, 1), column = g.slice(w, 1, 2);
        return sum(sum(gelutanh(layer_norm(input(g, "x", {3, 2}), row, column))));
      },
      {3, 3});
}
