#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Gradients by tensor and version, while a graph is walked from its end.

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nntile/graph/gradient_builder.hh"
#include "nntile/graph/versions.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/fill.hh"

namespace nntile {

/// Settings of add_gradients.
struct GradientOptions {
  /// Parameter gradients are kept between runs, for optimizers in another graph.
  bool persistent = false;
  /// Adds to the persistent gradients instead of overwriting them: later micro-batches of one step.
  /// Needs `persistent`. The first one's graph overwrites, or ops::fill sets them to 0 before it.
  bool accumulate = false;
  std::string phase = "backward";
};

/// The gradients that add_gradients made, by tensor. Where ops overwrite it, a tensor that has a
/// value before a run has the gradient by that value, another by the first on which the loss
/// depends.
class Gradients {
 public:
  Gradients() = default;
  Gradients(Gradients const&) = default;  // a move copies, and leaves no object without gradients
  Gradients& operator=(Gradients const&) = default;
  /// The gradient of a tensor, or an empty Node where the loss does not depend on it. Throws
  /// GraphError for a tensor of another graph, and for one without `requires_grad` whose gradient
  /// became part of another tensor's.
  Node find(Node const& of) const {
    if (of && graph_ == nullptr)
      throw GraphError(concat("gradients: those of '", of.name(), "' are asked of an object that ",
                              "has none; take one that add_gradients returned"));
    if (!of || &of.graph() != graph_)
      throw GraphError(of ? concat("gradients: '", of.name(), "' is a tensor of another graph")
                          : std::string("gradients: an empty Node was passed"));
    auto const at = nodes_.find(of.id());
    if (at == nodes_.end()) {
      TensorNode const& node = graph_->tensor_at(of.id());
      if (node.base != no_id && nodes_.contains(node.base))
        throw GraphError(concat("gradients: none was made of the view '", node.name,
                                "'; ask for that of '", graph_->tensor_at(node.base).name, "'"));
      return {};
    }
    if (at->second) return at->second;
    TensorNode const& node = graph_->tensor_at(of.id());
    bool const view = node.base != no_id;
    throw GraphError(concat("gradients: that of '", of.name(),
                            "' became part of another tensor's; ", "give '",
                            view ? graph_->tensor_at(node.base).name : of.name(),
                            "' requires_grad to keep it", view ? ", and slice what it has" : ""));
  }

 private:
  friend class GradientValues;
  LogicalGraph const* graph_ = nullptr;
  std::unordered_map<std::uint32_t, Node> nodes_;  // empty where it was not kept
};

/// The gradients of the versions that the tensors have at one op, as the ops are walked from last
/// to first. Taking a result's gradient leaves the version before it with zero on the part that the
/// op writes; a tensor of zeros is filled at its first read.
class GradientValues {
 public:
  GradientValues(LogicalGraph& graph, GradientOptions const& options,
                 TensorVersions const& versions)
      : graph_(graph), options_(options), versions_(versions) {}

  /// Whether the loss depends on the current version of a tensor.
  bool reached(std::uint32_t id) const {
    TensorNode const& node = graph_.tensor_at(id);
    auto const at = entries_.find(detail::root_of(node, id));
    if (at == entries_.end()) return false;
    Entry const& entry = at->second;
    if (node.base != no_id && entry.partial() && entry.axis == node.view_axis)
      return entry.written[static_cast<std::size_t>(node.view_index)];
    return entry.any();
  }

  /// The finished gradient of a reached tensor that an op writes; the version before begins with
  /// none. `aliased`: the op also adds to the gradient of that version, so that a view's is copied.
  Node take(std::uint32_t id, bool aliased) {
    TensorNode const& node = graph_.tensor_at(id);
    std::uint32_t const root = detail::root_of(node, id);
    auto const at = entries_.find(root);
    Entry& entry = at->second;
    if (node.base == no_id) {
      complete(entry, root);
      Node const gradient = entry.node;
      record(id, gradient, entry);
      entries_.erase(at);
      return gradient;
    }
    settle(entry, node);
    Node gradient = slice_of(entry, id);
    record(id, gradient, entry);
    if (aliased) {
      Node const copied = create(id, false);
      op<ops::Copy>({}, gradient, copied);
      gradient = copied;
    }
    clear(entry, id);
    return gradient;
  }

  /// A constant overwrites the tensor: the version before begins with no gradient.
  void drop(std::uint32_t id) {
    TensorNode const& node = graph_.tensor_at(id);
    auto const at = entries_.find(detail::root_of(node, id));
    if (at == entries_.end()) return;
    if (node.base == no_id) {
      if (node.attributes.requires_grad) complete(at->second, id);
      record(id, at->second.node, at->second);
      release(id, at->second.node);
      entries_.erase(at);
      return;
    }
    if (!reached(id)) return;
    settle(at->second, node);
    clear(at->second, id);
  }

