#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The kernels of devices, by op.

#include <memory>
#include <span>
#include <string>

#include "kernels/cpu/kernel.hh"

namespace nntile::kernels::cuda {

/// One list for each file of kernels.
std::span<KernelList const* const> lists() noexcept;

/// Kernels of the vendor, for fast mode, none where its library is not there; loads it. Throws
/// DeviceError: the library is of another version than the one that they were compiled for.
KernelList fast_kernels();
/// Names the library that computes products in fast mode, and the reason if it is not the vendor's.
/// Throws as fast_kernels.
std::string fast_products();
/// Keeps the objects that the vendor's kernels make, while one of these lives.
std::shared_ptr<void const> keep_products();

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

/// From then on, find() joins these entries with those of the CPU. The lists are constants; `fast`
/// gives those of fast mode, and is called when such a kernel is looked for.
void join_device_kernels(std::span<KernelList const* const> lists,
                         KernelList (*fast)() = nullptr) noexcept;

}  // namespace nntile::kernels
