#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// add_gradients: appends the derivative of a scalar as ordinary nodes, op by op in reverse.

#include <vector>

#include "nntile/graph/gradient_builder.hh"
#include "nntile/graph/gradient_values.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile {

/// Walks the ops of a graph from last to first and calls their gradients.
class Differentiator final : public GradientBuilder {
 public:
  Differentiator(LogicalGraph& graph, GradientOptions const& options)
      : GradientBuilder(graph),
        options_(options),
        versions_(graph),
        values_(graph, options, versions_) {}

  Node operand(OperandIndex o) const override {
    std::size_t const by = versions_.overwriter(index_, position(o));
    if (by != no_op)
      throw GraphError(concat(here(), ": its gradient reads ", declared_[position(o)].name, " ('",
                              name(o), "'), which ", label(by),
                              " has overwritten since; write that to a tensor of its own"));
    return {graph_, id(o)};
  }
  bool wants(OperandIndex o) override {
    heeded_ |= bit(o);
    return versions_.varies(index_, position(o));
  }

  bool meet(OperandIndex o, OperandIndex other) const override {
    TensorNode const& a = graph_.tensor_at(id(o));
    TensorNode const& b = graph_.tensor_at(id(other));
    return detail::root_of(a, id(o)) == detail::root_of(b, id(other)) && detail::overlap(a, b);
  }

  Node grad(OperandIndex o) override {
    asked_ |= bit(o);
    Node& gradient = results_[position(o)];
    if (!gradient) gradient = values_.zeros(id(o));
    return gradient;
  }

  GradientTarget target(OperandIndex o) override {
    heeded_ |= bit(o);
    GradientTarget const to = values_.target(id(o), index_);
    targets_.push_back({to, o, graph_.op_count()});
    return to;
  }

  void pass(OperandIndex o, OperandIndex from, double factor = 1) override {
    heeded_ |= bit(o);
    if (shape(o) != shape(from) || dtype(o) != dtype(from))
      throw GraphError(concat(here(), ": its gradient passes that of ", described(from), " on to ",
                              described(o), "; both are alike, or an op takes one to the other"));
    Node const gradient = grad(from);
    if (factor == 1 && values_.share(id(o), gradient)) return;
    add_into(gradient, target(o), factor);
  }

  void sum_trailing(Node node, OperandIndex o) override {
    int const kept = rank(o);
    bool later = false;
    while (static_cast<int>(node.shape().size()) > kept + 1) {
      Dims shape;
      for (std::size_t d = 0; d < node.shape().size(); ++d)
        if (d != static_cast<std::size_t>(kept)) shape.push_back(node.shape()[d]);
      Node const stage = temporary(shape, node.dtype(), concat(name(o), ".grad.stage"));
      op<ops::SumSlice>({.axis = kept, .ascending = later}, node, stage);
      node = stage;
      later = kept == 0;  // dimension 0 of the stage was another before
    }
    GradientTarget const to = target(o);
    if (static_cast<int>(node.shape().size()) == kept) return add_into(node, to, 1);
    op<ops::SumSlice>({.axis = kept, .beta = to.beta, .ascending = later}, node, to.node);
  }

  [[noreturn]] void fail(std::string_view why) const override {
    throw GraphError(concat(here(), ": no gradient, since ", why));
  }

  /// Differentiates `loss`, a tensor of one element, by everything that requires it. Leaves the
  /// graph as it was when it throws.
  Gradients run(Node const& loss) {
    TensorNode const& scalar = graph_.tensor_of(loss, "add_gradients: the loss");
    if (scalar.spec.shape.open() || element_count(scalar.spec.shape) != 1)
      throw ShapeError(concat("add_gradients: '", scalar.name, "' has shape ",
                              to_string(scalar.spec.shape), "; a loss has one element"));
    if (!versions_.varies(loss.id()))
      throw GraphError(concat("add_gradients: '", scalar.name, "' depends on no parameter"));
    if (options_.accumulate && !options_.persistent)
      throw GraphError(
          concat("add_gradients: accumulate adds to the gradients of earlier runs, of which '",
                 scalar.name, "' keeps none; set persistent as well"));
    auto const full_names = graph_.without_prefix();
    return graph_.all_or_nothing([&] {
      graph_.set_phase(options_.phase);
      seed(loss);
      for (std::size_t i = versions_.count(); i-- > 0;) differentiate(i);
      return values_.finish();
    });
  }

 private:
  std::uint32_t bit(OperandIndex o) const { return 1u << position(o); }

  /// An op in the text of an error: "node 3, gelutanh ('y')".
  std::string label(std::size_t index) const {
    OpNode const& op = graph_.op_at(index);
    return concat("node ", index, ", ", op.info->name, " ('",
                  graph_.tensor_at(op.operands.back()).name, "'),");
  }
  /// "x ('h1') of shape {4, 3} in fp32".
  std::string described(OperandIndex o) const {
    return concat(declared_[position(o)].name, " ('", name(o), "') of shape ", to_string(shape(o)),
                  " in ", name_of(dtype(o)));
  }
  std::string here() const {
    return concat(op_->info->name, " ('", graph_.tensor_at(op_->operands.back()).name, "')");
  }

  void seed(Node const& loss) {
    GradientTarget const to = values_.target(loss.id(), versions_.count());
    if (to.beta == 0) return op<ops::Fill>({.value = 1}, to.node);
    Node const one = temporary(loss.shape(), loss.dtype(), concat(loss.name(), ".grad.one"));
    op<ops::Fill>({.value = 1}, one);
    add_into(one, to, 1);
  }

