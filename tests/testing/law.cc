// SPDX-License-Identifier: BSD-3-Clause
// The law as it is written and the law as it is tried are one list.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "nntile/testing/conformance.hh"
#include "tests/support/catch.hh"

namespace {

using namespace nntile;

/// What stands between the asterisks at the beginning of a list's items, line breaks aside.
std::vector<std::string> sentences_of(std::string const& text) {
  std::vector<std::string> sentences;
  std::size_t at = 0;
  while ((at = text.find("\n- **", at)) != std::string::npos) {
    std::size_t const begin = at + 5;
    at = text.find("**", begin);
    std::string& sentence = sentences.emplace_back();
    for (char const c : text.substr(begin, at - begin))
      if (c != ' ' && c != '\n')
        sentence += c;
      else if (!sentence.ends_with(' '))
        sentence += ' ';
  }
  return sentences;
}

}  // namespace

TEST_CASE("the sentences of the law are the names of the checks, in order", "[testing][law]") {
  char const* const root = std::getenv("NNTILE_SOURCE_ROOT");
  if (root == nullptr) return test::skip("NNTILE_SOURCE_ROOT is not set: run this through Meson");
  std::ifstream file(std::string(root) + "/nntile/runtime/LAW.md");
  std::string const text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> names;
  for (auto const& check : testing::all_checks()) names.emplace_back(check.name);
  CHECK(sentences_of(text) == names);
}

TEST_CASE("no two checks have one name", "[testing][law]") {
  std::set<std::string> names;
  for (auto const& check : testing::all_checks()) CHECK(names.insert(check.name).second);
}
