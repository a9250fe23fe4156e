// SPDX-License-Identifier: BSD-3-Clause
// Sets of rules that have a name: their rules as they are printed, alone and in products.
#include "nntile/graph/presets.hh"

#include <string>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/parts.hh"
#include "nntile/ops.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Lines = std::vector<std::string>;

Lines printed(std::vector<ShardRule> const& rules) {
  Lines lines;
  for (ShardRule const& rule : rules)
    lines.push_back(to_string(rule) + (rule.optional ? ", optional" : ""));
  return lines;
}

Lines const batches = {"tensors '*', role any, axis 'batch', mesh 'data'"};
Lines const states = {"tensors '*', role state, axis '', mesh 'data'"};
Lines const parameters = {"tensors '*', role parameter, axis '', mesh 'data'"};
Lines const words = {"tensors '*', role any, axis 'head', mesh 'tensor', optional",
                     "tensors '*', role any, axis 'hidden', mesh 'tensor', optional",
                     "tensors '*', role any, axis 'vocab', mesh 'tensor', optional"};
Lines const positions = {"tensors '*', role any, axis 'seq', mesh 'seq'"};
Lines const stages = {"tensors 'wte*', role any, axis '', mesh 'pipe', at 0",
                      "tensors '*/wte*', role any, axis '', mesh 'pipe', at 0, optional",
                      "tensors 'h.0.*', role any, axis '', mesh 'pipe', at 1",
                      "tensors '*/h.0.*', role any, axis '', mesh 'pipe', at 1, optional",
                      "tensors 'ln_f*', role any, axis '', mesh 'pipe', at 1",
                      "tensors '*/ln_f*', role any, axis '', mesh 'pipe', at 1, optional"};
std::vector<std::vector<std::string>> const two_stages = {{"wte*"}, {"h.0.*", "ln_f*"}};

Lines joined(std::initializer_list<Lines> parts) {
  Lines all;
  for (Lines const& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// A preset as a function of rules, and as one that adds to options.
struct Preset {
  char const* axis;
  std::vector<ShardRule> rules;
  void (*apply)(PlanOptions& options, int ranks);
  Lines lines;
};
std::vector<Preset> presets() {
  using Named = DistributionPreset;
  return {{"data", ddp(), &Named::apply_ddp, batches},
          {"data", zero1(), &Named::apply_zero1, joined({batches, states})},
          {"data", fsdp(), &Named::apply_fsdp, joined({batches, states, parameters})},
          {"tensor", tensor_parallel(), &Named::apply_tensor_parallel, words},
          {"seq", sequence_parallel(), &Named::apply_sequence_parallel, positions},
          {"pipe", pipeline(two_stages),
           [](PlanOptions& options, int) { Named::apply_pipeline(options, two_stages); }, stages}};
}

}  // namespace

TEST_CASE("each preset is the rules of its name, under both spellings", "[graph][presets]") {
  for (Preset const& each : presets()) {
    CAPTURE(each.axis, each.lines);
    CHECK(printed(each.rules) == each.lines);
    PlanOptions options;
    each.apply(options, 2);
    CHECK(options.mesh == std::vector<MeshAxis>{{each.axis, 2}});
    CHECK(options.rules == each.rules);
  }
}

TEST_CASE("presets over an axis of another name have it in all their rules", "[graph][presets]") {
  for (auto const& rules : {ddp("own"), zero1("own"), fsdp("own"), tensor_parallel("own"),
                            sequence_parallel("own"), pipeline(two_stages, "own")}) {
    REQUIRE(!rules.empty());
    for (ShardRule const& rule : rules) CHECK(rule.mesh == "own");
  }
}

TEST_CASE("a product of two presets has the rules and the axes of both in their order",
          "[graph][presets]") {
  auto const all = presets();
  for (Preset const& first : all)
    for (Preset const& second : all) {
      if (first.axis == std::string_view(second.axis)) continue;
      CAPTURE(first.lines, second.lines);
      CHECK(printed(product({first.rules, second.rules})) == joined({first.lines, second.lines}));
      PlanOptions options;
      first.apply(options, 2);
      second.apply(options, 2);
      CHECK(options.mesh == std::vector<MeshAxis>{{first.axis, 2}, {second.axis, 2}});
      CHECK(options.rules == product({first.rules, second.rules}));
    }
  CHECK(product({}).empty());
}

TEST_CASE("a preset on a mesh without its axis is one line with the axes that there are",
          "[graph][presets]") {
  LogicalGraph graph("y");
  Node const x = graph.input({.shape = {8, 4}, .axes = "embed batch"}, "x");
  gelutanh(x).named("y").mark_output();
  for (Preset const& each : presets()) {
    PlanOptions options{.tile = 64, .mesh = {{"rows", 2}, {"columns", 2}}, .rules = each.rules};
    std::string const text = message_of<PlanError>([&] { Plan(graph, options, 0); });
    std::string const rule = each.lines[0].substr(0, each.lines[0].find(", optional"));
    CHECK(text == concat("plan 'y': rule (", rule,
                         "): the mesh has no axis of that name; it has rows, columns"));
    options.mesh = {};
    CHECK(message_of<PlanError>([&] { Plan(graph, options, 0); }) ==
          concat("plan 'y': rule (", rule,
                 "): there is no mesh; give one, with that axis, as .mesh"));
  }
}
