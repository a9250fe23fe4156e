// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A task that ends when the test says so.

#include <atomic>
#include <cstring>

#include "nntile/core/codelet.hh"

namespace nntile::test {

/// A token that the test completes, and whether it is there.
struct Gate {
  Completion token;
  std::atomic<bool> open{false};
};

/// Its argument is the address of the gate.
inline constexpr Codelet wait_codelet{
    "wait", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      Gate* gate;
      std::memcpy(&gate, call.arguments, sizeof gate);
      gate->token = token;
      gate->open = true;
      return {};
    }};

}  // namespace nntile::test
