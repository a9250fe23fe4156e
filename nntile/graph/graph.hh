#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Graph: a planned graph with its storage on a runtime, whose tensors go by their nodes.

#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"

namespace nntile {

namespace detail {

/// Elements of a braced list that fits no options; its name is what g++ says of such a call.
struct an_option_is_misspelt_or_of_another_type {
  template <class T> an_option_is_misspelt_or_of_another_type(T const&);
};

}  // namespace detail

/// A kept tensor of a Graph, to be written and read column-major: whole, or what this rank holds of
/// it. Valid while the Graph lives. Each call waits for that tensor's tasks alone. All throw
/// TypeError where T is not the tensor's dtype, ShapeError where the number of values is not its
/// size.
template <Runtime R> class GraphTensor {
 public:
  GraphTensor(TensorStore<R>& store, typename TensorStore<R>::Stored& stored)
      : store_(&store), stored_(&stored) {}
  GraphTensor(GraphTensor const&) = default;
  void operator=(GraphTensor const&) {
    static_assert(sizeof(R) == 0,
                  "run[y] = run[x] copies no values: write run[y] = run[x].read<T>(), T being the "
                  "C++ type of the tensors' elements");
  }

  /// run[x] = values: an array, a vector or a span, which is copied, or read in place where the
  /// input is adopted: see CompiledGraph::bind_input.
  template <class Values>
  requires detail::ArrayOf<Values>
  void operator=(Values&& values) const {
    detail::bind_values(*store_, *stored_, values, detail::is_lasting<Values>);
  }
  template <Element T> void operator=(std::initializer_list<T> values) const {
    detail::bind_values(*store_, *stored_, values, false);
  }
  /// The same; `release` is called once the memory is not read any more.
  template <class Values>
  requires detail::ArrayOf<Values>
  void bind(Values&& values, Release release) const {
    detail::bind_values(*store_, *stored_, values, detail::is_lasting<Values>, release);
  }
  /// Says what may stand there instead.
  template <class Values>
  requires(!detail::ArrayOf<Values> && !std::is_arithmetic_v<std::remove_cvref_t<Values>> &&
           !std::same_as<std::remove_cvref_t<Values>, GraphTensor>)
  void operator=(Values&&) const {
    static_assert(sizeof(Values) == 0,
                  "run[x] = values: an array, vector or span of the C++ type of a dtype, or, for a "
                  "tensor of one element, a number; of a pointer std::span(pointer, count)");
  }
  /// run[lr] = 1e-3: one element, rounded to the tensor's dtype. Throws TypeError where a fraction
  /// is given to an integer.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void operator=(Number value) const {
    for_dtype(stored_->spec.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T element{};
      if constexpr (std::integral<T>) {
        if (!detail::holds<T>(value))
          throw TypeError(concat("graph: ", detail::for_text(value), " for '", stored_->spec.name,
                                 "', which is ", name_of(dtype_of<T>), " and cannot hold it"));
        element = static_cast<T>(value);
      } else if constexpr (std::integral<Number> && sizeof(T) < sizeof(double)) {
        // Not by a double, which rounds large ones, too.
        using Rounding = std::conditional_t<sizeof(T) == sizeof(float), float, Number>;
        element = T(static_cast<Rounding>(value));
      } else {
        element = rounded_to<T>(static_cast<double>(value));
      }
      detail::bind_values(*store_, *stored_, std::span<T const>(&element, 1), false);
    });
  }

  /// A copy of the values.
  template <Element T> std::vector<T> read() const { return store_->template read<T>(*stored_); }
  template <Element T> void read(std::span<T> to) const { store_->template read<T>(*stored_, to); }
  template <Element T> operator std::vector<T>() const { return read<T>(); }
  /// The value of a tensor of one element.
  template <Element T> T item() const {
    T value{};
    read(std::span<T>(&value, 1));
    return value;
  }

 private:
  TensorStore<R>* store_;
  typename TensorStore<R>::Stored* stored_;
};

