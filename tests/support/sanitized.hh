// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether a sanitizer watches, which makes everything five to fifteen times slower.

namespace nntile::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace nntile::test
