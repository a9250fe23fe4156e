// SPDX-License-Identifier: BSD-3-Clause
// The reader of plans, of one graph: what it takes is proved, is written and read back as an equal
// plan, and takes memory in proportion to its text.
#include "nntile/io/plan.hh"

#include <optional>

#include "tests/fuzz/check.hh"
#include "tests/fuzz/memory.hh"
#include "tests/fuzz/planned_graph.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static PlannedGraph const of;
  std::string_view const text = text_of(data, size);
  std::optional<Plan> plan;
  MemoryLimit const limit(size);
  if (!reads([&] { plan.emplace(plan_of(text, "source", of.graph)); })) return 0;
  std::string const written = plan_text(*plan, of.graph);
  must(plan_of(written, "written", of.graph) == *plan, "what was read is written", written);
  return 0;
}
