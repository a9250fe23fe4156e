// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Padding of random plans: of one in four, and there of one tensor in four.

#include <cstdint>
#include <vector>

#include "nntile/graph/compile.hh"
#include "tests/support/message.hh"

namespace nntile::test {

/// One tensor in four of the graph, of those that can be padded, each to a unit of its own.
inline std::vector<TilePadding> some_padding(LogicalGraph const& graph, std::uint64_t seed,
                                             PlanOptions const& options) {
  std::vector<TilePadding> result;
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    if ((seed >> 33) % 4 != 0) continue;
    PlanOptions one = options;
    one.pad = {{graph.tensor_at(t).name, 8 * static_cast<Index>(2 + (seed >> 40) % 7)}};
    if (message_of<PlanError>([&] { Plan(graph, one); }) == "(nothing was thrown)")
      result.push_back(one.pad[0]);
  }
  return result;
}

/// The options of a random plan: with such padding where the seed is a multiple of four.
inline PlanOptions padded_at_times(LogicalGraph const& graph, std::uint64_t seed,
                                   PlanOptions options) {
  if (seed % 4 == 0) options.pad = some_padding(graph, seed, options);
  return options;
}

}  // namespace nntile::test
