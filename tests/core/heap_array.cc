// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/heap_array.hh"

#include <atomic>
#include <cstdint>
#include <utility>

#include "tests/support/catch.hh"

using namespace nntile;

namespace {

struct alignas(128) Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(Counted const&) = delete;
  Counted& operator=(Counted const&) = delete;
  int value = 7;
  static inline int alive = 0;
};

}  // namespace

TEST_CASE("an array on the heap ends each object once, wherever it was moved", "[core]") {
  {
    HeapArray<Counted> none, three(3);
    CHECK(none.get() == nullptr);
    CHECK(Counted::alive == 3);
    CHECK(reinterpret_cast<std::uintptr_t>(three.get()) % 128 == 0);
    three[2].value = 9;
    HeapArray<Counted> moved(std::move(three));
    CHECK(moved[2].value == 9);
    CHECK(moved[1].value == 7);
    none = std::move(moved);
    CHECK(none[2].value == 9);
    none = HeapArray<Counted>(1);
    CHECK(Counted::alive == 1);
    auto& itself = none;
    none = std::move(itself);
    CHECK(none[0].value == 7);
  }
  CHECK(Counted::alive == 0);
}

TEST_CASE("an array on the heap begins as zeros", "[core]") {
  HeapArray<std::atomic<std::uint64_t>> const words(1000);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < 1000; ++i) sum += words[i].load();
  CHECK(sum == 0);
}