  void add_into(Node const& node, GradientTarget const& to, double factor) {
    op<ops::Add>({.alpha = factor, .beta = to.beta}, node, to.beta == 0 ? node : to.node, to.node);
  }

  bool is_result(std::size_t i) const { return writes(declared_[i].access); }

  void differentiate(std::size_t index) {
    OpNode const& op = graph_.op_at(index);
    op_ = &op;
    index_ = index;
    declared_ = op.info->operands(op.attrs.data());
    present_ = op.info->present(op.attrs.data());
    std::uint32_t reached = 0, wanted = 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (is_result(i) && values_.reached(op.operands[i])) reached |= 1u << i;
      if (versions_.varies(index, i)) wanted |= 1u << i;
    }
    if (reached == 0) return;
    if (wanted == 0) {
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        if (is_result(i)) values_.drop(op.operands[i]);
      return;
    }
    if (op.gradient == nullptr)
      fail(concat(op.info->no_gradient, ", and it is on a way to the loss; compute '",
                  graph_.tensor_at(op.operands.back()).name,
                  "' in a graph of its own and bind it here as an input, which counts as a ",
                  "constant, or use ops that have gradients"));
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      results_[i] =
          (reached >> i & 1u) != 0 ? values_.take(op.operands[i], aliased(i, wanted)) : Node{};
    heeded_ = asked_ = 0;
    targets_.clear();
    op.gradient(*this);
    check(reached, wanted);
    for (AskedTarget const& asked : targets_) check_written(asked);
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      if (results_[i]) values_.release(op.operands[i], results_[i]);
  }

  /// Whether the op also adds to the gradient of another version of result i's tensor.
  bool aliased(std::size_t i, std::uint32_t wanted) const {
    auto const root = [&](std::size_t o) {
      return detail::root_of(graph_.tensor_at(op_->operands[o]), op_->operands[o]);
    };
    for (std::size_t o = 0; o < op_->operands.size(); ++o)
      if ((wanted >> o & 1u) != 0 && root(o) == root(i)) return true;
    return false;
  }

  /// A gradient that leaves out an operand or a result is wrong in silence. One that looks at none
  /// of several results has said that there is nothing to add.
  void check(std::uint32_t reached, std::uint32_t wanted) const {
    for (std::size_t i = 0; i < op_->operands.size(); ++i) {
      bool const left_out = (wanted & ~heeded_) >> i & 1u;
      bool const unread = asked_ != 0 && (reached & ~asked_) >> i & 1u;
      if (left_out || unread)
        throw GraphError(concat(here(), ": its gradient leaves out ",
                                left_out && is_result(i) ? "the old value of " : "",
                                declared_[i].name, " ('", graph_.tensor_at(op_->operands[i]).name,
                                "'), which is on a way to the loss"));
    }
  }

  /// A target that a gradient asked for, and the ops of the graph at that time.
  struct AskedTarget {
    GradientTarget to;
    OperandIndex operand;
    std::size_t ops;
  };

  /// A target that no op writes, or whose first part is lost, makes a gradient wrong in silence.
  void check_written(AskedTarget const& asked) const {
    Node const& node = asked.to.node;
    std::uint32_t const root = detail::root_of(graph_.tensor_of(node), node.id());
    bool written = false, lost = false;
    for (std::size_t i = asked.ops; i < graph_.op_count(); ++i) {
      OpNode const& op = graph_.op_at(i);
      Operands const declared = op.info->operands(op.attrs.data());
      bool read = false, overwritten = false;
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        std::uint32_t const id = op.operands[k];
        bool const same = id == node.id(), writes_it = writes(declared[k].access);
        written |= writes_it && detail::root_of(graph_.tensor_at(id), id) == root;
        read |= same && !writes_it;
        overwritten |= same && writes_it &&
                       (declared[k].access == Access::write ||
                        op.info->overwrites(op.attrs.data(), static_cast<int>(k)));
      }
      lost |= overwritten && !read;
    }
    for (AskedTarget const& other : targets_)  // the one that begins it
      if (other.to.node.id() == node.id() && other.to.beta == 0) lost = false;
    char const* const operand = declared_[position(asked.operand)].name;
    if (!written)
      throw GraphError(concat(here(), ": its gradient asks for the target of ", operand,
                              ", and no op of it writes that; give it to one as the result"));
    if (lost && asked.to.beta != 0)
      throw GraphError(concat(here(), ": its gradient overwrites '", node.name(),
                              "', to which others have added; give its last op the beta of ",
                              "target(), 1 here, for ", operand));
  }

  GradientOptions options_;
  TensorVersions versions_;
  std::vector<AskedTarget> targets_;  // of the gradient that is called
  GradientValues values_;
  // The op that is being differentiated.
  std::size_t index_ = 0;
  Operands declared_;
  std::array<Node, max_operands> results_;
  std::uint32_t heeded_ = 0;  // operands that its gradient asked about
  std::uint32_t asked_ = 0;   // results whose gradients it read
};

/// Appends d loss / d tensor for every tensor that requires it, as ordinary nodes named
/// "<tensor>.grad", whatever prefix is open. The result can be drawn, edited, or written by hand
/// instead. Ops may overwrite tensors: gradients belong to the values. Throws GraphError, and
/// leaves the graph as it was, where an op on the way has no gradient, or one that reads a value
/// which is overwritten later, and for options that contradict each other.
inline Gradients add_gradients(LogicalGraph& graph, Node const& loss,
                               GradientOptions const& options = {}) {
  return Differentiator(graph, options).run(loss);
}

}  // namespace nntile
