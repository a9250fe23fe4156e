// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The runtimes that drive devices, each built from RuntimeOptions and what its device takes.

#include <tuple>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/device.hh"
#include "tests/runtime/thread_executor.hh"

namespace nntile::test {

template <Device D> struct DevicePolicy : RingPolicy {
  using Device = D;
};

template <Device D> using SerialOn = BasicSerial<D>;
template <Device D> using EngineOn = Engine<ThreadExecutor, D>;
template <Device D> using RingOn = BasicRing<DevicePolicy<D>>;

using DeviceRuntimes =
    std::tuple<SerialOn<testing::EmulatedDevice>, EngineOn<testing::EmulatedDevice>,
               RingOn<testing::EmulatedDevice>>;

}  // namespace nntile::test
