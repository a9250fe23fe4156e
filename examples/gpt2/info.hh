#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reports on a model's needs, on this machine and build, and on a checkpoint's contents; nothing is
// computed.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "generate.hh"
#include "machine.hh"
#include "nntile/graph/draw_page.hh"
#include "nntile/graph/dump.hh"
#include "nntile/graph/parts.hh"
#include "nntile/graph/simulate_job.hh"
#include "nntile/io/part.hh"
#include "nntile/runtime/support/options.hh"
#include "places.hh"
#include "ranks.hh"
#include "report.hh"
#include "resume.hh"

namespace gpt2 {

struct InfoSettings {
  TrainSettings model;
  std::string run;
  std::string dot;
  std::string plan;
  std::string draw;
  nntile::DrawnTasks drawn;
  std::string part;
  std::string save_parts;
  int ranks = 1;
};

inline void write_text(std::string const& path, std::string const& text) {
  nntile::io::write_file(path, text);
}

/// Throws ValueError for files that cannot be written, drawings of nothing and parts of one rank,
/// before a plan is made.
inline void check_files(InfoSettings const& settings) {
  if (!settings.save_parts.empty() && settings.ranks == 1)
    throw nntile::ValueError("--save-parts: one rank has no parts; say how many with --ranks");
  std::map<std::string, char const*> options;  // by the file
  for (auto const& [option, path] :
       {std::pair{"--dot", settings.dot}, std::pair{"--plan", settings.plan},
        std::pair{"--draw", settings.draw}}) {
    if (path.empty()) continue;
    require_writable(option, path);
    auto const file = std::filesystem::weakly_canonical(std::filesystem::absolute(path));
    auto const [first, alone] = options.emplace(file.string(), option);
    if (!alone)
      throw nntile::ValueError(nntile::concat(option, ": '", path, "' is ", first->second,
                                              "'s file, too; give each a file of its own"));
  }
  if (!settings.draw.empty() && !settings.draw.ends_with(".html") &&
      !settings.draw.ends_with(".dot"))
    throw nntile::ValueError(
        nntile::concat("--draw: '", settings.draw,
                       "' ends neither in .html, for a browser, nor in .dot, for dot -Tsvg"));
  if (settings.drawn.begin >= settings.drawn.end)
    throw nntile::ValueError(nntile::concat("--draw-end: ", settings.drawn.end,
                                            " leaves no task from --draw-begin ",
                                            settings.drawn.begin, " on; give a larger one"));
}

/// Writes a picture of a plan where that is asked for.
inline void draw_plan(InfoSettings const& settings, Plan const& plan) {
  std::string const& path = settings.draw;
  if (path.empty()) return;
  bool const page = path.ends_with(".html");
  write_text(path, page ? to_html(plan, settings.drawn) : to_dot(plan, settings.drawn));
}

/// Prints how long a step would take if each rank had a machine like this one, and the network were
/// one of 100 Gbit/s.
inline void show_simulated(LogicalGraph const& graph, nntile::PlanOptions const& options) {
  nntile::ClusterModel cluster{.rank = options.machine, .link = {2e-6, 12.5e9}};
  if (double const peak = core_peak(nntile::Isa::best); peak > 0) cluster.rank.peak = peak;
  cluster.rank.bandwidth = core_triad();
  nntile::JobSimulation const step = nntile::simulate(nntile::job_tasks(graph, options), cluster);
  double waiting = 0;
  for (nntile::RankSimulation const& rank : step.ranks) waiting = std::max(waiting, rank.waiting);
  std::printf(
      "simulated  %.3f s a step, of which a rank waits %.3f s at most, and cores are idle %.1f %%, "
      "with %d cores of %.0f Gflop/s and %.1f GB/s a rank, and a link of 100 Gbit/s and 2 us for "
      "each\n",
      step.elapsed, waiting, 100 * nntile::idle_share(step), cluster.rank.workers,
      cluster.rank.peak * 1e-9, cluster.rank.bandwidth * 1e-9);
}

/// The options for a number of ranks.
inline nntile::PlanOptions shared_out(nntile::PlanOptions options, TrainSettings const& settings,
                                      int ranks) {
  Sharing sharing = sharing_of(settings.parallel, settings.mesh, ranks, model_of(settings).layers);
  options.mesh = std::move(sharing.mesh);
  options.rules = std::move(sharing.rules);
  options.keep_received = settings.keep_received;
  return options;
}

/// Prints what the host of the plan's rank holds.
inline void show_memory(Plan const& plan) {
  nntile::MemoryReport const memory = plan.memory({plan.rank(), nntile::host});
  std::printf("memory     %lld bytes: %lld stored, %lld arena (lower bound %lld)\n",
              static_cast<long long>(memory.total()), static_cast<long long>(memory.stored),
              static_cast<long long>(memory.arena),
              static_cast<long long>(memory.arena_lower_bound));
}

/// Prints what a saved part of the step says of its rank; its mesh where these options, which
/// `options` are without a mesh, made it.
inline void show_part(InfoSettings const& settings, LogicalGraph const& graph,
                      nntile::PlanOptions const& options) {
  nntile::PlannedPart const part = nntile::io::load_part(settings.part, graph);
  Plan const& plan = *part.plan;
  nntile::PlanOptions const given = shared_out(options, settings.model, plan.ranks());
  bool const same = nntile::detail::PartDigest::of_options(given) == part.options;
  std::printf("part       %s: rank %d of %d, %s, %zu tasks, %.2f Gflop\n", settings.part.c_str(),
              plan.rank(), plan.ranks(),
              same ? nntile::concat("mesh ", to_text(given.mesh)).c_str()
                   : "planned by other options than these",
              plan.tasks().size(), static_cast<double>(plan.flops()) * 1e-9);
  show_memory(plan);
  show_places(plan);
  for (nntile::PlannedTraffic const& with : nntile::traffic(plan))
    std::printf("rank %-5d %lld bytes sent in %lld messages, %lld received in %lld\n", with.peer,
                static_cast<long long>(with.bytes_sent), static_cast<long long>(with.sent),
                static_cast<long long>(with.bytes_received), static_cast<long long>(with.received));
  draw_plan(settings, plan);
}

inline std::string part_file(std::string const& folder, int rank) {
  return nntile::concat(folder, "/rank-", rank, ".json");
}

/// Writes the part of each rank into a folder, as rank-0.json and so on.
inline void save_parts(std::string const& folder, LogicalGraph const& graph,
                       nntile::PlanOptions const& options, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    nntile::io::save_part(part_file(folder, rank), nntile::PlannedPart(graph, options, rank),
                          graph);
}

/// Prints what each of several ranks holds, computes and sends in a training step, and starts none.
/// A rank's line is of its host, and one follows for each other place. Of many, ten, and the least
/// and the most of all.
inline void show_ranks(LogicalGraph const& graph, nntile::PlanOptions const& options,
                       std::vector<nntile::PartReport> const& parts) {
  std::printf("mesh       %s\n", to_text(options.mesh).c_str());
  for (nntile::ShardRule const& rule : options.rules)
    std::printf("rule       %s\n", to_string(rule).c_str());
  std::printf("%10s %16s %16s %16s %16s %10s\n", "rank", "bytes stored", "bytes of arena",
              "bytes sent", "bytes received", "Gflop");
  struct Row {
    double values[5] = {};
  };
  constexpr std::size_t shown = 10;
  Row least, most;
  double sent = 0;
  auto const print = [](char const* name, Row const& row) {
    std::printf("%10s %16.0f %16.0f %16.0f %16.0f %10.2f\n", name, row.values[0], row.values[1],
                row.values[2], row.values[3], row.values[4] * 1e-9);
  };
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    nntile::PartReport const& part = parts[rank];
    Row const row{{static_cast<double>(part.memory.stored), static_cast<double>(part.memory.arena),
                   static_cast<double>(part.bytes_sent), static_cast<double>(part.bytes_received),
                   static_cast<double>(part.flops)}};
    sent += row.values[2];
    if (rank == 0) least = most = row;
    for (std::size_t i = 0; i < std::size(row.values); ++i) {
      least.values[i] = std::min(least.values[i], row.values[i]);
      most.values[i] = std::max(most.values[i], row.values[i]);
    }
    if (rank >= shown) continue;
    print(std::to_string(rank).c_str(), row);
    for (nntile::MemoryReport const& memory : part.beyond)
      std::printf("%10s %16lld %16lld\n", to_string(memory.location.place).c_str(),
                  static_cast<long long>(memory.stored), static_cast<long long>(memory.arena));
  }
  print("least", least);
  print("most", most);
  auto const bound = static_cast<double>(nntile::traffic_bound(graph, options));
  std::printf("traffic    %.0f bytes a step in all, where %.0f are the least that can be%s\n", sent,
              bound, bound > 0 ? nntile::concat(": ", sent / bound, " times").c_str() : "");
  show_simulated(graph, options);
}

