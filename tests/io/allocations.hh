#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Watches operator new (and, where no sanitizer brings its own, posix_memalign) of this test
// program: the largest request of a thread, requests that fail on demand, what is not freed yet.
#include <cstddef>
#include <new>

#include "nntile/core/error.hh"

namespace nntile::test {

/// Whether requests can be watched. Where a sanitizer keeps operator new to itself, as clang's
/// thread sanitizer does, the test case is marked as skipped, and shall return.
bool allocations_watched();
/// Forgets the largest request so far, and what was held beside what is held now.
void forget_allocations();
/// Bytes of the largest request since then.
std::size_t largest_allocation();
/// Bytes of operator new that this thread holds: what it asked for and did not give back. Blocks
/// that go from one thread to another make this number meaningless.
std::size_t held_bytes();
/// The most that it held at a time since then.
std::size_t most_held_bytes();
enum class Failing { once, for_good };
/// Lets `count` requests of this thread pass and fails the next one, or all from there on;
/// negative: none fails.
void fail_allocation_after(long count, Failing failing = Failing::once);
/// Whether the request that was to fail has come.
bool allocation_failed();
/// How many blocks of operator new are not deleted, of any thread.
long live_allocations();

/// Runs `work` again and again, failing each of its requests for memory in turn until none is left
/// to fail; returns how many there were. `check(work_threw, error)` looks at each failure: `error`
/// is
/// "" for OutOfMemory and std::bad_alloc, else what came instead, or what was not given back.
template <class Work, class Check>
long fail_each_allocation(Failing failing, Work work, Check check) {
  for (long count = 0;; ++count) {
    char const* error = "";
    bool threw = true;
    long const before = live_allocations();
    fail_allocation_after(count, failing);
    try {
      work();
      threw = false;
    } catch (OutOfMemory const&) {
    } catch (std::bad_alloc const&) {
    } catch (...) {
      error = "another exception";
    }
    bool const reached = allocation_failed();
    fail_allocation_after(-1);
    if (live_allocations() != before) error = "memory was not given back";
    check(threw, error);
    if (!reached) return count;
  }
}

}  // namespace nntile::test
