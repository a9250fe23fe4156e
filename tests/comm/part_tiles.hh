// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a rank holds and what it has sent, to be compared with other ranks' and with its plan.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nntile/graph/parts.hh"

namespace nntile::test {

/// Tiles of stored tensors, by name and number, as bytes.
using Tiles = std::map<std::string, std::vector<std::byte>>;

template <class R> void collect(TensorStore<R>& store, Tiles& tiles) {
  for (auto const& stored : store.tensors())
    for (std::size_t t = 0; t < stored->tiles.size(); ++t) {
      if (stored->elsewhere[t]) continue;
      TileBox const box = stored->spec.tiling.box(static_cast<Index>(t));
      detail::StoredBytes<R, Access::read> const bytes(store.runtime(), stored->spec,
                                                       stored->tiles[t], static_cast<Index>(t));
      tiles[concat(stored->spec.name, ":", t)].assign(
          bytes.data(), bytes.data() + byte_count(box.extent, size_of(stored->spec.dtype)));
    }
}

template <class R>
CompiledGraph<R> compile_any(LogicalGraph const& graph, TensorStore<R>& store,
                             PlanOptions const& options, BindOptions const& bind = {}) {
  return options.mesh.empty() ? compile(graph, store, options, bind)
                              : compile_part(graph, store, options, bind);
}
/// What `runs` runs of a part send and receive.
inline std::vector<PlannedTraffic> times(std::vector<PlannedTraffic> traffic, int runs) {
  for (PlannedTraffic& with : traffic) {
    with.sent *= runs, with.received *= runs;
    with.bytes_sent *= runs, with.bytes_received *= runs;
  }
  return traffic;
}

inline int ranks_of(std::vector<MeshAxis> const& mesh) {
  int ranks = 1;
  for (MeshAxis const& axis : mesh) ranks *= axis.size;
  return ranks;
}

/// What a communicator has counted, as a plan says it, and by all ranks alike.
template <class C> std::vector<PlannedTraffic> counted_by(C const& comm) {
  std::vector<PlannedTraffic> all;
  for (int peer = 0; peer < comm.size(); ++peer) {
    auto const [sent, received] = comm.traffic(peer);
    if (sent.messages + received.messages == 0) continue;
    all.push_back({peer, static_cast<std::int64_t>(sent.messages),
                   static_cast<std::int64_t>(received.messages), static_cast<Index>(sent.bytes),
                   static_cast<Index>(received.bytes)});
  }
  return all;
}

}  // namespace nntile::test
