// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/session.hh"

#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"

using namespace gpt2;

TEST_CASE("a plan takes no memory for what the store holds", "[io][session]") {
  nntile::Serial runtime;
  nntile::TensorStore<nntile::Serial> store(runtime);
  LogicalGraph graph("twice");
  Node const weight = graph.parameter({.shape = {64, 64}}, "weight");
  (void)nntile::gelutanh(nntile::gelutanh(weight)).mark_output();
  auto const plan = nntile::plan_around(graph, store);
  nntile::MemoryReport const memory = plan->memory();
  CHECK(memory.stored == 2 * 64 * 64 * 4);
  CHECK(memory.arena > 0);
  CHECK(bytes_to_take(*plan, store) == static_cast<std::size_t>(memory.total()));
  CompiledGraph<nntile::Serial> const compiled(plan, store);
  CHECK(bytes_to_take(*nntile::plan_around(graph, store), store) ==
        static_cast<std::size_t>(memory.arena));
}
