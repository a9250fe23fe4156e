#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compares our JSON reader with nlohmann's; include only where __has_include finds that.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "nntile/io/json.hh"

namespace nntile::test {

/// What our reader and nlohmann's disagree about in a text; empty where they agree. Three texts are
/// ours to refuse: a key that comes twice, deep nesting, a number that is too close to 0 for a
/// double. A byte order mark or a NUL is nlohmann's to take, and not compared.
inline std::string json_disagreement(std::string_view text) {
  if (text.find('\0') != text.npos || text.starts_with("\xEF\xBB\xBF")) return "";
  auto const theirs = nlohmann::json::parse(text, nullptr, false);
  std::string refusal, written;
  try {
    written = io::to_text(io::to_json(io::parse_json(text, "text")));
  } catch (FormatError const& error) {
    refusal = error.what();
  }
  if (!refusal.empty()) {
    bool const ours = refusal.find("comes twice") != refusal.npos ||
                      refusal.find("nested deeper") != refusal.npos ||
                      refusal.find("out of range") != refusal.npos;
    return theirs.is_discarded() || ours ? "" : "refused here: " + refusal;
  }
  if (theirs.is_discarded()) return "refused there, read here as " + written;
  auto const back = nlohmann::json::parse(written, nullptr, false);
  return back == theirs ? "" : "read here as " + written + ", there as " + theirs.dump();
}

}  // namespace nntile::test
