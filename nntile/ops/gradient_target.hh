#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The result of an op's backward pass where the op writes several gradients and some go elsewhere.

#include <string_view>

#include "nntile/core/dtype.hh"
#include "nntile/core/error.hh"

namespace nntile::ops {

/// The target of the operand's gradient where that is `direct`; else a temporary of this shape,
/// which is overwritten, under the operand's name and the ending.
template <class Builder, class Operand, class Shape>
auto target_or_temporary(Builder& b, Operand operand, bool direct, Shape const& shape, DType dtype,
                         std::string_view ending) {
  using Target = decltype(b.target(operand));
  if (direct) return b.target(operand);
  return Target{b.temporary(shape, dtype, concat(b.name(operand), ending)), 0};
}

}  // namespace nntile::ops
