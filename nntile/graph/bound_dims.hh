#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// BoundDims: the numbers that planning gives the open dimensions of a graph.

#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/name_table.hh"
#include "nntile/graph/spelling.hh"

namespace nntile {

/// The names of a graph's open dimensions, in the order in which tensors have them.
inline DynamicArray<std::string_view> open_dims(LogicalGraph const& graph) {
  DynamicArray<std::string_view> names;
  NameTable known;
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t)
    for (Dim const& dim : graph.tensor_at(t).spec.shape)
      if (dim.open() && !known.contains(dim.name())) {
        known.add(dim.name(), t);
        names.push_back(dim.name());
      }
  return names;
}

/// Shapes of a graph's tensors in numbers.
class BoundDims {
 public:
  /// Throws PlanError where a name of the graph has no number, a name is given that it lacks, or
  /// twice, or a number that is none of elements, or too large. Cost: dimensions of the graph.
  BoundDims(LogicalGraph const& graph, std::vector<BoundDim> const& given)
      : graph_(graph), given_(given.data()) {
    DynamicArray<std::string_view> const names = open_dims(graph);
    NameTable known;
    for (std::string_view const name : names) known.add(name, 0);
    for (BoundDim const& bound : given) {
      check(bound, names, known);
      numbers_.add(bound.name, static_cast<std::uint32_t>(&bound - given.data()));
    }
    for (std::string_view const name : names)
      if (find(name) == nullptr)
        throw PlanError(concat(plan(), "dimension '", name, "' is open", missing(names)));
    if (!names.empty()) check_sizes();
  }

  Index operator()(Dim const& dim) const {
    return dim.open() ? find(dim.name())->extent : Index{dim};
  }
  Shape operator()(Dims const& dims) const {
    Shape shape;
    for (Dim const& dim : dims) shape.push_back((*this)(dim));
    return shape;
  }
  AxisTable axes_of(OpNode const& op) const {
    AxisTable axes = op.axes;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      Dims const& dims = graph_.tensor_at(op.operands[o]).spec.shape;
      for (std::size_t d = 0; d < dims.size(); ++d)
        axes.axes[op.axes.operands[o][d]].extent = (*this)(dims[d]);
    }
    return axes;
  }
  Shape shape_of(std::uint32_t tensor) const {
    return (*this)(graph_.tensor_at(tensor).spec.shape);
  }

 private:
  std::string plan() const { return concat("plan '", graph_.name(), "': "); }

  BoundDim const* find(std::string_view name) const {
    std::uint32_t const* const number = numbers_.find(name);
    return number == nullptr ? nullptr : &given_[*number];
  }

  void check(BoundDim const& bound, DynamicArray<std::string_view> const& names,
             NameTable const& known) const {
    if (BoundDim const* const first = find(bound.name); first != nullptr)
      throw PlanError(concat(plan(), "dimension '", bound.name, "' is bound twice, to ",
                             first->extent, " and to ", bound.extent, "; list it once"));
    if (!known.contains(bound.name)) {
      std::string hint = did_you_mean(bound.name, names);
      if (names.empty()) hint = "; all of the graph's are numbers";
      if (hint.empty())
        for (std::string_view const name : names)
          hint += concat(hint.empty() ? "; it has '" : ", '", name, "'");
      throw PlanError(
          concat(plan(), "no dimension '", bound.name, "' to bind to ", bound.extent, hint));
    }
    if (bound.extent < 0)
      throw PlanError(concat(plan(), "dimension '", bound.name, "' is bound to ", bound.extent,
                             "; 0 or more elements are needed"));
  }

  /// "; bind it: PlanOptions::dims = {{"seq", 512}, {"batch", 8}}": with what is given.
  std::string missing(DynamicArray<std::string_view> const& names) const {
    std::string text;
    for (std::string_view const name : names) {
      BoundDim const* const bound = find(name);
      text += concat(text.empty() ? "{" : ", {", '"', name, "\", ",
                     bound == nullptr ? std::string("...") : concat(bound->extent), '}');
    }
    return concat("; bind it: PlanOptions::dims = {", text, "}");
  }

  void check_sizes() const {
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      TensorNode const& tensor = graph_.tensor_at(t);
      Shape const shape = shape_of(t);
      try {
        (void)byte_count(shape, size_of(tensor.spec.dtype));
      } catch (ShapeError const& error) {
        throw PlanError(concat(plan(), "'", tensor.name, "' of shape ",
                               to_string(tensor.spec.shape), " is bound to ", to_string(shape),
                               ": ", error.what()));
      }
    }
  }

  LogicalGraph const& graph_;
  BoundDim const* given_;
  NameTable numbers_;  // of those given
};

}  // namespace nntile
