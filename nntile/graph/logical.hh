#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// LogicalGraph: what to compute. No tiles, no memory, no runtime.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/numerics.hh"
#include "nntile/graph/checked_numerics.hh"
#include "nntile/graph/name_list.hh"
#include "nntile/graph/name_table.hh"
#include "nntile/graph/node.hh"
#include "nntile/graph/spelling.hh"
#include "nntile/graph/tensor_spec.hh"
#include "nntile/ops/concept.hh"

namespace nntile {

class GradientBuilder;
class Embedded;
struct Connection;

/// A tensor of the graph, as the graph keeps it. A view is one index of a dimension of its base,
/// which must be cut into single indices there; it has no storage of its own.
struct TensorNode {
  std::string name;
  TensorSpec spec;
  TensorAttributes attributes;
  std::uint32_t base = no_id;
  std::size_t view_axis = 0;
  Index view_index = 0;
  bool operator==(TensorNode const&) const = default;
};

/// A call of an op on tensors of the graph, hidden operands left out of `operands`, and its axes,
/// which were resolved when it was added.
struct OpNode {
  OpInfo const* info = nullptr;
  void (*gradient)(GradientBuilder&) = nullptr;
  alignas(8) std::array<std::byte, max_attrs_bytes> attrs{};
  AxisTable axes;
  DynamicArray<std::uint32_t> operands;
  DType element = DType::fp32;
  DType second = DType::fp32;
  std::uint32_t phase = 0;
};

/// Whether both call one op with the same attributes on the same operands.
inline bool operator==(OpNode const& a, OpNode const& b) {
  if (a.info != b.info || a.operands != b.operands || a.phase != b.phase) return false;
  for (Field const& field : *a.info->fields)  // bit for bit, what lies between members apart
    if (field.get(a.attrs.data()).natural != field.get(b.attrs.data()).natural) return false;
  return a.element == b.element && a.second == b.second;
}

/// Declares tensors and collects ops in program order.
class LogicalGraph {
 public:
  explicit LogicalGraph(std::string name = "graph", Numerics numerics = {})
      : name_(std::move(name)) {
    detail::check_text(name_, "graph: its name");
    numerics_ = detail::checked_numerics(name_, std::move(numerics));
  }
  LogicalGraph(LogicalGraph const&) = delete;
  /// Says why instead of copying or moving.
  template <class Graph>
  requires std::same_as<std::remove_cvref_t<Graph>, LogicalGraph>
  LogicalGraph(Graph&&) {
    static_assert(!std::same_as<std::remove_cvref_t<Graph>, LogicalGraph>,
                  "a LogicalGraph is neither copied nor moved, since its nodes point to it: pass a "
                  "reference; keep several in a std::deque, made by emplace_back");
  }
  LogicalGraph& operator=(LogicalGraph const&) = delete;

  /// Whether both say the same, under the same names.
  bool operator==(LogicalGraph const& other) const {
    if (name_ != other.name_ || !(numerics_ == other.numerics_) || phases() != other.phases() ||
        phases_apart_ != other.phases_apart_ || tensors_.size() != other.tensors_.size() ||
        ops_.size() != other.ops_.size())
      return false;
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (!(tensors_[t] == other.tensors_[t])) return false;
    for (std::size_t o = 0; o < ops_.size(); ++o)
      if (!(ops_[o] == other.ops_[o])) return false;
    return true;
  }

  std::string const& name() const { return name_; }
  Numerics const& numerics() const { return numerics_; }

