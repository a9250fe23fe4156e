#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Pictures of graphs: deterministic, so that they can be compared.

#include <initializer_list>
#include <string>

#include "nntile/graph/logical.hh"

namespace nntile {

namespace detail {

inline std::string dot_quoted(std::string_view text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

/// Lines of a label, empty ones left out.
inline std::string dot_lines(std::initializer_list<std::string> lines) {
  std::string result = "\"";
  for (std::string const& line : lines) {
    if (line.empty()) continue;
    std::string const quoted = dot_quoted(line);
    if (result.size() > 1) result += "\\n";
    result.append(quoted, 1, quoted.size() - 2);
  }
  return result + "\"";
}

inline char const* dot_fill(TensorAttributes const& attributes) {
  if (attributes.external) return "#cfe8ff";
  if (attributes.requires_grad) return "#ffe3b3";
  if (attributes.persistent) return "#f6d5e5";
  if (attributes.output) return "#d3f2d0";
  return "#f4f4f4";
}

}  // namespace detail

/// The graph in the DOT language: boxes are tensors (input blue, parameter orange, state pink,
/// output green), ovals are ops, with the attributes that a call gives; tooltips have phase and all
/// attributes. Dashed edges lead to views. `dot -Tsvg` draws it; readable up to about a thousand
/// nodes.
inline std::string to_dot(LogicalGraph const& graph) {
  std::string text = concat("digraph ", detail::dot_quoted(graph.name()), " {\n  rankdir=LR;\n");
  text += "  node [fontname=\"Helvetica\", fontsize=10];\n";
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
    TensorNode const& node = graph.tensor_at(t);
    text += concat("  t", t, " [shape=box, style=filled, fillcolor=\"",
                   detail::dot_fill(node.attributes), "\", label=",
                   detail::dot_quoted(concat(node.name, " ", to_string(node.spec.shape), " ",
                                             name_of(node.spec.dtype))),
                   "];\n");
    if (node.base != no_id) text += concat("  t", node.base, " -> t", t, " [style=dashed];\n");
  }
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    OpNode const& op = graph.op_at(i);
    std::string const given = fields_text(*op.info->fields, op.attrs.data(), op.info->defaults);
    std::string const all = fields_text(*op.info->fields, op.attrs.data());
    std::string const& phase = graph.phase_name(op.phase);
    text +=
        concat("  o", i, " [shape=ellipse, label=", detail::dot_lines({op.info->name, given}),
               ", tooltip=",
               detail::dot_quoted(phase.empty() || all.empty() ? phase + all : phase + ": " + all),
               "];\n");
    Operands const declared = op.info->operands(op.attrs.data());
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      bool const written = writes(declared[o].access);
      if (reads(declared[o].access) &&
          !(written && op.info->overwrites(op.attrs.data(), static_cast<int>(o))))
        text += concat("  t", op.operands[o], " -> o", i, ";\n");
      if (written) text += concat("  o", i, " -> t", op.operands[o], ";\n");
    }
  }
  return text + "}\n";
}

}  // namespace nntile
