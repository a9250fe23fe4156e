#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Argument of an op's `gradient`. An interface, so that a program which adds ops to a graph and
// differentiates none includes no differentiator.

#include <string>
#include <string_view>

#include "nntile/graph/add_op.hh"

namespace nntile {

/// The tensor to which an op's gradient adds its contribution: beta is 0 when nothing is there yet.
struct GradientTarget {
  Node node;
  double beta;
};

/// The op that is being differentiated, its operands by the names of the op's enum. Model:
/// Differentiator of graph/gradient.hh.
class GradientBuilder {
 public:
  template <OpStruct Op> typename Op::Attrs const& attrs() const {
    return *reinterpret_cast<typename Op::Attrs const*>(op_->attrs.data());
  }
  Dims const& shape(OperandIndex o) const { return graph_.tensor_at(id(o)).spec.shape; }
  DType dtype(OperandIndex o) const { return graph_.tensor_at(id(o)).spec.dtype; }
  std::string const& name(OperandIndex o) const { return graph_.tensor_at(id(o)).name; }
  int rank(OperandIndex o) const { return static_cast<int>(shape(o).size()); }

  /// The operand, whose value the gradient reads: the one that the op read, or wrote if it is a
  /// result. Throws GraphError where an op has overwritten that value since.
  virtual Node operand(OperandIndex o) const = 0;
  /// Whether the loss is to be differentiated by the value of the operand that the op read; of an
  /// `update` result that is its old value.
  virtual bool wants(OperandIndex o) = 0;
  /// Whether two operands share elements: one op cannot write both gradients then.
  virtual bool meet(OperandIndex o, OperandIndex other) const = 0;
  /// The finished gradient of a result; zeros where the loss does not depend on it.
  virtual Node grad(OperandIndex o) = 0;
  /// The tensor to which the gradient of the value read through the operand is added.
  virtual GradientTarget target(OperandIndex o) = 0;
  /// Adds `factor` times the gradient of result `from` to that of the operand; they are one tensor
  /// where nothing was there and the factor is 1.
  virtual void pass(OperandIndex o, OperandIndex from, double factor = 1) = 0;
  /// Adds the sum of `node` over its trailing dimensions, innermost first, to the gradient of
  /// the operand; `node` itself where it has no more dimensions than that.
  virtual void sum_trailing(Node node, OperandIndex o) = 0;
  /// The op has no gradient for these attributes, dtypes or shapes. Throws GraphError.
  [[noreturn]] virtual void fail(std::string_view why) const = 0;

  /// The result began as beta times its old value, whose gradient is thus beta times the result's.
  /// Call it last.
  void keep(OperandIndex o, double beta) {
    if (wants(o) && beta != 0) pass(o, o, beta);
  }
  /// A tensor that lives within the gradient's own nodes.
  Node temporary(Dims const& shape, DType dtype, std::string const& name) {
    return graph_.tensor({.shape = shape, .dtype = dtype}, graph_.unique(name));
  }
  template <OpStruct Op, class... Nodes>
  void op(typename Op::Attrs const& attributes, Nodes const&... nodes) {
    Node const given[] = {nodes...};
    graph_.add_op(op_info<Op>, &attributes, detail::gradient_of<Op>(), given);
  }

 protected:
  explicit GradientBuilder(LogicalGraph& graph) : graph_(graph) {}
  GradientBuilder(GradientBuilder const&) = delete;
  GradientBuilder& operator=(GradientBuilder const&) = delete;
  ~GradientBuilder() = default;

  /// Position among the operands that the call has.
  std::size_t position(OperandIndex o) const { return present_.rank(o); }
  std::uint32_t id(OperandIndex o) const { return op_->operands[position(o)]; }

  LogicalGraph& graph_;
  OpNode const* op_ = nullptr;
  OperandSet present_;
};

}  // namespace nntile
