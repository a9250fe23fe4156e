// SPDX-License-Identifier: BSD-3-Clause
// The library's own functions as kernels of one operand, so that tests and commands can call every
// variant.
#include "kernels/cpu/elementwise.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

struct NoAttrs {};

#define NNTILE_FUNCTION(Name, function)                                                    \
  struct Name : Elementwise<Name, NoAttrs> {                                               \
    static constexpr char const* name = "function_" #function;                             \
    enum class Operand : std::uint8_t { x, y };                                            \
    static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};       \
    static constexpr Fields fields{};                                                      \
    [[maybe_unused]] static constexpr char const* no_gradient = "it is for tests";         \
    template <class V> static constexpr V apply(Attrs const&, V x) { return function(x); } \
  };
NNTILE_FUNCTION(Exp, exp)
NNTILE_FUNCTION(Log, log)
NNTILE_FUNCTION(Tanh, tanh)
NNTILE_FUNCTION(Erf, erf)
#undef NNTILE_FUNCTION

constinit auto const kernels = elementwise_kernels(OpList<Exp, Log, Tanh, Erf>{});

}  // namespace
NNTILE_KERNEL_LIST(functions, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
