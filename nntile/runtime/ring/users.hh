#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The submitter's record of each buffer: its last writer and the readers since, or a group of tasks
// that accumulate, or of those that write disjoint bytes.

#include <cstdint>
#include <cstring>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/heap_array.hh"
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

/// Readers, or tasks of another group, kept by name; beyond that a join task stands for them.
inline constexpr std::uint32_t most_readers = 8;

/// A few readers in place, or tasks of another group. `push_back` needs room.
struct Readers {
  std::uint32_t state = 0;  // their count plus 16 times their access; 0 if there are none
  Reference references[most_readers] = {};

  /// Of as many places: those that hold none matter as well.
  bool operator==(Readers const& other) const {
    return std::memcmp(this, &other, sizeof other) == 0;
  }
  bool empty() const { return state == 0; }
  std::uint32_t count() const { return state & count_mask; }
  bool full() const { return count() == most_readers; }
  Access kind() const { return static_cast<Access>(state / kind_unit); }
  void set_kind(Access kind) { state = count() | static_cast<std::uint32_t>(kind) * kind_unit; }
  bool only_read() const { return state < kind_unit; }
  /// Whether another reader may be added: one look for both.
  bool takes_reader() const { return state < most_readers; }
  Reference back() const { return references[count() - 1]; }
  void push_back(Reference reader) { references[state++ & count_mask] = reader; }
  void clear() { state = 0; }
  template <class Keep> void keep_if(Keep keep) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count(); ++i)
      if (keep(references[i])) references[kept++] = references[i];
    state = kept == 0 ? 0 : kept | (state & ~count_mask);
  }
  Reference const* begin() const { return references; }
  Reference const* end() const { return references + count(); }

 private:
  static constexpr std::uint32_t kind_unit = 16;
  static constexpr std::uint32_t count_mask = kind_unit - 1;
  static_assert(most_readers < kind_unit && static_cast<int>(Access::read) == 0);
};

/// One line a buffer, touched by the submitter alone.
struct alignas(64) BufferUsers : LastUsers<Reference, Readers> {
  BufferUsers() : LastUsers{no_reference, {}} {}
  void forget() {
    writer = no_reference;
    readers.clear();
  }

  /// Whether it has no pending tasks, and readers alone, fewer than there is room for: then what
  /// follows needs few branches.
  bool usual() const { return readers.takes_reader() && pending_count == 0; }
  /// The newest reader, or the writer if there is none. Tickets ascend: where this one has left the
  /// window, so have the others.
  Reference newest() const {
    Reference const reader = last_reader(), last_writer = writer;  // loaded both: no branch
    return readers.empty() ? last_writer : reader;
  }
  /// As `enter` of a reader: one branch, which tasks that name buffers once do not take.
  void enter_reader(Reference task) {
    if (int{readers.empty()} | int{last_reader() != task}) [[likely]]
      readers.push_back(task);
  }

  /// Pending tasks that name the buffer; it lives until they have ended.
  std::uint32_t pending_count = 0;
  /// Its handle is void; the last user reclaims it.
  bool retired = false;

 private:
  /// Of usual users; anything if there are none.
  Reference last_reader() const {
    return readers.references[(readers.state - 1) & (most_readers - 1)];
  }
};
static_assert(sizeof(BufferUsers) == 64);

/// A domain's users of buffers, by their index in the buffer table, at stable addresses.
class UsersTable {
 public:
  BufferUsers& operator[](std::uint32_t index) { return chunks_[index >> bits][index & mask]; }

  /// Makes room for the users of the buffer at `index`. Throws std::bad_alloc.
  void prepare(std::uint32_t index) {
    if (index >> bits >= chunks_.size() || chunks_[index >> bits].get() == nullptr) [[unlikely]]
      make_chunk(index >> bits);
  }

  /// The same for the buffers below `count` of a domain that most often has few.
  void prepare_few(std::uint32_t count) {
    if (count <= few_) return;
    if (count > mask + 1) {
      if (few_ <= mask) enlarge(mask + 1);
      for (std::uint32_t chunk = 1; chunk <= (count - 1) >> bits; ++chunk) prepare(chunk << bits);
      return;
    }
    enlarge(count < 4 ? 4 : 2 * count > mask + 1 ? mask + 1 : 2 * count);
  }

  /// Forgets every reference to a task for which `live` is false.
  template <class Live> void sweep(Live live) {
    for (auto& chunk : chunks_) {
      std::uint32_t const count = &chunk == &chunks_[0] && few_ != 0 ? few_ : mask + 1;
      for (std::uint32_t i = 0; chunk.get() != nullptr && i < count; ++i) sweep(chunk[i], live);
    }
  }

  /// Forgets the references of one buffer for which `live` is false.
  template <class Live> static void sweep(BufferUsers& users, Live live) {
    if (!live(users.writer)) users.writer = no_reference;
    users.readers.keep_if(live);
  }

 private:
  [[gnu::noinline]] void make_chunk(std::uint32_t number) {
    if (number >= chunks_.size()) chunks_.resize(number + 1);
    chunks_[number] = HeapArray<BufferUsers>(mask + 1);
  }

  static constexpr std::uint32_t bits = 8;  // 16 KiB
  static constexpr std::uint32_t mask = (1u << bits) - 1;

  /// Gives the first chunk `count` places.
  void enlarge(std::uint32_t count) {
    HeapArray<BufferUsers> larger(count);
    for (std::uint32_t i = 0; i < few_; ++i) larger[i] = chunks_[0][i];
    if (chunks_.empty()) chunks_.resize(1);
    chunks_[0] = std::move(larger);
    few_ = count;
  }

  std::uint32_t few_ = 0;  // places of the first chunk, where it is smaller than others
  DynamicArray<HeapArray<BufferUsers>> chunks_;
};

}  // namespace nntile::detail::ring
