#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Element types of a call, from the dtypes of its operands.

#include <span>
#include <string>
#include <string_view>

#include "nntile/core/error.hh"
#include "nntile/ops/concept.hh"

namespace nntile {

/// An operand as a call gives it; the name is the tensor's.
struct TypedOperand {
  DType dtype = DType::fp32;
  std::string_view name = {};
};

namespace detail {

/// A set of dtypes, in the order of DType. Plain bits: every file that calls an op compiles this.
struct DtypeSet {
  std::uint32_t bits = 0;
  bool has(DType dtype) const { return (bits >> static_cast<unsigned>(dtype) & 1u) != 0; }
  void add(DType dtype) { bits |= 1u << static_cast<unsigned>(dtype); }

  /// "fp64, fp32 or bf16".
  std::string text() const {
    std::string result;
    std::uint32_t left = bits;
    for (int i = 0; i < dtype_count; ++i) {
      if (!has(static_cast<DType>(i))) continue;
      left &= ~(1u << i);
      if (!result.empty()) result += left == 0 ? " or " : ", ";
      result += name_of(static_cast<DType>(i));
    }
    return result;
  }
};

/// Dtypes that an operand may have whatever the others have; none if it depends on them alone.
inline DtypeSet dtypes_of_kind(OpInfo const& op, Kind kind) {
  DtypeSet result;
  if (kind == Kind::second)
    for (ElementTypes const& types : op.types) result.add(types.second);
  else if (kind != Kind::element && kind != Kind::accumulator)
    result.add(dtype_of_kind(kind, {}));
  return result;
}

/// "x ('x1') is fp32".
inline std::string type_text(OperandInfo const& operand, TypedOperand const& given) {
  std::string text = operand.name;
  text += " ('";
  text += given.name;
  text += "') is ";
  return text += name_of(given.dtype);
}

[[noreturn]] inline void refuse_types(OpInfo const& op, std::string const& why) {
  std::string text = op.name;
  text += ": ";
  throw TypeError(text += why);
}

/// Checks operands whose dtype does not depend on the others, as an index. Throws TypeError, with
/// the operand that it seems to be swapped with.
inline void check_fixed_types(OpInfo const& op, Operands const& operands,
                              std::span<TypedOperand const> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    DtypeSet const wanted = dtypes_of_kind(op, operands[i].kind);
    if (wanted.bits == 0 || wanted.has(given[i].dtype)) continue;
    std::string why = type_text(operands[i], given[i]);
    why += " but must be ";
    why += wanted.text();
    for (std::size_t j = 0; j < given.size(); ++j)
      if (operands[j].kind != operands[i].kind && wanted.has(given[j].dtype)) {
        why += "; ";
        why += type_text(operands[j], given[j]);
        why += ": are they swapped?";
        break;
      }
    refuse_types(op, why);
  }
}

/// The first operand of a kind, or given.size(). Throws TypeError where another one differs.
inline std::size_t first_of_kind(OpInfo const& op, Operands const& operands,
                                 std::span<TypedOperand const> given, Kind kind) {
  std::size_t first = given.size();
  for (std::size_t i = given.size(); i-- > 0;)
    if (operands[i].kind == kind) first = i;
  for (std::size_t i = first; i < given.size(); ++i)
    if (operands[i].kind == kind && given[i].dtype != given[first].dtype) {
      std::string why = type_text(operands[first], given[first]);
      why += " but ";
      why += type_text(operands[i], given[i]);
      refuse_types(op, why += "; insert a cast");
    }
  return first;
}

}  // namespace detail

/// The element types of a call with these operands, the hidden ones left out. Throws TypeError:
/// operands of one kind that differ, types that the op does not take, with those that it does.
inline ElementTypes call_types(OpInfo const& op, Operands const& operands,
                               std::span<TypedOperand const> given) {
  detail::check_fixed_types(op, operands, given);
  std::size_t const element = detail::first_of_kind(op, operands, given, Kind::element);
  std::size_t const second = detail::first_of_kind(op, operands, given, Kind::second);
  auto types =
      usual_types(op, element < given.size() ? given[element].dtype : ElementTypes{}.element);
  detail::DtypeSet elements, beside;
  for (DType const dtype : op.dtypes) elements.add(dtype);
  if (elements.bits != 0 && !elements.has(types.element)) {
    std::string why = "no kernel for ";
    why += name_of(types.element);
    why += " ('";
    if (element < given.size()) why += given[element].name;
    why += "'); it takes ";
    detail::refuse_types(op, why += elements.text());
  }
  if (second < given.size()) {
    types.second = given[second].dtype;
    for (ElementTypes const& taken : op.types)
      if (taken.element == types.element) beside.add(taken.second);
    if (!beside.has(types.second)) {
      std::string why;
      if (element < given.size())
        why = detail::type_text(operands[element], given[element]) += " and ";
      why += detail::type_text(operands[second], given[second]);
      why += ", but with ";
      why += name_of(types.element);
      why += " ";
      why += operands[second].name;
      why += " must be ";
      why += beside.text();
      detail::refuse_types(op, why += "; insert a cast");
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (DType const wanted = dtype_of_kind(operands[i].kind, types); given[i].dtype != wanted) {
      std::string why = detail::type_text(operands[i], given[i]);
      why += " but must be ";
      detail::refuse_types(op, why += name_of(wanted));
    }
  return types;
}

}  // namespace nntile
