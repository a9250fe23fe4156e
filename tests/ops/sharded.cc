// SPDX-License-Identifier: BSD-3-Clause
// Every op and its derivative on several ranks: each axis sharded in turn, and each two at once,
// with and without canonical groups, has the bits of one rank.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "nntile/runtime/ring/ring.hh"
#include "tests/support/catch.hh"
#include "tests/support/job_proof.hh"
#include "tests/support/sharded_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

bool long_form() { return std::getenv("NNTILE_SHARDED_OPS") != nullptr; }

bool takes(OpCase const& c, DType element) {
  return std::count(c.op->dtypes.begin(), c.op->dtypes.end(), element) > 0;
}

/// How much was tried.
struct Tried {
  int calls = 0, gradients = 0, runs = 0, on_two_axes = 0;
  std::size_t messages = 0;
};

/// One axis of a case, cut for as many ranks of an axis of the mesh.
struct Sharing {
  ShardedAxis axis;
  int ranks;
};
std::string to_string(std::vector<Sharing> const& over) {
  std::string text;
  for (Sharing const& each : over)
    text += concat(text.empty() ? "" : ", ", "axis ", each.axis.name, " over ", each.ranks);
  return text;
}

/// CHECKs one graph of a case with axes sharded, each over an axis of a mesh; `alone` names the one
/// tensor that is sharded, others are on all.
void check_sharded(LogicalGraph const& graph, OpCase const& c, std::vector<Array> const& operands,
                   std::vector<Sharing> const& over, std::string const& alone, Tried& tried) {
  INFO(c.op->name << " " << to_string(c.shapes[0]) << " " << c.groups.size() << " groups, "
                  << to_string(over) << " ranks of " << alone);
  PlanOptions options{.tile = 0, .cuts = plan_cuts(canonical_cuts(c))};
  for (AxisGroups const& each : c.groups)  // borders of blocks are not canonical there
    std::erase_if(options.cuts, [&](AxisCut const& cut) { return cut.axis == each.axis; });
  for (auto const& [axis, ranks] : over) {
    std::erase_if(options.cuts, [&](AxisCut const& cut) { return cut.axis == axis.name; });
    options.cuts.push_back({axis.name, axis.sizes});
  }
  options.check = true;
  Tiles const one = run_sharded<Serial>(graph, operands, options, {});
  for (auto const& [axis, ranks] : over) {
    std::string const mesh = concat("m", options.mesh.size());
    options.mesh.push_back({mesh, ranks});
    options.rules.push_back({.tensors = alone, .axis = axis.name, .mesh = mesh});
  }
  int const number = tried.runs++;
  LocalOptions const local{.seed = static_cast<std::uint64_t>(number),
                           .most_delay = number % 5,
                           .eager_bytes = number % 3 == 0 ? 256u : 0u};
  Tiles const many = number % 2 == 0 ? run_sharded<Serial>(graph, operands, options, local)
                                     : run_sharded<Ring>(graph, operands, options, local);
  CHECK(many == one);
  std::vector<Plan> const parts = parts_of(graph, options);
  CHECK(difference_of(graph, options) == "");
  CHECK(fault_of(graph, options, parts) == "");
  for (Plan const& part : parts)
    for (PlannedTraffic const& with : traffic(part))
      tried.messages += static_cast<std::size_t>(with.sent);
}

/// Whether an operand has all of these axes.
bool has(OpCase const& c, std::size_t operand, std::initializer_list<std::size_t> axes) {
  auto const ids = axes_of(c).operands[operand];
  return std::all_of(axes.begin(), axes.end(), [&](std::size_t axis) {
    return std::find(ids.begin(), ids.end(), axis) != ids.end();
  });
}

/// Tries all tensors sharded so and, if asked for, each operand alone that has these axes.
void check_graphs(std::deque<LogicalGraph> const& graphs, OpCase const& c,
                  std::vector<Array> const& operands, std::vector<Sharing> const& over,
                  std::initializer_list<std::size_t> axes, bool alone, Tried& tried) {
  for (LogicalGraph const& graph : graphs) {
    check_sharded(graph, c, operands, over, "*", tried);
    for (std::size_t o = 0; alone && o < operands.size(); ++o)
      if (has(c, o, axes)) check_sharded(graph, c, operands, over, name_of_operand(o), tried);
  }
}

/// Every axis of a case over 2 to 4 ranks, and every two of them over 2 x 2, of all tensors and of
/// each operand alone, forward and with gradients. The short form tries operands alone on two
/// ranks.
void check_case(OpCase const& c, DType element, Tried& tried) {
  auto const operands = make_operands(c, element);
  Numerics const numerics{.groups = c.groups};
  std::deque<LogicalGraph> graphs;
  build(graphs.emplace_back(c.op->name, numerics), c, element);
  ++tried.calls;
  if (add_with_gradients(graphs, c, element)) ++tried.gradients;
  std::size_t const axes = axes_of(c).axes.size();
  for (std::size_t a = 0; a < axes; ++a) {
    for (int const ranks : {2, 3, 4})
      if (auto const axis = cut_for(c, a, ranks))
        check_graphs(graphs, c, operands, {{*axis, ranks}}, {a}, ranks == 2 || long_form(), tried);
    auto const axis = cut_for(c, a, 2);
    for (std::size_t b = a + 1; axis && b < axes; ++b)
      if (auto const other = cut_for(c, b, 2)) {
        check_graphs(graphs, c, operands, {{*axis, 2}, {*other, 2}}, {a, b}, long_form(), tried);
        ++tried.on_two_axes;
      }
  }
}

}  // namespace

// NNTILE_SHARDED_OPS=1 tries every dtype, 2 to 4 groups, and operands alone on 2 to 4 ranks and 2
// x 2.
TEST_CASE("an op with any axis, and any two, sharded has the bits of one rank", "[ops][sharded]") {
  std::vector<OpCase> cases = every_op();
  cases.push_back(op_case<ops::Gemm>({.bias = true, .ndim = 2, .batch_ndim = 1},
                                     {{5, 3, 4, 2}, {3, 4, 6, 2}, {5}, {5, 6, 2}}));
  Tried tried;
  for (OpCase const& c : cases) {
    std::vector<DType> elements = {takes(c, DType::fp32) ? DType::fp32 : c.op->dtypes[0]};
    if (long_form()) elements.assign(c.op->dtypes.begin(), c.op->dtypes.end());
    for (DType const element : elements) {
      check_case(c, element, tried);
      for (int groups = long_form() ? 2 : 4; groups <= 4; ++groups)
        if (OpCase const grouped = with_groups(c, groups); !grouped.groups.empty())
          check_case(grouped, element, tried);
    }
  }
  if (long_form())
    std::printf(
        "sharded ops: %d calls, %d with gradients, in %d ways, %d pairs of axes, %zu messages\n",
        tried.calls, tried.gradients, tried.runs, tried.on_two_axes, tried.messages);
  CHECK(tried.calls - tried.gradients < tried.calls / 2);
  CHECK(tried.on_two_axes > tried.calls);
  CHECK(tried.messages > 10000);
}
