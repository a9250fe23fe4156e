// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Counts what the process allocates, through a malloc family of the test executable's own: a
// witness that does not ask the library. Link support/allocations.cc.

#include <cstddef>
#include <new>

namespace nntile::test {

/// False where a sanitizer brings its own malloc.
bool allocations_are_counted();

struct AllocationTotals {
  std::size_t aligned_bytes =
      0;                  // by posix_memalign: how memory for buffers is taken, and it alone
  std::size_t calls = 0;  // of any size
  std::size_t large = 0;  // calls for 4 KiB or more
  std::size_t bytes = 0;  // of all calls
};
AllocationTotals allocation_totals();
/// The aligned bytes of the calling thread alone: of one rank of several.
std::size_t thread_aligned_bytes();

/// Lets `count` calls of malloc by this thread pass and fails the next one; negative: fails none.
/// Returns the count that was left, negative also where the call that was to fail has come. Without
/// effect where allocations are not counted.
long fail_allocation_after(long count);
/// The same of calls of operator new alone: some C libraries end the process without memory.
long fail_new_after(long count);

/// Makes a call, and once more where it throws std::bad_alloc; counts these.
struct Retry {
  int failures = 0;
  template <class Call> void operator()(Call call) {
    for (int i = 0; i < 2; ++i) try {
        return (void)call();
      } catch (std::bad_alloc const&) {
        ++failures;
      }
  }
};

/// One call for 4 KiB or more, and where in the process it came from: of operator new its library.
struct LargeAllocation {
  void const* caller = nullptr;
  std::size_t bytes = 0;
};
/// The number-th since the process began, which is one of the last 64.
LargeAllocation large_allocation(std::size_t number);

/// Bytes that are on the heap at a time, of those that were allocated since the watch began.
struct HeapBytes {
  std::size_t buffers = 0;  // of posix_memalign, as asked for
  std::size_t others = 0;   // of all else, as malloc rounds them up
};
/// From now on; false where that cannot be done.
bool watch_heap();
HeapBytes heap_bytes();
/// The most of each since the watch began, or since `others` were last begun anew.
HeapBytes heap_peak();
void begin_heap_peak();

/// What was allocated since this object was made, by any thread.
class AllocationCount {
 public:
  AllocationCount() : begin_(allocation_totals()) {}
  std::size_t aligned_bytes() const {
    return allocation_totals().aligned_bytes - begin_.aligned_bytes;
  }
  std::size_t calls() const { return allocation_totals().calls - begin_.calls; }
  std::size_t large() const { return allocation_totals().large - begin_.large; }
  std::size_t bytes() const { return allocation_totals().bytes - begin_.bytes; }

 private:
  AllocationTotals begin_;
};

}  // namespace nntile::test
