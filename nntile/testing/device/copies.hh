#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Bytes that emulated devices have copied, by direction: to compare with what a plan says.

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "nntile/core/place.hh"

namespace nntile::testing {

/// Copies from one place to another; pinned memory counts as the host's.
struct EmulatedTraffic {
  Place from = {}, to = {};
  std::int64_t copies = 0;
  std::int64_t bytes = 0;
  bool operator==(EmulatedTraffic const&) const = default;
};

/// Counts copies that have ended well. Every member may be called from any thread.
class EmulatedCopies {
 public:
  void count(Place from, Place to, std::int64_t bytes) {
    std::lock_guard const lock(mutex_);
    auto at = std::find_if(all_.begin(), all_.end(), [&](EmulatedTraffic const& of) {
      return of.from == from && of.to == to;
    });
    if (at == all_.end()) at = all_.insert(all_.end(), {from, to});
    at->copies += 1;
    at->bytes += bytes;
  }
  /// Counts since the last call, by pair of places, in the order of the first copies.
  std::vector<EmulatedTraffic> take() {
    std::lock_guard const lock(mutex_);
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<EmulatedTraffic> all_;
};

}  // namespace nntile::testing
