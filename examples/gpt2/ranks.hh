#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The processes that train together: what each has of the model, and what all agree on.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#ifdef NNTILE_HAVE_MPI
#include "nntile/comm/mpi.hh"
#endif
#include "nntile/comm/heartbeats.hh"
#include "nntile/comm/presence.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/core/error.hh"
#include "nntile/graph/presets.hh"
#include "nntile/io/json.hh"
#include "nntile/nn/gpt2.hh"
#include "settings.hh"

namespace gpt2 {

/// How ranks share a model.
struct Sharing {
  std::vector<nntile::MeshAxis> mesh;
  std::vector<nntile::ShardRule> rules;
  std::uint32_t keep_received = nntile::PlanOptions::to_last_reader;
};

using Rules = std::vector<nntile::ShardRule>;

/// A stage of blocks for each rank of an axis. Throws ValueError.
inline Rules stages_of_blocks(nntile::MeshAxis const& mesh, nntile::Index blocks) {
  if (mesh.size > blocks)
    throw nntile::ValueError(
        nntile::concat("--parallel: a pipeline of ", mesh.size, " stages, but the model has ",
                       blocks, " blocks: use at most as many ranks on axis '", mesh.name, "'"));
  return nntile::pipeline(nntile::nn::pipeline_stages({.layers = blocks}, mesh.size), mesh.name);
}

/// One of the names that --parallel takes, and the axis of the mesh that it is over.
struct ParallelPreset {
  char const* name;
  char const* axis;
  Rules (*rules)(nntile::MeshAxis const& mesh, nntile::Index blocks);
};
inline constexpr ParallelPreset parallel_presets[] = {
    {"ddp", "data", [](auto const& mesh, nntile::Index) { return nntile::ddp(mesh.name); }},
    {"zero1", "data", [](auto const& mesh, nntile::Index) { return nntile::zero1(mesh.name); }},
    {"fsdp", "data", [](auto const& mesh, nntile::Index) { return nntile::fsdp(mesh.name); }},
    {"tensor", "tensor",
     [](auto const& mesh, nntile::Index) { return nntile::tensor_parallel(mesh.name); }},
    {"sequence", "seq",
     [](auto const& mesh, nntile::Index) { return nntile::sequence_parallel(mesh.name); }},
    {"pipeline", "pipe", stages_of_blocks},
};

/// "data=2,tensor=2". Throws ValueError.
inline std::vector<nntile::MeshAxis> mesh_of(std::string const& text) {
  std::vector<nntile::MeshAxis> mesh;
  each_count("--mesh", text, "data=2,tensor=2", [&](std::string const& axis, int size) {
    for (nntile::MeshAxis const& other : mesh)
      if (other.name == axis)
        throw nntile::ValueError(nntile::concat("--mesh: axis '", axis, "' comes twice in '", text,
                                                "'; give it once, with all its ranks"));
    mesh.push_back({axis, size});
    return !axis.empty() && size >= 1;
  });
  return mesh;
}

/// The mesh as --mesh takes it.
inline std::string to_text(std::vector<nntile::MeshAxis> const& mesh) {
  std::string text;
  for (nntile::MeshAxis const& axis : mesh)
    text += nntile::concat(text.empty() ? "" : ",", axis.name, "=", axis.size);
  return text;
}

/// What --parallel ("fsdp", "tensor+zero1") and --mesh mean for a model of `blocks` blocks: without
/// a mesh all ranks are on the one axis of the presets; without presets each axis of the mesh has
/// the first preset over it, and ranks without either are data parallel. Throws ValueError.
inline Sharing sharing_of(std::string const& parallel, std::string const& mesh, int ranks,
                          nntile::Index blocks) {
  std::vector<ParallelPreset const*> chosen;
  std::string names;
  for (ParallelPreset const& preset : parallel_presets)
    names += nntile::concat(names.empty() ? "" : ", ", preset.name);
  for (std::size_t at = 0, end = 0; !parallel.empty() && end != std::string::npos; at = end + 1) {
    end = parallel.find('+', at);
    std::string_view const item = std::string_view(parallel).substr(at, end - at);
    ParallelPreset const* const preset =
        std::find_if(std::begin(parallel_presets), std::end(parallel_presets),
                     [&](ParallelPreset const& each) { return item == each.name; });
    if (preset == std::end(parallel_presets))
      throw nntile::ValueError(nntile::concat("--parallel: no preset '", item, "' in '", parallel,
                                              "'; there are ", names,
                                              ", and several as tensor+zero1"));
    if (std::find(chosen.begin(), chosen.end(), preset) != chosen.end())
      throw nntile::ValueError(
          nntile::concat("--parallel: '", parallel, "' names ", item, " twice; leave one out"));
    for (ParallelPreset const* const other : chosen)  // both cut batches
      if (other->axis == std::string_view(preset->axis))
        throw nntile::ValueError(nntile::concat("--parallel: ", other->name, " and ", item, " in '",
                                                parallel, "' are both over axis '", preset->axis,
                                                "' of a mesh; leave one out"));
    chosen.push_back(preset);
  }
  Sharing result;
  result.mesh = mesh_of(mesh);
  if (chosen.empty() && result.mesh.empty()) chosen.push_back(&parallel_presets[0]);
  if (chosen.empty())
    for (nntile::MeshAxis const& axis : result.mesh)
      for (ParallelPreset const& preset : parallel_presets)
        if (axis.name == preset.axis) {
          chosen.push_back(&preset);
          break;
        }
  if (result.mesh.empty()) {
    for (ParallelPreset const* const preset : chosen)
      if (preset->axis != std::string_view(chosen[0]->axis))
        throw nntile::ValueError(nntile::concat(
            "--parallel: ", parallel, " is over several axes of a mesh; say how many ranks are on ",
            "each: --mesh ", chosen[0]->axis, "=2,", preset->axis, "=2 for 4 ranks"));
    result.mesh = {{chosen[0]->axis, ranks}};
  }
  constexpr std::int64_t most = INT64_MAX;
  std::int64_t product = 1;
  for (nntile::MeshAxis const& axis : result.mesh) {
    product = axis.size > most / product ? most : product * axis.size;
    bool known = false;
    for (ParallelPreset const* const preset : chosen) known = known || axis.name == preset->axis;
    if (!known)
      throw nntile::ValueError(nntile::concat(
          "--mesh: nothing is shared out over axis '", axis.name, "' of ", to_text(result.mesh),
          "; data is of ddp, zero1 and fsdp, tensor of tensor, seq of sequence, pipe of pipeline"));
  }
  for (ParallelPreset const* const preset : chosen) {
    bool there = false;
    for (nntile::MeshAxis const& axis : result.mesh) {
      if (axis.name != preset->axis) continue;
      Rules const rules = preset->rules(axis, blocks);
      result.rules.insert(result.rules.end(), rules.begin(), rules.end());
      there = true;
    }
    if (!there)
      throw nntile::ValueError(nntile::concat("--parallel: ", preset->name, " is over axis '",
                                              preset->axis, "', which --mesh ",
                                              to_text(result.mesh), " lacks"));
  }
  if (product != ranks)
    throw nntile::ValueError(nntile::concat(
        "--mesh: ", to_text(result.mesh), " is a mesh of ", product, " ranks, but there are ",
        ranks, ": start mpiexec -n ", product, ", or give a mesh of ", ranks));
  return result;
}

/// What the launcher that started this process calls it; 0 of 1 where none did.
struct Launched {
  int rank = 0, ranks = 1;
};
inline Launched launched() {
  for (auto const& [rank, size] : {std::pair{"PMI_RANK", "PMI_SIZE"},
                                   std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}}) {
    char const* const at = std::getenv(rank);
    char const* const of = std::getenv(size);
    if (at != nullptr && of != nullptr) return {std::atoi(at), std::atoi(of)};
  }
  return {};
}