  /// Declares a tensor. Throws GraphError when the name is taken, or an open tensor is to be kept
  /// between runs; ShapeError when the shape has no size, or `axes` names more or fewer dimensions,
  /// or one twice.
  Node tensor(TensorSpec spec, std::string const& name, TensorAttributes attributes = {}) {
    std::string full = prefix_ + name;
    check_free(full, name);
    check_shape(full, spec);
    if (spec.shape.open()) check_open(full, spec, attributes);
    if (!spec.file_shape.empty()) check_file_shape(full, spec);
    auto const id = static_cast<std::uint32_t>(tensors_.size());
    TensorNode node;
    node.name = full;
    node.spec = std::move(spec);
    node.attributes = attributes;
    epochs_.push_back(epoch_);
    try {
      tensors_.push_back(std::move(node));
      by_name_.add(full, id);
    } catch (...) {
      epochs_.pop_back();
      if (tensors_.size() > id) tensors_.pop_back();
      throw;
    }
    return {*this, id};
  }
  /// Bound by the caller before each run.
  Node input(TensorSpec spec, std::string const& name) {
    return tensor(std::move(spec), name, {.external = true});
  }
  /// Kept between runs and trained.
  Node parameter(TensorSpec spec, std::string const& name) {
    return tensor(std::move(spec), name, {.requires_grad = true, .persistent = true});
  }
  /// Kept between runs and written by the graph: optimizer states, accumulated gradients.
  Node state(TensorSpec spec, std::string const& name) {
    return tensor(std::move(spec), name, {.persistent = true});
  }
  /// Bound once, kept between runs.
  Node constant(TensorSpec spec, std::string const& name) {
    return tensor(std::move(spec), name, {.persistent = true, .external = true});
  }

  /// One index of a dimension, without copying: the view's tiles are the base's. The base is cut
  /// into single indices along that dimension by every plan. Throws ShapeError outside the shape,
  /// GraphError on a view of a view, or along an open dimension.
  Node slice(Node const& base, std::size_t axis, Index index, std::string const& name = {}) {
    TensorNode const& from = tensor_of(base, "slice: the base");
    if (from.base != no_id)
      throw GraphError(concat("slice: '", from.name, "' is a view already; slice its base"));
    if (axis < from.spec.shape.size() && from.spec.shape[axis].open())
      throw GraphError(concat("slice: dimension ", axis, " of '", from.name, "' of shape ",
                              to_string(from.spec.shape), " is open, so that index ", index,
                              " may lie outside; declare '", from.spec.shape[axis].name(),
                              "' as a number, or slice another dimension"));
    if (axis >= from.spec.shape.size() || index < 0 || index >= from.spec.shape[axis])
      throw ShapeError(concat("slice: index ", index, " of dimension ", axis, " is outside '",
                              from.name, "' of shape ", to_string(from.spec.shape)));
    TensorSpec spec{.shape = {}, .dtype = from.spec.dtype};
    for (std::size_t d = 0; d < from.spec.shape.size(); ++d)
      if (d != axis) spec.shape.push_back(from.spec.shape[d]);
    Node const node = tensor(spec, unique(name.empty() ? "slice" : name));
    TensorNode& view = tensors_[node.id()];
    view.base = base.id();
    view.view_axis = axis;
    view.view_index = index;
    return node;
  }

  /// Later names begin with `prefix`, until the returned guard ends. Nests.
  class PrefixGuard {
   public:
    PrefixGuard(LogicalGraph& graph, std::string whole) : graph_(graph), before_(std::move(whole)) {
      graph_.prefix_.swap(before_);
    }
    ~PrefixGuard() { graph_.prefix_ = std::move(before_); }
    PrefixGuard(PrefixGuard const&) = delete;
    PrefixGuard& operator=(PrefixGuard const&) = delete;

   private:
    LogicalGraph& graph_;
    std::string before_;
  };
  [[nodiscard]] PrefixGuard prefix(std::string const& text) { return {*this, prefix_ + text}; }
  /// Later names have no prefix, until the returned guard ends: those that two graphs share.
  [[nodiscard]] PrefixGuard without_prefix() { return {*this, {}}; }
  /// The text that names begin with now.
  std::string const& prefix() const { return prefix_; }

  /// Tags the ops added from now on: "forward", "backward", "optimizer". Throws GraphError where
  /// the text has control characters or is no UTF-8.
  void set_phase(std::string const& phase) {
    detail::check_text(phase, "graph '", name_, "': the name of a phase");
    phase_ = phases_.place(phase);
  }
  std::string const& phase_name(std::uint32_t phase) const { return phases()[phase]; }
  std::vector<std::string> const& phases() const { return phases_.names(); }

  /// Declares that programs run phases of their choice, such as one several times before another:
  /// a plan without PlanOptions::by_phase is refused.
  void keep_phases_apart() { phases_apart_ = true; }
  bool phases_apart() const { return phases_apart_; }

