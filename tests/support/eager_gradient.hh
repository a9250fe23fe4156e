// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Finite differences against an op's `gradient`, which runs at once, in fp64, on references.
#include <cmath>
#include <deque>
#include <optional>
#include <string>

#include "nntile/ops/sum_slice.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"

namespace nntile::test {

/// What an op's `gradient` is given, as graph/gradient.hh has it; nodes are arrays here.
class EagerBuilder {
 public:
  class Node {
   public:
    Node(EagerBuilder& builder, std::size_t id) : builder_(&builder), id_(id) {}
    Array& array() const { return builder_->arrays_[id_]; }
    Shape const& shape() const { return array().shape; }
    DType dtype() const { return array().dtype; }
    std::string name() const { return concat("array", id_); }
    std::size_t id() const { return id_; }

   private:
    EagerBuilder* builder_;
    std::size_t id_;
  };
  struct Target {
    Node node;
    double beta;
  };

  EagerBuilder(OpCase const& c, std::vector<Array> const& operands, std::vector<int> wanted,
               bool accumulate)
      : case_(c),
        wanted_(std::move(wanted)),
        targets_(operands.size()),
        gradients_(operands.size()),
        accumulate_(accumulate) {
    for (Array const& operand : operands) arrays_.push_back(operand);
  }
  /// The gradient of result i, which comes from outside.
  void give(std::size_t i, Array gradient) {
    arrays_.push_back(std::move(gradient));
    gradients_[i] = arrays_.size() - 1;
  }
  /// What was added to operand i's gradient, started from 1 where the builder accumulates.
  Array const& gradient_of(std::size_t i) { return arrays_[targets_[i].value()]; }

  template <OpStruct Op> typename Op::Attrs const& attrs() const {
    return *reinterpret_cast<typename Op::Attrs const*>(case_.attrs.data());
  }
  Node operand(OperandIndex o) { return {*this, position(o)}; }
  Shape const& shape(OperandIndex o) { return operand(o).shape(); }
  DType dtype(OperandIndex o) { return operand(o).dtype(); }
  std::string name(OperandIndex o) { return operand(o).name(); }
  int rank(OperandIndex o) { return static_cast<int>(shape(o).size()); }
  bool wants(OperandIndex o) const {
    return std::find(wanted_.begin(), wanted_.end(), static_cast<int>(position(o))) !=
           wanted_.end();
  }
  bool meet(OperandIndex, OperandIndex) const { return false; }
  Node grad(OperandIndex o) { return {*this, gradients_[position(o)].value()}; }
  Target target(OperandIndex o) {
    auto& slot = targets_[position(o)];
    double const beta = slot || accumulate_ ? 1 : 0;
    if (!slot) {
      slot = arrays_.size();
      arrays_.push_back(Array(DType::fp64, shape(o)));
      for (Index e = 0; e < arrays_.back().count(); ++e)
        arrays_.back().set(e, accumulate_ ? 1 : std::nan(""));
    }
    return {{*this, *slot}, beta};
  }
  void pass(OperandIndex o, OperandIndex from, double factor = 1) {
    add(grad(from), target(o), factor);
  }
  void keep(OperandIndex o, double beta) {
    if (wants(o) && beta != 0) pass(o, o, beta);
  }
  void sum_trailing(Node node, OperandIndex o) {
    int const kept = rank(o);
    while (static_cast<int>(node.shape().size()) > kept + 1) {
      Shape rest;
      for (std::size_t d = 0; d < node.shape().size(); ++d)
        if (d != static_cast<std::size_t>(kept)) rest.push_back(node.shape()[d]);
      Node const stage = temporary(rest, node.dtype(), "stage");
      op<ops::SumSlice>({.axis = kept}, node, stage);
      node = stage;
    }
    Target const to = target(o);
    if (static_cast<int>(node.shape().size()) == kept) return add(node, to, 1);
    op<ops::SumSlice>({.axis = kept, .beta = to.beta}, node, to.node);
  }
  Node temporary(Shape const& shape, DType dtype, std::string const&) {
    arrays_.push_back(Array(dtype, shape));
    return {*this, arrays_.size() - 1};
  }
  template <OpStruct Op, class... Nodes>
  void op(typename Op::Attrs const& attributes, Nodes const&... nodes) {
    OpCase const call = op_case<Op>(attributes, {nodes.shape()...});
    std::vector<Array> operands{nodes.array()...};
    auto const results = run_reference(call, DType::fp64, operands);
    std::size_t at = 0;
    ((nodes.array() = results[at++]), ...);
  }
  [[noreturn]] void fail(std::string_view why) const { throw GraphError(std::string(why)); }

 private:
  std::size_t position(OperandIndex o) const {
    return case_.op->present(case_.attrs.data()).rank(o);
  }
  static void add(Node const& from, Target const& to, double factor) {
    for (Index i = 0; i < from.array().count(); ++i)
      to.node.array().set(
          i, factor * from.array().get(i) + (to.beta == 0 ? 0 : to.node.array().get(i)));
  }

  OpCase const& case_;
  std::deque<Array> arrays_;
  std::vector<int> wanted_;
  std::vector<std::optional<std::size_t>> targets_;
  std::vector<std::optional<std::size_t>> gradients_;
  bool accumulate_;
};

/// CHECKs the gradients of the operands `wanted` with respect to result `result`, each weighted by
/// a fixed pattern, with nothing there before and with ones there. Central differences of step h:
/// error h^2 f''' + u/h, about 1e-9 for h = 1e-5.
template <OpStruct Op>
void check_gradient(OpCase const& c, int result, std::vector<int> const& wanted) {
  constexpr double step = 1e-5;
  constexpr double tolerance = 1e-7;
  auto const position = static_cast<std::size_t>(result);
  auto operands = run_reference(c, DType::fp64, make_operands(c, DType::fp64));
  Array weights = operands[position];
  for (Index i = 0; i < weights.count(); ++i)
    weights.set(i, 1 + 0.5 * std::cos(static_cast<double>(3 * i)));
  auto const loss = [&] {
    auto const after = run_reference(c, DType::fp64, operands);
    double sum = 0;
    for (Index i = 0; i < weights.count(); ++i) sum += weights.get(i) * after[position].get(i);
    return sum;
  };
  for (bool const accumulate : {false, true}) {
    EagerBuilder builder(c, operands, wanted, accumulate);
    builder.give(position, weights);
    Op::gradient(builder);
    for (int const i : wanted) {
      Array const gradient = builder.gradient_of(static_cast<std::size_t>(i));
      Array& x = operands[static_cast<std::size_t>(i)];
      double largest = 1;
      for (Index e = 0; e < x.count(); ++e) largest = std::max(largest, std::fabs(gradient.get(e)));
      for (Index e = 0; e < x.count(); ++e) {
        double const value = x.get(e);
        x.set(e, value + step);
        double const above = loss();
        x.set(e, value - step);
        double const below = loss();
        x.set(e, value);
        double const numeric = (above - below) / (2 * step) + (accumulate ? 1 : 0);
        INFO(c.op->name << ": gradient of operand " << i << ", element " << e << ", accumulate "
                        << accumulate);
        CHECK(std::fabs(gradient.get(e) - numeric) <= tolerance * largest);
      }
    }
  }
}

}  // namespace nntile::test
