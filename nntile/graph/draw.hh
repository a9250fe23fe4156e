#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Pictures and texts of graphs and plans: deterministic, so that they can be compared.

#include <string>

#include "nntile/graph/plan.hh"

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

inline char const* dot_fill(TensorAttributes const& attributes) {
  if (attributes.external) return "#cfe8ff";
  if (attributes.requires_grad) return "#ffe3b3";
  if (attributes.persistent) return "#f6d5e5";
  if (attributes.output) return "#d3f2d0";
  return "#f4f4f4";
}

}  // namespace detail

/// The graph in the DOT language: boxes are tensors (input blue, parameter orange, state pink,
/// output green), ovals are ops, dashed edges lead to views. `dot -Tsvg` draws it; readable up to
/// about a thousand nodes.
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
    text += concat("  o", i, " [shape=ellipse, label=", detail::dot_quoted(op.info->name),
                   ", tooltip=", detail::dot_quoted(graph.phase_name(op.phase)), "];\n");
    Operands const declared = op.info->operands(op.attrs.data());
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (declared[o].access != Access::write)
        text += concat("  t", op.operands[o], " -> o", i, ";\n");
      if (writes(declared[o].access)) text += concat("  o", i, " -> t", op.operands[o], ";\n");
    }
  }
  return text + "}\n";
}

/// What was planned, for people: totals, then a line per tensor and per kernel, and the first
/// `task_limit` tasks.
inline std::string dump(Plan const& plan, std::size_t task_limit = 100) {
  MemoryReport const& memory = plan.memory();
  std::string text = concat("plan '", plan.name(), "': ", plan.tasks().size(), " tile tasks, ",
                            plan.flops(), " flops, ", name_of(plan.numerics().mode), " numerics\n");
  text += concat("memory: ", memory.total(), " bytes = ", memory.stored, " stored + ", memory.arena,
                 " arena in ", plan.slots().size(), " slots (at least ", memory.arena_lower_bound,
                 ")\n");
  text += plan.canonical() ? std::string("bits: canonical\n")
                           : concat("bits: of this plan alone: ", plan.uncanonical(), "\n");
  char const* const places[] = {"stored", "arena", "view"};
  for (std::size_t t = 0; t < plan.tensors().size(); ++t) {
    if (!plan.used(t)) continue;
    PlannedTensor const& tensor = plan.tensors()[t];
    text += concat("tensor ", tensor.name, " ", name_of(tensor.dtype), " ",
                   to_string(tensor.tiling.shape()), " in ", to_string(tensor.tiling.grid()),
                   " tiles, ", places[static_cast<int>(tensor.storage)]);
    if (tensor.storage == Storage::view)
      text += concat(" of ", plan.tensors()[tensor.base].name, " [", tensor.view_index, "] along ",
                     tensor.view_axis);
    text += '\n';
  }
  std::vector<std::size_t> counts(plan.kernels().size());
  std::vector<std::int64_t> flops(plan.kernels().size());
  for (PlannedTask const& task : plan.tasks()) {
    ++counts[task.kernel];
    flops[task.kernel] += task.cost.flops;
  }
  for (std::size_t k = 0; k < counts.size(); ++k)
    text += concat("kernel ", plan.kernels()[k].op->name, " ", name_of(plan.kernels()[k].element),
                   ": ", counts[k], " tasks, ", flops[k], " flops\n");
  for (std::size_t i = 0; i < plan.tasks().size() && i < task_limit; ++i) {
    PlannedTask const& task = plan.tasks()[i];
    text += concat("task ", i, " ", plan.kernels()[task.kernel].op->name);
    for (PlannedUse const& use : plan.uses(task)) {
      PlannedBuffer const& buffer = plan.buffers()[use.buffer];
      text += concat(" ", name_of(use.access), " ", plan.tensors()[buffer.tensor].name, "[",
                     buffer.tile, "]");
      if (buffer.slot != no_id) text += concat("@", buffer.slot);
    }
    text += '\n';
  }
  if (plan.tasks().size() > task_limit)
    text += concat("... ", plan.tasks().size() - task_limit, " more tasks\n");
  return text;
}

}  // namespace nntile
