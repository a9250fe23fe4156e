// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The runtimes whose tasks submit tasks, and what such tests call the uses of a buffer.

#include <tuple>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "tests/support/runtimes.hh"

namespace nntile::test {

using NestingRuntimes = std::tuple<Serial, DynamicRing, Threads, Ring>;

template <class H> constexpr Use<H> reading(H handle) { return {handle, Access::read}; }
template <class H> constexpr Use<H> writing(H handle) { return {handle, Access::write}; }
template <class H> constexpr Use<H> updating(H handle) { return {handle, Access::update}; }

}  // namespace nntile::test