  /// Drops the use by the taken gradient of `id`: a tensor without other users may then be added to
  /// in place.
  void release(std::uint32_t id, Node const& gradient) {
    auto const at = users_.find(gradient.id());
    if (at != users_.end() && !graph_.tensor_at(id).attributes.requires_grad) --at->second;
  }

  /// The tensor to which the gradient of a tensor's version at `op` is added.
  GradientTarget target(std::uint32_t id, std::size_t op) {
    TensorNode const& node = graph_.tensor_at(id);
    std::uint32_t const root = detail::root_of(node, id);
    auto at = entries_.find(root);
    if (at == entries_.end()) {
      bool const first = versions_.first(root, op);
      TensorNode const& whole = graph_.tensor_at(root);
      Entry entry{create(root, first), 0, {}};
      ++users_[entry.node.id()];
      bool const adds = options_.accumulate && kept(whole) && first;
      if (!adds) entry.leave_none(node, whole.spec.shape);
      at = entries_.emplace(root, std::move(entry)).first;
      if (node.base == no_id) return {at->second.node, adds ? 1.0 : 0.0};
    }
    Entry& entry = at->second;
    part(entry, root);
    ++changes_[entry.node.id()];
    if (node.base == no_id) {
      bool const there = entry.any();
      if (there) complete(entry, root);
      entry.written.clear();
      return {entry.node, there ? 1.0 : 0.0};
    }
    align(entry, root, node.view_axis);
    bool const there = entry.set(node);
    return {slice_of(entry, id), there ? 1.0 : 0.0};
  }

  /// Makes `gradient` that of a tensor too, where neither needs one of its own; false otherwise.
  bool share(std::uint32_t id, Node const& gradient) {
    TensorNode const& node = graph_.tensor_at(id);
    bool const own = node.base != no_id || node.attributes.persistent || entries_.contains(id) ||
                     !users_.contains(gradient.id());
    if (own) return false;
    entries_.emplace(id, Entry{gradient, 0, {}});
    ++users_[gradient.id()];
    return true;
  }

  /// The gradient of a result on which the loss does not depend.
  Node zeros(std::uint32_t id) {
    Node const zero = create(id, false);
    op<ops::Fill>({.value = 0}, zero);
    ++users_[zero.id()];
    return zero;
  }

  /// Ends the walk: what is left is of first versions.
  Gradients finish() {
    Gradients result;
    result.graph_ = &graph_;
    for (std::uint32_t id = 0; id < graph_.tensor_count(); ++id) {
      std::uint32_t const root = detail::root_of(graph_.tensor_at(id), id);
      if (detail::given(graph_.tensor_at(root))) found_.erase(id);
      auto const at = entries_.find(id);
      if (at == entries_.end() || !at->second.any() || found_.contains(id)) continue;
      complete(at->second, id);
      keep(id, at->second);
      record(id, at->second.node, at->second);
    }
    for (auto const& [id, slice] : slices_) {
      auto const at = found_.find(graph_.tensor_at(id).base);
      if (at != found_.end() && at->second.whole == slice.whole && !found_.contains(id))
        result.nodes_.emplace(id, valid(at->second) ? slice.node : Node{});
    }
    for (auto const& [id, found] : found_) {
      result.nodes_.emplace(id, valid(found) ? found.node : Node{});
    }
    return result;
  }

 private:
  /// The gradient of a whole tensor, some of it perhaps not yet there.
  struct Entry {
    Node node;
    std::size_t axis;           // along which `written` counts
    std::vector<bool> written;  // empty: all of it is there

    bool partial() const { return !written.empty(); }
    bool any() const {
      for (bool const there : written)
        if (there) return true;
      return written.empty();
    }
    /// Nothing is there: counted along the view's axis, if it is a view.
    void leave_none(TensorNode const& view, Dims const& whole) {
      if (view.base == no_id) return;
      axis = view.view_axis;
      written.assign(static_cast<std::size_t>(whole[axis]), false);
    }
    /// Notes that the view's part is there; whether it was before.
    bool set(TensorNode const& view) {
      if (!partial()) return true;
      bool const before = written[static_cast<std::size_t>(view.view_index)];
      written[static_cast<std::size_t>(view.view_index)] = true;
      for (bool const there : written)
        if (!there) return before;
      written.clear();
      return before;
    }
  };
  /// A gradient as it was when it was finished: valid while nothing is added to it.
  struct Found {
    Node node;
    std::uint32_t whole;
    std::uint32_t changes;
  };
  struct Slice {
    Node node;
    std::uint32_t whole;
  };

  bool kept(TensorNode const& node) const {
    return node.attributes.persistent && options_.persistent;
  }

