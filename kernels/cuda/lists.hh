#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The kernels of devices, by op.

#include <span>

#include "kernels/cpu/kernel.hh"

namespace nntile::kernels::cuda {

/// One list for each file of kernels.
std::span<KernelList const* const> lists() noexcept;

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

/// From then on, find() joins these entries with those of the CPU. The lists are constants.
void join_device_kernels(std::span<KernelList const* const> lists) noexcept;

}  // namespace nntile::kernels
