#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A place in a source file, for errors that come later.

namespace nntile {

/// Names the line of a call, as the default of its parameter: f(CallSite site = CallSite::here()).
/// (clang 14 has no std::source_location.)
struct CallSite {
  char const* file = nullptr;
  int line = 0;

  static constexpr CallSite here(char const* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace nntile
