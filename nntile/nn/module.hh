#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// ParameterList: parameters of modules, with their initial values and weight decay.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/random.hh"
#include "nntile/graph/apply.hh"
#include "nntile/ops/cast.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/randn.hh"

namespace nntile::nn {

/// A parameter, its initial distribution N(mean, stddev), and whether weight decay applies to it.
struct Parameter {
  Node node;
  double mean = 0;
  double stddev = 0;
  bool decays = false;
};

/// The parameters of a model, in the order in which its modules declared them.
class ParameterList {
 public:
  explicit ParameterList(LogicalGraph& graph) : graph_(&graph) {}
  ParameterList(ParameterList const&) = default;  // a move copies, and leaves no empty list
  ParameterList& operator=(ParameterList const&) = default;

  LogicalGraph& graph() const { return *graph_; }
  /// Returns change(), which declares parameters and adds to the graph, as a module's constructor
  /// does. If that throws, the list and its graph are as they were.
  template <std::invocable Change> decltype(auto) all_or_nothing(Change&& change) {
    std::size_t const before = parameters_.size();
    try {
      return graph_->all_or_nothing(change);
    } catch (...) {
      while (parameters_.size() > before) parameters_.pop_back();
      throw;
    }
  }
  /// Throws ValueError for a mean or deviation out of range, and what LogicalGraph::parameter
  /// throws.
  Node add(TensorSpec spec, std::string const& name, double mean, double stddev, bool decays) {
    if (!std::isfinite(mean) || !std::isfinite(stddev) || stddev < 0)
      throw ValueError(concat("parameter '", name, "': a mean of ", mean, " and a deviation of ",
                              stddev, "; both are finite, and the latter is 0 or more"));
    return all_or_nothing([&] {
      parameters_.push_back({graph_->parameter(std::move(spec), name), mean, stddev, decays});
      return parameters_.back().node;
    });
  }
  std::vector<Parameter> const& all() const { return parameters_; }
  /// Number of trained values, or the largest number where that is larger.
  Index count() const {
    Index sum = 0;
    for (auto const& parameter : parameters_)
      add_saturated(sum, element_count(parameter.node.shape()));
    return sum;
  }

 private:
  LogicalGraph* graph_;
  std::vector<Parameter> parameters_;
};

/// Throws GraphError where a module has no name, with which those of its parameters begin.
inline void check_name(char const* module, std::string const& name) {
  if (name.empty())
    throw GraphError(concat(module, ": its name is empty, and its parameters are called '<name>.",
                            "weight' and the like; give it one"));
}

/// A parameter as a call in `dtype` reads it: itself, or a cast of its own, `<parameter>.<dtype>`,
/// under the graph's prefix. The gradient then goes through the cast, so that what several calls
/// give is added up in the parameter's dtype.
inline Node in_dtype(Node const& parameter, DType dtype) {
  if (parameter.dtype() == dtype) return parameter;
  LogicalGraph& graph = parameter.graph();
  std::string name = concat(parameter.name(), ".", name_of(dtype));
  if (name.starts_with(graph.prefix())) name.erase(0, graph.prefix().size());
  TensorSpec const& spec = graph.tensor_of(parameter).spec;
  return graph.all_or_nothing([&] {
    return cast(parameter, graph.tensor({.shape = spec.shape, .dtype = dtype, .axes = spec.axes},
                                        graph.unique(name)));
  });
}

/// A tensor that is kept between runs, in another graph on the same store as well: what that has
/// under the full name, or declares, whatever its prefix. Throws GraphError for one that is not
/// kept, and where the other graph has another under the name.
inline Node shared(LogicalGraph& graph, Node const& from, char const* call) {
  if (&from.graph() == &graph) return from;
  TensorNode const& declared = from.graph().tensor_of(from);
  if (!declared.attributes.persistent)
    throw GraphError(concat(call, ": graph '", from.graph().name(), "' does not keep '",
                            from.name(), "' for graph '", graph.name(),
                            "'; give add_gradients .persistent = true"));
  auto const full_names = graph.without_prefix();
  Node const known = graph.find(declared.name);
  if (!known) return graph.tensor(declared.spec, declared.name, declared.attributes);
  TensorNode const& here = graph.tensor_of(known);
  auto const text = [](TensorNode const& tensor) {
    return concat(kind_of(tensor.attributes), " of shape ", to_string(tensor.spec.shape), " in ",
                  name_of(tensor.spec.dtype), " in graph '");
  };
  if (here.spec.shape != declared.spec.shape || here.spec.dtype != declared.spec.dtype ||
      here.attributes.persistent != declared.attributes.persistent ||
      here.attributes.external != declared.attributes.external)
    throw GraphError(concat(call, ": '", declared.name, "' is ", text(declared),
                            from.graph().name(), "', but ", text(here), graph.name(),
                            "', and both are to be one tensor; declare them alike, or give one of ",
                            "them another name"));
  return known;
}

/// Fills `init` with ops that give every parameter of the list its first value: a draw that depends
/// on the seed, the parameter's name and the element alone, never on tiles. Plan and run it once on
/// the store of the model. Where it throws, as GraphError for a name that is taken, `init` is as it
/// was.
inline void initialize(LogicalGraph& init, ParameterList const& parameters, std::uint64_t seed) {
  auto const full_names = init.without_prefix();
  init.all_or_nothing([&] {
    for (auto const& parameter : parameters.all()) {
      TensorNode const& declared = parameters.graph().tensor_of(parameter.node);
      Node const node = init.parameter(declared.spec, declared.name);
      if (parameter.stddev == 0) {
        ops::fill({.value = parameter.mean}, node);
      } else {
        randn({.seed = seed,
               .name = hash_name(declared.name),
               .mean = parameter.mean,
               .stddev = parameter.stddev},
              node);
      }
    }
  });
}

}  // namespace nntile::nn
