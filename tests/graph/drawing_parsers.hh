// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Strict readers of drawings: DOT as our drawings write it, and pages that are XML. What they do
// not know is an error.

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/error.hh"

namespace nntile::test {

using Attributes = std::map<std::string, std::string>;

/// A text from which pieces are taken. Throws std::runtime_error where another one stands.
class DrawingText {
 public:
  explicit DrawingText(std::string_view text) : text_(text) {}
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  char next() {
    if (done()) fail("the text ends");
    return text_[at_++];
  }
  bool take(std::string_view piece) {
    if (text_.substr(at_, piece.size()) != piece) return false;
    at_ += piece.size();
    return true;
  }
  void expect(std::string_view piece) {
    if (!take(piece)) fail(concat("'", piece, "' is missing"));
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }
  /// Letters, digits and what else is given, at least one.
  std::string word(std::string_view more) {
    std::string result;
    while ((peek() >= 'a' && peek() <= 'z') || (peek() >= 'A' && peek() <= 'Z') ||
           (peek() >= '0' && peek() <= '9') || (peek() != 0 && more.find(peek()) != more.npos))
      result += next();
    if (result.empty()) fail("a word is missing");
    return result;
  }
  [[noreturn]] void fail(std::string const& why) const {
    throw std::runtime_error(
        concat("at ", at_, ": ", why, ": ", std::string(text_.substr(at_, 60))));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// A graph in the DOT language.
struct DotGraph {
  struct Edge {
    std::string from, to;
    Attributes attributes;
  };
  std::string name;
  std::map<std::string, Attributes> nodes;
  std::vector<Edge> edges;
  std::map<std::string, std::vector<std::string>> frames;  // by label
};

class DotReader {
 public:
  explicit DotReader(std::string_view text) : text_(text) {}

  DotGraph read() {
    text_.expect("digraph ");
    graph_.name = quoted();
    text_.expect(" {\n");
    while (!text_.take("}\n")) statement();
    if (!text_.done()) text_.fail("more behind the end");
    for (auto const& edge : graph_.edges)
      if (!graph_.nodes.contains(edge.from) || !graph_.nodes.contains(edge.to))
        text_.fail(concat("an edge of no node: ", edge.from, " -> ", edge.to));
    return graph_;
  }

 private:
  void statement() {
    text_.expect("  ");
    std::string const id = text_.word("_");
    if (id == "rankdir") return text_.expect("=LR;\n");
    if (id == "subgraph") return frame();
    if (text_.take(" -> ")) {
      std::string const to = text_.word("_");
      graph_.edges.push_back({id, to, text_.take(";\n") ? Attributes{} : attributes()});
    } else {
      Attributes const given = attributes();
      if (id != "node" && !graph_.nodes.emplace(id, given).second) text_.fail("a node twice");
    }
  }
  void frame() {
    text_.expect(" cluster_");
    text_.word("");
    text_.expect(" { label=");
    auto& members = graph_.frames[quoted()];
    text_.expect(";");
    while (!text_.take(" }\n")) {
      text_.expect(" ");
      members.push_back(text_.word(""));
      text_.expect(";");
    }
  }
  Attributes attributes() {
    Attributes result;
    text_.expect(" [");
    do {
      std::string const key = text_.word("");
      text_.expect("=");
      std::string const value = text_.peek() == '"' ? quoted() : text_.word("");
      if (!result.emplace(key, value).second) text_.fail("an attribute twice");
    } while (text_.take(", "));
    text_.expect("];\n");
    return result;
  }
  std::string quoted() {
    std::string result;
    text_.expect("\"");
    while (!text_.take("\"")) {
      char const c = text_.next();
      if (c == '\n') text_.fail("a line ends in quotes");
      if (c != '\\') {
        result += c;
        continue;
      }
      char const escaped = text_.next();
      if (escaped != 'n' && escaped != '"' && escaped != '\\') text_.fail("an unknown escape");
      result += escaped == 'n' ? '\n' : escaped;
    }
    return result;
  }

  DrawingText text_;
  DotGraph graph_;
};

inline DotGraph read_dot(std::string_view text) { return DotReader(text).read(); }

/// An element of a page: name, attributes, and the text directly within.
struct PageElement {
  std::string name;
  Attributes attributes;
  std::string text;
};

/// The elements of a page in the order in which they begin, each closed where it must be.
inline std::vector<PageElement> read_page(std::string_view given) {
  DrawingText text(given);
  std::vector<PageElement> elements;
  std::vector<std::size_t> open;
  auto const character = [&](char until) {
    char const c = text.next();
    if (c == '<' || c == until) text.fail("a bare mark");
    if (c != '&') return c;
    for (auto const& [name, mark] :
         {std::pair{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}})
      if (text.take(name)) return mark;
    text.fail("an unknown entity");
  };
  text.expect("<!DOCTYPE html>\n");
  do {
    if (text.take("</")) {
      if (open.empty() || text.word("") != elements[open.back()].name) text.fail("another ends");
      text.expect(">");
      open.pop_back();
    } else if (text.take("<")) {
      open.push_back(elements.size());
      elements.push_back({text.word(""), {}, {}});
      while (text.take(" ")) {
        std::string const key = text.word("-");
        text.expect("=\"");
        std::string value;
        while (!text.take("\"")) value += character('"');
        if (!elements.back().attributes.emplace(key, value).second) text.fail("an attribute twice");
      }
      if (text.take("/>"))
        open.pop_back();
      else
        text.expect(">");
    } else {
      elements[open.back()].text += character('\0');
    }
  } while (!open.empty());
  text.skip_blanks();
  if (!text.done()) text.fail("more behind the end");
  return elements;
}

}  // namespace nntile::test
