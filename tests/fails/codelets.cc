// error: CpuEntry.*noexcept
// error: AsyncEntry.*noexcept
// SPDX-License-Identifier: BSD-3-Clause
// Entries of codelets that may throw: an exception of a kernel has nowhere to go.
#include "nntile/core/codelet.hh"

using namespace nntile;

#if NNTILE_FAIL == 1
Status throws(KernelCall const&) { throw 1; }
#else
Status throws(KernelCall const&) noexcept { return {}; }
#endif
#if NNTILE_FAIL == 2
Status starts(KernelCall const&, Completion) { throw 1; }
#else
Status starts(KernelCall const&, Completion) noexcept { return {}; }
#endif

constexpr Codelet plain{"plain", &throws};
constexpr Codelet later{"later", nullptr, nullptr, &starts};

int main() { return plain.runs_on_cpu() && later.runs_on_cpu() ? 0 : 1; }
