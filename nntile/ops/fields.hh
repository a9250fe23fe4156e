#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The members of an op's Attrs by name: what dumps, errors, files and bindings read.

#include <cstdint>
#include <type_traits>

#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// What a field holds; an enum counts as the integer of its value.
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

template <auto member> FieldValue get_field(void const* attrs) {
  using Of = MemberOf<decltype(member)>;
  auto const value = static_cast<typename Of::struct_type const*>(attrs)->*member;
  FieldValue result;
  result.kind = field_kind<typename Of::type>();
  if constexpr (field_kind<typename Of::type>() == FieldKind::real)
    result.real = value;
  else if constexpr (field_kind<typename Of::type>() == FieldKind::natural)
    result.natural = value;
  else
    result.integer = static_cast<std::int64_t>(value);
  return result;
}

template <auto member> bool set_field(void* attrs, FieldValue const& value) {
  using Of = MemberOf<decltype(member)>;
  using Member = typename Of::type;
  if (value.kind != field_kind<Member>()) return false;
  auto& to = static_cast<typename Of::struct_type*>(attrs)->*member;
  if constexpr (field_kind<Member>() == FieldKind::real) {
    to = value.real;
  } else if constexpr (field_kind<Member>() == FieldKind::natural) {
    to = value.natural;
  } else {
    auto const cast = static_cast<Member>(value.integer);
    if (static_cast<std::int64_t>(cast) != value.integer) return false;
    to = cast;
  }
  return true;
}

}  // namespace detail

/// `field<&Attrs::alpha>("alpha")`.
template <auto member>
requires std::is_member_object_pointer_v<decltype(member)>
constexpr Field field(char const* name) {
  return {name, detail::field_kind<typename detail::MemberOf<decltype(member)>::type>(),
          &detail::get_field<member>, &detail::set_field<member>};
}

}  // namespace nntile
