// SPDX-License-Identifier: BSD-3-Clause
// The law as it is written, the law as it is tried, and the contract in concept.hh agree.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
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

/// The text of a file below nntile/runtime/; empty outside Meson.
std::string text_of(std::string const& name) {
  char const* const root = std::getenv("NNTILE_SOURCE_ROOT");
  if (root == nullptr) return {};
  std::ifstream file(std::string(root) + "/nntile/runtime/" + name);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// The first group of every match.
std::set<std::string> matches(std::string const& text, char const* pattern) {
  std::regex const expression(pattern);
  std::set<std::string> result;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    result.insert((*at)[1]);
  return result;
}

constexpr char const* no_source = "NNTILE_SOURCE_ROOT is not set: run this through Meson";

}  // namespace

TEST_CASE("the sentences of the law are the names of the checks, in order", "[testing][law]") {
  std::string const text = text_of("LAW.md");
  if (text.empty()) return test::skip(no_source);
  std::vector<std::string> names;
  for (auto const& check : testing::all_checks()) names.emplace_back(check.name);
  CHECK(sentences_of(text) == names);
}

TEST_CASE("no two checks have one name", "[testing][law]") {
  std::set<std::string> names;
  for (auto const& check : testing::all_checks()) CHECK(names.insert(check.name).second);
}

TEST_CASE("the contract has a line for every call that the concepts ask for", "[testing][law]") {
  std::string const text = text_of("concept.hh");
  if (text.empty()) return test::skip(no_source);
  std::set<std::string> const lines = matches(text, R"(///   (\w+)\()");
  std::set<std::string> asked = matches(text, R"([ {](?:runtime|constant|executor)\.(\w+)\()");
  for (char const* refined : {"discard", "drive", "open_scope", "close_scope", "workspace_bytes"})
    CHECK(asked.erase(refined) == 1);  // calls of concepts whose docstring is a sentence
  CHECK(lines == asked);
}
