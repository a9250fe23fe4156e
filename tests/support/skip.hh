// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How a test says that this machine lacks what it needs: call skip(), then return.
#include <string>

namespace nntile::test {

/// Marks the running test case as skipped and prints the reason; the caller returns next.
void skip(std::string const& reason);

}  // namespace nntile::test
