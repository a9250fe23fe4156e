// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string>

#include "nntile/core/error.hh"
#include "nntile/runtime/cuda.hh"

namespace nntile::test {

/// Why there is no device, or "".
inline std::string const& missing_device() {
  static std::string const why = []() -> std::string {
    try {
      Cuda const devices;
      return "";
    } catch (Error const& error) {
      return error.what();
    }
  }();
  return why;
}

}  // namespace nntile::test
