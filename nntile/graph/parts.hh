#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The parts of a plan for several ranks. Each rank plans its own: from the same graph and options
// they fit together.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/part_digest.hh"
#include "nntile/graph/passes/one_forward_one_backward.hh"
#include "nntile/graph/passes/own_tiles.hh"
#include "nntile/graph/passes/report.hh"
#include "nntile/graph/passes/split.hh"
#include "nntile/graph/passes/traffic_bound.hh"
#include "nntile/graph/presets.hh"

namespace nntile {

/// Messages and bytes that a run of a part sends to and receives from one rank.
struct PlannedTraffic {
  int peer = 0;
  std::int64_t sent = 0, received = 0;  // messages
  Index bytes_sent = 0, bytes_received = 0;
  bool operator==(PlannedTraffic const&) const = default;
};

/// Of some of a plan's tasks, those of a phase, by rank, without those to which nothing goes either
/// way. Cost: linear in the tasks.
inline std::vector<PlannedTraffic> traffic(Plan const& plan, std::span<PlannedTask const> tasks) {
  std::vector<PlannedTraffic> by_rank(static_cast<std::size_t>(plan.ranks()));
  for (PlannedTask const& task : tasks) {
    KernelKind const kind = plan.kernels()[task.kernel].kind;
    if (!is_transfer(kind)) continue;
    TransferArgs args;
    std::memcpy(&args, plan.args(task).data(), sizeof args);
    PlannedTraffic& with = by_rank[static_cast<std::size_t>(args.peer)];
    with.peer = args.peer;
    Index const bytes = plan.buffers()[plan.uses(task)[0].handle].payload();
    (kind == KernelKind::send ? with.sent : with.received) += 1;
    Index& moved = kind == KernelKind::send ? with.bytes_sent : with.bytes_received;
    add_saturated(moved, bytes);
  }
  std::erase_if(by_rank, [](PlannedTraffic const& with) { return with.sent + with.received == 0; });
  return by_rank;
}
inline std::vector<PlannedTraffic> traffic(Plan const& plan) { return traffic(plan, plan.tasks()); }

namespace detail {

/// The tasks of all ranks in their common order, and who holds each tile; of a thin job those that
/// one rank needs to know.
struct Job {
  PlanData plan;
  std::vector<TileHome> homes;  // by buffer
  std::optional<passes::ThinJob> thin = {};
};

/// The tasks that a rank goes through to plan its part: all tasks; all, of which those of others
/// have no arguments, as far as rules say which they are; those of a thin job; or those of one that
/// has few rows.
enum class PartOf { whole_job, own_arguments, thin_job, thin_rows };

/// The tile that is best on one rank; where it has not the room that ranks have together, the one
/// that needs least. Throws PlanError.
inline Index tile_of_job(LogicalGraph const& graph, PlanOptions alone) {
  alone.mesh.clear(), alone.rules.clear();
  alone.policy = {};  // its rules may name transfers
  try {
    return passes::choose_tile(graph, alone, true).tile();
  } catch (PlaceFull const&) {
    return passes::least_tile;
  }
}

/// The job for all ranks, or what one of them goes through. Throws PlanError, and NotThin where
/// there is no such.
inline Job job_of(LogicalGraph const& graph, PlanOptions options, passes::MeshShape const& mesh,
                  int rank = 0, PartOf part = PartOf::whole_job) {
  if (options.tile == PlanOptions::automatic) {
    options.tile = tile_of_job(graph, options);
    options.even = options.tile > 0;  // as the search had it
  }
  PlanData plan = passes::to_tilings(graph, options);
  BoundDims const dims(graph, options.dims);
  DynamicArray<bool> used;
  DynamicArray<Storage> storages;
  for (std::size_t t = 0; t < graph.tensor_count(); ++t) {
    used.push_back(plan.tensors[t].used);
    storages.push_back(plan.tensors[t].storage);
  }
  passes::TilePass cuts(graph, options, dims, used, storages);
  passes::HomePass places(plan, graph, options, mesh, cuts);
  places.place();
  std::optional<passes::ThinJob> thin;
  if (part == PartOf::thin_job || part == PartOf::thin_rows) thin = places.thin(rank);
  passes::ThinJob* const of = thin ? &*thin : nullptr;
  passes::OwnTiles const own(plan, mesh, rank, places.cuts());
  if (part == PartOf::thin_rows) {
    thin->rows = own.rows(thin->axis);
    thin->rows.note_readers(plan, graph);
    thin->last = {thin->coordinates, thin->own};
  }
  plan = passes::to_tasks(std::move(plan), graph, options, of,
                          part == PartOf::whole_job ? nullptr : &own);
  std::vector<TileHome> homes = places.deal();
  if (of == nullptr) plan = passes::schedule(std::move(plan), options, mesh, places, homes);
  for (std::uint32_t t = 0; t < plan.tensors.size(); ++t)
    if (PlannedTensor& tensor = plan.tensors[t];
        tensor.used && tensor.storage != Storage::arena && tensor.storage != Storage::view)
      for (Index tile = 0; tile < tensor.tiling.tile_count(); ++tile) {
        std::uint32_t const b = plan.buffer_of(t, tile);
        TileHome home = b != no_id ? homes[b] : places.home(t, tile);
        home.first = mesh.first(home.box);
        tensor.homes.push_back(home);
      }
  return {std::move(plan), std::move(homes), std::move(thin)};
}

/// A rank's tasks and transfers. Throws PlanError, and NotThin where they do not follow from those.
inline PlanData part_of(LogicalGraph const& graph, PlanOptions const& options,
                        passes::MeshShape const& mesh, int rank, PartOf of) {
  Job job = job_of(graph, options, mesh, rank, of);
  return passes::SplitPass(std::move(job.plan), mesh, std::move(job.homes), rank,
                           options.keep_received, job.thin ? &*job.thin : nullptr)
      .run();
}
inline PlanData part_of(LogicalGraph const& graph, PlanOptions const& options, int rank) {
  passes::MeshShape const mesh(options.mesh);
  if (rank < 0 || rank >= mesh.ranks())
    throw PlanError(
        concat("plan '", graph.name(), "': rank ", rank, " of a mesh of ", mesh.ranks(), " ranks"));
  bool const thin = mesh.ranks() > passes::Spread::most_direct;
  auto const try_part = [&](PartOf of) -> std::optional<PlanData> {
    try {
      return part_of(graph, options, mesh, rank, of);
    } catch (passes::NotThin const&) {
      return {};
    }
  };
  std::optional<PlanData> part;
  if (thin && !mesh.is_line()) part = try_part(PartOf::thin_rows);
  if (thin && !part) part = try_part(PartOf::thin_job);
  if (!part) part = try_part(PartOf::own_arguments);
  PlanData plan = part ? std::move(*part) : part_of(graph, options, mesh, rank, PartOf::whole_job);
  return passes::place(passes::locate(std::move(plan), graph, options), graph, options);
}

}  // namespace detail

inline Plan::Plan(LogicalGraph const& graph, PlanOptions const& options, int rank)
    : data_(detail::planned(graph, [&] {
        PlanData data = detail::part_of(graph, options, rank);
        if (options.check) passes::check(data);
        return data;
      })) {}

using passes::PartReport;

namespace detail {

/// Reports the bytes of a part at each place, its tasks and its messages.
inline PartReport report_of(Plan const& part, int rank) {
  PartReport report{.memory = part.memory({rank, host}),
                    .beyond = {},
                    .tasks = part.tasks().size(),
                    .flops = part.flops()};
  for (MemoryReport const& memory : part.memories())
    if (memory.location.place != host) report.beyond.push_back(memory);
  for (PlannedTraffic const& with : traffic(part)) {
    report.sent += with.sent, report.received += with.received;
    add_saturated(report.bytes_sent, with.bytes_sent);
    add_saturated(report.bytes_received, with.bytes_received);
  }
  return report;
}

}  // namespace detail

/// Memory and traffic of all parts, by rank, as of memories() and traffic() of a part. Throws what
/// planning a part does. Cost: linear in the tasks of all ranks where all is on hosts; else each
/// part is planned, as what is copied between its places depends on its order.
inline std::vector<PartReport> report_parts(LogicalGraph const& graph, PlanOptions const& options) {
  passes::MeshShape const mesh(options.mesh);
  if (!passes::on_host_alone(options)) {
    std::vector<PartReport> reports;
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      reports.push_back(detail::report_of(Plan(graph, options, rank), rank));
    return reports;
  }
  return detail::planned(graph, [&] {
    detail::Job const job = detail::job_of(graph, options, mesh);
    return passes::report(job.plan, mesh, job.homes, options.keep_received);
  });
}

/// The least that all ranks together send in a run, in bytes, with homes as the rules give them and
/// wherever sums come together: for a result of W bytes that N ranks add to, W (N - 1), and as much
/// again if all of them need it; a tensor of which two ops make a gradient counts twice. An even
/// share of it bounds the rank that sends most. Throws what planning a part does. Cost: the tasks
/// of all ranks times the ranks.
inline Index traffic_bound(LogicalGraph const& graph, PlanOptions const& options) {
  passes::MeshShape const mesh(options.mesh);
  return detail::planned(graph, [&] {
    detail::Job job = detail::job_of(graph, options, mesh);
    return passes::TrafficBoundPass(job.plan, mesh, std::move(job.homes), options.keep_received)
        .run();
  });
}

namespace detail {

/// Throws PlanError where a mesh has not as many ranks as the store's communicator.
inline void check_mesh(std::string const& graph, int ranks, RankLink const& link) {
  if (ranks == link.ranks) return;
  throw PlanError(concat("plan '", graph, "': a mesh of ", ranks, " ranks, and the store's ",
                         "communicator has ", link.ranks, ": give PlanOptions::mesh ", link.ranks,
                         " in all, or the store a communicator of ", ranks));
}

}  // namespace detail

/// This rank's part of the plan of a graph around what the store holds. All ranks call it together,
/// behind their runs; each plans alone, and they compare a digest. Throws PlanError, where they
/// differ on all ranks, with a rank that does; where planning fails on one, CommError on the
/// others.
template <Runtime R>
std::shared_ptr<Plan const> plan_part(LogicalGraph const& graph, TensorStore<R> const& store,
                                      PlanOptions const& options) {
  std::shared_ptr<Plan const> plan;
  auto const call = [&] { return concat("planning of '", graph.name(), "'"); };
  auto const digests = store.together(call, [&] {
    detail::check_mesh(graph.name(), passes::MeshShape(options.mesh).ranks(), store.link());
    plan = std::make_shared<Plan const>(graph, detail::around(graph, store, options),
                                        store.link().rank);
    return detail::PartDigest(graph, options, *plan).bytes();
  });
  detail::check_digests(graph.name(), digests);
  return plan;
}

/// The same as compile() for this rank's part, by the mesh and rules of the options: its store has
/// a communicator. All ranks call it for the same graphs in one order, and run these so. A run
/// reads and writes what the rank holds; a bound input is the whole tensor, of which it takes its
/// tiles, or what it holds, Stored::held. Throws what compile() and plan_part() do, and CommError
/// (another rank lacks the memory).
template <Runtime R>
CompiledGraph<R> compile_part(LogicalGraph const& graph, TensorStore<R>& store,
                              PlanOptions const& options, BindOptions const& bind = {}) {
  return detail::bind(graph, plan_part(graph, store, options), store, bind);
}

/// A rank's part, and a digest of the options, which all ranks have alike: what io/part.hh saves.
struct PlannedPart {
  std::shared_ptr<Plan const> plan;
  std::uint64_t options = 0;

