#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The buffers and scopes of the PTO calls, over a ring's.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/ring/pto.h"
#include "nntile/runtime/ring/pto_addresses.hh"

namespace nntile::detail::pto {

/// Subject of a message: a call, or one parameter of a task. Put into words when it is needed.
struct Subject {
  char const* call;
  char const* kernel = nullptr;
  std::int32_t position = 0;
  ParamType type = PARAM_INPUT;

  std::string text() const {
    if (kernel == nullptr) return call;
    constexpr char const* names[] = {"PARAM_INPUT", "PARAM_OUTPUT", "PARAM_INOUT",
                                     "PARAM_ACCUMULATE", "PARAM_REPEAT"};
    bool const known = type >= PARAM_INPUT && type <= PARAM_REPEAT;
    return concat(call, ": ", kernel, ": parameter ", position, " (",
                  known ? names[type] : "of an unknown type", ")");
  }
};

inline std::string hex(std::uintptr_t address) {
  char text[2 * sizeof address + 3];
  (void)std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}
inline std::string name_of_span(std::uintptr_t begin, std::size_t bytes) {
  return concat(hex(begin), " (", bytes, " bytes)");
}

/// Buffers by their addresses, and the scopes that end them. Driving thread only.
///
/// Law: every live range of the map is of a live handle of the ring; what the runtime gave and has
/// ended stays known as ended, until memory is given or declared there again.
template <class Ring> class Buffers {
 public:
  using Index = AddressMap::Index;

  explicit Buffers(Ring& ring) : ring_(ring) {}

  Block& operator[](Index index) { return map_[index]; }
  /// Makes room for `buffers` buffers, and `scopes` scopes inside of each other. Throws
  /// std::bad_alloc.
  void reserve(std::size_t buffers, std::size_t scopes) {
    map_.reserve(buffers);
    scopes_.reserve(scopes);
  }
  /// Times that memory was taken for the addresses of buffers.
  std::uint64_t growths() const { return map_.growths(); }

  /// The buffers so far stay, but for those that tasks have named first.
  void keep() { map_.keep(); }

  /// Makes a buffer of the innermost scope. Throws ValueError, OutOfMemory, DeadlockError.
  Index take(Subject const& subject, std::size_t bytes) {
    if (bytes == 0)
      throw ValueError(subject.text() + ": 0 bytes have no address: ask for 1 at least");
    Block block;
    block.bytes = bytes;
    block.handle = ring_.allocate(bytes, host, lifetime_at(scopes_.size()));
    block.begin = reinterpret_cast<std::uintptr_t>(ring_.address(block.handle));
    Index const index = add(subject, block);
    enter_scope(index);
    return index;
  }

  /// Ends a buffer. Throws LifetimeError: there is none, or it has ended; ValueError: it does not
  /// begin there.
  void free(std::uintptr_t address) {
    Subject const subject{"pto_free"};
    auto const* const range = map_.overlapping(address, 1);
    if (range == nullptr)
      throw LifetimeError(
          concat(subject.text(), ": ", hex(address), " is of no buffer that is known"));
    check_live(subject, *range);
    if (range->begin != address)
      throw ValueError(concat(subject.text(), ": ", hex(address), " lies inside of the buffer at ",
                              hex(range->begin), ": free that"));
    ring_.retire(map_[range->block].handle);
    leave_scope(map_[range->block]);
    map_.end(range->block);
  }

  void scope_begin() {
    if (scopes_.size() == scopes_.capacity()) scopes_.reserve(2 * scopes_.size() + 4);
    Lifetime const lifetime = lifetime_at(scopes_.size() + 1);
    ring_.open_scope(lifetime, {"pto_scope_begin, depth", static_cast<int>(scopes_.size() + 1)});
    scopes_.push_back({lifetime, AddressMap::ended});
  }
  /// Throws LifetimeError: none is open.
  void scope_end() {
    if (scopes_.empty())
      throw LifetimeError("pto_scope_end: no scope is open: pto_scope_begin opens one");
    ring_.close_scope(scopes_.back().lifetime);
    for (Index index = scopes_.back().last, previous; index != AddressMap::ended;
         index = previous) {
      previous = map_[index].previous;
      map_.end(index);
    }
    scopes_.pop_back();
  }

  /// Declares memory of the caller. Throws ValueError: some of it is of a buffer.
  void adopt(std::uintptr_t begin, std::size_t bytes) {
    Subject const subject{"pto_adopt"};
    check_span(subject, begin, bytes);
    (void)adopt(subject, begin, bytes, Origin::adopted);
    keep();
  }

  /// The buffer that has these bytes. Where none is known it is made of them, and is noted in
  /// `made`. Throws ValueError (no bytes; a part of them is of a buffer), LifetimeError (has
  /// ended).
  template <class Made>
  Index find(Subject const& subject, std::uintptr_t begin, std::size_t bytes, Made& made) {
    check_span(subject, begin, bytes);
    auto const* const range = map_.overlapping(begin, bytes);
    if (range == nullptr) {
      made.push_back(adopt(subject, begin, bytes, Origin::noticed));
      return made.back();
    }
    check_live(subject, *range);
    if (begin < range->begin || begin + bytes > range->end)
      throw ValueError(concat(subject.text(), ": ", name_of_span(begin, bytes),
                              " are partly outside of the buffer at ",
                              name_of_span(range->begin, range->end - range->begin),
                              ": name all of it by pto_adopt before parts of it are used"));
    return range->block;
  }

  /// As if the buffer had never been. Of those since `keep` the latest first.
  void forget(Index index) {
    ring_.retire(map_[index].handle);
    leave_scope(map_[index]);
    map_.remove(index);
  }
  /// Forgets memory of the caller's that only tasks have named.
  void forget_noticed() {
    map_.each(Origin::noticed, [this](Index index) { forget(index); });
  }

 private:
  /// An open scope; its buffers are a list.
  struct OpenScope {
    Lifetime lifetime;
    Index last;
  };

  /// Heaps give memory back in order: what lives longer lies in another.
  static Lifetime lifetime_at(std::size_t depth) {
    return depth == 0   ? Lifetime::persistent
           : depth == 1 ? Lifetime::step
           : depth == 2 ? Lifetime::scope
                        : Lifetime::scratch;
  }

  static void check_span(Subject const& subject, std::uintptr_t begin, std::size_t bytes) {
    if (begin == 0) throw ValueError(subject.text() + ": the address is NULL");
    if (bytes == 0)
      throw ValueError(concat(subject.text(), ": ", name_of_span(begin, 0), " names no byte"));
    if (begin + bytes < begin)
      throw ValueError(
          concat(subject.text(), ": ", name_of_span(begin, bytes), " goes beyond all addresses"));
  }
  static void check_live(Subject const& subject, AddressMap::Range const& range) {
    if (range.block == AddressMap::ended)
      throw LifetimeError(concat(subject.text(), ": the buffer at ", hex(range.begin),
                                 " has ended: it was freed, or its scope was; memory of your own "
                                 "at that address is to be named by pto_adopt"));
  }
  void check_free(Subject const& subject, std::uintptr_t begin, std::size_t bytes) const {
    if (auto const* const range = map_.live_in(begin, bytes))
      throw ValueError(concat(subject.text(), ": ", name_of_span(begin, bytes),
                              " shares bytes with the buffer at ",
                              name_of_span(range->begin, range->end - range->begin),
                              ": free that first, and wait for its tasks"));
  }

  Index adopt(Subject const& subject, std::uintptr_t begin, std::size_t bytes, Origin origin) {
    check_free(subject, begin, bytes);  // in the caller's words, not the ring's
    Block block;
    block.begin = begin;
    block.bytes = bytes;
    block.handle = ring_.adopt(std::span(reinterpret_cast<std::byte*>(begin), bytes));
    block.origin = origin;
    return add(subject, block);
  }
  Index add(Subject const& subject, Block const& block) {
    try {
      check_free(subject, block.begin, block.bytes);
      return map_.add(block);
    } catch (...) {
      ring_.retire(block.handle);
      throw;
    }
  }

  void enter_scope(Index index) {
    if (scopes_.empty()) return;
    Index& last = scopes_.back().last;
    Block& block = map_[index];
    block.scope = static_cast<std::uint32_t>(scopes_.size());
    block.previous = last;
    if (last != AddressMap::ended) map_[last].next = index;
    last = index;
  }
  void leave_scope(Block const& block) {
    if (block.scope == 0) return;
    if (block.previous != AddressMap::ended) map_[block.previous].next = block.next;
    if (block.next != AddressMap::ended)
      map_[block.next].previous = block.previous;
    else
      scopes_[block.scope - 1].last = block.previous;
  }

  Ring& ring_;
  AddressMap map_;
  std::vector<OpenScope> scopes_;
};

}  // namespace nntile::detail::pto