/// The ranks of the job that this process is of. One process, or several of MPI, which it starts
/// and ends.
class World {
 public:
  /// `wanted`: options for several ranks were given. Throws ValueError (a build without MPI),
  /// CommError.
  explicit World(bool wanted) {
    if (!wanted && launched().ranks < 2) return;
#ifdef NNTILE_HAVE_MPI
    int level = 0;
    (void)MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    nntile::check_mpi_launcher_environment();
    comm_ = std::make_unique<nntile::MpiComm>(MPI_COMM_WORLD);
    transfers_ = std::make_unique<nntile::Transfers<nntile::MpiComm>>(*comm_);
    presence_ = std::make_unique<nntile::Presence>(*comm_);
    heartbeats_ = std::make_unique<nntile::Heartbeats>(*comm_);
#else
    throw nntile::ValueError(
        "several ranks: this program was built without MPI; install MPICH (Debian's libmpich-dev) "
        "and configure with -Dmpi=enabled");
#endif
  }
  World(World const&) = delete;
  World& operator=(World const&) = delete;
  ~World() {
#ifdef NNTILE_HAVE_MPI
    heartbeats_.reset();
    presence_.reset();
    transfers_.reset();
    comm_.reset();
    if (begun()) (void)MPI_Finalize();
#endif
  }

