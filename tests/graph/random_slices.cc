// SPDX-License-Identifier: BSD-3-Clause
// Random graphs of sums whose operands share a gradient, while slices of them are overwritten:
// where one tensor's gradient is filled up, the other's must not be. NNTILE_RANDOM_GRAPHS (200)
// says how many, NNTILE_RANDOM_SEED (1) from which on.

#include <random>

#include "nntile/graph/dump_graph.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/scale.hh"
#include "tests/graph/gradient_check.hh"
#include "tests/support/catch.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Sums, scaled and written over, of 2 x 2 matrices and of their columns and rows.
class Sums {
 public:
  explicit Sums(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 2; ++i) add_matrix(graph.parameter(matrix, graph.unique("w")));
    vectors_.push_back(graph.parameter(vector, "p"));
    for (std::size_t i = 4 + below(9); i > 0; --i) add_op();
    Node sum_of = matrices_.back();
    for (std::size_t i = matrices_.size() - 1; i-- > matrices_.size() - 3;) {
      Node const next = graph.tensor(matrix, graph.unique("sum"));
      add(sum_of, matrices_[i], next);
      sum_of = next;
    }
    loss = sum(sum_slice({.axis = 1}, gelutanh(sum_of)));
  }

  LogicalGraph graph{"sums"};
  Node loss;

 private:
  static inline TensorSpec const matrix{.shape = {2, 2}, .dtype = DType::fp64};
  static inline TensorSpec const vector{.shape = {2}, .dtype = DType::fp64};

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  void add_matrix(Node const& node) { matrices_.push_back(node); }
  Node made(TensorSpec const& spec) {
    return graph.tensor(spec, graph.unique("t"), {.requires_grad = below(4) == 0});
  }
  Node any_matrix() { return matrices_[below(matrices_.size())]; }
  Node any_slice() {
    Node const of = any_matrix();
    std::size_t const axis = below(2);
    return graph.slice(of, axis, static_cast<Index>(below(2)), graph.unique("v"));
  }
  Node any_vector() { return below(2) == 0 ? vectors_[below(vectors_.size())] : any_slice(); }

  void add_op() {
    switch (below(9)) {
      case 0:
      case 1: {
        Node const a = any_matrix(), b = any_matrix(), to = made(matrix);
        add({.alpha = below(4) == 0 ? 0.5 : 1.0, .beta = 1}, a, b, to);
        return add_matrix(to);
      }
      case 2: {
        Node const from = any_matrix(), to = made(matrix);
        scale({.alpha = below(2) == 0 ? 1.0 : 1.5}, from, to);
        return add_matrix(to);
      }
      case 3: {
        Node const from = any_matrix(), to = made(matrix);
        gelutanh(from, to);
        return add_matrix(to);
      }
      case 4:
        ops::fill({.value = 0.3}, any_slice());
        return;
      case 5:
      case 7: {
        Node const from = any_vector(), to = any_slice();
        if (graph.tensor_at(from.id()).base == graph.tensor_at(to.id()).base) return;
        if (below(2) == 0)
          scale({.alpha = 1.25}, from, to);
        else
          add({.alpha = 1, .beta = 1}, from, to, to);
        return;
      }
      case 6: {
        Node const from = any_vector(), to = made(vector);
        scale({.alpha = 1}, from, to);
        return vectors_.push_back(to);
      }
      default: {
        Node const a = any_matrix(), b = any_matrix();
        if (a.id() != b.id()) add({.alpha = 1, .beta = below(2) == 0 ? 1.0 : 0.7}, a, b, b);
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<Node> matrices_, vectors_;
};

}  // namespace

TEST_CASE("gradients that tensors share stay right while slices of these are overwritten",
          "[graph][gradient]") {
  std::uint64_t const first = setting("NNTILE_RANDOM_SEED", 1);
  std::uint64_t const count = setting("NNTILE_RANDOM_GRAPHS", 200);
  std::size_t right = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Sums sums(seed);
    LogicalGraph& graph = sums.graph;
    INFO("seed " << seed << "\n" << dump(graph));
    Gradients gradients;
    try {
      gradients = add_gradients(graph, sums.loss);
    } catch (GraphError const&) {
      continue;  // it reads what was overwritten, or depends on no parameter
    }
    for (std::uint32_t id = 0; id < graph.tensor_count(); ++id) {
      TensorAttributes& its = graph.tensor_at(id).attributes;
      if (!its.requires_grad) continue;
      CHECK_NOTHROW(gradients.find({graph, id}));
      its.requires_grad = its.persistent;  // `deviation` looks at parameters
    }
    Deviation const found = deviation(graph, sums.loss, gradients, seed);
    if (found.doubt > 1e-3) continue;
    CHECK(found.error < 1e-6);
    ++right;
  }
  CHECK(right > count / 4);
}
