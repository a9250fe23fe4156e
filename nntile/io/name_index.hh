#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Finds names of a checked JSON text: whether one comes twice, and where one is. Hashes are
// compared before names, so that a lookup costs a cache line or two however many names there are.

#include <span>
#include <vector>

#include "nntile/io/json_view.hh"

namespace nntile::io::detail {

/// FNV-1a over the bytes that a name stands for.
class NameHash {
 public:
  void add(char c) { state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u; }
  std::uint32_t value() const { return static_cast<std::uint32_t>((state_ ^ state_ >> 29) >> 7); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};
inline std::uint32_t hash_of(std::string_view name) {
  NameHash hash;
  for (char const c : name) hash.add(c);
  return hash.value();
}
inline std::uint32_t hash_of(JsonString name) {
  NameHash hash;
  name.for_each_byte([&](char c) {
    hash.add(c);
    return true;
  });
  return hash.value();
}

/// Names that are known by numbers: eight bytes a name. `name(number)` is a JsonString.
class NameIndex {
 public:
  void reserve(std::size_t names) { places_.reserve(names); }
  void add(JsonString name, std::size_t number) {
    places_.push_back(std::uint64_t{hash_of(name)} << 32 | number);
  }

  /// To be called when all are there. Returns the number of a name that comes twice, if any does.
  template <class Name> std::optional<std::uint32_t> settle(Name name) {
    std::sort(places_.begin(), places_.end());
    for (auto first = places_.begin(); first != places_.end();) {
      auto const last = std::find_if(
          first, places_.end(), [&](std::uint64_t place) { return hash(place) != hash(*first); });
      std::sort(first, last, [&](std::uint64_t a, std::uint64_t b) {
        return name(number(a)).compare(name(number(b))) < 0;
      });
      auto const twice = std::adjacent_find(first, last, [&](std::uint64_t a, std::uint64_t b) {
        return name(number(a)).compare(name(number(b))) == 0;
      });
      if (twice != last) return number(*twice);
      first = last;
    }
    return std::nullopt;
  }

  /// The number of a name, if it is there.
  template <class Name>
  std::optional<std::uint32_t> find(std::string_view wanted, Name name) const {
    std::uint32_t const sought = hash_of(wanted);
    auto const at = std::partition_point(places_.begin(), places_.end(), [&](std::uint64_t place) {
      if (hash(place) != sought) return hash(place) < sought;
      return name(number(place)).compare(wanted) < 0;
    });
    if (at == places_.end() || hash(*at) != sought || !(name(number(*at)) == wanted))
      return std::nullopt;
    return number(*at);
  }

 private:
  static std::uint32_t hash(std::uint64_t place) { return static_cast<std::uint32_t>(place >> 32); }
  static std::uint32_t number(std::uint64_t place) { return static_cast<std::uint32_t>(place); }

  std::vector<std::uint64_t> places_;  // hash and number, in the order of hashes, then of names
};

/// Notes where the keys of an object are whose hashes are in a sorted list. Returns how many there
/// are, or one more than there are places.
inline std::size_t places_of(JsonView object, std::span<std::uint32_t const> hashes,
                             std::span<std::uint32_t> places) {
  std::size_t count = 0;
  for (auto const& [key, value] : object.members()) {
    if (!std::binary_search(hashes.begin(), hashes.end(), hash_of(key))) continue;
    if (count == places.size()) return count + 1;
    places[count++] = static_cast<std::uint32_t>(key.data() - object.data());
  }
  return count;
}

/// A key that comes twice in an object, if any does. `hashes` are those of its keys, in any order,
/// and are overwritten: four bytes a key, where a member has five or more. Keys whose hashes come
/// twice, which are few unless they are equal or were chosen for it, are compared as texts; their
/// places stand where the other hashes were. Cost: a sort of the hashes, and few passes over the
/// object where any comes twice.
inline std::optional<JsonString> key_twice(JsonView object, std::span<std::uint32_t> hashes) {
  std::sort(hashes.begin(), hashes.end());
  std::size_t shared = 0;  // hashes of several keys, moved to the front
  for (std::size_t first = 0, last = 0; first < hashes.size(); first = last) {
    while (last < hashes.size() && hashes[last] == hashes[first]) ++last;
    if (last - first > 1) hashes[shared++] = hashes[first];
  }
  if (shared == 0) return std::nullopt;
  std::uint32_t const only = hashes[0];  // with one, all keys may have it
  std::span<std::uint32_t const> const sought =
      shared == 1 ? std::span(&only, 1) : std::span<std::uint32_t const>(hashes.first(shared));
  auto const places = shared == 1 ? hashes : hashes.subspan(shared);
  auto const compare = [&](std::uint32_t a, std::uint32_t b) {
    return JsonString(object.data() + a).compare(JsonString(object.data() + b));
  };
  for (std::size_t from = 0, count = shared; from < shared;) {
    std::size_t const keys = places_of(object, sought.subspan(from, count), places);
    if (keys > places.size()) {
      count /= 2;  // those of one hash have places enough: each other one leaves a place
      continue;
    }
    auto const end = places.begin() + static_cast<std::ptrdiff_t>(keys);
    std::sort(places.begin(), end,
              [&](std::uint32_t a, std::uint32_t b) { return compare(a, b) < 0; });
    auto const twice = std::adjacent_find(
        places.begin(), end, [&](std::uint32_t a, std::uint32_t b) { return compare(a, b) == 0; });
    if (twice != end) return JsonString(object.data() + *twice);
    from += count;
    count = shared - from;
  }
  return std::nullopt;
}

}  // namespace nntile::io::detail
