#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Names close to one that does not exist, for errors.

#include <cstddef>
#include <string>
#include <string_view>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"

namespace nntile {

/// Characters to insert, delete or replace to make `a` of `b`; case counts nothing. Cost: |a||b|.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  auto const lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  DynamicArray<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t const replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      std::size_t const other = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
      row[j + 1] = replaced < other ? replaced : other;
    }
  }
  return row.back();
}

/// "; did you mean 'h.0.attn.q' or 'h.1.attn.q'?": the closest of `names`, at most three; empty
/// where none is near. For names of at most 200 characters.
inline std::string did_you_mean(std::string_view name,
                                DynamicArray<std::string_view> const& names) {
  std::string text;
  if (name.size() > 200) return text;
  std::size_t const farthest = name.size() < 4 ? name.size() / 2 : 2;
  int count = 0;
  for (std::size_t near = 0; near <= farthest && count == 0; ++near)
    for (std::string_view const other : names) {
      bool const far = other.size() > name.size() + near || name.size() > other.size() + near;
      if (far || edit_distance(name, other) != near) continue;
      if (count < 3) text += concat(count == 0 ? "; did you mean '" : " or '", other, "'");
      ++count;
    }
  return text.empty() ? text : text + "?";
}

}  // namespace nntile
