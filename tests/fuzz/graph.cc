// SPDX-License-Identifier: BSD-3-Clause
// The reader of graphs: what it takes is written and read back as an equal graph, and takes memory
// in proportion to its text.
#include "nntile/io/graph.hh"

#include "nntile/ops/all.hh"
#include "tests/fuzz/check.hh"
#include "tests/fuzz/memory.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static auto const ops = known_ops(AllOps{});
  std::string_view const text = text_of(data, size);
  std::unique_ptr<LogicalGraph> graph;
  MemoryLimit const limit(size);
  if (!reads([&] { graph = graph_of(text, "source", ops); })) return 0;
  std::string const written = graph_text(*graph);
  auto const again = graph_of(written, "written", ops);
  must(*again == *graph, "what was read is written", written);
  must(graph_text(*again) == written, "equal graphs have equal texts", written);
  return 0;
}
