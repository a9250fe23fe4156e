#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Plans as text, and what differs between two: deterministic, so that they can be compared.

#include <algorithm>
#include <string>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/plan.hh"

namespace nntile {

namespace detail {

/// " at rank 2 device 1"; nothing for the memory of a program of one process.
inline std::string at_location(Location const& location) {
  return location == Location{} ? std::string() : concat(" at ", to_string(location));
}

inline std::string memory_text(MemoryReport const& memory, std::size_t slots) {
  return concat("memory", at_location(memory.location), ": ", memory.total(),
                " bytes = ", memory.stored, " stored + ", memory.arena, " arena in ", slots,
                " slots (at least ", memory.arena_lower_bound, ")",
                memory.adopted == 0 ? "" : concat(", and ", memory.adopted, " of the caller's"),
                "\n");
}

inline std::string tensor_text(Plan const& plan, PlannedTensor const& tensor) {
  std::string text = concat("tensor ", tensor.name, " ", name_of(tensor.dtype), " ",
                            to_string(tensor.tiling.shape()), " in ",
                            to_string(tensor.tiling.grid()), " tiles, ", name_of(tensor.storage));
  if (tensor.storage == Storage::view)
    text += concat(" of ", plan.tensors()[tensor.base].name, " [", tensor.view_index, "] along ",
                   tensor.view_axis);
  if (!(tensor.place == host)) text += concat(", at ", to_string(tensor.place));
  if (tensor.column_unit != 1) text += concat(", columns at multiples of ", tensor.column_unit);
  return text + '\n';
}

/// " hint worker 1"; nothing where the runtime decides.
inline std::string hints_text(Hints const& hints) {
  std::string text;
  if (hints.worker != -1) text += concat(" worker ", hints.worker);
  if (hints.node != -1) text += concat(" node ", hints.node);
  if (!hints.prefetch) text += " no prefetch";
  if (hints.offload) text += " offload";
  if (hints.device >= 0) text += concat(" device ", hints.device);
  return text.empty() ? text : " hint" + text;
}

inline std::string task_text(Plan const& plan, std::size_t number) {
  PlannedTask const& task = plan.tasks()[number];
  std::string text =
      concat("task ", number, " ", plan.kernels()[task.kernel].name, at_location(task.location));
  for (Use<BufferId> const& use : plan.uses(task)) {
    PlannedBuffer const& buffer = plan.buffers()[use.handle];
    text += concat(" ", name_of(use.access), " ", plan.tensors()[buffer.tensor].name, "[",
                   buffer.tile, "]");
    if (buffer.slot != no_id) text += concat("@", buffer.slot);
    text += at_location(buffer.location);
  }
  return text + hints_text(plan.hints(task)) + '\n';
}

/// Totals, then a line for each tensor and kernel.
inline std::string head_text(Plan const& plan) {
  std::string text = concat("plan '", plan.name(), "': ", plan.tasks().size(), " tile tasks, ",
                            plan.flops(), " flops, ", name_of(plan.numerics().mode), " numerics\n");
  for (MemoryReport const& report : plan.memories())
    text += memory_text(
        report, static_cast<std::size_t>(std::count_if(
                    plan.slots().begin(), plan.slots().end(),
                    [&](PlannedSlot const& slot) { return slot.location == report.location; })));
  text += plan.canonical() ? std::string("bits: canonical\n")
                           : concat("bits: of this plan alone: ", plan.uncanonical(), "\n");
  for (PlannedPhase const& phase : plan.phases())
    text += concat("phase ", phase.name, ": ", phase.end - phase.begin, " tasks\n");
  for (PlannedTensor const& tensor : plan.tensors())
    if (tensor.used) text += tensor_text(plan, tensor);
  DynamicArray<std::size_t> counts(plan.kernels().size());
  DynamicArray<std::int64_t> flops(plan.kernels().size());
  for (PlannedTask const& task : plan.tasks()) {
    ++counts[task.kernel];
    add_saturated(flops[task.kernel], task.cost.flops);
  }
  for (std::size_t k = 0; k < counts.size(); ++k)
    text += concat("kernel ", plan.kernels()[k].name, " ", name_of(plan.kernels()[k].element), ": ",
                   counts[k], " tasks, ", flops[k], " flops\n");
  return text;
}

/// The lines of a text.
inline DynamicArray<std::string_view> lines_of(std::string_view text) {
  DynamicArray<std::string_view> lines;
  while (!text.empty()) {
    std::size_t const end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace detail

/// A plan as text for people: totals, then a line per tensor and per kernel, and the first
/// `task_limit` tasks.
inline std::string dump(Plan const& plan, std::size_t task_limit = 100) {
  std::string text = detail::head_text(plan);
  for (std::size_t i = 0; i < plan.tasks().size() && i < task_limit; ++i)
    text += detail::task_text(plan, i);
  if (plan.tasks().size() > task_limit)
    text += concat("... ", plan.tasks().size() - task_limit, " more tasks\n");
  return text;
}

/// Differences of two plans, in the lines of their dumps: "- " before those of `a` alone,
/// "+ " before those of `b`; the first `task_limit` tasks that differ. Empty where they are equal.
/// Cost: n log n in the lines.
inline std::string diff(Plan const& a, Plan const& b, std::size_t task_limit = 20) {
  if (a == b) return {};
  std::string text;
  std::string const heads[] = {detail::head_text(a), detail::head_text(b)};
  auto const ours = detail::lines_of(heads[0]), theirs = detail::lines_of(heads[1]);
  auto const add_missing = [&](char const* sign, auto const& from, auto in) {
    std::sort(in.begin(), in.end());
    for (std::string_view const line : from)
      if (!std::binary_search(in.begin(), in.end(), line)) text += concat(sign, line, "\n");
  };
  add_missing("- ", ours, theirs);
  add_missing("+ ", theirs, ours);
  std::size_t shown = 0, differing = 0;
  std::size_t const count = std::max(a.tasks().size(), b.tasks().size());
  for (std::size_t i = 0; i < count; ++i) {
    std::string const left = i < a.tasks().size() ? detail::task_text(a, i) : std::string();
    std::string const right = i < b.tasks().size() ? detail::task_text(b, i) : std::string();
    if (left == right) continue;
    ++differing;
    if (shown == task_limit) continue;
    ++shown;
    if (!left.empty()) text += "- " + left;
    if (!right.empty()) text += "+ " + right;
  }
  if (differing > shown) text += concat("... ", differing - shown, " more tasks differ\n");
  if (text.empty()) text = "they differ in priorities, arguments or cuts that a dump leaves out\n";
  return text;
}

}  // namespace nntile
