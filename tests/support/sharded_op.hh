// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A case of an op, with its derivative where it has one, as the parts of a plan for several ranks.

#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/graph/gradient.hh"
#include "tests/comm/run_parts.hh"
#include "tests/support/every_op.hh"
#include "tests/support/planned_op.hh"

namespace nntile::test {

template <class... Ops> auto gradient_in(OpList<Ops...>, std::string const& name) {
  void (*found)(GradientBuilder&) = nullptr;
  ((name == Ops::name ? void(found = detail::gradient_of<Ops>()) : void()), ...);
  return found;
}
/// The function that appends an op's derivative; null where it has none.
inline auto gradient_named(std::string const& name) {
  void (*found)(GradientBuilder&) = nullptr;
  std::apply(
      [&](auto... lists) { ((found = found == nullptr ? gradient_in(lists, name) : found), ...); },
      EveryOp{});
  return found;
}

/// Appends a sum of the results, each weighted by an input of its own, and its gradients by all
/// that the op reads. Throws GraphError where there is no way to one.
inline void add_weighted_gradients(LogicalGraph& graph, std::vector<Node> const& results,
                                   std::vector<Node> const& parameters) {
  Node loss;
  for (Node const& result : results) {
    if (loss && loss.dtype() != result.dtype()) continue;
    Node const weights = graph.input(graph.tensor_at(result.id()).spec, graph.unique("weights"));
    int const rank = static_cast<int>(result.shape().size());
    ops::Gemm::Attrs const attrs{.trans_a = true, .ndim = rank, .beta = loss ? 1.0 : 0.0};
    if (!loss) loss = graph.tensor({.shape = {}, .dtype = result.dtype()}, "loss");
    gemm(attrs, weights, result, loss);
  }
  Gradients const gradients = add_gradients(graph, loss);
  loss.mark_output();
  for (Node const& parameter : parameters)
    if (Node gradient = gradients.find(parameter)) gradient.mark_output();
}

/// A graph of the op, and of the gradients of the results `of` (bits) by what it reads of `by`.
/// What it adds to is copied first, so that the old value keeps.
inline void build_with_gradients(LogicalGraph& graph, OpCase const& c, DType element,
                                 std::uint32_t of, std::uint32_t by) {
  Operands const operands = visible(c);
  AxisTable const table = axes_of(c);
  std::vector<Node> nodes, parameters, results;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    auto const [spec, written, fresh] = planned_operand(c, element, operands, table, o);
    bool const varies = !fresh && is_float(spec.dtype) && (by >> o & 1u) != 0;
    Node given;
    if (varies)
      parameters.push_back(given = graph.parameter(spec, name_of_operand(o)));
    else if (!fresh)
      given = graph.input(spec, name_of_operand(o));
    if (!written) {
      nodes.push_back(given);
      continue;
    }
    nodes.push_back(graph.tensor(spec, fresh ? name_of_operand(o) : concat("y", o)));
    nodes.back().mark_output();
    if (!fresh) ops::copy(given, nodes.back());
    if (is_float(spec.dtype) && (of >> o & 1u) != 0) results.push_back(nodes.back());
  }
  if (results.empty() || parameters.empty()) throw GraphError("nothing to differentiate");
  graph.add_op(*c.op, c.attrs.data(), gradient_named(c.op->name), nodes);
  add_weighted_gradients(graph, results, parameters);
}

/// The same, of all results by all that it reads, or of as much of it as has a gradient; false
/// where nothing has.
inline bool add_with_gradients(std::deque<LogicalGraph>& graphs, OpCase const& c, DType element) {
  if (gradient_named(c.op->name) == nullptr) return false;
  constexpr std::uint32_t all = ~0u;
  std::size_t const operands = c.shapes.size();
  auto const attempt = [&](std::uint32_t of, std::uint32_t by) {
    graphs.emplace_back(concat(c.op->name, " and gradients"), Numerics{.groups = c.groups});
    try {
      build_with_gradients(graphs.back(), c, element, of, by);
      return true;
    } catch (GraphError const&) {  // a statistic, a divisor
      graphs.pop_back();
      return false;
    }
  };
  if (attempt(all, all)) return true;
  for (std::size_t o = 0; o < operands; ++o)
    if (attempt(1u << o, all) || attempt(all, all - (1u << o))) return true;
  return false;
}

/// Sets all that a graph reads: operands by their names, anything else to numbers that
/// follow from their places.
template <class R> void give(TensorStore<R>& store, std::vector<Array> const& operands) {
  for (auto const& stored : store.tensors()) {
    auto const& [name, attributes] = std::pair(stored->spec.name, stored->spec.attributes);
    if (!attributes.persistent && !attributes.external) continue;
    std::optional<Array> values;
    for (std::size_t o = 0; o < operands.size(); ++o)
      if (name == name_of_operand(o)) values = operands[o];
    if (!values) {
      values.emplace(stored->spec.dtype, stored->spec.tiling.shape());
      for (Index i = 0; i < values->count(); ++i)
        values->set(i, 1 + 0.5 * std::cos(static_cast<double>(3 * i)));
    }
    store.write_bytes(*stored, values->bytes.data());
  }
}

/// What an axis of a case is cut into: tiles of sizes that differ, each of them canonical.
struct ShardedAxis {
  std::string name;
  std::vector<Index> sizes;
};

/// Cuts an axis into at least `ranks` tiles, at borders of its groups or of blocks where it has to
/// be; none where there are too few.
inline std::optional<ShardedAxis> cut_for(OpCase const& c, std::size_t axis, int ranks) {
  Axis const its = axes_of(c).axes[axis];
  ShardedAxis result{concat(its.group, static_cast<int>(its.within)), {}};
  Index groups = 1;
  for (AxisGroups const& each : c.groups)
    if (each.axis == result.name) groups = each.groups;
  bool const blocked =
      std::string_view(c.op->blocked(c.attrs.data())).find(its.group) != std::string_view::npos;
  Index const count = std::min<Index>(its.extent, ranks + 1);
  if (blocked && groups > 1)
    for (Index g = 0; g < groups; ++g)
      result.sizes.push_back(GroupCut{its.extent, groups}.begin(g + 1) -
                             GroupCut{its.extent, groups}.begin(g));
  else if (blocked)
    for (Index at = 0; at < its.extent; at += 64)
      result.sizes.push_back(std::min<Index>(64, its.extent - at));
  else
    for (Index i = 0, left = its.extent; i < count; ++i) {  // 2 1 2 1 ..., the rest last
      Index const size = i + 1 == count ? left : std::min(1 + (i + 1) % 2, left - (count - i - 1));
      result.sizes.push_back(size);
      left -= size;
    }
  bool const few = groups > 1 && groups < ranks;  // which is refused
  if (its.whole || few || static_cast<int>(result.sizes.size()) < ranks) return std::nullopt;
  return result;
}

/// The tiles of all that a graph of a case keeps, on the ranks of the options.
template <class R>
Tiles run_sharded(LogicalGraph const& graph, std::vector<Array> const& operands,
                  PlanOptions const& options, LocalOptions const& local) {
  return run_parts<R>(options.mesh, local, [&](TensorStore<R>& store) {
    CompiledGraph<R> step = compile_any(graph, store, options);
    give(store, operands);
    step.execute();
    return traffic(step.plan());
  });
}

}  // namespace nntile::test
