#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The submitter's record of each buffer: its last writer and the readers since.

#include <cstdint>
#include <memory>
#include <vector>

#include "nntile/core/last_users.hh"

namespace nntile::detail::ring {

/// Names a producer: the low 31 bits of a ticket, or a pending task.
///
/// Stale references need no clean-up: one outside the window is finished. They are swept long
/// before 31 bits wrap.
using Reference = std::uint32_t;
inline constexpr Reference pending_bit = 0x80000000u;
inline constexpr Reference no_reference = 0xffffffffu;

constexpr Reference reference_to(std::uint64_t ticket) {
  return static_cast<Reference>(ticket) & ~pending_bit;
}
constexpr Reference reference_to_pending(std::uint32_t index) { return index | pending_bit; }
constexpr bool is_pending(Reference reference) { return (reference & pending_bit) != 0; }

/// Readers kept by name; beyond that a join task stands for them.
inline constexpr std::uint32_t readers_per_datum = 8;

/// The readers of a datum. `push_back` needs room.
struct DatumReaders {
  std::uint32_t count = 0;
  Reference references[readers_per_datum] = {};

  bool empty() const { return count == 0; }
  bool full() const { return count == readers_per_datum; }
  Reference back() const { return references[count - 1]; }
  void push_back(Reference reader) { references[count++] = reader; }
  void clear() { count = 0; }
  template <class Keep> void keep_if(Keep keep) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      if (keep(references[i])) references[kept++] = references[i];
    count = kept;
  }
  Reference const* begin() const { return references; }
  Reference const* end() const { return references + count; }
};

/// One line a buffer, touched by the submitter alone.
struct alignas(64) Datum : LastUsers<Reference, DatumReaders> {
  Datum() : LastUsers{no_reference, {}} {}

  /// Pending tasks that name the buffer; it lives until they have ended.
  std::uint32_t pending_count = 0;
  /// Its handle is void; the last user reclaims it.
  bool retired = false;
};
static_assert(sizeof(Datum) == 64);

/// Datums beside the buffer table, by the same index, at stable addresses.
class Datums {
 public:
  Datum& operator[](std::uint32_t index) { return chunks_[index >> bits][index & mask]; }

  /// Makes sure that there is a datum at `index`. Throws std::bad_alloc.
  void prepare(std::uint32_t index) {
    while (index >> bits >= chunks_.size()) chunks_.push_back(std::make_unique<Datum[]>(mask + 1));
  }

  /// Forgets every reference to a task for which `live` is false.
  template <class Live> void sweep(Live live) {
    for (auto& chunk : chunks_)
      for (std::uint32_t i = 0; i <= mask; ++i) sweep(chunk[i], live);
  }

  /// Forgets the references of one buffer for which `live` is false.
  template <class Live> static void sweep(Datum& datum, Live live) {
    if (!live(datum.writer)) datum.writer = no_reference;
    datum.readers.keep_if(live);
  }

 private:
  static constexpr std::uint32_t bits = 10;
  static constexpr std::uint32_t mask = (1u << bits) - 1;
  std::vector<std::unique_ptr<Datum[]>> chunks_;
};

}  // namespace nntile::detail::ring
