// SPDX-License-Identifier: BSD-3-Clause
// What no_locks.py disassembles: calls of the ring that must cost no locked instruction.
#include "nntile/runtime/regions.hh"
#include "nntile/runtime/ring/ring.hh"

namespace probe {

using namespace nntile;

DataHandle allocate(Ring& ring, std::size_t bytes) {
  return ring.allocate(bytes, host, Lifetime::step);
}
void free(Ring& ring, DataHandle handle) { ring.retire(handle); }
void open_scope(Ring& ring) { ring.open_scope(Lifetime::step); }
void close_scope(Ring& ring) { ring.close_scope(Lifetime::step); }
support::Buffer& look_up(support::BufferTable& table, DataHandle handle) {
  return table.find(handle, "submit");
}
DataHandle region_at(Ring& ring, void const* address, std::size_t bytes) {
  return ring.region_at(address, {0, bytes, {}});
}
/// The check itself is checked: this one has two.
int locked(std::atomic<int>& word) { return word.fetch_add(1) + word.exchange(2); }

}  // namespace probe
