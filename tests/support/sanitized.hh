// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether a sanitizer watches, which makes everything five to fifteen times slower.

namespace nntile::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool address_sanitized = true;
#else
inline constexpr bool address_sanitized = false;
#endif
#ifdef __SANITIZE_THREAD__
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = address_sanitized;
#endif

}  // namespace nntile::test