/// Plans a graph and runs it: run[x] = values; run(); run[z].read<float>(). One object for plan,
/// storage and binding; compile() with a TensorStore and a Plan of one's own are the same in parts.
/// The LogicalGraph and the runtime outlive it.
template <Runtime R> class Graph {
 public:
  /// With storage of its own. Throws what Plan and CompiledGraph throw.
  Graph(LogicalGraph& graph, R& runtime, PlanOptions const& options = {},
        BindOptions const& bind = {})
      : own_(std::make_unique<TensorStore<R>>(runtime)),
        graph_(&graph),
        compiled_(compile(graph, *own_, options, bind)),
        tensors_(graph.tensor_count()) {}
  /// On a store that other graphs of the model share.
  Graph(LogicalGraph& graph, TensorStore<R>& store, PlanOptions const& options = {},
        BindOptions const& bind = {})
      : graph_(&graph),
        compiled_(compile(graph, store, options, bind)),
        tensors_(graph.tensor_count()) {}

  /// Take a braced list that is no PlanOptions, in g++, and are the worse choice for one that is.
  template <std::size_t N>
  Graph(LogicalGraph const volatile&, R&,
        detail::an_option_is_misspelt_or_of_another_type const (&)[N],
        BindOptions const& = {}) = delete;
  template <std::size_t N>
  Graph(LogicalGraph const volatile&, TensorStore<R>&,
        detail::an_option_is_misspelt_or_of_another_type const (&)[N],
        BindOptions const& = {}) = delete;
  template <std::size_t N>
  Graph(LogicalGraph const volatile&, R&, PlanOptions const&,
        detail::an_option_is_misspelt_or_of_another_type const (&)[N]) = delete;
  template <std::size_t N>
  Graph(LogicalGraph const volatile&, TensorStore<R>&, PlanOptions const&,
        detail::an_option_is_misspelt_or_of_another_type const (&)[N]) = delete;

  /// Take a number in the place of options, and say so.
  template <std::integral Number>
  Graph(LogicalGraph& graph, R&, Number, BindOptions const& = {})
      : Graph(graph, unnamed_option<Number>()) {}
  template <std::integral Number>
  Graph(LogicalGraph& graph, TensorStore<R>&, Number, BindOptions const& = {})
      : Graph(graph, unnamed_option<Number>()) {}

  /// Says why not, on anything else.
  template <class Other>
  requires(!std::convertible_to<Other, R&> && !std::convertible_to<Other, TensorStore<R>&> &&
           !std::convertible_to<Other, CompiledGraph<R>>)
  Graph(LogicalGraph& graph, Other&&, PlanOptions const& = {}, BindOptions const& = {})
      : Graph(graph, refused()) {
    static_assert(sizeof(Other) == 0,
                  "a Graph<R> is on an R or a TensorStore<R>, a variable that outlives it: this is "
                  "another type, or const, or a temporary; name the type of the runtime, as "
                  "Graph<Serial>, or leave it out, Graph run(graph, runtime)");
  }

  /// Of one that is compiled already, as a rank's part is: Graph run(graph, compile_part(...)).
  Graph(LogicalGraph& graph, CompiledGraph<R> compiled)
      : graph_(&graph), compiled_(std::move(compiled)), tensors_(graph.tensor_count()) {}

  /// An input, parameter, state or output; by name run[graph.at("x")]. Throws GraphError for any
  /// other, with the way to keep it.
  GraphTensor<R> operator[](Node const& node) {
    auto const planned = compiled_.plan().tensors();  // refuses a graph that was moved from
    if (&node.graph() != graph_)
      throw GraphError(concat("graph '", graph_->name(), "': '", node.name(), "' is of graph '",
                              node.graph().name(), "'; tensors of one name share storage, so use ",
                              "this graph's node, at(\"", node.name(), "\")"));
    if (node.id() >= std::min(tensors_.size(), planned.size()))
      throw GraphError(concat("graph '", graph_->name(), "': '", node.name(),
                              "' was added after the graph had been planned"));
    auto*& stored = tensors_[node.id()];
    if (stored == nullptr) {
      std::string const& name = planned[node.id()].name;
      if (name != node.name())
        throw GraphError(concat("graph '", graph_->name(), "': '", node.name(), "' was '", name,
                                "' when the graph was planned; name tensors before that"));
      stored = &compiled_.kept("graph", name);
    }
    return {compiled_.store(), *stored};
  }

  /// Says how a tensor goes by its name.
  template <std::convertible_to<std::string_view> Name> GraphTensor<R> operator[](Name const&) {
    static_assert(sizeof(Name) == 0,
                  "tensors of a Graph go by their nodes: of a name it is run[graph.at(\"x\")]");
    return (*this)[Node()];
  }

  /// Runs once and waits. Throws TaskError, LifetimeError (an input was never bound).
  void operator()() { compiled_.execute(); }
  /// Submits one run and returns.
  GraphRun<R> async() { return compiled_.execute_async(); }
  /// One phase, run.phase("forward"), of a graph that is planned with PlanOptions::by_phase: the
  /// first at any time, each other one behind the one before it. Waits. Throws what
  /// CompiledGraph::execute_async(phase) and a run throw.
  void phase(std::string_view name) { compiled_.execute(name); }
  GraphRun<R> async(std::string_view phase) { return compiled_.execute_async(phase); }
  /// Tasks, runs, bytes bound and memory by location.
  GraphStats stats() const { return compiled_.stats(); }

  Plan const& plan() const { return compiled_.plan(); }
  TensorStore<R>& store() const { return compiled_.store(); }
  CompiledGraph<R>& compiled() { return compiled_; }

 private:
  static CompiledGraph<R> refused();  // declared only: no program that calls it compiles
  template <class Number> static CompiledGraph<R> unnamed_option() {
    static_assert(sizeof(Number) == 0,
                  "options of a Graph stand in braces, by their names: "
                  "Graph run(graph, runtime, {.tile = 128})");
    return refused();
  }

  std::unique_ptr<TensorStore<R>> own_;
  LogicalGraph* graph_;
  CompiledGraph<R> compiled_;
  DynamicArray<typename TensorStore<R>::Stored*> tensors_;  // by node; null before its first use
};

}  // namespace nntile
