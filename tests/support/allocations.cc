// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/allocations.hh"

#include <atomic>
#include <cerrno>
#include <iterator>

#if defined(__has_feature)  // clang 14 does not define g++'s names
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NNTILE_TEST_SANITIZED
#endif
#endif
#if defined(NNTILE_TEST_SANITIZED) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define NNTILE_TEST_COUNTS 0
#else
#define NNTILE_TEST_COUNTS 1
#endif

namespace nntile::test {
namespace {

constinit std::atomic<std::size_t> aligned_bytes{0};
constinit std::atomic<std::size_t> all_calls{0};
constinit std::atomic<std::size_t> large_calls{0};
constinit std::atomic<std::size_t> all_bytes{0};
constinit thread_local std::size_t own_aligned_bytes = 0;

constinit LargeAllocation large_ones[64];

[[maybe_unused]] void note(std::size_t bytes, void const* caller) {
  all_calls.fetch_add(1, std::memory_order_relaxed);
  all_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes < 4096) return;
  std::size_t const number = large_calls.fetch_add(1, std::memory_order_relaxed);
  large_ones[number % std::size(large_ones)] = {caller, bytes};
}

}  // namespace

bool allocations_are_counted() { return NNTILE_TEST_COUNTS != 0; }
AllocationTotals allocation_totals() {
  return {aligned_bytes.load(), all_calls.load(), large_calls.load(), all_bytes.load()};
}
std::size_t thread_aligned_bytes() { return own_aligned_bytes; }
LargeAllocation large_allocation(std::size_t number) {
  return large_ones[number % std::size(large_ones)];
}

}  // namespace nntile::test

#if NNTILE_TEST_COUNTS
// glibc's own, under the names that it keeps for programs which replace the public ones.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) {
  nntile::test::note(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  nntile::test::note(count * bytes, __builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* pointer, std::size_t bytes) {
  nntile::test::note(bytes, __builtin_return_address(0));
  return __libc_realloc(pointer, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  nntile::test::note(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  nntile::test::aligned_bytes.fetch_add(bytes, std::memory_order_relaxed);
  nntile::test::own_aligned_bytes += bytes;
  *pointer = memalign(alignment, bytes);
  return *pointer != nullptr || bytes == 0 ? 0 : ENOMEM;
}
void free(void* pointer) { __libc_free(pointer); }
}
#endif
