#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A plan as a page: its tasks by position, in rows of places, copies and transfers, and the memory
// of each place over the same positions. HTML that is XML too, without scripts.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/utf8.hh"
#include "nntile/graph/draw_plan.hh"

namespace nntile {

namespace detail {

/// The page of one plan. Lengths are in pixels.
class PlanPage {
 public:
  PlanPage(Plan const& plan, DrawnTasks const& which)
      : plan_(plan), shown_(drawn(plan, which)), count_(static_cast<Index>(shown_.tasks.size())) {
    step_ = std::clamp<Index>(width / std::max<Index>(1, count_), 8, 96);
    for (KernelKind const kind :
         {KernelKind::op, KernelKind::copy, KernelKind::send, KernelKind::receive})
      for (std::uint32_t const t : shown_.tasks)
        if (shown_.kind(t) == kind) (void)row_of(t);
  }

  std::string text() {
    std::string const part =
        plan_.ranks() > 1 ? concat(", part of rank ", plan_.rank(), " of ", plan_.ranks()) : "";
    std::string const title = concat("plan '", plan_.name(), "'", part);
    text_ = concat(head, "<title>", markup_text(title), "</title>\n", style,
                   "</head>\n<body>\n<h1>", markup_text(title), "</h1>\n<p>", plan_.tasks().size(),
                   " tile tasks, ", plan_.flops(), " flops.</p>\n");
    if (std::string const rest = shown_.rest(); !rest.empty())
      text_ += concat("<p class=\"rest\">", markup_text(rest), "</p>\n");
    tasks();
    for (MemoryReport const& report : plan_.memories()) memory(report);
    moves();
    return std::move(text_ += "</body>\n</html>\n");
  }

 private:
  static constexpr Index width = 1200, names = 170, row_height = 56, bar = 28, memory_height = 90;
  static constexpr char const* head =
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n";
  static constexpr char const* style =
      "<style>\nbody { font: 13px Helvetica, Arial, sans-serif; margin: 1.5em; }\n"
      "h1 { font-size: 18px; } h2 { font-size: 14px; } .rest { color: #a03030; }\n"
      "svg { display: block; } .scroll { overflow-x: auto; } text { font-size: 10px; }\n"
      "rect { stroke: #777; stroke-width: 0.6; } rect:hover { stroke-width: 2; }\n"
      "path { fill: none; stroke: #888; stroke-width: 0.7; }\n"
      "path.memory { stroke: #bbb; stroke-dasharray: 3 3; } line { stroke: #ddd; }\n"
      "line.arena { stroke: #c44; stroke-dasharray: 5 3; }\n"
      "polyline { fill: #cfe8ff; stroke: #36c; stroke-width: 1; }\n"
      "rect.range { fill: #fff3c0; stroke: none; }\n"
      "td, th { padding: 1px 10px; text-align: left; } td.number { text-align: right; }\n"
      "</style>\n";

  /// The row of a task, a new one for what has none yet.
  std::size_t row_of(std::uint32_t task) {
    char const* const verb = shown_.kind(task) == KernelKind::op        ? ""
                             : shown_.kind(task) == KernelKind::copy    ? "copy "
                             : shown_.kind(task) == KernelKind::receive ? "receive "
                                                                        : "send ";
    std::string name = verb + shown_.way(task);
    auto const at = std::find(rows_.begin(), rows_.end(), name);
    std::size_t const row = static_cast<std::size_t>(at - rows_.begin());
    if (at == rows_.end()) rows_.push_back(std::move(name));
    return row;
  }
  Index left(std::size_t number) const { return names + static_cast<Index>(number) * step_; }
  static Index middle(std::size_t row) {  // of its tasks, which have room for arcs above
    return static_cast<Index>(row + 1) * row_height - bar / 2 - 2;
  }