/// Prints the plan of a training step, or a rank's saved part of it, and writes its drawing, its
/// dump and its parts where that is asked for.
inline void show_model(InfoSettings const& settings) {
  check_files(settings);
  auto const config = model_of(settings.model);
  Preset const& preset = preset_of(settings.model.preset);
  Index const seq = settings.model.seq.value_or(preset.seq), batch = micro_batch_of(settings.model);
  auto numerics = numerics_of(settings.model.machine.numerics);
  numerics.groups = groups_of(settings.model.groups);
  ModelGraph const of(ModelGraph::Purpose::training, config, seq, batch, numerics, {}, {},
                      settings.model.accumulate.value_or(1));
  auto options = tile_options(settings.model.machine.tile);
  options.by_phase = of.step.accumulates();
  set_places(options, settings.model.machine, config.layers);
  pad_logits(options, of, settings.model.machine);
  options.machine.cache = core_cache();
  options.machine.workers =
      nntile::support::check_options({.workers = settings.model.machine.workers}, "--workers")
          .workers;
  (void)isa_of(settings.model.machine.isa);  // as it is written
  if (!settings.part.empty()) return show_part(settings, of.graph, options);
  nntile::PlanOptions const shared = shared_out(options, settings.model, settings.ranks);
  if (!settings.save_parts.empty()) {
    nntile::io::make_directories(settings.save_parts);
    require_writable("--save-parts", part_file(settings.save_parts, 0));
  }
  Plan const plan =
      plan_within(settings.model.machine, of.graph.name(), [&] { return Plan(of.graph, options); });
  std::vector<nntile::PartReport> parts;  // behind the plan for one rank, whose errors are plainer
  if (settings.ranks > 1)
    parts = plan_within(settings.model.machine, of.graph.name(),
                        [&] { return nntile::report_parts(of.graph, shared); });
  std::printf(
      "model      %lld parameters (width %lld, %lld layers, %lld heads, vocabulary %lld)%s\n",
      static_cast<long long>(of.model.parameters().count()), static_cast<long long>(config.width),
      static_cast<long long>(config.layers), static_cast<long long>(config.heads),
      static_cast<long long>(config.vocab), dtype_text(config).c_str());
  std::printf(
      "step       %lld tokens (batch %lld of %lld), %zu ops, %zu tasks, tiles of %lld, %.2f "
      "Gflop\n",
      static_cast<long long>(seq * batch), static_cast<long long>(batch),
      static_cast<long long>(seq), of.graph.op_count(), plan.tasks().size(),
      static_cast<long long>(plan.tile()), static_cast<double>(plan.flops()) * 1e-9);
  if (of.step.accumulates())
    std::printf("           that is one of %d micro-batches and the update\n",
                settings.model.accumulate.value_or(1));
  show_memory(plan);
  show_places(plan);
  std::printf("bits       %s\n",
              plan.canonical() ? "canonical: equal for every tiling" : plan.uncanonical().c_str());
  if (settings.ranks > 1) show_ranks(of.graph, shared, parts);
  if (!settings.save_parts.empty())
    save_parts(settings.save_parts, of.graph, shared, settings.ranks);
  if (!settings.dot.empty()) write_text(settings.dot, to_dot(of.graph));
  if (!settings.plan.empty()) write_text(settings.plan, dump(plan, plan.tasks().size()));
  draw_plan(settings, plan);
}

