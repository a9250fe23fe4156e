#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The members of an op's Attrs by name: what dumps, errors, files and bindings read.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// The kind of value in a field; an enum counts as the integer of its value.
enum class FieldKind : std::uint8_t { boolean, integer, natural, real };

/// The value of a field.
struct FieldValue {
  FieldKind kind = FieldKind::integer;
  union {
    std::int64_t integer = 0;  // boolean, integer
    std::uint64_t natural;     // std::uint64_t
    double real;
  };
};

/// One member of an Attrs, without its type.
struct Field {
  char const* name;
  FieldKind kind;
  FieldValue (*get)(void const* attrs);
  /// False where the member's type cannot hold the value, which then is left as it was.
  bool (*set)(void* attrs, FieldValue const& value);
};

inline constexpr std::size_t max_fields = 12;
using Fields = inplace_vector<Field, max_fields>;

namespace detail {

template <class Member> consteval FieldKind field_kind() {
  if constexpr (std::is_same_v<Member, bool>)
    return FieldKind::boolean;
  else if constexpr (std::is_floating_point_v<Member>)
    return FieldKind::real;
  else if constexpr (std::is_same_v<Member, std::uint64_t>)
    return FieldKind::natural;
  else
    return FieldKind::integer;
}

template <class> struct MemberOf;
template <class Struct, class Member> struct MemberOf<Member Struct::*> {
  using struct_type = Struct;
  using type = Member;
};

template <class Member> FieldValue value_of(Member const& from) {
  constexpr FieldKind kind = field_kind<Member>();
  FieldValue result;
  result.kind = kind;
  if constexpr (kind == FieldKind::real)
    result.real = from;
  else if constexpr (kind == FieldKind::natural)
    result.natural = from;
  else
    result.integer = static_cast<std::int64_t>(from);
  return result;
}

template <class Member> bool set_value(Member& to, FieldValue const& value) {
  constexpr FieldKind kind = field_kind<Member>();
  if (value.kind != kind) return false;
  if constexpr (kind == FieldKind::real) {
    auto const cast = static_cast<Member>(value.real);
    if (std::isinf(cast) && !std::isinf(value.real)) return false;
    to = cast;
  } else if constexpr (kind == FieldKind::natural) {
    to = value.natural;
  } else {
    auto const cast = static_cast<Member>(value.integer);
    if (static_cast<std::int64_t>(cast) != value.integer) return false;
    to = cast;
  }
  return true;
}

template <auto member> FieldValue get_field(void const* attrs) {
  using Struct = typename MemberOf<decltype(member)>::struct_type;
  return value_of(static_cast<Struct const*>(attrs)->*member);
}
template <auto member> bool set_field(void* attrs, FieldValue const& value) {
  using Struct = typename MemberOf<decltype(member)>::struct_type;
  return set_value(static_cast<Struct*>(attrs)->*member, value);
}

}  // namespace detail

/// `field<&Attrs::alpha>("alpha")`.
template <auto member>
requires requires { typename detail::MemberOf<decltype(member)>::type; }
constexpr Field field(char const* name) {
  return {name, detail::field_kind<typename detail::MemberOf<decltype(member)>::type>(),
          &detail::get_field<member>, &detail::set_field<member>};
}

}  // namespace nntile
