#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A hash table from names to numbers. Plain code, which costs a file that includes it less than an
// instantiation of std::unordered_map.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "nntile/core/dynamic_array.hh"

namespace nntile {

/// Numbers by name. Pointers to numbers hold until the next add() or erase(). Linear probing; an
/// erased place is filled from behind (Knuth, 6.4, algorithm R), so that none is lost.
class NameTable {
 public:
  /// Null where there is none of that name. Cost: O(1).
  std::uint32_t const* find(std::string_view name) const {
    if (places_.empty()) return nullptr;
    Place const& place = places_[place_of(name)];
    return place.used ? &place.number : nullptr;
  }
  std::uint32_t* find(std::string_view name) {
    return const_cast<std::uint32_t*>(std::as_const(*this).find(name));
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Adds a name that is not there. Throws std::bad_alloc, having changed nothing.
  std::uint32_t& add(std::string_view name, std::uint32_t number) {
    std::string own(name);
    if (2 * (count_ + 1) > places_.size()) grow();
    return put(own, number);
  }

  /// Gives the number of `from`, which is there, the name `to`, which is not. Throws nothing.
  void rename(std::string_view from, std::string to) {
    std::uint32_t const number = *find(from);
    erase(from);
    put(to, number);
  }

  /// Removes a name, if it is there.
  void erase(std::string_view name) {
    if (!contains(name)) return;
    std::size_t const mask = places_.size() - 1;
    std::size_t hole = place_of(name);
    for (std::size_t at = (hole + 1) & mask; places_[at].used; at = (at + 1) & mask) {
      std::size_t const wanted = hash(places_[at].name) & mask;
      if (((at - wanted) & mask) < ((at - hole) & mask)) continue;  // the hole is before its start
      places_[hole].name.swap(places_[at].name);
      places_[hole].number = places_[at].number;
      hole = at;
    }
    places_[hole] = Place{};
    --count_;
  }

 private:
  struct Place {
    std::string name;
    std::uint32_t number = 0;
    bool used = false;
  };

  static std::size_t hash(std::string_view name) { return std::hash<std::string_view>{}(name); }
  /// Index of the name, or of the entry where it would be added.
  std::size_t place_of(std::string_view name) const {
    std::size_t const mask = places_.size() - 1;
    std::size_t at = hash(name) & mask;
    while (places_[at].used && places_[at].name != name) at = (at + 1) & mask;
    return at;
  }
  /// Takes the name, which is not there; a place is free.
  std::uint32_t& put(std::string& name, std::uint32_t number) {
    Place& place = places_[place_of(name)];
    place.name.swap(name);
    place.used = true;
    ++count_;
    return place.number = number;
  }
  void grow() {
    NameTable larger;
    larger.places_.resize(places_.empty() ? 16 : 2 * places_.size());
    for (Place& from : places_) {
      if (!from.used) continue;
      Place& to = larger.places_[larger.place_of(from.name)];
      to.name.swap(from.name);
      to.number = from.number;
      to.used = true;
    }
    places_.swap(larger.places_);
  }

  DynamicArray<Place> places_;  // a power of two, at most half of them used
  std::size_t count_ = 0;
};

}  // namespace nntile