  PlannedPart(std::shared_ptr<Plan const> part, std::uint64_t digest)
      : plan(std::move(part)), options(digest) {}
  /// Throws PlanError.
  PlannedPart(LogicalGraph const& graph, PlanOptions const& given, int rank)
      : plan(std::make_shared<Plan const>(graph, given, rank)),
        options(detail::PartDigest::of_options(given, graph, *plan)) {}

  /// Throws PlanError, naming `call`, where there is no plan.
  Plan const& of(LogicalGraph const& graph, char const* call) const {
    if (plan == nullptr)
      throw PlanError(concat(call, ": graph '", graph.name(), "': the part's plan is an empty ",
                             "shared_ptr; make one by PlannedPart(graph, options, rank)"));
    return *plan;
  }
};

/// Binds this rank's part, which was planned before. All ranks call it together, as compile_part():
/// they compare a digest. Throws PlanError where there is no part, or another rank's, or, on all
/// ranks, that of another job on some rank; where it does on one rank, CommError on the others.
template <Runtime R>
CompiledGraph<R> bind_part(LogicalGraph const& graph, PlannedPart const& part,
                           TensorStore<R>& store, BindOptions const& bind = {}) {
  auto const call = [&] { return concat("binding of '", graph.name(), "'"); };
  auto const digests = store.together(call, [&] {
    Plan const& plan = part.of(graph, "bind_part");
    detail::check_mesh(graph.name(), plan.ranks(), store.link());
    if (plan.rank() != store.link().rank)
      throw PlanError(concat("plan '", plan.name(), "': the part of rank ", plan.rank(), " of ",
                             plan.ranks(), " on rank ", store.link().rank, ": give each its own"));
    return detail::PartDigest(graph, part.options, plan).bytes();
  });
  detail::check_digests(graph.name(), digests);
  return detail::bind(graph, part.plan, store, bind);
}

}  // namespace nntile