inline void show_machine(std::string const& runtimes) {
  std::string isas;
  for (auto const isa : {nntile::Isa::plain, nntile::Isa::v2, nntile::Isa::v3, nntile::Isa::v4})
    if (nntile::kernels::available(isa))
      isas += nntile::concat(isas.empty() ? "" : ", ", name_of(isa));
  std::printf("runtimes   %s\nkernels    %s (best %s), one core %.0f Gflop/s\n", runtimes.c_str(),
              isas.c_str(), name_of(nntile::kernels::best()), core_peak(nntile::Isa::best) * 1e-9);
}

/// What train --resume would go on with; nothing of a checkpoint that no training run wrote.
inline void show_numbers(nntile::io::Checkpoint const& checkpoint) {
  auto const state = checkpoint.state();
  if (!state.run.find("steps")) return;
  RunRecord const run = run_from(state.run, state.step, checkpoint.path());
  TrainSettings settings;
  take_over(settings, run, state, checkpoint.path());
  std::string text = nntile::concat("step ", state.step);
  if (run.steps != INT64_MAX) text += nntile::concat(" of ", run.steps);
  if (run.batch != 0) text += nntile::concat(", batch ", run.batch);
  if (run.accumulate != 1) text += nntile::concat(" in ", run.accumulate, " micro-batches");
  if (!run.groups.empty()) text += nntile::concat(", groups ", run.groups);
  text += nntile::concat(", seed ", settings.seed);
  for (auto const& [name, number] : numbers_of(settings))
    text += nntile::concat(", ", name == "weight_decay" ? "weight-decay" : name, " ", number);
  std::printf("run        %s\n", text.c_str());
}

inline void show_run(std::string const& run) {
  auto const checkpoint = open_run(run);
  auto const described = model_from(checkpoint.model(), checkpoint.path());
  std::printf(
      "checkpoint %s: step %llu, %zu tensors, sequence %lld, width %lld, %lld layers, %lld heads"
      "%s\n",
      checkpoint.path().c_str(), static_cast<unsigned long long>(checkpoint.state().step),
      checkpoint.tensors().size(), static_cast<long long>(described.seq),
      static_cast<long long>(described.model.width), static_cast<long long>(described.model.layers),
      static_cast<long long>(described.model.heads), dtype_text(described.model).c_str());
  if (checkpoint.state().loss)
    std::printf("loss       %.4f at its last step\n", *checkpoint.state().loss);
  show_numbers(checkpoint);
  bool const whole = checkpoint.has(nntile::io::Part::all);
  checkpoint.verify(whole ? nntile::io::Part::all : nntile::io::Part::model);
  std::printf("checksums  %s\n",
              whole
                  ? "all right"
                  : "of the weights all right; the optimizer's states are not there: it generates, "
                    "but train --resume needs them");
}

}  // namespace gpt2