  /// Whether this process has tried to be of one.
  static bool begun() {
    int initialised = 0;
#ifdef NNTILE_HAVE_MPI
    (void)MPI_Initialized(&initialised);
#endif
    return initialised != 0;
  }

  int rank() const { return link().rank; }
  int size() const { return link().ranks; }
  /// Whether this rank prints what all know.
  bool speaks() const { return rank() == 0; }
  /// "rank 2: ", or nothing where there is one.
  std::string name() const {
    return size() == 1 ? std::string() : nntile::concat("rank ", rank(), ": ");
  }
  nntile::RankLink link() const {
#ifdef NNTILE_HAVE_MPI
    if (transfers_) return nntile::link_of(*transfers_);
#endif
    return {};
  }
  /// What this rank waits for.
  std::vector<nntile::WaitingTransfer> waiting() const {
#ifdef NNTILE_HAVE_MPI
    if (transfers_) return transfers_->waiting();
#endif
    return {};
  }

  /// What this rank's communicator has failed with; "" where it has not.
  std::string broken() const {
#ifdef NNTILE_HAVE_MPI
    if (transfers_) return transfers_->broken();
#endif
    return {};
  }

  /// A rank that has died, of this host or of the next.
  std::optional<nntile::RankProcess> dead() const {
    if (presence_)
      if (auto const here = presence_->dead()) return here;
    if (heartbeats_ && heartbeats_->dead()) return heartbeats_->peer()->process;
    return std::nullopt;
  }
  /// Looks after the next host, as one thread does several times a second; null on one host.
  nntile::Heartbeats const* beat() const {
    if (heartbeats_) heartbeats_->beat();
    return heartbeats_ && heartbeats_->peer() ? heartbeats_.get() : nullptr;
  }
  /// Ranks on this host.
  int ranks_here() const { return presence_ ? presence_->ranks_here() : 1; }
  /// "712, 713": the numbers of all ranks' processes.
  std::string processes() const {
    std::string text;
    if (presence_)
      for (nntile::RankProcess const& each : presence_->processes())
        text += nntile::concat(text.empty() ? "" : ", ", each.process);
    return text;
  }

  /// What every rank gives, by rank. Collective.
  std::vector<std::string> gather(std::string const& text) const {
#ifdef NNTILE_HAVE_MPI
    if (comm_) {
      std::vector<std::string> all;
      for (auto const& bytes : comm_->all_gather(std::as_bytes(std::span(text))))
        all.emplace_back(reinterpret_cast<char const*>(bytes.data()), bytes.size());
      return all;
    }
#endif
    return {text};
  }
  /// Rank 0's. Collective.
  double first_of(double value) const {
    std::string text(sizeof value, '\0');
    std::memcpy(text.data(), &value, sizeof value);
    std::string const first = gather(text).front();
    std::memcpy(&value, first.data(), sizeof value);
    return value;
  }