  /// A tensor for the gradient of `id`; the first version's is kept between runs where wanted.
  Node create(std::uint32_t id, bool first) {
    TensorNode const& of = graph_.tensor_at(id);
    if (!kept(of)) return graph_.tensor(of.spec, graph_.unique(of.name + ".grad"));
    if (first) {
      std::string const name = of.name + ".grad";
      if (graph_.find(name))
        throw GraphError(concat("add_gradients: graph '", graph_.name(), "' has '", name,
                                "' already, the name of the gradient of '", of.name,
                                "' that is kept; differentiate the sum of the losses at once, or ",
                                "without .persistent"));
      return graph_.tensor(of.spec, name, {.persistent = true});
    }
    return graph_.tensor(of.spec, graph_.unique(of.name + ".later.grad"));
  }

  /// Fills the parts that nothing has reached with zero, in a tensor of its own.
  void complete(Entry& entry, std::uint32_t id) {
    if (!entry.partial()) return;
    part(entry, id);
    ++changes_[entry.node.id()];
    for (std::size_t i = 0; i < entry.written.size(); ++i)
      if (!entry.written[i])
        op<ops::Fill>({.value = 0}, graph_.slice(entry.node, entry.axis, static_cast<Index>(i),
                                                 entry.node.name() + ".slice"));
    entry.written.clear();
  }

  /// Lets an entry that is complete, or counts along another dimension, count along this one.
  void align(Entry& entry, std::uint32_t id, std::size_t axis) {
    if (entry.partial() && entry.axis != axis) complete(entry, id);
    entry.axis = axis;
  }

  /// Has an entry count along the dimension of a view that an op writes, and notes it for find(),
  /// which gives it where it is asked for: nothing is written over it from here on then.
  void settle(Entry& entry, TensorNode const& view) {
    TensorNode const& whole = graph_.tensor_at(view.base);
    bool const asked = whole.attributes.requires_grad && !detail::given(whole);
    if (asked) complete(entry, view.base);
    align(entry, view.base, view.view_axis);
    if (asked) ++users_[entry.node.id()];
    if (!entry.partial() || !found_.contains(view.base)) record(view.base, entry.node, entry);
  }

  /// Forgets the gradient of a view whose dimension the entry counts along.
  void clear(Entry& entry, std::uint32_t id) {
    TensorNode const& view = graph_.tensor_at(id);
    Dims const& whole = graph_.tensor_at(view.base).spec.shape;
    if (!entry.partial()) entry.written.assign(static_cast<std::size_t>(whole[entry.axis]), true);
    entry.written[static_cast<std::size_t>(view.view_index)] = false;
  }

  /// Gives the entry a tensor of its own where another's gradient, still to be read, is the same.
  void part(Entry& entry, std::uint32_t id) {
    if (users_[entry.node.id()] <= 1) return;
    Node const own = create(id, false);
    if (entry.any()) op<ops::Copy>({}, entry.node, own);
    --users_[entry.node.id()];
    ++users_[own.id()];
    entry.node = own;
  }

  /// Gives a first version, whose gradient was begun as that of a later one, a gradient that is
  /// kept between runs, where one is.
  void keep(std::uint32_t id, Entry& entry) {
    if (!kept(graph_.tensor_at(id)) || graph_.tensor_at(entry.node.id()).attributes.persistent)
      return;
    Node const own = create(id, true);
    if (options_.accumulate)
      op<ops::Add>({.alpha = 1, .beta = 1}, entry.node, own, own);
    else
      op<ops::Copy>({}, entry.node, own);
    entry.node = own;
  }

  Node slice_of(Entry const& entry, std::uint32_t id) {
    auto const at = slices_.find(id);
    if (at != slices_.end() && at->second.whole == entry.node.id()) return at->second.node;
    TensorNode const& view = graph_.tensor_at(id);
    Node const slice =
        graph_.slice(entry.node, view.view_axis, view.view_index, view.name + ".grad");
    slices_.insert_or_assign(id, Slice{slice, entry.node.id()});
    return slice;
  }

  void record(std::uint32_t id, Node const& gradient, Entry const& entry) {
    std::uint32_t const whole = entry.node.id();
    bool const finished = gradient.id() != whole || !entry.partial();
    found_.insert_or_assign(id, Found{gradient, whole, finished ? changes_[whole] : ~0u});
  }
  bool valid(Found const& found) { return found.changes == changes_[found.whole]; }

  template <OpStruct Op, class... Nodes>
  void op(typename Op::Attrs const& attributes, Nodes const&... nodes) {
    Node const given[] = {nodes...};
    graph_.add_op(op_info<Op>, &attributes, detail::gradient_of<Op>(), given);
  }

  LogicalGraph& graph_;
  GradientOptions const& options_;
  TensorVersions const& versions_;
  std::unordered_map<std::uint32_t, Entry> entries_;          // by root
  std::unordered_map<std::uint32_t, int> users_;              // of a gradient, still to read it
  std::unordered_map<std::uint32_t, std::uint32_t> changes_;  // of a gradient
  std::unordered_map<std::uint32_t, Slice> slices_;           // by view
  std::unordered_map<std::uint32_t, Found> found_;            // by tensor
};

}  // namespace nntile
