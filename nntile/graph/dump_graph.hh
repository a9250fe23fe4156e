#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Graphs as text: deterministic, so that they can be compared.

#include <string>

#include "nntile/graph/logical.hh"
#include "nntile/ops/field_text.hh"

namespace nntile {

namespace detail {

/// "op 3 gemm(trans_a=true) read a w read b x write c h in forward": attributes that the call
/// gives, and operands by name and tensor.
inline std::string node_text(LogicalGraph const& graph, std::size_t number) {
  OpNode const& op = graph.op_at(number);
  OpInfo const& info = *op.info;
  std::string const given = fields_text(*info.fields, op.attrs.data(), info.defaults);
  std::string text = concat("op ", number, " ", info.name);
  if (!given.empty()) text += concat("(", given, ")");
  Operands const declared = info.operands(op.attrs.data());
  for (std::size_t o = 0; o < op.operands.size(); ++o) {
    Access access = declared[o].access;
    if (writes(access) && info.overwrites(op.attrs.data(), static_cast<int>(o)))
      access = Access::write;
    text += concat(" ", name_of(access), " ", declared[o].name, " ",
                   graph.tensor_at(op.operands[o]).name);
  }
  std::string const& phase = graph.phase_name(op.phase);
  return text + (phase.empty() ? "" : " in " + phase) + '\n';
}

inline std::string node_text(LogicalGraph const& graph, TensorNode const& tensor) {
  std::string text = concat("tensor ", tensor.name, " ", name_of(tensor.spec.dtype), " ",
                            to_string(tensor.spec.shape));
  if (tensor.base != no_id)
    text += concat(", [", tensor.view_index, "] of ", graph.tensor_at(tensor.base).name, " along ",
                   tensor.view_axis);
  TensorAttributes const& attributes = tensor.attributes;
  if (attributes.external) text += ", external";
  if (attributes.persistent) text += ", persistent";
  if (attributes.requires_grad) text += ", requires grad";
  if (attributes.output) text += ", output";
  return text + '\n';
}

}  // namespace detail

/// A graph as text for people: a line for each tensor, then one for each op.
inline std::string dump(LogicalGraph const& graph) {
  std::string text = concat("graph '", graph.name(), "': ", graph.tensor_count(), " tensors, ",
                            graph.op_count(), " ops\n");
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t)
    text += detail::node_text(graph, graph.tensor_at(t));
  for (std::size_t i = 0; i < graph.op_count(); ++i) text += detail::node_text(graph, i);
  return text;
}

}  // namespace nntile
