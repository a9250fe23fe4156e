// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether a runtime has the driver's thread alone.

#include "nntile/runtime/serial/serial.hh"
#include "tests/support/places.hh"

namespace nntile::test {

/// Whether it takes one worker, no more. A runtime that wraps another is as that is.
template <class R> inline constexpr bool runs_alone = false;
template <class D> inline constexpr bool runs_alone<BasicSerial<D>> = true;
template <class R> inline constexpr bool runs_alone<Places<R>> = runs_alone<R>;

}  // namespace nntile::test