  /// Gives a tensor another name. Throws GraphError where that is taken.
  void rename(Node const& node, std::string const& name) {
    (void)tensor_of(node, "named: the tensor");
    std::string full = prefix_ + name;
    TensorNode& tensor = tensors_[node.id()];
    if (tensor.name == full) return;
    check_free(full, name);
    note(node.id());
    by_name_.rename(tensor.name, full);
    tensor.name = std::move(full);
  }
  /// Keeps a tensor's value after a run. Throws GraphError on a view.
  void mark_output(Node const& node) {
    TensorNode const& tensor = tensor_of(node, "mark_output: the tensor");
    if (tensor.base != no_id)
      throw GraphError(concat("mark_output: '", tensor.name, "' is a view of '",
                              tensors_[tensor.base].name,
                              "' and has no storage to keep; mark that one, or a copy"));
    note(node.id());
    tensors_[node.id()].attributes.output = true;
  }

  /// A name that no tensor has yet: `stem`, or `stem` with a number.
  std::string unique(std::string const& stem) {
    std::string const full = prefix_ + stem;
    if (!by_name_.contains(full)) return stem;
    std::uint32_t* const known = counters_.find(full);
    std::uint32_t const before = known != nullptr ? *known : 0;
    std::uint32_t count = before;
    std::string name;
    do name = concat(stem, ".", ++count);
    while (by_name_.contains(prefix_ + name));
    if (marks_ != 0) counted_.push_back({full, before});
    (known != nullptr ? *known : counters_.add(full, 0)) = count;
    return name;
  }

  /// Adds an op. `given` are its operands in order; results at the end that are left out are
  /// created. Returns all of its visible operands. Throws ShapeError, TypeError, GraphError, all
  /// naming op and tensors.
  inline DynamicArray<std::uint32_t> const& add_op(OpInfo const& info, void const* attrs,
                                                   void (*gradient)(GradientBuilder&),
                                                   std::span<Node const> given);

  /// Returns change(), which adds to the graph. Where that throws, the graph is as it was.
  template <class Change>
  requires std::invocable<Change&>
  decltype(auto) all_or_nothing(Change&& change) {
    Mark const before(*this);
    try {
      return change();
    } catch (...) {
      roll_back(before);
      throw;
    }
  }

  /// Adds a copy of another graph, every name behind `prefix`; graph/embed.hh.
  inline Embedded embed(LogicalGraph const& other, std::string const& prefix,
                        std::vector<Connection> const& connections);

  /// The tensor of a name, or an empty Node.
  Node find(std::string const& name) {
    std::uint32_t const id = id_of(name);
    return id == no_id ? Node{} : Node{*this, id};
  }
  /// The tensor of a name; throws GraphError where there is none.
  Node at(std::string const& name) {
    if (Node const node = find(name)) return node;
    DynamicArray<std::string_view> names;
    for (TensorNode const& tensor : tensors_) names.push_back(tensor.name);
    throw GraphError(concat("graph '", name_, "': no tensor '", name, "' among its ",
                            tensors_.size(), did_you_mean(name, names)));
  }

  /// The number of the tensor of a name; no_id where there is none.
  std::uint32_t id_of(std::string_view name) const {
    std::uint32_t const* const id = by_name_.find(name);
    return id == nullptr ? no_id : *id;
  }

  std::size_t tensor_count() const { return tensors_.size(); }
  /// The epoch in which the tensor of a number came, which ends when tensors are taken back; no_id
  /// where there is none.
  std::uint32_t epoch_of(std::uint32_t id) const {
    return id < epochs_.size() ? epochs_[id] : no_id;
  }
  std::size_t op_count() const { return ops_.size(); }
  TensorNode const& tensor_at(std::uint32_t id) const { return tensors_[id]; }
  TensorNode& tensor_at(std::uint32_t id) { return tensors_[id]; }
  OpNode const& op_at(std::size_t id) const { return ops_[id]; }
  /// The ops that its nodes call, each once.
  DynamicArray<OpInfo const*> ops() const {
    DynamicArray<OpInfo const*> result;
    for (OpNode const& op : ops_)
      if (std::find(result.begin(), result.end(), op.info) == result.end())
        result.push_back(op.info);
    return result;
  }

