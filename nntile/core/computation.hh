#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Computation: what the codelets of one kernel have in common, for whichever instruction set.

#include "nntile/core/dtype.hh"
#include "nntile/core/numerics.hh"

namespace nntile {

/// An op, the element types of its operands, exact or fast. One constant of the process for each,
/// known by address: codelets of any instruction set and device name the same one.
struct Computation {
  char const* name = "";
  DType element = DType::fp32;
  DType second = DType::fp32;  // of operands of Kind::second; `element` where there are none
  Mode mode = Mode::exact;
};

/// The computation of an op, a user's as well.
template <class Op, DType element, DType second = element, Mode mode = Mode::exact>
inline constexpr Computation computation_of{Op::name, element, second, mode};

}  // namespace nntile
