#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Finds compiled kernels: the companion library's only symbol that headers name.

#include <cstdint>
#include <string_view>

#include "nntile/core/codelet.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/numerics.hh"

namespace nntile {

/// Instruction set of the CPU kernels: x86-64-v2 (no FMA, bits of its own), -v3 (AVX2), -v4
/// (AVX-512); plain elsewhere. An argument of binding, never process-wide state. `best` is the best
/// that both the CPU and the build have.
enum class Isa : std::uint8_t { best, plain, v2, v3, v4 };

constexpr char const* name_of(Isa isa) {
  switch (isa) {
    case Isa::best:
      return "best";
    case Isa::plain:
      return "plain";
    case Isa::v2:
      return "v2";
    case Isa::v3:
      return "v3";
    case Isa::v4:
      return "v4";
  }
  return "?";
}

namespace kernels {

/// The entries of an op for dtypes `element` and `second` (ElementTypes), or null where
/// the library has none; codelets of all instruction sets name one computation. In fast mode a fast
/// kernel if there is one, else the exact one: the first time it loads the vendor's library, where
/// this build knows one and the machine has it. `isa` must be available. Allocates: where entries
/// of several lists join, once for each.
Codelet const* find(std::string_view op, DType element, DType second, Mode mode, Isa isa);

/// Whether this build has kernels for the instruction set and this CPU runs them.
bool available(Isa isa) noexcept;

/// Whether this build has kernels for the instruction set, whatever this CPU runs.
bool built(Isa isa) noexcept;

/// The best available instruction set.
Isa best() noexcept;

/// cos x, |x| <= 10, the same bits on every machine: what schedules and tables are computed with.
double cosine(double x) noexcept;

}  // namespace kernels
}  // namespace nntile
