#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Computation: what the codelets of one kernel have in common, for whichever instruction set.

#include <cstdint>

#include "nntile/core/dtype.hh"
#include "nntile/core/numerics.hh"

namespace nntile {

namespace detail {

struct TypeName {
  /// FNV-1a of what stands between "=" and the end in the compiler's spelling of this function,
  /// nntile::ops::Softmax. A member, since g++ leaves out the namespace of a function that is none.
  template <class Type> static consteval std::uint64_t hash() {
    char const* text = __PRETTY_FUNCTION__;
    while (*text != '[') ++text;
    while (*text != '=') ++text;
    do ++text;
    while (*text == ' ');
    std::uint64_t result = 0xcbf29ce484222325u;
    for (; *text != ';' && *text != ']'; ++text)
      result = (result ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
    return result;
  }
};

}  // namespace detail

/// A number of an op's type, by its name with namespaces: tells apart ops that have one `name`, and
/// is the same with each compiler and in each shared library.
template <class Op> inline constexpr std::uint64_t type_number = detail::TypeName::hash<Op>();

/// An op, the element types of its operands, exact or fast. One constant of the process for each,
/// known by address: codelets of any instruction set and device name the same one.
struct Computation {
  char const* name = "";
  DType element = DType::fp32;
  DType second = DType::fp32;  // of operands of Kind::second; `element` where there are none
  Mode mode = Mode::exact;
  std::uint64_t op = 0;  // its type_number
};

/// The computation of an op, a user's as well.
template <class Op, DType element, DType second = element, Mode mode = Mode::exact>
inline constexpr Computation computation_of{Op::name, element, second, mode, type_number<Op>};

}  // namespace nntile
