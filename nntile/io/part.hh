#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parts of a job in files, one for each rank.

#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "nntile/graph/parts.hh"
#include "nntile/io/plan.hh"

namespace nntile::io {

/// A part as JSON: what plan_text() says of it, and a digest of the options of the job. Throws
/// PlanError, also for a job of one rank, and where there is no plan.
inline std::string part_text(PlannedPart const& part, LogicalGraph const& graph) {
  Plan const& plan = part.of(graph, "save_part");
  if (plan.ranks() == 1)  // part_of() would take its file for a plan's
    throw PlanError(concat("plan '", plan.name(), "': a job of one rank has no parts to be saved; ",
                           "save a plan without a mesh"));
  return plan_text(plan, graph, part.options);
}
/// The part of such a text, of that graph; `source` is what errors call it. Throws FormatError as
/// plan_of() does, and for the plan of one rank. Cost: that of the tasks of all ranks.
inline PlannedPart part_of(std::string_view text, std::string_view source,
                           LogicalGraph const& graph) {
  auto plan = std::make_shared<Plan const>(plan_of(text, source, graph));
  JsonView const root = parse_json(text, source);
  if (plan->ranks() == 1 || !root.find("options"))
    throw FormatError(concat(path_in_quotes(source), ": a plan, but no rank's part of a job"));
  auto const digest = json_field<std::string>(root, "options", source);
  std::uint64_t options = 0;
  (void)std::from_chars(digest.data(), digest.data() + digest.size(), options, 16);
  if (to_hex(options) != digest)
    throw FormatError(concat(path_in_quotes(source), ": options of digest ", in_quotes(digest)));
  return {std::move(plan), options};
}

inline void save_part(std::string const& path, PlannedPart const& part, LogicalGraph const& graph) {
  detail::write_graph_file(path, part_text(part, graph));
}
inline PlannedPart load_part(std::string const& path, LogicalGraph const& graph) {
  std::string const text = read_file(path, largest_graph_file);
  return part_of(text, path, graph);
}

}  // namespace nntile::io
