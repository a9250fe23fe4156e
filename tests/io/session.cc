// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/session.hh"

#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

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

TEST_CASE("memory that lacks for a plan is said in options", "[io][session]") {
  LogicalGraph graph("plan");
  (void)nntile::gelutanh(graph.parameter({.shape = {64}}, "weight")).mark_output();
  Plan const plan(graph);
  std::string const text = in_options(nntile::test::message_of([&] {
    nntile::detail::fail_memory(plan, nntile::host, nntile::OutOfMemory("nothing is left"));
  }));
  INFO(text);
  CHECK(nntile::test::contains(text, "by --disk, --disk-keeps and --host-memory"));
  CHECK_FALSE(nntile::test::contains(text, "PlanOptions"));
}
