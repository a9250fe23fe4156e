// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The runtimes with a disk, beside emulated devices and without.

#include <tuple>

#include "nntile/runtime/disk/disk.hh"
#include "nntile/testing/device/disk.hh"
#include "tests/support/device_runtimes.hh"

namespace nntile::test {

using testing::EmulatedWithDisk;
using DiskRuntimes =
    std::tuple<SerialOn<EmulatedWithDisk>, EngineOn<EmulatedWithDisk>, RingOn<EmulatedWithDisk>>;
using HostDiskRuntimes = std::tuple<SerialOn<WithDisk<>>, EngineOn<WithDisk<>>, RingOn<WithDisk<>>>;

}  // namespace nntile::test
