// SPDX-License-Identifier: BSD-3-Clause
// Random graphs against differences: every gradient is right, or refused with the names of op and
// tensor. NNTILE_RANDOM_GRAPHS (50) says how many, NNTILE_RANDOM_SEED (1) from which on.

#include "nntile/graph/draw.hh"
#include "nntile/graph/gradient.hh"
#include "tests/graph/random_graph.hh"
#include "tests/support/catch.hh"
#include "tests/support/differences.hh"
#include "tests/support/message.hh"
#include "tests/support/padding.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Whether a refusal says which op of the graph on which tensor has no gradient.
bool names_op_and_tensor(LogicalGraph const& graph, std::string const& text) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    OpNode const& op = graph.op_at(i);
    for (std::uint32_t const id : op.operands)
      if (text.starts_with(concat(op.info->name, " ('", graph.tensor_at(id).name, "')")))
        return true;
  }
  return false;
}

/// Whether the graph can be planned and computed: attention, for one, takes no sliced heads.
bool runs(LogicalGraph& graph, Node const& loss, std::uint64_t seed) {
  try {
    return std::isfinite(Evaluation(graph, loss, seed).loss());
  } catch (PlanError const&) {
    return false;
  }
}

enum class Outcome { right, refused, none, undecided };

/// Adds to `padded` the number of tensors with padding in a plan that was computed.
Outcome outcome(std::uint64_t seed, std::size_t& padded) {
  RandomGraph random(seed);
  LogicalGraph& graph = random.graph;
  INFO("seed " << seed << "\n" << random.listing());
  if (!runs(graph, random.loss, seed)) return Outcome::none;
  std::string const before = to_dot(graph);
  Gradients gradients;
  std::string const text =
      message_of<GraphError>([&] { gradients = add_gradients(graph, random.loss); });
  if (contains(text, "depends on no parameter")) return Outcome::none;
  if (text != "(nothing was thrown)") {
    INFO(text);
    CHECK(names_op_and_tensor(graph, text));
    CHECK(to_dot(graph) == before);
    CHECK(runs(graph, random.loss, seed));
    return Outcome::refused;
  }
  PlanOptions const options = padded_at_times(graph, seed, {.tile = 0});
  padded += options.pad.size();
  for (std::uint64_t point = 0; point < 4; ++point) {
    Deviation const found = deviation(graph, random.loss, gradients, seed + 1000 * point, options);
    if (found.doubt > 1e-3) continue;  // a kink is near, or the loss bends: another point
    INFO("point " << point << ", doubt " << found.doubt);
    CHECK(found.error < 1e-6);
    return Outcome::right;
  }
  return Outcome::undecided;
}

}  // namespace

TEST_CASE("gradients of random graphs are right or refused", "[graph][gradient]") {
  std::uint64_t const count = setting("NNTILE_RANDOM_GRAPHS", 50);
  std::uint64_t const first = setting("NNTILE_RANDOM_SEED", 1);
  std::uint64_t counts[4] = {};
  std::uint64_t seed = first;
  std::size_t padded = 0;
  for (std::uint64_t tried = 0; tried < count; ++seed) {
    Outcome const found = outcome(seed, padded);
    ++counts[static_cast<int>(found)];
    if (found != Outcome::none) ++tried;
  }
  INFO("seeds " << first << " to " << seed - 1 << ": " << counts[0] << " right, " << counts[1]
                << " refused, " << counts[2] << " of no use, " << counts[3] << " undecided");
  CHECK(counts[1] * 10 <= count * 4);
  CHECK(counts[3] * 50 <= count);
  CHECK(padded * 4 >= count);
}
