// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/allocations.hh"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <new>
#include <utility>

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

// Calls that pass before one fails; negative: all.
constinit thread_local long passes = -1;
constinit thread_local long new_passes = -1;  // of operator new

constinit LargeAllocation large_ones[64];

[[maybe_unused]] bool is_to_fail(long& left) { return left >= 0 && left-- == 0; }

[[maybe_unused]] void note(std::size_t bytes, void const* caller) {
  all_calls.fetch_add(1, std::memory_order_relaxed);
  all_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes < 4096) return;
  std::size_t const number = large_calls.fetch_add(1, std::memory_order_relaxed);
  large_ones[number % std::size(large_ones)] = {caller, bytes};
}

/// Bytes on the heap and the most of them.
class Level {
 public:
  void add(std::ptrdiff_t bytes) {
    std::ptrdiff_t const now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::ptrdiff_t most = most_.load(std::memory_order_relaxed);
    while (most < now && !most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  void begin() { most_.store(now_.load()); }
  std::size_t now() const { return static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, now_)); }
  std::size_t most() const { return static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, most_)); }

 private:
  std::atomic<std::ptrdiff_t> now_{0}, most_{0};
};

/// Bytes of each buffer on the heap, which malloc does not tell: it rounds up.
class BufferTable {
 public:
  void add(void* pointer, std::size_t bytes) {
    while (busy_.test_and_set()) {
    }
    std::size_t at = place(pointer);
    while (entries_[at].pointer != nullptr && entries_[at].pointer != &removed_) at = next(at);
    entries_[at] = {pointer, bytes};
    busy_.clear();
  }
  /// 0 where it is none.
  std::size_t take(void* pointer) {
    while (busy_.test_and_set()) {
    }
    std::size_t at = place(pointer), bytes = 0;
    while (entries_[at].pointer != nullptr && entries_[at].pointer != pointer) at = next(at);
    if (entries_[at].pointer == pointer)
      bytes = entries_[at].bytes, entries_[at].pointer = &removed_;
    busy_.clear();
    return bytes;
  }

 private:
  struct Entry {
    void* pointer;
    std::size_t bytes;
  };
  static constexpr std::size_t capacity = 1 << 16;
  static std::size_t place(void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) / 64 % capacity;
  }
  static std::size_t next(std::size_t at) { return (at + 1) % capacity; }

  std::atomic_flag busy_{};
  char removed_ = 0;
  Entry entries_[capacity] = {};
};

constinit std::atomic<bool> watched{false};
constinit Level buffers, others;
constinit BufferTable buffer_table;

[[maybe_unused]] void note_life(void* pointer, bool begins) {
  if (pointer == nullptr || !watched.load(std::memory_order_relaxed)) return;
  auto const bytes = static_cast<std::ptrdiff_t>(malloc_usable_size(pointer));
  others.add(begins ? bytes : -bytes);
}
[[maybe_unused]] void note_buffer(void* pointer, std::size_t bytes) {
  if (pointer == nullptr || !watched.load(std::memory_order_relaxed)) return;
  buffer_table.add(pointer, bytes);
  buffers.add(static_cast<std::ptrdiff_t>(bytes));
}
/// Whether it was a buffer.
[[maybe_unused]] bool note_end_of_buffer(void* pointer) {
  if (!watched.load(std::memory_order_relaxed)) return false;
  std::size_t const bytes = buffer_table.take(pointer);
  buffers.add(-static_cast<std::ptrdiff_t>(bytes));
  return bytes != 0;
}

}  // namespace

bool allocations_are_counted() { return NNTILE_TEST_COUNTS != 0; }
AllocationTotals allocation_totals() {
  return {aligned_bytes.load(), all_calls.load(), large_calls.load(), all_bytes.load()};
}
long fail_allocation_after(long count) { return std::exchange(passes, count); }
long fail_new_after(long count) { return std::exchange(new_passes, count); }
std::size_t thread_aligned_bytes() { return own_aligned_bytes; }
LargeAllocation large_allocation(std::size_t number) {
  return large_ones[number % std::size(large_ones)];
}

bool watch_heap() {
  if (!allocations_are_counted()) return false;
  watched.store(true);
  return true;
}
HeapBytes heap_bytes() { return {buffers.now(), others.now()}; }
HeapBytes heap_peak() { return {buffers.most(), others.most()}; }
void begin_heap_peak() { buffers.begin(), others.begin(); }

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
  if (nntile::test::is_to_fail(nntile::test::passes)) return nullptr;
  void* const pointer = __libc_malloc(bytes);
  nntile::test::note_life(pointer, true);
  return pointer;
}
void* calloc(std::size_t count, std::size_t bytes) {
  nntile::test::note(count * bytes, __builtin_return_address(0));
  void* const pointer = __libc_calloc(count, bytes);
  nntile::test::note_life(pointer, true);
  return pointer;
}
void* realloc(void* pointer, std::size_t bytes) {
  nntile::test::note(bytes, __builtin_return_address(0));
  nntile::test::note_life(pointer, false);
  void* const other = __libc_realloc(pointer, bytes);
  nntile::test::note_life(other == nullptr && bytes != 0 ? pointer : other, true);
  return other;
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  nntile::test::note(bytes, __builtin_return_address(0));
  void* const pointer = __libc_memalign(alignment, bytes);
  nntile::test::note_life(pointer, true);
  return pointer;
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  nntile::test::aligned_bytes.fetch_add(bytes, std::memory_order_relaxed);
  nntile::test::own_aligned_bytes += bytes;
  nntile::test::note(bytes, __builtin_return_address(0));
  *pointer = __libc_memalign(alignment, bytes);
  nntile::test::note_buffer(*pointer, bytes);
  return *pointer != nullptr || bytes == 0 ? 0 : ENOMEM;
}
void free(void* pointer) {
  if (!nntile::test::note_end_of_buffer(pointer)) nntile::test::note_life(pointer, false);
  __libc_free(pointer);
}
}

void* operator new(std::size_t bytes) {
  if (!nntile::test::is_to_fail(nntile::test::new_passes))
    if (void* const pointer = malloc(bytes == 0 ? 1 : bytes)) return pointer;
  throw std::bad_alloc();
}
#endif
