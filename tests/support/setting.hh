#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A number that an environment variable sets, such as the runs of a long test.
#include <cstdint>
#include <cstdlib>

namespace nntile::test {

/// The value of the environment variable `name`, or `otherwise` if it is not set.
inline std::uint64_t setting(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace nntile::test