  /// The tensor of a node. Throws GraphError, in which `what` is said to be an empty node, one of
  /// another graph, or one whose tensor is gone.
  TensorNode const& tensor_of(Node const& node, std::string_view what = "a tensor") const {
    if (!node) throw GraphError(concat("graph '", name_, "': ", what, " is ", Node::what_is_empty));
    if (node.is_gone())
      throw GraphError(concat("graph '", name_, "': ", what, " is ", Node::what_is_gone));
    if (&node.graph() != this)
      throw GraphError(concat("graph '", name_, "': ", what, " is '", node.name(),
                              "' of another graph, '", node.graph().name_, "'"));
    return tensors_[node.id()];
  }

  /// 2mnk over the products of the graph, attention at what its mask leaves. Throws GraphError
  /// where dimensions are open and `dims` are not given, PlanError where these do not fit.
  inline std::int64_t estimate_flops(std::vector<BoundDim> const& dims = {}) const;

 private:
  /// Throws GraphError where a tensor has the name, or it has control characters or is no UTF-8, or
  /// where `given`, which the caller wrote of it behind the prefix, is empty.
  void check_free(std::string const& full, std::string const& given) {
    if (given.empty())
      throw GraphError(concat("graph '", name_, "': a tensor without a name",
                              full.empty() ? "" : concat(" behind the prefix '", full, "'"),
                              "; give it one, such as unique(\"x\")"));
    detail::check_text(full, "graph '", name_, "': the name of a tensor");
    std::uint32_t const id = id_of(full);
    if (id == no_id) return;
    TensorSpec const& spec = tensors_[id].spec;
    throw GraphError(concat("graph '", name_, "': a tensor '", full, "' exists already, of shape ",
                            to_string(spec.shape), " in ", name_of(spec.dtype), "; use it by at(\"",
                            full, "\"), or give the new one another name, ", "such as unique(\"",
                            given, "\")"));
  }

  /// Requires that a tensor that outlives a run has a size of its own, whatever a plan binds.
  void check_open(std::string const& tensor, TensorSpec const& spec,
                  TensorAttributes const& attributes) const {
    if (attributes.persistent)
      throw GraphError(concat("graph '", name_, "': ", kind_of(attributes), " '", tensor,
                              "' has shape ", to_string(spec.shape),
                              ", but what is kept between runs has numbers ",
                              "alone; only inputs and results may be open"));
    if (!spec.file_shape.empty())
      throw GraphError(concat("graph '", name_, "': tensor '", tensor, "' has shape ",
                              to_string(spec.shape), ", and an open one has no file shape"));
  }

  /// Requires a file shape of as many elements as the tensor has.
  void check_file_shape(std::string const& tensor, TensorSpec const& spec) const {
    std::string why;
    try {
      if (element_count(spec.file_shape) == element_count(spec.shape)) return;
    } catch (ShapeError const& error) {
      why = concat(": ", error.what());
    }
    throw ShapeError(concat("graph '", name_, "': tensor '", tensor, "' has shape ",
                            to_string(spec.shape), " but file shape ", to_string(spec.file_shape),
                            why));
  }

  /// Extents are counts, their product fits, and every dimension has one name or none has.
  void check_shape(std::string const& tensor, TensorSpec const& spec) const {
    if (!is_dtype(spec.dtype))
      throw TypeError(concat("graph '", name_, "': tensor '", tensor, "' is of dtype ",
                             static_cast<int>(spec.dtype), ", which is none"));
    Shape known;
    for (Dim const& dim : spec.shape)
      if (!dim.open()) known.push_back(dim);
    try {
      (void)byte_count(known, size_of(spec.dtype));
    } catch (ShapeError const& error) {
      throw ShapeError(concat("graph '", name_, "': tensor '", tensor, "' has shape ",
                              to_string(spec.shape), ": ", error.what()));
    }
    detail::check_text(spec.axes, "graph '", name_, "': the axes of tensor '", tensor, "'");
    auto const names = axis_names(spec);
    for (std::size_t d = 0; d < names.size(); ++d)
      for (std::size_t other = d + 1; other < names.size() && !names[d].empty(); ++other)
        if (names[other] == names[d])
          throw ShapeError(concat("graph '", name_, "': tensor '", tensor, "' has axes \"",
                                  spec.axes, "\", which name '", names[d],
                                  "' twice; give each dimension a name of its own"));
    if (!names.empty() && names.size() != spec.shape.size())
      throw ShapeError(concat("graph '", name_, "': tensor '", tensor, "' has axes \"", spec.axes,
                              "\", ", names.size(), " names, but its shape ", to_string(spec.shape),
                              " has ", spec.shape.size(), " dimensions; a blank parts two names"));
  }

