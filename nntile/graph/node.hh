#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Node: a tensor of a graph, as programs hold it. Defined with the graph, logical.hh.

#include <cstdint>
#include <string>

#include "nntile/core/dims.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/error.hh"

namespace nntile {

class LogicalGraph;

/// A tensor of a graph: a copyable value, valid while the graph lives. An empty one, as find() of
/// an unknown name gives, answers nothing but `bool`; all else throws GraphError. So does one whose
/// tensor all_or_nothing() took back.
class Node {
 public:
  Node() = default;
  inline Node(LogicalGraph& graph, std::uint32_t id);

  LogicalGraph& graph() const { return *checked("graph"); }
  inline std::uint32_t id() const;
  explicit operator bool() const { return graph_ != nullptr; }
  /// Whether its graph has no such tensor, or took it back.
  inline bool is_gone() const;
  /// Its dimensions, open ones as names; a Shape where all are numbers.
  inline Dims const& shape() const;
  inline DType dtype() const;
  inline std::string const& name() const;
  /// Keeps the tensor's value after a run, for get_output. Throws GraphError on a view.
  inline Node mark_output() const;
  /// Names a result where it is made: gelutanh(linear(x)).named("z"). Throws GraphError where the
  /// graph has a tensor of that name.
  inline Node named(std::string const& name) const;

  static constexpr char const* what_is_empty =
      "an empty Node; find() gives one where the graph has no tensor of that name, at() says so";
  static constexpr char const* what_is_gone =
      "a Node of a tensor that its graph took back with a change that threw; make it anew";

 private:
  /// The graph that has its tensor. Throws GraphError.
  inline LogicalGraph* kept(char const* call) const;
  LogicalGraph* checked(char const* call) const {
    if (graph_ == nullptr) throw GraphError(concat("node: ", call, "() of ", what_is_empty));
    return graph_;
  }

  LogicalGraph* graph_ = nullptr;
  std::uint32_t id_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace nntile
