// SPDX-License-Identifier: BSD-3-Clause
// Every op as a graph of one op: planned whole and cut, in every dtype, and over empty axes.
#include <algorithm>
#include <memory>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

std::string name_of_operand(std::size_t o) { return concat("x", o); }

/// A graph of the op alone. What it reads is an input, what it adds to a state, and results are
/// outputs; axes are named as in Cut.
void build(LogicalGraph& graph, OpCase const& c, DType element) {
  Operands const operands = visible(c);
  AxisTable const table = axes_of(c);
  std::vector<Node> nodes;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    TensorSpec spec{.shape = c.shapes[o],
                    .dtype = dtype_of_kind(operands[o].kind, element, element)};
    for (auto const id : table.operands[o])
      spec.axes += concat(table.axes[id].group, static_cast<int>(table.axes[id].within), " ");
    bool const written = writes(operands[o].access);
    bool const fresh = operands[o].access == Access::write ||
                       (written && c.op->overwrites(c.attrs.data(), static_cast<int>(o)));
    nodes.push_back(!written ? graph.input(spec, name_of_operand(o))
                    : fresh  ? graph.tensor(spec, name_of_operand(o))
                             : graph.state(spec, name_of_operand(o)));
    if (written) nodes.back().mark_output();
  }
  graph.add_op(*c.op, c.attrs.data(), nullptr, nodes);
}

/// Runs the op as a plan and returns all operands.
template <Runtime R>
std::vector<Array> run_planned(OpCase const& c, DType element, std::vector<Array> operands,
                               Cuts const& cuts = {}) {
  LogicalGraph graph(c.op->name);
  build(graph, c, element);
  PlanOptions options{.tile = 0};
  for (Cut const& cut : cuts) options.cuts.push_back({cut.axis, cut.sizes});
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

bool takes(OpCase const& c, DType element) {
  return std::count(c.op->dtypes.begin(), c.op->dtypes.end(), element) > 0;
}

}  // namespace

TEST_CASE("a planned op has the same bits cut and whole, in every dtype", "[ops][planned]") {
  for (OpCase const& c : every_op())
    for (DType const element : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
      if (!takes(c, element)) continue;
      INFO(c.op->name << " " << name_of(element) << " " << to_string(c.shapes[0]));
      auto const operands = make_operands(c, element);
      auto const whole = run_kernel(c, element, operands);
      CHECK(difference(c, run_planned<Serial>(c, element, operands), whole) == "");
      CHECK(difference(c, run_planned<Serial>(c, element, operands, canonical_cuts(c)), whole) ==
            "");
      CHECK(difference(c, run_planned<Ring>(c, element, operands, canonical_cuts(c)), whole) == "");
    }
}

TEST_CASE("a planned op over an axis of extent 0 gives what the eager one gives",
          "[ops][planned]") {
  for (OpCase const& whole : every_op()) {
    std::size_t const count = axes_of(whole).axes.size();
    for (std::size_t axis = 0; axis < count; ++axis) {
      OpCase const c = without(whole, axis);
      if (means_nothing(c)) continue;
      INFO(c.op->name << " axis " << axis << " of " << to_string(c.shapes[0]));
      DType const element = takes(c, DType::bf16) ? DType::bf16 : c.op->dtypes[0];
      auto const operands = make_operands(c, element);
      auto const eager = run_kernel(c, element, operands);
      CHECK(difference(c, run_planned<Serial>(c, element, operands), eager) == "");
      CHECK(difference(c, run_planned<Serial>(c, element, operands, canonical_cuts(c)), eager) ==
            "");
    }
  }
}
