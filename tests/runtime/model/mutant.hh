// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Mistakes that are seeded where the code under test operates on its atomics.

#include <atomic>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tests/runtime/model/site.hh"

namespace nntile::test::model {

/// An operation as it takes place.
struct Mutation {
  std::memory_order order;
  bool dropped = false;
  bool split = false;  // not atomic; a comparison that holds whatever the value is
  // Of the value that is read by a load, or written by another operation:
  std::int64_t added = 0;
  std::uint64_t kept = ~std::uint64_t{0};  // these bits
  bool again = false;                      // done once more, behind what it published: a late touch

  template <class T> T changed(T value) const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return static_cast<T>(
          (static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(added)) & kept);
    else
      return value;
  }
};

/// The operations of one kind and order in one function ("" for all of the file), and what becomes
/// of them.
struct Mutant {
  std::string_view file;
  std::string_view function;
  Kind kind;
  std::memory_order order;
  Mutation as;

  static inline Mutant const* current = nullptr;

  bool at(Site const& site, Kind operation, std::memory_order its_order) const {
    return kind == operation && order == its_order &&
           (function.empty() || function == site.function_name()) && file == site.file_name();
  }
};

inline Mutation mutation(Site const& site, Kind kind, std::memory_order order) {
  if (Mutant::current == nullptr || !Mutant::current->at(site, kind, order)) return {order};
  return Mutant::current->as;
}

}  // namespace nntile::test::model
