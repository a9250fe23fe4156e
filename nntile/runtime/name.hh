#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The name of a runtime in options, messages and records of benchmarks.

#include <concepts>
#include <string_view>

#include "nntile/runtime/concept.hh"

namespace nntile {

/// The name of a runtime, in lower case: its member `runtime_name`. Specialise this for a runtime
/// whose class you cannot change.
template <class R>
inline constexpr std::string_view runtime_name = [] {
  if constexpr (requires { std::string_view(R::runtime_name); })
    return std::string_view(R::runtime_name);
  else
    return std::string_view();
}();

/// Has a name.
template <class R>
concept NamedRuntime = Runtime<R> && !runtime_name<R>.empty();

}  // namespace nntile
