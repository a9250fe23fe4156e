#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// LogicalGraph::embed: a copy of one graph within another.

#include <string>
#include <unordered_map>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/add_op.hh"

namespace nntile {

/// A tensor of the embedded graph, and the node of the embedding one that takes its place.
struct Connection {
  std::string tensor;
  Node node;
};

/// The tensors of an embedded graph as nodes of the embedding one.
class Embedded {
 public:
  /// The copy of a tensor, or the node that takes its place. Throws GraphError where the node is of
  /// another graph, or was added after embedding.
  Node operator[](Node const& of) const {
    if (!of || &of.graph() != from_ || of.id() >= nodes_.size())
      throw GraphError(concat("embed: ", of ? concat("'", of.name(), "'") : "an empty Node",
                              " is no tensor of the graph that was embedded"));
    return nodes_[of.id()];
  }
  /// The same by the name that the tensor has in the embedded graph. Throws GraphError.
  Node at(std::string const& name) const { return nodes_[id(name, "embed: the embedded graph")]; }
  /// Its outputs, as [] gives them, in the order of their declaration.
  std::vector<Node> const& outputs() const { return outputs_; }

 private:
  friend class LogicalGraph;
  explicit Embedded(LogicalGraph const& from) : from_(&from), nodes_(from.tensor_count()) {
    for (std::uint32_t id = 0; id < nodes_.size(); ++id) ids_.emplace(from.tensor_at(id).name, id);
  }
  std::uint32_t id(std::string const& name, std::string const& graph) const {
    if (auto const found = ids_.find(name); found != ids_.end()) return found->second;
    DynamicArray<std::string_view> names;
    for (auto const& [known, id] : ids_) names.push_back(known);
    throw GraphError(concat(graph, " has no tensor '", name, "'", did_you_mean(name, names)));
  }

  LogicalGraph const* from_;
  std::vector<Node> nodes_;  // by the embedded graph's ids
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<Node> outputs_;
};

namespace detail {

/// The embedding graph's dimension for each open one of the embedded graph, by the tensors
/// connected.
class JoinedDims {
 public:
  /// Whether both may be one, each name standing for one dimension throughout.
  bool join(Dims const& inner, Dims const& outer) {
    if (inner.size() != outer.size()) return false;
    for (std::size_t d = 0; d < inner.size(); ++d)
      if (Dim const joined =
              inner[d].open()
                  ? dims_.try_emplace(std::string(inner[d].name()), outer[d]).first->second
                  : inner[d];
          !(joined == outer[d]))
        return false;
    return true;
  }
  /// A name that nothing was connected to stays open, the same in both.
  Dims operator()(Dims dims) const {
    for (Dim& dim : dims)
      if (dim.open())
        if (auto const at = dims_.find(std::string(dim.name())); at != dims_.end())
          dim = at->second;
    return dims;
  }

 private:
  std::unordered_map<std::string, Dim> dims_;
};

}  // namespace detail

/// Adds a copy of the tensors and ops of `other`: names begin with `prefix`; dtypes, attributes,
/// views and phases, in their order, are kept. A connection puts a node of this graph in the place
/// of an input, parameter, constant or state of the same dtype and shape; an open dimension of
/// `other` is then what it is in that node. What is not connected stays what it is, under its new
/// name. Throws GraphError (a graph in itself, other numerics, a name that is unknown, taken or
/// connected twice, one of a result or a view), ShapeError, TypeError, and then leaves the graph as
/// it was. Cost: that of adding the ops.
inline Embedded LogicalGraph::embed(LogicalGraph const& other, std::string const& prefix,
                                    std::vector<Connection> const& connections) {
  std::string const here =
      concat("graph '", name_, "': embedding graph '", other.name_, "' as '", prefix, "': ");
  if (&other == this) throw GraphError(here + "a graph is not embedded in itself; declare it anew");
  if (!(other.numerics_ == numerics_))
    throw GraphError(here + "its numerics are others, and bits belong to a graph as a whole");
  Embedded result(other);
  detail::JoinedDims dims;
  for (Connection const& connection : connections) {
    std::uint32_t const id = result.id(connection.tensor, here + "it");
    TensorNode const& tensor = other.tensors_[id];
    std::string const what = concat(here, "'", tensor.name, "' ");
    TensorSpec const& given =
        tensor_of(connection.node, concat("embed: the node for '", tensor.name, "'")).spec;
    if (result.nodes_[id]) throw GraphError(what + "is connected twice");
    if (!tensor.attributes.external && !tensor.attributes.persistent)
      throw GraphError(concat(what, tensor.base != no_id ? "is a view" : "is a result of its ops",
                              "; connect inputs, parameters, constants or states"));
    std::string const by = concat(" but '", connection.node.name(), "' ");
    if (given.dtype != tensor.spec.dtype)
      throw TypeError(
          concat(what, "is ", name_of(tensor.spec.dtype), by, "is ", name_of(given.dtype)));
    if (!dims.join(tensor.spec.shape, given.shape))
      throw ShapeError(concat(what, "has shape ", to_string(dims(tensor.spec.shape)), by, "has ",
                              to_string(given.shape)));
    result.nodes_[id] = connection.node;
  }
  std::uint32_t const before = phase_;
  all_or_nothing([&] {
    auto const guard = this->prefix(prefix);
    phases_apart_ |= other.phases_apart_;
    for (std::uint32_t id = 0; id < other.tensors_.size(); ++id) {
      TensorNode const& tensor = other.tensors_[id];
      Node& node = result.nodes_[id];
      if (!node && tensor.base == no_id) {
        TensorSpec spec = tensor.spec;
        spec.shape = dims(spec.shape);
        node = this->tensor(std::move(spec), tensor.name, tensor.attributes);
      } else if (!node) {
        node = slice(result.nodes_[tensor.base], tensor.view_axis, tensor.view_index, tensor.name);
        rename(node, tensor.name);  // throws where slice() had to choose another
      }
      if (tensor.attributes.output) result.outputs_.push_back(node);
    }
    for (std::string const& phase : other.phases()) set_phase(phase);  // in their order
    for (OpNode const& op : other.ops_) {
      std::vector<Node> operands;
      for (std::uint32_t const id : op.operands) operands.push_back(result.nodes_[id]);
      set_phase(other.phase_name(op.phase));
      (void)add_op(*op.info, op.attrs.data(), op.gradient, operands);
    }
  });
  phase_ = before;
  return result;
}

}  // namespace nntile
