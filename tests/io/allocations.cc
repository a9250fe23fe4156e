// SPDX-License-Identifier: BSD-3-Clause
#include "tests/io/allocations.hh"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tests/support/catch.hh"

namespace {

thread_local std::size_t largest = 0;
thread_local long passing = -1;
thread_local bool failed = false;

void* request(std::size_t bytes) noexcept {
  largest = std::max(largest, bytes);
  if (passing == 0) failed = true;
  if (passing >= 0 && passing-- == 0) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

void nntile::test::forget_allocations() { largest = 0; }
std::size_t nntile::test::largest_allocation() { return largest; }
void nntile::test::fail_allocation_after(long count) {
  passing = count;
  failed = false;
}
bool nntile::test::allocation_failed() { return failed; }

void* operator new(std::size_t bytes) {
  if (void* const memory = request(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept { return request(bytes); }
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("requests for memory are watched and fail on demand", "[io][allocations]") {
  nntile::test::forget_allocations();
  ::operator delete(::operator new(1000));
  CHECK(nntile::test::largest_allocation() == 1000);
  nntile::test::fail_allocation_after(1);
  void* const first = ::operator new(8);
  void* const second = ::operator new(8, std::nothrow);
  bool const reached = nntile::test::allocation_failed();
  nntile::test::fail_allocation_after(-1);
  CHECK(reached);
  CHECK(first != nullptr);
  CHECK(second == nullptr);
  ::operator delete(first);
}