  /// Ends all ranks with that status.
  [[noreturn]] void abort(int status) const {
    std::fflush(nullptr);
#ifdef NNTILE_HAVE_MPI
    if (comm_) {
      // The launcher ends all at once, and passes nothing on any more.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      (void)MPI_Abort(MPI_COMM_WORLD, status);
    }
#endif
    std::_Exit(status);
  }

 private:
#ifdef NNTILE_HAVE_MPI
  std::unique_ptr<nntile::MpiComm> comm_;
  std::unique_ptr<nntile::Transfers<nntile::MpiComm>> transfers_;
#endif
  std::unique_ptr<nntile::Presence> presence_;
  std::unique_ptr<nntile::Heartbeats> heartbeats_;
};

/// Has a rank that fails before it was of the world join it, where the others would wait for it.
inline void join_others(std::optional<World>& world) {
  if (world || launched().ranks < 2 || World::begun()) return;
  try {
    world.emplace(true);
  } catch (std::exception const&) {  // each is in a world of its own, and says why by itself
  }
}

/// Throws ValueError on every rank where one of them has other lines than rank 0: options, and
/// whatever else all need alike. Collective.
inline void require_alike(World const& world, std::string const& lines) {
  auto const all = world.gather(lines);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::string_view a = all[0], b = all[rank];
    while (!a.empty() || !b.empty()) {
      std::string_view const line = a.substr(0, a.find('\n')), other = b.substr(0, b.find('\n'));
      if (line != other)
        throw nntile::ValueError(nntile::concat("rank ", rank, " has ", other, " but rank 0 has ",
                                                line, "; start all ranks with the same options"));
      a.remove_prefix(std::min(a.size(), line.size() + 1));
      b.remove_prefix(std::min(b.size(), other.size() + 1));
    }
  }
}

/// The options that all ranks must be given alike, a line each, with what presets leave open.
inline std::string as_given(TrainSettings const& s, nntile::nn::Gpt2Config const& config,
                            Index seq) {
  auto const line = [](char const* name, auto const& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)  // all its bits
      return nntile::concat("--", name, " ", nntile::io::to_text(nntile::io::Json(value)), "\n");
    else
      return nntile::concat("--", name, " ", value, "\n");
  };
  // Of a run that is resumed, those that were not given are in its checkpoint.
  auto const number = [&](char const* name, auto const& value) {
    bool const own = s.resume && !s.given.contains(nntile::concat("--", name));
    return own ? line(name, "of the run") : line(name, value);
  };
  return line("preset", s.preset) + line("width", config.width) + line("layers", config.layers) +
         line("heads", config.heads) + line("seq", seq) +
         number("batch", s.batch.value_or(preset_of(s.preset).batch)) +
         number("accumulate", s.accumulate.value_or(1)) + line("dtype", name_of(config.dtype)) +
         number("steps", s.steps) + line("minutes", s.minutes) + number("lr", s.lr) +
         number("warmup", s.warmup) + number("weight-decay", s.weight_decay) +
         number("beta1", s.beta1) + number("beta2", s.beta2) + number("clip", s.clip) +
         number("seed", s.seed) + line("out", s.out) + line("resume", int{s.resume}) +
         line("hash", int{s.hash}) + line("profile", int{s.profile}) + line("groups", s.groups) +
         line("place", s.machine.place) + line("devices", s.machine.devices) +
         line("offload", s.machine.offload) + line("device-memory", s.machine.device_memory) +
         line("disk-keeps", s.machine.disk_keeps) + line("host-memory", s.machine.host_memory) +
         line("parallel", s.parallel) + line("mesh", s.mesh) +
         line("keep-received", s.keep_received) + line("eval-every", s.eval_every) +
         line("save-every", s.save_every) + line("tile", s.machine.tile) +
         line("numerics", s.machine.numerics) +
         line("isa", name_of(isa_of(s.machine.isa) == nntile::Isa::best ? nntile::kernels::best()
                                                                        : isa_of(s.machine.isa)));
}

}  // namespace gpt2
