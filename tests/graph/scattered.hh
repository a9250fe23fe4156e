// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Tensors of a graph at places that are drawn, and room for little there.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/graph/logical.hh"
#include "nntile/graph/plan.hh"

namespace nntile::test {

/// Bytes of a place's arena that its tasks need at once.
inline Index largest_task(Plan const& plan, Place const& place) {
  Index most = 0;
  for (PlannedTask const& task : plan.tasks()) {
    std::map<std::uint32_t, Index> slots;
    for (Use<BufferId> const& use : plan.uses(task)) {
      PlannedBuffer const& buffer = plan.buffers()[use.handle];
      if (buffer.slot != no_id && buffer.location.place == place) slots[use.handle] = buffer.bytes;
    }
    Index sum = 0;
    for (auto const& [number, bytes] : slots) sum += bytes;
    most = std::max(most, sum);
  }
  return most;
}

/// Gives each tensor of a graph one of these places, by draw().
template <class Draw>
void scatter(PlanOptions& options, LogicalGraph const& graph, std::vector<Place> const& places,
             Draw&& draw) {
  for (std::uint32_t id = 0; id < graph.tensor_count(); ++id)
    options.place.push_back({.tensors = graph.tensor_at(id).name,
                             .place = places[draw() % places.size()],
                             .optional = true});  // what is pruned, or a view, has none
}

/// What is wrong with the text of an error where `given` bytes of a place are too few for a task.
inline std::string fault_of_text(std::string const& text, Index given) {
  auto const behind = [&](std::string_view words) {
    std::size_t const at = text.find(words);
    return at == std::string::npos ? Index{-1} : std::stoll(text.substr(at + words.size()));
  };
  Index const has = behind(" has "), uses = behind(" uses ");
  if (uses < 0) return {};  // what the place keeps is too much
  if (has != given) return concat("it has ", given, " bytes: ", text);
  std::size_t const lost = text.find(" of them between slots");
  Index const left =
      lost == std::string::npos ? 0 : std::stoll(text.substr(text.rfind(' ', lost - 1) + 1));
  if (uses <= has - left) return concat("that is room enough: ", text);
  return {};
}

}  // namespace nntile::test
