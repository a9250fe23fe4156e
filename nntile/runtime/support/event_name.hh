#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The name of a task in events and errors: its domain and its sequence there.

#include <cstdint>

namespace nntile::support {

/// The domain of the driving thread.
inline constexpr std::uint32_t root_domain = 0;

/// Packed into 64 bits, a sequence of the root domain is itself, below 2^63, as of a runtime that
/// has no domains; another domain has 20 bits, and its sequences 43.
struct EventName {
  static constexpr std::uint32_t domains = 1u << 20;
  static constexpr std::uint64_t sequences = std::uint64_t{1} << 43;  // in a domain but the root

  std::uint32_t domain;
  std::uint64_t sequence;

  constexpr std::uint64_t pack() const {
    return domain == root_domain ? sequence : other | domain * sequences | sequence;
  }
  static constexpr EventName unpack(std::uint64_t word) {
    if ((word & other) == 0) return {root_domain, word};
    return {static_cast<std::uint32_t>(word / sequences) & (domains - 1), word % sequences};
  }
  bool operator==(EventName const&) const = default;

 private:
  static constexpr std::uint64_t other = std::uint64_t{1} << 63;
};

}  // namespace nntile::support
