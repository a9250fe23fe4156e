#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The time of a message between two ranks, by a few numbers.

#include <cfloat>
#include <string>

#include "nntile/core/error.hh"

namespace nntile {

/// Costs of one link, in seconds and bytes. A worker spends `overhead` and `overhead_per_byte` at
/// each end of a message, the link carries its bytes at `bandwidth`, and they are at the other end
/// `latency` later: o, O, 1/G and L of the LogGOPS model (Hoefler, Schneider, Lumsdaine 2010). A
/// network that moves bytes by itself has no overhead per byte; where a copy by the processor
/// carries them, that is nearly all there is, and the bandwidth may be infinite.
struct LinkModel {
  double latency = 2e-6;         // seconds
  double bandwidth = 12.5e9;     // bytes/s in each direction: 100 Gbit/s
  double overhead = 0.5e-6;      // seconds of a worker, for a message at each end
  double overhead_per_byte = 0;  // seconds of a worker, for a byte at each end
};

/// Says what no link has, as of a machine.
inline std::string fault_of(LinkModel const& link) {
  auto const is_time = [](double seconds) { return seconds >= 0 && seconds <= DBL_MAX; };
  if (!is_time(link.latency)) return concat("a latency of ", link.latency, " s; at least 0");
  if (!(link.bandwidth > 0)) return concat("a bandwidth of ", link.bandwidth, " bytes/s; above 0");
  if (!is_time(link.overhead) || !is_time(link.overhead_per_byte))
    return concat("overheads of ", link.overhead, " s and ", link.overhead_per_byte,
                  " s a byte; at least 0");
  return {};
}

}  // namespace nntile
