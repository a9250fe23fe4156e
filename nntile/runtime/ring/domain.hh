#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A submission domain: the tasks of one submitter. Many may share one machine.

#include <cstdint>

#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/ring/window.hh"

namespace nntile::detail::ring {

template <class Policy> class Machine;

/// The domain of the driving thread.
inline constexpr std::uint32_t root_domain = 0;

/// A task's name in an Event: its domain, and its sequence there. Packed into 64 bits, a sequence
/// of the root domain is itself, below 2^63; another domain has 20 bits, and its sequences 43.
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

/// The state of one submitter, beside the buffers' dependences (reclaim.hh), which it alone
/// touches.
template <class Policy> struct Domain {
  explicit Domain(Machine<Policy>& of, std::uint32_t its_number = root_domain)
      : machine(of), number(its_number) {}

  Machine<Policy>& machine;
  std::uint32_t const number;
  Window<Policy> window;
  PendingTable<Policy> pending;
};

}  // namespace nntile::detail::ring
