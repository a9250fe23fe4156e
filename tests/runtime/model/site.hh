// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Places of the code under test, by the operations that they do.

#include <cstring>
#include <string_view>

namespace nntile::test::model {

/// The operation of an atomic or a condition that a call asks for.
enum class Kind { load, store, exchange, add, bits, compare, notify };

/// The function that an operation is called from. Use: a default argument.
struct Site {
  char const* file;
  char const* function;

  static Site here(char const* file = __builtin_FILE(),
                   char const* function = __builtin_FUNCTION()) {
    return {file, function};
  }
  std::string_view file_name() const {
    char const* const slash = std::strrchr(file, '/');
    return slash == nullptr ? file : slash + 1;
  }
  /// Without the arguments of a template, which g++ adds.
  std::string_view function_name() const {
    std::string_view const name(function);
    return name.substr(0, name.find('<'));
  }
};

}  // namespace nntile::test::model
