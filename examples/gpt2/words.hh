#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Words of the command line: errors of the planner in them, and names.

#include <cstddef>
#include <string>
#include <string_view>

namespace gpt2 {

/// Begins the text of an error with the option that it is of, and gives options where the text
/// gives a program's: `Numerics{.groups = {{"batch", 4}}}` becomes `--groups batch=4`.
inline std::string in_options(std::string text) {
  // Puts `option` in place of `begin`, and what is between that and `end` as "batch=4".
  auto const give = [&text](std::string_view begin, std::string_view end, std::string_view option) {
    std::size_t const at = text.find(begin);
    std::size_t const last = at == text.npos ? at : text.find(end, at);
    if (last == text.npos) return;
    std::string value = text.substr(at + begin.size(), last - at - begin.size());
    std::erase(value, '{');
    if (std::size_t const comma = value.find("\", "); comma != value.npos)
      value.replace(comma, 3, "=");
    text.replace(at, last + end.size() - at, std::string(option) + value);
  };
  auto const replace = [&text](std::string_view words, std::string_view by) {
    if (std::size_t const at = text.find(words); at != text.npos)
      text.replace(at, words.size(), by);
  };
  bool const of_tile = text.starts_with("tile: ");
  bool const of_groups = text.find(" canonical groups") != text.npos;
  replace("larger tiles", "larger tiles (--tile)");
  replace("PlanOptions::tile, or cuts", "--tile");
  replace(
      "by PlanOptions::capacity, or by PlanOptions::place",
      "by --disk, --disk-keeps and --host-memory, on a device by --offload and --device-memory");
  give("Numerics{.groups = {{\"", "}}}", "--groups ");
  give(".cuts = {{\"", "}}}", "--tile auto,");
  if (of_tile) return "--" + text;
  if (of_groups) return "--groups: " + text;
  return text;
}

/// A name as one word of a shell, whatever it holds.
inline std::string shell_word(std::string_view name) {
  std::string word = "'";
  for (char const c : name) word += c == '\'' ? std::string_view("'\\''") : std::string_view(&c, 1);
  return word + '\'';
}

}  // namespace gpt2
