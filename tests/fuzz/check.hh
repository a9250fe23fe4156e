#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What the fuzz targets share: input as text, and a check that ends the process.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "nntile/core/error.hh"

namespace nntile::test {

inline std::string_view text_of(std::uint8_t const* data, std::size_t size) {
  return {reinterpret_cast<char const*>(data), size};
}

/// Ends the process where a property does not hold; the fuzzer keeps the input.
inline void must(bool holds, char const* what, std::string_view shown = "") {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s: %.*s\n", what, static_cast<int>(shown.size()),
               shown.data());
  std::abort();
}

/// Runs a reader. Returns whether it took the input: to refuse it with one line that names the
/// source is right as well, any other exception is not.
template <class Read> bool reads(Read read) {
  try {
    read();
    return true;
  } catch (FormatError const& error) {
    std::string_view const text = error.what();
    must(text.find('\n') == text.npos, "a refusal is one line", text);
    must(text.starts_with("'source'"), "a refusal names the source", text);
    must(text.size() < 2000, "a refusal is short", text);
    return false;
  }
}

}  // namespace nntile::test
