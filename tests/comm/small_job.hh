// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A small graph whose ranks send a lot to each other, over any communicator; several may run at
// once.

#include <string>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/part_tiles.hh"

namespace nntile::test {

/// s += alpha sum_b gelutanh(w x)[., b]: batches are cut over the ranks, w and s dealt out.
class SmallJob {
 public:
  SmallJob(std::string const& name, double alpha) : graph(name, {.groups = {{"batch", 6}}}) {
    Node const w = graph.parameter({.shape = {rows, width}, .axes = "out in"}, name + ".w");
    Node const x = graph.input({.shape = {width, batch}, .axes = "in batch"}, name + ".x");
    Node const s = graph.state({.shape = {rows}, .axes = "out"}, name + ".s");
    sum_slice({.axis = 1, .alpha = alpha, .beta = 1}, gelutanh(gemm(w, x)), s);
    s.mark_output();
  }

  static PlanOptions options(int ranks) {
    PlanOptions options{.tile = 2, .check = true};
    if (ranks == 1) return options;
    options.mesh = {{"data", ranks}};
    options.rules = {{.axis = "batch", .mesh = "data"},
                     {.role = Role::parameter, .mesh = "data"},
                     {.role = Role::state, .mesh = "data"}};
    return options;
  }
  template <class R>
  CompiledGraph<R> compiled(TensorStore<R>& store, BindOptions const& bind = {}) const {
    auto step = compile_any(graph, store, options(store.link().ranks), bind);
    write(store);
    return step;
  }
  /// The values that it begins with.
  template <class R> void write(TensorStore<R>& store) const {
    std::string const& name = graph.name();
    store.write(name + ".w", std::span<float const>(ramp(rows * width)));
    store.write(name + ".x", std::span<float const>(ramp(width * batch)));
    store.write(name + ".s", std::span<float const>(ramp(rows)));
  }
  /// What all ranks call together.
  template <class R> std::vector<float> result(TensorStore<R> const& store) const {
    return store.template gather<float>(graph.name() + ".s");
  }
  /// The same of one rank, behind as many runs.
  std::vector<float> alone(int runs) const {
    Serial runtime;
    TensorStore<Serial> store(runtime);
    auto step = compiled(store);
    for (int run = 0; run < runs; ++run) step.execute();
    return result(store);
  }

  LogicalGraph graph;

 private:
  static constexpr Index rows = 7, width = 5, batch = 12;
  static std::vector<float> ramp(Index count) {
    std::vector<float> values;
    for (Index i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 11) / 7 - 0.6f);
    return values;
  }
};

}  // namespace nntile::test
