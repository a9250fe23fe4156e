// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One rank's part of a random graph, over any communicator.

#include <cstdint>
#include <type_traits>
#include <vector>

#include "tests/comm/part_tiles.hh"
#include "tests/graph/random_parts.hh"
#include "tests/support/allocations.hh"

namespace nntile::test {

/// Gives all that a random graph reads values that follow from names and places.
template <class R> void give_values(TensorStore<R>& store) {
  for (auto const& stored : store.tensors()) {
    if (!stored->spec.attributes.persistent && !stored->spec.attributes.external) continue;
    auto const count = static_cast<std::size_t>(element_count(stored->spec.tiling.shape()));
    std::vector<double> values(count);
    auto const letter = static_cast<unsigned char>(stored->spec.name.back());
    if (stored->spec.dtype == DType::fp64)
      for (std::size_t i = 0; i < count; ++i)
        values[i] = 0.1 * static_cast<double>((7 * i + letter) % 17) - 0.7;
    store.write_bytes(*stored, reinterpret_cast<std::byte const*>(values.data()));
  }
}

/// What two runs send and receive by the plan, and how many large allocations preceded them.
struct RandomRuns {
  std::vector<PlannedTraffic> traffic;
  std::size_t large_before = 0;
  Index memory = 0;  // bytes of its buffers by the plan
};
/// Runs it twice, one run behind the other or both in flight. Throws Error where this rank takes
/// another number of bytes for buffers than the plan says, from first to last. Calls before_runs()
/// when only these are left.
template <class R, class Before>
RandomRuns run_random(RandomParts const& parts, PlanOptions const& options, TensorStore<R>& store,
                      Before before_runs) {
  int const rank = store.link().rank;
  std::size_t const before = thread_aligned_bytes();
  CompiledGraph<R> step = compile_any(parts.graph(), store, options, {.replay = rank % 2 == 0});
  give_values(store);
  std::size_t const large = allocation_totals().large;
  before_runs();
  if (parts.graph().op_count() % 2 == 0) {
    for (int run = 0; run < 2; ++run) step.execute();
  } else {
    GraphRun<R> const first = step.execute_async(), second = step.execute_async();
    first.wait(), second.wait();
  }
  auto const taken = static_cast<Index>(thread_aligned_bytes() - before);
  Index const planned = step.plan().memory({rank, host}).total();
  if (allocations_are_counted() && taken != planned)
    throw Error(concat("rank ", rank, " takes ", taken, " bytes, not ", planned));
  return {times(traffic(step.plan()), 2), large, planned};
}
template <class R>
RandomRuns run_random(RandomParts const& parts, PlanOptions const& options, TensorStore<R>& store) {
  return run_random(parts, options, store, [] {});
}

}  // namespace nntile::test
