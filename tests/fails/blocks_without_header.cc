// error: include blocks\.hh of the runtime's folder
// SPDX-License-Identifier: BSD-3-Clause
// A program with tasks of blocks on a ring, without the ring's header for them, names that header.
#include "nntile/runtime/blocks.hh"
#ifndef NNTILE_FAIL
#include "nntile/runtime/ring/blocks.hh"
#else
#include "nntile/runtime/ring/ring.hh"
#endif

using namespace nntile;

Status do_nothing(KernelCall const&, Block) noexcept { return {}; }
constexpr BlockCodelet nothing = in_blocks<&do_nothing>("nothing");

void run(Ring& runtime) { submit_blocks(runtime, nothing, 2, {}); }
