// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A case of an op as a graph of one op, planned and run.
#include <memory>
#include <string>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/op_driver.hh"

namespace nntile::test {

inline std::string name_of_operand(std::size_t o) { return concat("x", o); }

/// An operand of a case: its spec, with axes that are named as in Cut; whether a call writes it;
/// and whether that leaves nothing of its old value.
struct PlannedOperand {
  TensorSpec spec;
  bool written, fresh;
};
inline PlannedOperand planned_operand(OpCase const& c, DType element, Operands const& operands,
                                      AxisTable const& table, std::size_t o) {
  TensorSpec spec{.shape = c.shapes[o], .dtype = dtype_of_kind(operands[o].kind, c.types(element))};
  for (auto const id : table.operands[o])
    spec.axes += concat(table.axes[id].group, static_cast<int>(table.axes[id].within), " ");
  bool const written = writes(operands[o].access);
  return {spec, written,
          operands[o].access == Access::write ||
              (written && c.op->overwrites(c.attrs.data(), static_cast<int>(o)))};
}

/// A graph of the op alone. What it reads is an input, what it adds to a state, and results are
/// outputs; axes are named as in Cut.
inline void build(LogicalGraph& graph, OpCase const& c, DType element) {
  Operands const operands = visible(c);
  AxisTable const table = axes_of(c);
  std::vector<Node> nodes;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    auto const [spec, written, fresh] = planned_operand(c, element, operands, table, o);
    nodes.push_back(!written ? graph.input(spec, name_of_operand(o))
                    : fresh  ? graph.tensor(spec, name_of_operand(o))
                             : graph.state(spec, name_of_operand(o)));
    if (written) nodes.back().mark_output();
  }
  graph.add_op(*c.op, c.attrs.data(), nullptr, nodes);
}

/// The same cuts as options of planning have them.
inline std::vector<AxisCut> plan_cuts(Cuts const& cuts) {
  std::vector<AxisCut> result;
  for (Cut const& cut : cuts) result.push_back({cut.axis, cut.sizes});
  return result;
}

/// Runs the op as a plan and returns all operands.
template <Runtime R>
std::vector<Array> run_planned(OpCase const& c, DType element, std::vector<Array> operands,
                               PlanOptions const& options = {.tile = 0}) {
  LogicalGraph graph(c.op->name, {.groups = c.groups});
  build(graph, c, element);
  R runtime(RuntimeOptions{.workers = std::same_as<R, Serial> ? 1 : 2});
  TensorStore<R> store(runtime);
  CompiledGraph<R> compiled(std::make_shared<Plan const>(graph, options), store);
  for (std::size_t o = 0; o < operands.size(); ++o)
    store.write_bytes(store.at(name_of_operand(o)), operands[o].bytes.data());
  compiled.execute();
  for (std::size_t o = 0; o < operands.size(); ++o)
    store.read_bytes(store.at(name_of_operand(o)), operands[o].bytes.data());
  return operands;
}

}  // namespace nntile::test