  /// The state that roll_back() restores.
  struct Mark {
    LogicalGraph& graph;
    std::size_t tensors, ops, phases, counted, noted;
    std::uint32_t phase;
    bool phases_apart;

    explicit Mark(LogicalGraph& of)
        : graph(of),
          tensors(of.tensors_.size()),
          ops(of.ops_.size()),
          phases(of.phases().size()),
          counted(of.counted_.size()),
          noted(of.noted_.size()),
          phase(of.phase_),
          phases_apart(of.phases_apart_) {
      ++of.marks_;
    }
    ~Mark() {
      if (--graph.marks_ != 0) return;
      graph.counted_.clear();
      graph.noted_.clear();
    }
    Mark(Mark const&) = delete;
    Mark& operator=(Mark const&) = delete;
  };
  /// Takes back all that was added and changed since. Throws nothing.
  void roll_back(Mark const& to) {
    while (ops_.size() > to.ops) ops_.pop_back();
    if (tensors_.size() > to.tensors) ++epoch_;
    for (; tensors_.size() > to.tensors; tensors_.pop_back(), epochs_.pop_back())
      by_name_.erase(tensors_.back().name);
    for (; noted_.size() > to.noted; noted_.pop_back()) {
      Noted& last = noted_.back();
      if (last.id >= tensors_.size()) continue;
      TensorNode& tensor = tensors_[last.id];
      if (tensor.name != last.name) by_name_.rename(tensor.name, std::move(last.key));
      tensor.name.swap(last.name);
      tensor.attributes.output = last.output;
    }
    phases_.cut(to.phases);
    phase_ = to.phase;
    phases_apart_ = to.phases_apart;
    for (; counted_.size() > to.counted; counted_.pop_back()) {
      Counted const& last = counted_.back();
      std::uint32_t* const count = counters_.find(last.stem);
      if (last.before == 0)
        counters_.erase(last.stem);
      else if (count != nullptr)
        *count = last.before;
    }
  }
  /// A stem of unique() and its number before a call of that; 0 where it had none.
  struct Counted {
    std::string stem;
    std::uint32_t before;
  };

  /// A tensor as it was before a change, and its name for the table.
  struct Noted {
    std::uint32_t id;
    std::string name, key;
    bool output;
  };
  void note(std::uint32_t id) {
    TensorNode const& tensor = tensors_[id];
    if (marks_ != 0) noted_.push_back({id, tensor.name, tensor.name, tensor.attributes.output});
  }

  std::string name_;
  Numerics numerics_;
  std::deque<TensorNode> tensors_;
  DynamicArray<std::uint32_t> epochs_;  // of each tensor: nodes of one that is gone know another
  std::uint32_t epoch_ = 0;
  std::deque<OpNode> ops_;
  NameTable by_name_;
  NameTable counters_;
  DynamicArray<Counted> counted_;  // since the first of the marks that are there
  DynamicArray<Noted> noted_;      // since then
  std::size_t marks_ = 0;
  std::string prefix_;
  NameList phases_{"forward"};
  std::uint32_t phase_ = 0;
  bool phases_apart_ = false;
};

inline Node::Node(LogicalGraph& graph, std::uint32_t id)
    : graph_(&graph), id_(id), epoch_(graph.epoch_of(id)) {}
inline bool Node::is_gone() const {
  return graph_ != nullptr && (epoch_ == no_id || graph_->epoch_of(id_) != epoch_);
}
inline LogicalGraph* Node::kept(char const* call) const {
  if (LogicalGraph* const graph = checked(call); !is_gone()) return graph;
  throw GraphError(concat("node: ", call, "() of ", what_is_gone));
}
inline std::uint32_t Node::id() const { return (void)kept("id"), id_; }
inline Dims const& Node::shape() const { return kept("shape")->tensor_at(id_).spec.shape; }
inline DType Node::dtype() const { return kept("dtype")->tensor_at(id_).spec.dtype; }
inline std::string const& Node::name() const { return kept("name")->tensor_at(id_).name; }
inline Node Node::named(std::string const& name) const {
  checked("named")->rename(*this, name);
  return *this;
}
inline Node Node::mark_output() const {
  checked("mark_output")->mark_output(*this);
  return *this;
}

}  // namespace nntile
