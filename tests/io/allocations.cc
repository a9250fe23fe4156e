// SPDX-License-Identifier: BSD-3-Clause
#include "tests/io/allocations.hh"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

#if !defined(__clang__) || !defined(__SANITIZE_THREAD__)
#define NNTILE_OPERATOR_NEW
#endif

namespace {

thread_local std::size_t largest = 0;
thread_local long passing = -1;
thread_local bool for_good = false;
thread_local bool failed = false;
constinit std::atomic<long> live{0};
thread_local std::size_t held = 0;
thread_local std::size_t most_held = 0;

/// Whether this request is let through.
bool passes(std::size_t bytes) noexcept {
  largest = std::max(largest, bytes);
  if (passing < 0) return true;
  if (passing > 0) {
    --passing;
    return true;
  }
  failed = true;
  if (!for_good) passing = -1;
  return false;
}

[[maybe_unused]] void* request(std::size_t bytes) noexcept {
  if (!passes(bytes)) return nullptr;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) return nullptr;
  live.fetch_add(1, std::memory_order_relaxed);
  held += malloc_usable_size(memory);
  most_held = std::max(most_held, held);
  return memory;
}

[[maybe_unused]] void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);
  held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

bool nntile::test::allocations_watched() {
#ifdef NNTILE_OPERATOR_NEW
  return true;
#else
  skip("this sanitizer keeps operator new to itself");
  return false;
#endif
}
void nntile::test::forget_allocations() {
  largest = 0;
  most_held = held;
}
std::size_t nntile::test::held_bytes() { return held; }
std::size_t nntile::test::most_held_bytes() { return most_held; }
std::size_t nntile::test::largest_allocation() { return largest; }
void nntile::test::fail_allocation_after(long count, Failing failing) {
  passing = count;
  for_good = failing == Failing::for_good;
  if (count >= 0) failed = false;
}
bool nntile::test::allocation_failed() { return failed; }
long nntile::test::live_allocations() { return live.load(std::memory_order_relaxed); }

#ifdef NNTILE_OPERATOR_NEW
void* operator new(std::size_t bytes) {
  if (void* const memory = request(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept { return request(bytes); }
__attribute__((noinline)) void operator delete(void* memory) noexcept { give_back(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
#endif

// Memory of buffers is not operator new's. A sanitizer's own family cannot be replaced in part.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* __libc_memalign(std::size_t, std::size_t);
extern "C" int posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  void* const memory = passes(bytes) ? __libc_memalign(alignment, bytes) : nullptr;
  if (memory == nullptr) return ENOMEM;
  *pointer = memory;
  return 0;
}
#endif

TEST_CASE("requests for memory are watched and fail on demand", "[io][allocations]") {
  using namespace nntile::test;
  if (!allocations_watched()) return;
  forget_allocations();
  ::operator delete(::operator new(1000));
  CHECK(largest_allocation() == 1000);
  CHECK(most_held_bytes() - held_bytes() >= 1000);
  CHECK(most_held_bytes() - held_bytes() < 1100);
  for (Failing const failing : {Failing::once, Failing::for_good}) {
    long const before = live_allocations();
    fail_allocation_after(1, failing);
    void* const first = ::operator new(8);
    long const one = live_allocations();
    void* const second = ::operator new(8, std::nothrow);
    void* const third = ::operator new(8, std::nothrow);
    bool const reached = allocation_failed();
    fail_allocation_after(-1);
    CHECK(reached);
    CHECK(first != nullptr);
    CHECK(second == nullptr);
    CHECK((third == nullptr) == (failing == Failing::for_good));
    CHECK(one == before + 1);
    ::operator delete(first);
    ::operator delete(third);
    CHECK(live_allocations() == before);
  }
}
