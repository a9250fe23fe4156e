// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a plan copies between places, and what emulated devices and a disk have copied, to be
// compared.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "nntile/graph/places.hh"
#include "nntile/testing/device.hh"

namespace nntile::test {

/// Copies and bytes by direction, as a plan says and as a runtime's devices have counted since
/// asked.
using Copied = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
inline Copied copied_by(Plan const& plan) {
  Copied copied;
  for (PlaceTraffic const& of : place_traffic(plan))
    copied[to_string(of.from) + " to " + to_string(of.to)] = {of.copies, of.bytes};
  return copied;
}
template <class R> Copied copied_on(R& runtime) {
  Copied copied;
  if constexpr (requires { runtime.device().copies(); })
    for (testing::EmulatedTraffic const& of : runtime.device().copies().take())
      copied[to_string(of.from) + " to " + to_string(of.to)] = {of.copies, of.bytes};
  if constexpr (requires { runtime.device().take_disk_traffic(); }) {
    auto const of = runtime.device().take_disk_traffic();
    if (of.writes != 0) copied["host to disk"] = {of.writes, of.written};
    if (of.reads != 0) copied["disk to host"] = {of.reads, of.read};
  }
  return copied;
}

}  // namespace nntile::test
