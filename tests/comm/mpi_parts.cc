// SPDX-License-Identifier: BSD-3-Clause
// Parts of one plan on the ranks of MPI, started by ranks.py: the bits of one rank.
#include <cstdio>

#include "nntile/comm/mpi.hh"
#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/io/store.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/train_part.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// The tiles that this rank holds behind three steps, and the hash of all parameters and states.
struct Trained {
  Tiles tiles;
  std::uint64_t hash;
};
template <class R, class C>
Trained train(C& comm, std::vector<ShardRule> const& rules, std::vector<AxisGroups> const& groups) {
  Transfers transfers(comm);
  R runtime(RuntimeOptions{.workers = 1});
  TensorStore<R> store(runtime, link_of(transfers));
  std::vector<MeshAxis> mesh;
  if (comm.size() > 1) mesh = {{"data", comm.size()}};
  auto const planned = train_part(store, mesh, rules, groups);
  Tiles tiles;
  collect(store, tiles);
  comm.barrier();
  for (PlannedTraffic const& with : planned)
    if (comm.traffic(with.peer).sent.bytes != static_cast<std::uint64_t>(with.bytes_sent))
      throw Error(concat("rank ", comm.rank(), ": ", comm.traffic(with.peer).sent.bytes,
                         " bytes went to ", with.peer, ", not ", with.bytes_sent));
  return {std::move(tiles), io::hash_tensors(io::sources_of(store, io::is_saved))};
}

/// How many of the tiles are not as on one rank.
template <class R> int count_wrong(MPI_Comm world, std::vector<ShardRule> const& rules) {
  std::vector<AxisGroups> const groups = {{"batch", 4}};
  SelfComm self;
  Trained const one = train<Serial>(self, {}, groups);
  MpiComm comm(world);
  Trained const here = train<R>(comm, rules, groups);
  int wrong = here.hash == one.hash ? 0 : 1;
  for (auto const& [name, bytes] : here.tiles)
    if (one.tiles.at(name) != bytes) ++wrong;
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, wrong = 1;
  (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  try {
    wrong = count_wrong<Serial>(MPI_COMM_WORLD, ddp()) + count_wrong<Ring>(MPI_COMM_WORLD, fsdp());
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (wrong != 0) std::fprintf(stderr, "%d tiles or hashes differ from those of one rank\n", wrong);
  (void)MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
