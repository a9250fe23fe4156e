#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Watches operator new of this test program, per thread: the largest request, and one that fails on
// demand.
#include <cstddef>

namespace nntile::test {

/// Forgets the largest request so far.
void forget_allocations();
/// Bytes of the largest request since then.
std::size_t largest_allocation();
/// Lets `count` requests of this thread pass and fails the next one; negative: none fails.
void fail_allocation_after(long count);
/// Whether the request that was to fail has come.
bool allocation_failed();

}  // namespace nntile::test
