#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// add_gradients: appends the derivative of a scalar as ordinary nodes, op by op in reverse.

#include <unordered_map>
#include <vector>

#include "nntile/graph/add_op.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile {

/// Where an op's gradient adds its contribution: beta is 0 when nothing is there yet.
struct GradientTarget {
  Node node;
  double beta;
};

/// Settings of add_gradients.
struct GradientOptions {
  /// Parameter gradients are kept between runs, for optimizers in another graph.
  bool persistent = false;
  /// Adds to the persistent gradients instead of overwriting them: later micro-batches of one step.
  bool accumulate = false;
  std::string phase = "backward";
};

/// The gradients that add_gradients made, by tensor.
class Gradients {
 public:
  /// The gradient of a tensor, or an empty Node where the loss does not depend on it.
  Node find(Node const& of) const {
    auto const at = nodes_.find(of.id());
    return at == nodes_.end() ? Node{} : at->second;
  }

 private:
  template <class Graph> friend class BasicGradientBuilder;
  std::unordered_map<std::uint32_t, Node> nodes_;
};

/// What an op's `gradient` is given; operands are positions in the op's list. A template, like
/// the planner, so that a program which differentiates nothing does not pay for compiling it.
template <class Graph> class BasicGradientBuilder {
 public:
  BasicGradientBuilder(Graph& graph, GradientOptions const& options)
      : graph_(graph), options_(options) {}

  template <OpStruct Op> typename Op::Attrs const& attrs() const {
    return *reinterpret_cast<typename Op::Attrs const*>(op_->attrs.data());
  }
  Node operand(int i) const { return {graph_, op_->operands[static_cast<std::size_t>(i)]}; }
  Shape const& shape(int i) const { return operand(i).shape(); }
  int rank(int i) const { return static_cast<int>(shape(i).size()); }
  /// Whether the loss is to be differentiated by operand i.
  bool wants(int i) const { return wanted_[operand(i).id()]; }

  /// The finished gradient of result i; zeros where the loss does not depend on it.
  Node grad(int i) {
    Node const of = operand(i);
    if (Entry* const entry = finished(of)) return entry->node;
    Node const zero = create(of);
    zero_fill(zero);
    entries_[of.id()] = {zero, true, {}};
    ++users_[zero.id()];
    return zero;
  }

  /// Where the gradient of operand i is added to.
  GradientTarget target(int i) { return target_of(operand(i)); }

  /// The gradient of result `from` is also that of operand i: shared where nothing was there, added
  /// otherwise.
  void pass(int i, int from) {
    Node const of = operand(i);
    Node const gradient = grad(from);
    bool const keeps =
        tensor(of).base != no_id || tensor(of).attributes.persistent || entries_.contains(of.id());
    if (!keeps) {
      entries_[of.id()] = {gradient, true, {}};
      ++users_[gradient.id()];
      return;
    }
    GradientTarget const to = target_of(of);
    op<ops::Add>({.alpha = 1, .beta = to.beta}, gradient, to.beta == 0 ? gradient : to.node,
                 to.node);
  }

  /// Adds the sum of `node` over its trailing dimensions, innermost first, to the gradient of
  /// operand i.
  void sum_trailing(Node node, int i) {
    int const kept = rank(i);
    while (static_cast<int>(node.shape().size()) > kept + 1) {
      Shape shape;
      for (std::size_t d = 0; d < node.shape().size(); ++d)
        if (d != static_cast<std::size_t>(kept)) shape.push_back(node.shape()[d]);
      Node const stage = temporary(shape, node.dtype(), concat(operand(i).name(), ".grad.stage"));
      op<ops::SumSlice>({.axis = kept}, node, stage);
      node = stage;
    }
    GradientTarget const to = target(i);
    if (static_cast<int>(node.shape().size()) == kept) return add_into(node, to);
    op<ops::SumSlice>({.axis = kept, .beta = to.beta}, node, to.node);
  }

  /// A tensor that lives within the gradient's own nodes.
  Node temporary(Shape const& shape, DType dtype, std::string const& name) {
    return graph_.tensor({.shape = shape, .dtype = dtype}, graph_.unique(name));
  }

  template <OpStruct Op, class... Nodes>
  void op(typename Op::Attrs const& attributes, Nodes const&... nodes) {
    Node const given[] = {nodes...};
    graph_.add_op(op_info<Op>, &attributes, detail::gradient_of<Op>(), given);
  }

  [[noreturn]] void fail(std::string_view why) const {
    throw GraphError(concat(op_->info->name, " ('", graph_.tensor_at(op_->operands.back()).name,
                            "'): no gradient, since ", why));
  }

  /// Differentiates `loss`, a tensor of one element, by everything that requires it.
  Gradients run(Node const& loss) {
    TensorNode const& scalar = graph_.tensor_of(loss);
    if (element_count(scalar.spec.shape) != 1)
      throw ShapeError(concat("add_gradients: '", scalar.name, "' has shape ",
                              to_string(scalar.spec.shape), "; a loss has one element"));
    std::size_t const count = graph_.op_count();
    find_wanted(count);
    if (!wanted_[loss.id()])
      throw GraphError(concat("add_gradients: '", scalar.name, "' depends on no parameter"));
    graph_.set_phase(options_.phase);
    GradientTarget const seed = target_of(loss);
    op<ops::Fill>({.value = 1}, seed.node);
    for (std::size_t i = count; i-- > 0;) differentiate(graph_.op_at(i));
    Gradients result;
    for (auto const& [id, entry] : entries_)
      if (finished({graph_, id}) != nullptr) result.nodes_.emplace(id, entry.node);
    return result;
  }

 private:
  struct Entry {
    Node node;
    bool written = false;
    std::vector<bool> slices;  // of a base whose views were written one by one
  };

  TensorNode const& tensor(Node const& node) const { return graph_.tensor_at(node.id()); }

  void find_wanted(std::size_t count) {
    wanted_.assign(graph_.tensor_count(), false);
    std::size_t scanned = 0;
    auto const scan = [&](std::size_t until) {
      for (; scanned < until; ++scanned) {
        TensorNode const& node = graph_.tensor_at(static_cast<std::uint32_t>(scanned));
        wanted_[scanned] =
            node.attributes.requires_grad || (node.base != no_id && wanted_[node.base]);
      }
    };
    scan(graph_.tensor_count());
    for (std::size_t i = 0; i < count; ++i) {
      OpNode const& op = graph_.op_at(i);
      if (op.gradient == nullptr) continue;
      Operands const declared = op.info->operands(op.attrs.data());
      bool any = false;
      for (std::size_t o = 0; o < op.operands.size(); ++o)
        any |= declared[o].access == Access::read && wanted(op.operands[o]);
      if (!any) continue;
      for (std::size_t o = 0; o < op.operands.size(); ++o)
        if (writes(declared[o].access)) wanted_[op.operands[o]] = true;
    }
    for (std::size_t id = 0; id < wanted_.size(); ++id)
      if (wanted(static_cast<std::uint32_t>(id))) wanted_[id] = true;
  }
  bool wanted(std::uint32_t id) const {
    TensorNode const& node = graph_.tensor_at(id);
    return wanted_[id] || (node.base != no_id && wanted_[node.base]);
  }

  void differentiate(OpNode const& op) {
    if (op.gradient == nullptr) return;
    Operands const declared = op.info->operands(op.attrs.data());
    bool reached = false;
    bool any = false;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (writes(declared[o].access))
        reached |= finished({graph_, op.operands[o]}) != nullptr;
      else
        any |= wanted_[op.operands[o]];
    }
    if (!reached || !any) return;
    op_ = &op;
    op.gradient(*this);
    // What only this op's own results still held may now be added to in place.
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      auto const at = entries_.find(op.operands[o]);
      if (writes(declared[o].access) && at != entries_.end()) --users_[at->second.node.id()];
    }
  }

  Node create(Node const& of) {
    TensorNode const& from = tensor(of);
    TensorSpec spec = from.spec;
    bool const kept = from.attributes.persistent && options_.persistent;
    return graph_.tensor(spec, kept ? from.name + ".grad" : graph_.unique(from.name + ".grad"),
                         {.persistent = kept});
  }

  void zero_fill(Node const& node) { op<ops::Fill>({.value = 0}, node); }
  void add_into(Node const& node, GradientTarget const& to) {
    op<ops::Add>({.alpha = 1, .beta = to.beta}, node, to.beta == 0 ? node : to.node, to.node);
  }

  /// The entry of a tensor whose gradient is complete; slices that nothing reached are zeroed.
  Entry* finished(Node const& of) {
    TensorNode const& node = tensor(of);
    if (node.base != no_id) {
      auto const at = entries_.find(of.id());
      if (at != entries_.end()) return &at->second;
      auto const base = entries_.find(node.base);
      if (base == entries_.end()) return nullptr;
      (void)target_of(of);
      return &entries_[of.id()];
    }
    auto const at = entries_.find(of.id());
    if (at == entries_.end()) return nullptr;
    complete(of, at->second);
    return &at->second;
  }

  void complete(Node const& of, Entry& entry) {
    for (std::size_t i = 0; i < entry.slices.size(); ++i)
      if (!entry.slices[i])
        zero_fill(graph_.slice(entry.node, slice_axis_.at(of.id()), static_cast<Index>(i),
                               entry.node.name() + ".slice"));
    entry.slices.clear();
    entry.written = true;
  }

  GradientTarget target_of(Node const& of) {
    TensorNode const node = tensor(of);
    if (node.base != no_id) return slice_target(of, node);
    auto const at = entries_.find(of.id());
    if (at == entries_.end()) {
      Node const gradient = create(of);
      entries_[of.id()] = {gradient, true, {}};
      ++users_[gradient.id()];
      bool const adds = options_.accumulate && options_.persistent && node.attributes.persistent;
      return {gradient, adds ? 1.0 : 0.0};
    }
    complete(of, at->second);
    Node const gradient = at->second.node;
    if (users_[gradient.id()] <= 1) return {gradient, 1};
    // Another tensor's gradient is the same node and is still to be read: part from it first.
    Node const own = create(of);
    op<ops::Copy>({}, gradient, own);
    --users_[gradient.id()];
    ++users_[own.id()];
    at->second.node = own;
    return {own, 1};
  }

  GradientTarget slice_target(Node const& of, TensorNode const& view) {
    auto const at = entries_.find(of.id());
    if (at != entries_.end()) return {at->second.node, 1};
    Node const base{graph_, view.base};
    TensorNode const whole = tensor(base);
    auto found = entries_.find(view.base);
    if (found == entries_.end()) {
      Entry entry{create(base), false,
                  std::vector<bool>(static_cast<std::size_t>(whole.spec.shape[view.view_axis]))};
      ++users_[entry.node.id()];
      found = entries_.emplace(view.base, std::move(entry)).first;
      slice_axis_[view.base] = view.view_axis;
    }
    bool const written = found->second.written;
    Node const slice =
        graph_.slice(found->second.node, view.view_axis, view.view_index, view.name + ".grad");
    if (!written) found->second.slices[static_cast<std::size_t>(view.view_index)] = true;
    entries_[of.id()] = {slice, true, {}};
    ++users_[slice.id()];
    return {slice, written ? 1.0 : 0.0};
  }

  Graph& graph_;
  GradientOptions options_;
  OpNode const* op_ = nullptr;
  std::vector<bool> wanted_;
  std::unordered_map<std::uint32_t, Entry> entries_;
  std::unordered_map<std::uint32_t, std::size_t> slice_axis_;
  std::unordered_map<std::uint32_t, int> users_;
};

/// Appends d loss / d tensor for every tensor that requires it, as ordinary nodes named
/// "<tensor>.grad". The result can be drawn, edited, or written by hand instead. Throws GraphError
/// where an op on the way has no gradient.
template <std::same_as<LogicalGraph> Graph>
Gradients add_gradients(Graph& graph, Node const& loss, GradientOptions const& options = {}) {
  return BasicGradientBuilder<Graph>(graph, options).run(loss);
}

}  // namespace nntile
