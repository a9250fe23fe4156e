// SPDX-License-Identifier: BSD-3-Clause
// Parts of one plan on the ranks of MPI, started by ranks.py: the bits of one rank.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "nntile/comm/mpi.hh"
#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/io/store.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/random_job.hh"
#include "tests/comm/train_part.hh"
#include "tests/io/scratch.hh"
#include "tests/support/setting.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// Saves what the store has, writes over it and loads it again.
template <class R> void save_and_load(TensorStore<R>& store) {
  std::optional<Scratch> scratch;  // rank 0's
  auto const all = store.together("choosing a folder", [&] {
    if (store.link().rank == 0) scratch.emplace();
    std::string_view const path = scratch ? scratch->path() : std::string_view();
    auto const bytes = std::as_bytes(std::span(path));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  std::string const path(reinterpret_cast<char const*>(all[0].data()), all[0].size());
  io::CheckpointDirectory directory(path, {}, store.link());
  directory.save_shares(io::Json::object(), {}, io::shares_of(store, io::is_saved));
  for (auto const& stored : store.tensors()) {
    if (!io::is_saved(stored->spec)) continue;
    Shape const shape = stored->spec.tiling.shape();
    std::vector<std::byte> const other(
        static_cast<std::size_t>(byte_count(shape, size_of(stored->spec.dtype))), std::byte{7});
    store.write_bytes(*stored, other.data());
  }
  io::Checkpoint::open(*directory.latest()).load(io::targets_of(store, io::is_saved));
  (void)directory.latest();  // all have read before rank 0 removes the folder
}

/// The tiles that this rank holds behind three steps and out of a checkpoint of them, and the hash
/// of all parameters and states.
struct Trained {
  Tiles tiles;
  std::uint64_t hash;
};
template <class R, class C>
Trained train(C& comm, std::vector<ShardRule> const& rules, std::vector<AxisGroups> const& groups) {
  Transfers transfers(comm);
  R runtime(RuntimeOptions{.workers = 1});
  TensorStore<R> store(runtime, link_of(transfers));
  auto const planned = train_part(store, {{"data", comm.size()}}, rules, groups);
  save_and_load(store);
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

/// The first jobs from a seed on, of as many ranks, whose parts send something.
std::vector<std::uint64_t> seeds_for(int ranks, std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = first; seeds.size() < count; ++seed) {
    RandomParts const parts(seed);
    if (!parts.refusal().empty() || parts.ranks() != ranks) continue;
    if (ranks == 1 || !traffic(Plan(parts.graph(), parts.options(), 0)).empty())
      seeds.push_back(seed);
  }
  return seeds;
}
/// Bytes of large allocations: of the program itself, which are its records of open transfers, and
/// of other libraries, such as MPI's.
struct LargeBytes {
  std::size_t own = 0, others = 0;
};
LargeBytes allocated_since(std::size_t number) {
  LargeBytes all;
  Dl_info own{};
  (void)dladdr(reinterpret_cast<void const*>(&allocation_totals), &own);
  for (; number < allocation_totals().large; ++number) {
    LargeAllocation const one = large_allocation(number);
    Dl_info info{};
    if (dladdr(one.caller, &info) == 0) continue;
    bool const ours = info.dli_fbase == own.dli_fbase ||
                      std::string_view(info.dli_fname).find("libstdc++") != std::string_view::npos;
    (ours ? all.own : all.others) += one.bytes;
  }
  return all;
}
/// The same of random graphs, whose ranks take as many bytes, and send as many, as planned.
/// NNTILE_RANDOM_PARTS (2) says how many, NNTILE_RANDOM_SEED (1) from which seed on.
template <class R> int count_wrong_random(MPI_Comm world) {
  MpiComm comm(world);
  // Of these, the memory of open transfers is compared too; in others, lists of tasks grow as well.
  constexpr std::uint64_t few = 2;
  std::uint64_t const count = setting("NNTILE_RANDOM_PARTS", few);
  std::int64_t all_messages = 0;
  int wrong = 0;
  std::size_t by_libraries = 0;
  std::vector<PlannedTraffic> planned, counted = counted_by(comm);
  for (std::uint64_t const seed :
       seeds_for(comm.size(), setting("NNTILE_RANDOM_SEED", 1), static_cast<std::size_t>(count))) {
    RandomParts const parts(seed);
    Transfers transfers(comm);  // numbers of messages from 0 on
    SelfComm self;
    Transfers alone(self);
    Serial serial;
    TensorStore<Serial> whole(serial, link_of(alone));
    Tiles one, here;
    (void)run_random(parts, parts.alone(), whole);
    collect(whole, one);
    R runtime(RuntimeOptions{.workers = 1});
    TensorStore<R> store(runtime, link_of(transfers));
    auto const runs = run_random(parts, parts.options(), store);
    auto const [own, others] = allocated_since(runs.large_before);
    planned = runs.traffic;
    std::int64_t messages = 0;
    for (PlannedTraffic const& with : planned) messages += with.sent + with.received;
    all_messages += messages;
    // Ring's first chunk for arguments of tasks that are submitted in a run, not replayed.
    std::size_t const chunk = std::is_same_v<R, Ring> ? std::size_t{1} << 20 : 0;
    if (own > 1024 * static_cast<std::size_t>(messages) + chunk && count == few)
      throw Error(concat("runs of ", messages, " messages allocate ", own, " bytes"));
    by_libraries += others;
    collect(store, here);
    comm.barrier();
    for (auto const& [name, bytes] : here)
      if (one.at(name) != bytes) ++wrong;
    for (PlannedTraffic& now : planned)
      for (PlannedTraffic const& then : counted)
        if (then.peer == now.peer) {
          now.sent += then.sent, now.received += then.received;
          now.bytes_sent += then.bytes_sent, now.bytes_received += then.bytes_received;
        }
    counted = counted_by(comm);
    for (PlannedTraffic const& with : planned)
      if (std::find(counted.begin(), counted.end(), with) == counted.end()) ++wrong;
  }
  if (comm.rank() == 0)
    std::printf(
        "MPI parts of %d ranks: %llu graphs, %lld messages of rank 0, MPI allocates %zu bytes in "
        "runs\n",
        comm.size(), static_cast<unsigned long long>(count), static_cast<long long>(all_messages),
        by_libraries);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, wrong = 1;
  (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  try {
    wrong = count_wrong<Serial>(MPI_COMM_WORLD, ddp()) + count_wrong<Ring>(MPI_COMM_WORLD, fsdp()) +
            count_wrong_random<Serial>(MPI_COMM_WORLD) + count_wrong_random<Ring>(MPI_COMM_WORLD);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (wrong != 0) std::fprintf(stderr, "%d tiles or hashes differ from those of one rank\n", wrong);
  (void)MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
