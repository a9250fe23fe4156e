// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs the parts of a plan on ranks that are threads, and compares what they hold and send.

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/part_tiles.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/support/catch.hh"

namespace nntile::test {

/// Runs job(store), which returns what it sends and receives by its plan, on every rank of the
/// mesh; the tiles of all ranks. CHECKs that tiles which several hold are equal, and that what went
/// is what was planned.
template <class R, class Job>
Tiles run_parts(std::vector<MeshAxis> const& mesh, LocalOptions const& local, Job job) {
  Tiles all;
  std::mutex mutex;
  std::optional<std::string> different;
  auto const on_rank = [&](auto& comm) {
    Transfers transfers(comm);
    R runtime(RuntimeOptions{.workers = runs_alone<R> ? 1 : 1 + comm.rank() % 2});
    TensorStore<R> store(runtime, link_of(transfers));
    std::vector<PlannedTraffic> const planned = job(store);
    Tiles tiles;
    collect(store, tiles);
    comm.barrier();
    std::lock_guard const guard(mutex);
    if (!(counted_by(comm) == planned))
      different = concat("rank ", comm.rank(), " sends and receives what is not planned");
    for (auto& [name, bytes] : tiles) {
      auto const [at, first] = all.try_emplace(name, bytes);
      if (!first && at->second != bytes) different = concat(name, " on rank ", comm.rank());
    }
  };
  int const ranks = ranks_of(mesh);
  if (ranks == 1) {
    SelfComm comm;
    on_rank(comm);
  } else {
    LocalWorld world(ranks, local);
    for (std::string const& text : on_ranks(world, on_rank)) CHECK(text == "");
  }
  CHECK(different.value_or("") == "");
  return all;
}

}  // namespace nntile::test
