#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Pictures of plans, of a rank's part as well: deterministic, so that they can be compared.

#include <string>

#include "nntile/graph/draw.hh"
#include "nntile/graph/drawn_tasks.hh"

namespace nntile {

namespace detail {

/// The colour of a task: ops white, copies orange, sends red, receives green.
constexpr char const* colour_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::copy:
      return "#ffe3b3";
    case KernelKind::send:
      return "#f9c9c4";
    case KernelKind::receive:
      return "#d3f2d0";
    case KernelKind::op:
      break;
  }
  return "#f4f4f4";
}

}  // namespace detail

/// A plan in the DOT language: ovals are ops by kernel and result, boxes what moves a tile, copies
/// orange, sends red, receives green, with tensor, tile, bytes and between whom; ops of a place
/// other than the host stand in a frame of theirs. An arrow leads to each task from those that it
/// waits for, dashed where they only have done with its memory. `dot -Tsvg` draws it.
inline std::string to_dot(Plan const& plan, DrawnTasks const& which = {}) {
  detail::DrawnPlan const shown = detail::drawn(plan, which);
  std::string text = concat("digraph ", detail::dot_quoted(plan.name()), " {\n  rankdir=LR;\n");
  text += "  node [fontname=\"Helvetica\", fontsize=10, style=filled];\n";
  std::vector<Place> places;
  for (std::uint32_t const t : shown.tasks) {
    Place const place = plan.tasks()[t].location.place;
    if (shown.kind(t) == KernelKind::op && !(place == host) &&
        std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(place);
  }
  for (std::size_t p = 0; p < places.size(); ++p) {
    text += concat("  subgraph cluster_", p, " { label=", detail::dot_quoted(to_string(places[p])),
                   ";");
    for (std::uint32_t const t : shown.tasks)
      if (shown.kind(t) == KernelKind::op && plan.tasks()[t].location.place == places[p])
        text += concat(" t", t, ";");
    text += " }\n";
  }
  for (std::size_t i = 0; i < shown.tasks.size(); ++i) {
    std::uint32_t const t = shown.tasks[i];
    KernelKind const kind = shown.kind(t);
    std::string line = detail::task_text(plan, t);
    line.pop_back();
    if (shown.left_out[i] != 0)
      line += concat("; waits for ", shown.left_out[i], " tasks that are not shown");
    text += concat("  t", t, " [shape=", kind == KernelKind::op ? "ellipse" : "box",
                   ", fillcolor=\"", detail::colour_of(kind), "\", label=",
                   kind == KernelKind::op
                       ? detail::dot_lines({shown.name(t), shown.subject(t)})
                       : detail::dot_lines({concat(shown.name(t), " ", shown.subject(t)),
                                            shown.way(t), concat(shown.bytes(t), " bytes")}),
                   ", tooltip=", detail::dot_quoted(line), "];\n");
  }
  for (detail::DrawnWait const& wait : shown.waits)
    text += concat("  t", wait.earlier, " -> t", wait.task,
                   wait.buffer == no_id
                       ? std::string(" [style=dashed]")
                       : concat(" [tooltip=",
                                detail::dot_quoted(shown.tile(plan.buffers()[wait.buffer])), "]"),
                   ";\n");
  if (std::string const rest = shown.rest(); !rest.empty())
    text += concat("  rest [shape=plaintext, style=\"\", label=", detail::dot_quoted(rest), "];\n");
  return text + "}\n";
}

}  // namespace nntile
