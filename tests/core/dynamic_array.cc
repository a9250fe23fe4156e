// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/dynamic_array.hh"

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hh"

using namespace nntile;

namespace {

/// Counts its objects; copies of some throw.
struct Counted {
  explicit Counted(int v = 0) : value(v) { ++alive; }
  Counted(Counted const& other) : value(other.value) {
    if (value == 13) throw std::bad_alloc();
    ++alive;
  }
  Counted(Counted&& other) noexcept : value(std::exchange(other.value, -1)) { ++alive; }
  Counted& operator=(Counted const&) = default;
  Counted& operator=(Counted&& other) noexcept {
    value = std::exchange(other.value, -1);
    return *this;
  }
  ~Counted() { --alive; }
  bool operator==(Counted const&) const = default;
  int value;
  static inline int alive = 0;
};

template <class T> std::vector<T> values_of(DynamicArray<T> const& array) {
  return std::vector<T>(array.begin(), array.end());
}

/// The same random calls of an array and of a std::vector.
template <class T, class Make> void compare_with_vector(Make make) {
  DynamicArray<T> array;
  std::vector<T> vector;
  std::uint64_t state = 1;
  auto const next = [&](std::size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % bound;
  };
  for (int step = 0; step < 4000; ++step) {
    std::size_t const size = vector.size(), at = next(size + 1);
    auto const place = vector.begin() + static_cast<std::ptrdiff_t>(at);
    T const value = make(next(100));
    switch (next(12)) {
      case 0:
        array.insert(array.begin() + at, value);
        vector.insert(place, value);
        break;
      case 1:
        if (size == 0) break;
        array.pop_back();
        vector.pop_back();
        break;
      case 2:
        array.resize(at);
        vector.resize(at);
        break;
      case 3:
        array.resize(size + next(3));
        vector.resize(array.size());
        break;
      case 4: {
        std::size_t const end = at + next(size - at + 1);
        CHECK(array.erase(array.begin() + at, array.begin() + end) == array.begin() + at);
        vector.erase(place, vector.begin() + static_cast<std::ptrdiff_t>(end));
        break;
      }
      case 5: {
        auto const drop = [&](T const& each) { return each == value; };
        erase_if(array, drop);
        std::erase_if(vector, drop);
        break;
      }
      case 6:
        if (next(50) != 0) break;
        array.assign(at, value);
        vector.assign(at, value);
        break;
      case 7: {
        DynamicArray<T> const copy = array;
        array.append(std::span<T const>(copy.data(), at));
        vector.insert(vector.end(), copy.begin(), copy.begin() + at);
        break;
      }
      case 8: {
        DynamicArray<T> copy;
        copy = array;
        REQUIRE(copy == array);
        DynamicArray<T> moved = std::move(copy);
        array = std::move(moved);
        break;
      }
      default:
        if (size > 0 && next(2) == 0) {
          array.push_back(array[at % size]);  // an element of its own
          vector.push_back(vector[at % size]);
        } else {
          array.push_back(value);
          vector.push_back(value);
        }
    }
    if (vector.size() > 60) array.clear(), vector.clear();
    REQUIRE(values_of(array) == vector);
    REQUIRE(array.capacity() >= array.size());
    REQUIRE(array.empty() == vector.empty());
    if (!vector.empty())
      REQUIRE((array.front() == vector.front() && array.back() == vector.back()));
  }
}

}  // namespace

TEST_CASE("a dynamic array does what a vector does", "[core]") {
  compare_with_vector<std::uint32_t>([](std::size_t i) { return static_cast<std::uint32_t>(i); });
  compare_with_vector<std::string>([](std::size_t i) { return std::string(i, 'x'); });
  compare_with_vector<Counted>(
      [](std::size_t i) { return Counted(static_cast<int>(i == 13 ? 0 : i)); });
  CHECK(Counted::alive == 0);
}

TEST_CASE("a dynamic array holds what only moves, and keeps strict alignment", "[core]") {
  DynamicArray<std::unique_ptr<int>> owners;
  for (int i = 0; i < 100; ++i) owners.push_back(std::make_unique<int>(i));
  owners.erase(owners.begin());
  CHECK(*owners[0] == 1);
  CHECK(*owners.back() == 99);

  struct alignas(128) Line {
    int value = 7;
  };
  DynamicArray<Line> lines(3);
  for (int i = 0; i < 20; ++i) {
    lines.emplace_back(i);
    REQUIRE(reinterpret_cast<std::uintptr_t>(lines.data()) % 128 == 0);
  }
  CHECK(lines[0].value == 7);
  CHECK(lines[22].value == 19);
}

TEST_CASE("a dynamic array grows by halves at least, and resizes to what is asked", "[core]") {
  DynamicArray<int> grown, sized(1000);
  std::size_t moves = 0;
  for (int i = 0; i < 1000; ++i) {
    int const* const before = grown.data();
    grown.push_back(i);
    moves += grown.data() != before ? 1 : 0;
  }
  CHECK(moves <= 11);
  CHECK(sized.capacity() == 1000);
  CHECK(sized[999] == 0);
  grown.clear();
  CHECK(grown.capacity() >= 1000);  // kept, so that lists that are filled anew allocate once
}

TEST_CASE("a copy that throws leaves a dynamic array as it was, and no object behind", "[core]") {
  {
    DynamicArray<Counted> array;
    for (int i = 10; i < 13; ++i) array.emplace_back(i);
    array.emplace_back(13);
    CHECK_THROWS_AS(DynamicArray<Counted>(array), std::bad_alloc);
    CHECK_THROWS_AS(array.push_back(array[3]), std::bad_alloc);
    CHECK(array.size() == 4);
    CHECK(Counted::alive == 4);
    DynamicArray<Counted> taken = std::move(array);
    CHECK(array.empty());
    CHECK(taken.size() == 4);
  }
  CHECK(Counted::alive == 0);
}
