#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The graph whose plans are fuzzed, and the plans that the fuzzer begins with.

#include <string>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/io/plan.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/softmax.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile::test {

/// Products in chains with carries, phases, a view, a gradient: in few tensors, so that a plan is a
/// short text.
struct PlannedGraph {
  LogicalGraph graph{"planned"};

  PlannedGraph() {
    Node const w = graph.parameter({.shape = {6, 4}, .dtype = DType::bf16, .axes = "out in"}, "w");
    Node const x = graph.input({.shape = {4, 3, 2}, .dtype = DType::bf16, .axes = "in s b"}, "x");
    Node const y = softmax(gemm(w, graph.slice(x, 2, 1, "last"))).named("y");
    Node const loss = sum_slice({.axis = 0}, sum_slice({.axis = 0}, gelutanh(y))).named("loss");
    loss.mark_output();
    add_gradients(graph, loss).find(w).mark_output();
  }

  std::vector<std::string> plans() const {
    std::vector<std::string> texts;
    for (PlanOptions const& options :
         {PlanOptions{.tile = 0}, PlanOptions{.tile = 2}, PlanOptions{.tile = 3},
          PlanOptions{.tile = 0, .pad = {{"w", 64}, {"x", 32}}}})
      texts.push_back(io::plan_text(Plan(graph, options), graph));
    return texts;
  }
};

}  // namespace nntile::test
