#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Access of a kernel to its call: arguments, and buffers by the operands' names.

#include <cstddef>
#include <cstring>
#include <new>

#include "nntile/core/codelet.hh"
#include "nntile/core/macros.hh"
#include "nntile/ops/operand.hh"

namespace nntile {

namespace detail {

/// Whether tasks of the op may lack operands of its table: those that attributes leave out, hidden
/// ones, those of other phases.
template <class Op> consteval bool lacks_operands() {
  if (Op::hooks.present != nullptr || Op::hooks.phases != nullptr) return true;
  for (OperandInfo const& operand : Op::operands)
    if (operand.carry != Carry::none) return true;
  return false;
}

/// The operands of the table that are not hidden.
template <class Op> consteval OperandSet visible_operands() {
  OperandSet set;
  for (std::size_t o = 0; o < Op::operands.size(); ++o)
    if (Op::operands[o].carry == Carry::none) set.add(OperandIndex(o));
  return set;
}

}  // namespace detail

/// The bytes that a kernel of the op is called with (KernelCall::arguments): `args`, and which
/// operands have buffers, where a task may lack some.
template <class Op, bool = detail::lacks_operands<Op>()> struct Arguments {
  typename Op::Args args;
  OperandSet operands = detail::visible_operands<Op>();
};
template <class Op> struct Arguments<Op, false> {
  typename Op::Args args;
};

/// The arguments that the op's `args` filled in for this task.
template <class Op> NNTILE_ALWAYS_INLINE typename Op::Args arguments(KernelCall const& call) {
  typename Op::Args args;
  std::memcpy(&args, call.arguments, sizeof args);
  return args;
}

/// Writes Arguments<Op> of a task over zeroed memory, so that equal arguments have equal bytes.
template <class Op, class Range>
void write_arguments(typename Op::Attrs const& attrs, Range const& range, void* out) {
  std::memset(out, 0, sizeof(Arguments<Op>));
  ::new (out) typename Op::Args(Op::args(attrs, range));
  if constexpr (detail::lacks_operands<Op>())
    std::memcpy(static_cast<char*>(out) + offsetof(Arguments<Op>, operands), &range.operands,
                sizeof range.operands);
}

/// Buffers of a task by the names of its operands. A task has them in the order of the op's table,
/// those left out that it lacks.
template <class Op> class Buffers {
 public:
  NNTILE_ALWAYS_INLINE explicit Buffers(KernelCall const& call) : pointers_(call.buffers) {
    if constexpr (detail::lacks_operands<Op>())
      std::memcpy(&operands_,
                  static_cast<char const*>(call.arguments) + offsetof(Arguments<Op>, operands),
                  sizeof operands_);
  }

  /// The operand's elements; null where the task lacks it.
  template <class T> NNTILE_ALWAYS_INLINE T* at(typename Op::Operand operand) const {
    OperandIndex const index = operand;
    if constexpr (detail::lacks_operands<Op>()) {
      if (!operands_.has(index)) return nullptr;
      return static_cast<T*>(pointers_[operands_.rank(index)]);
    } else {
      return static_cast<T*>(pointers_[index.position()]);
    }
  }

 private:
  void* const* pointers_;
  OperandSet operands_;
};

}  // namespace nntile