  void tasks() {
    Index const right = left(shown_.tasks.size());
    Index const height = static_cast<Index>(rows_.size()) * row_height + 4;
    text_ +=
        "<h2>tasks in the order of the plan</h2>\n<p>An arc leads from a task to those that "
        "wait for it, dashed where they only wait until it has done with memory. Ops are "
        "grey, copies orange, sends red, receives green; the pointer on one gives its "
        "operands.</p>\n";
    text_ += concat("<div class=\"scroll\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"",
                    right + 10, "\" height=\"", height, "\">\n");
    for (std::size_t row = 0; row < rows_.size(); ++row)
      text_ += concat("<line x1=\"0\" y1=\"", middle(row), "\" x2=\"", right, "\" y2=\"",
                      middle(row), "\"/><text x=\"4\" y=\"", middle(row) - 4, "\">",
                      markup_text(rows_[row]), "</text>\n");
    for (DrawnWait const& wait : shown_.waits) arc(wait);
    for (std::size_t number = 0; number < shown_.tasks.size(); ++number) task(number);
    text_ += "</svg></div>\n";
  }
  std::size_t number_of(std::uint32_t task) const {
    auto const at = std::lower_bound(shown_.tasks.begin(), shown_.tasks.end(), task);
    return static_cast<std::size_t>(at - shown_.tasks.begin());
  }
  void arc(DrawnWait const& wait) {
    std::size_t const earlier = row_of(wait.earlier), later = row_of(wait.task);
    Index from = left(number_of(wait.earlier)), to = left(number_of(wait.task));
    Index begin = middle(earlier), end = middle(later), lift = 0, bend = 0;
    if (earlier == later) {  // above the tasks between
      from += step_ / 2, to += step_ / 2, begin -= bar / 2, end -= bar / 2;
      lift = 8 + std::min<Index>(18, (to - from) / 16);
    } else {
      from += step_ - 2;
      bend = std::max<Index>(4, (to - from) / 3);
    }
    text_ += concat("<path", wait.buffer == no_id ? " class=\"memory\"" : "", " d=\"M", from, " ",
                    begin, " C", from + bend, " ", begin - lift, " ", to - bend, " ", end - lift,
                    " ", to, " ", end, "\"/>\n");
  }
  void task(std::size_t number) {
    std::uint32_t const t = shown_.tasks[number];
    std::string hint = task_text(plan_, t);
    hint.pop_back();
    if (shown_.kind(t) == KernelKind::op)
      hint += concat("; ", plan_.tasks()[t].cost.flops, " flops, ", shown_.bytes(t), " bytes");
    else
      hint += concat("; ", shown_.bytes(t), " bytes ", shown_.way(t));
    if (shown_.left_out[number] != 0)
      hint += concat("; waits for ", shown_.left_out[number], " tasks that are not shown");
    Index const x = left(number), y = middle(row_of(t)) - bar / 2;
    text_ += concat("<g><title>", markup_text(hint), "</title><rect x=\"", x, "\" y=\"", y,
                    "\" width=\"", step_ - 2, "\" height=\"", bar, "\" fill=\"",
                    colour_of(shown_.kind(t)), "\"/>");
    if (step_ >= 48)
      text_ += concat("<text x=\"", x + 2, "\" y=\"", y + 11, "\">", fitting(shown_.name(t)),
                      "</text><text x=\"", x + 2, "\" y=\"", y + 23, "\">",
                      fitting(shown_.subject(t)), "</text>");
    text_ += "</g>\n";
  }
  /// As much of a name as a task has room for, at six pixels a letter; whole ones of UTF-8.
  std::string fitting(std::string const& name) const {
    auto const room = static_cast<std::size_t>(step_ / 6);
    std::size_t letters = 0, cut = 0;
    for (std::size_t at = 0; at < name.size(); ++at)
      if ((name[at] & 0xc0) != 0x80 && letters++ == room - 2) cut = at;
    if (letters <= room) return markup_text(name);
    return markup_text(name.substr(0, cut)) + "..";
  }

  /// The curve of a place: at most a point a pixel, the highest of its tasks.
  void memory(MemoryReport const& report) {
    if (report.arena == 0) return;
    std::vector<Index> const live = live_bytes(plan_, report.location);
    std::size_t const slots = static_cast<std::size_t>(
        std::count_if(plan_.slots().begin(), plan_.slots().end(),
                      [&](PlannedSlot const& slot) { return slot.location == report.location; }));
    std::string caption = memory_text(report, slots);
    caption.pop_back();
    text_ +=
        concat("<h2>", markup_text(caption), "</h2>\n<p>Live bytes of the arena at each of the ",
               live.size(), " tasks; dashed the arena.</p>\n");
    text_ += concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", names + width + 10,
                    "\" height=\"", memory_height + 12, "\">\n");
    auto const count = static_cast<Index>(live.size());
    Index const points = std::min(count, width);
    auto const x = [&](Index task) { return names + task * width / count; };
    auto const y = [&](Index bytes) {  // of doubles: bytes times pixels may be large
      return 6 + memory_height -
             static_cast<Index>(static_cast<double>(bytes) * memory_height /
                                    static_cast<double>(report.arena) +
                                0.5);
    };
    if (count_ > 0 && count_ < count) {
      Index const begin = x(shown_.tasks.front()), end = x(Index{shown_.tasks.back()} + 1);
      text_ += concat("<rect class=\"range\" x=\"", begin, "\" y=\"6\" width=\"", end - begin,
                      "\" height=\"", memory_height, "\"/>\n");
    }
    text_ += concat("<polyline points=\"", names, ",", y(0));
    for (Index p = 0; p < points; ++p) {
      Index const first = p * count / points, last = (p + 1) * count / points;
      Index const most = *std::max_element(live.begin() + first, live.begin() + last);
      text_ += concat(" ", x(first), ",", y(most), " ", x(last), ",", y(most));
    }
    text_ += concat(" ", x(count), ",", y(0), "\"/>\n<line class=\"arena\" x1=\"", names,
                    "\" y1=\"6\" x2=\"", x(count), "\" y2=\"6\"/><text x=\"4\" y=\"14\">",
                    report.arena, " bytes</text>\n</svg>\n");
  }

  /// Writes the traffic as a table.
  void moves() {
    bool any = false;
    for (std::uint32_t const t : shown_.tasks) {
      if (shown_.kind(t) == KernelKind::op) continue;
      if (!any)
        text_ +=
            "<h2>copies and transfers</h2>\n<table>\n<tr><th>task</th><th>what</th><th>tile"
            "</th><th>bytes</th><th>way</th></tr>\n";
      any = true;
      text_ += concat("<tr><td class=\"number\">", t, "</td><td>", markup_text(shown_.name(t)),
                      "</td><td>", markup_text(shown_.subject(t)), "</td><td class=\"number\">",
                      shown_.bytes(t), "</td><td>", markup_text(shown_.way(t)), "</td></tr>\n");
    }
    if (any) text_ += "</table>\n";
  }

  Plan const& plan_;
  DrawnPlan shown_;
  Index count_;
  Index step_;  // a task's share of the width
  std::vector<std::string> rows_;
  std::string text_;
};

}  // namespace detail

/// A plan as a page for browsers.
inline std::string to_html(Plan const& plan, DrawnTasks const& which = {}) {
  return detail::PlanPage(plan, which).text();
}

}  // namespace nntile
