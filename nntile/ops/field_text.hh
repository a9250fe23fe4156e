#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Attributes of a call as text, for errors, dumps and drawings.

#include <string>
#include <string_view>

#include "nntile/core/error.hh"
#include "nntile/ops/fields.hh"

namespace nntile {

/// "true", "-3", "0.5".
inline std::string to_string(FieldValue const& value) {
  switch (value.kind) {
    case FieldKind::boolean:
      return value.integer != 0 ? "true" : "false";
    case FieldKind::integer:
      break;
    case FieldKind::natural:
      return concat(value.natural);
    case FieldKind::real:
      return concat(value.real);
  }
  return concat(value.integer);
}

/// "alpha=2, beta=0": the fields in their order; of `defaults`, if given, those that differ, and
/// none that `said` has already.
inline std::string fields_text(Fields const& fields, void const* attrs,
                               void const* defaults = nullptr, std::string_view said = {}) {
  std::string text;
  for (Field const& field : fields) {
    FieldValue const value = field.get(attrs);
    if (defaults != nullptr && value.natural == field.get(defaults).natural) continue;
    std::string const one = concat(field.name, "=", to_string(value));
    if (said.find(one) == said.npos) text += text.empty() ? one : ", " + one;
  }
  return text;
}

}  // namespace nntile
