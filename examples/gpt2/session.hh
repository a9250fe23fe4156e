#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A model with its graphs, plans and tensors on one runtime.

#include <memory>
#include <string>
#include <vector>

#include "machine.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/parts.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/io/store.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "places.hh"
#include "ranks.hh"
#include "settings.hh"

namespace gpt2 {

using nntile::CompiledGraph;
using nntile::DType;
using nntile::LogicalGraph;
using nntile::Node;
using nntile::Plan;

/// A graph of the model over batches of [seq, batch] tokens, with the loss where it is wanted.
struct ModelGraph {
  using Purpose = nntile::nn::LanguageModelOptions::Purpose;

  /// `mesh`: of the ranks that train, which then decide together whether to stop. A step of
  /// several micro-batches, `accumulate` of `batch` sequences, runs by phases. `slots`: of caches
  /// of keys and values, which the tokens follow.
  ModelGraph(Purpose purpose, nntile::nn::Gpt2Config const& config, nntile::Dim seq, Index batch,
             nntile::Numerics const& numerics, nntile::nn::AdamWOptions const& adamw = {},
             std::vector<nntile::MeshAxis> const& mesh = {}, int accumulate = 1, Index slots = 0)
      : graph(purpose == Purpose::training     ? "train"
              : purpose == Purpose::validation ? "validate"
              : purpose == Purpose::prefill    ? "prefill"
                                               : "generate",
              numerics),
        model(graph, config),
        step(model, {.seq = seq,
                     .batch = batch,
                     .purpose = purpose,
                     .slots = slots,
                     .accumulate = accumulate,
                     .adamw = adamw}) {
    if (step.optimizer() && adamw.clip > 0) step.optimizer()->squared_norm().mark_output();
    if (mesh.empty()) return;
    nntile::TensorSpec asked{.shape = {1}, .axes = "flag"};
    for (nntile::MeshAxis const& axis : mesh) {
      asked.shape.push_back(axis.size);
      rules.push_back({.axis = "ranks_" + axis.name, .mesh = axis.name});
      asked.axes += " " + rules.back().axis;
    }
    Node sum = graph.input(asked, "stop asked");
    for (std::size_t axis = 0; axis < mesh.size(); ++axis)  // in any tiling: not of dimension 0
      sum = nntile::sum_slice({.axis = 1}, sum);
    sum.named("stop").mark_output();
  }

  LogicalGraph graph;
  nntile::nn::Gpt2 model;
  nntile::nn::LanguageModelStep step;
  std::vector<nntile::ShardRule> rules;  // of its own, besides those that share the model
};

/// Pads columns of the logits, which have an element for each word, 50,257 of GPT-2: a device's
/// fast products read 16 bytes at once where columns begin at multiples of these.
inline void pad_logits(nntile::PlanOptions& options, ModelGraph const& of, Machine const& machine) {
  Node const& logits = of.step.logits();
  if (!logits) return;
  Index const column = logits.shape()[0] * static_cast<Index>(size_of(logits.dtype()));
  bool const fast = of.graph.numerics().mode == nntile::Mode::fast;
  if (machine.place == "host" || !fast || column % 16 == 0) return;
  for (std::string const& name : {logits.name(), logits.name() + ".grad"})
    if (logits.graph().find(name)) options.pad.push_back({.tensor = name, .bytes = 16});
}

/// What checkpoints have of a run: parameters and the optimizer's states. Gradients are 0 between
/// steps.
inline bool is_saved(nntile::StoredSpec const& spec) {
  return nntile::io::is_saved(spec) && !spec.name.ends_with(".grad");
}

/// Bytes of the host that this rank takes when the plan is bound: of all that the plan needs those
/// that the store does not hold yet.
template <nntile::Runtime R>
std::size_t bytes_to_take(Plan const& plan, nntile::TensorStore<R> const& store) {
  nntile::Location const here{store.link().rank, nntile::host};
  nntile::MemoryReport held{.location = here};
  for (nntile::PlannedTensor const& tensor : plan.tensors()) {
    if (store.find(tensor.name, tensor.tiling.shape()) == nullptr) continue;
    for (auto const& buffer : plan.buffers().subspan(tensor.first_buffer, tensor.buffer_count))
      if (buffer.location == here) held.add(tensor, buffer);
  }
  return static_cast<std::size_t>(plan.memory(here).total() - held.stored);
}

/// The tensors of a run and the ways to fill them.
template <nntile::Runtime R> class Session {
 public:
  /// The session of a model with `layers` blocks.
  Session(R& runtime, Machine const& machine, Index layers, World const* world = nullptr,
          Sharing const& sharing = {})
      : store(runtime, world == nullptr ? nntile::RankLink{} : world->link()),
        options(tile_options(machine.tile)),
        isa(isa_of(machine.isa)),
        ranks_here(world == nullptr ? 1 : world->ranks_here()),
        machine_(machine) {
    options.machine.workers = runtime.workers().cpu;
    options.machine.cache = core_cache();
    if (world != nullptr) {  // all plan for one machine: it decides the tile
      options.machine.workers = static_cast<int>(world->first_of(options.machine.workers));
      options.machine.cache =
          static_cast<Index>(world->first_of(static_cast<double>(options.machine.cache)));
    }
    set_places(options, machine, layers);
    if (store.link().ranks == 1) return;
    options.mesh = sharing.mesh;
    options.rules = sharing.rules;
    options.keep_received = sharing.keep_received;
  }

  /// Plans and binds, on all ranks together, which compare their plans. Throws OutOfMemory, before
  /// a byte is allocated on any rank, where the machine has less than the plan needs. `dims`: the
  /// numbers of open dimensions.
  std::unique_ptr<CompiledGraph<R>> compile(ModelGraph const& of, bool trace = false,
                                            std::vector<nntile::BoundDim> dims = {}) {
    auto kept = options;
    kept.dims = std::move(dims);
    kept.by_phase = of.step.accumulates();
    kept.rules.insert(kept.rules.end(), of.rules.begin(), of.rules.end());
    pad_logits(kept, of, machine_);
    return compile(of.graph, kept, trace);
  }
  /// The same of a graph that lacks the axes of the model's batches, which --tile may name.
  std::unique_ptr<CompiledGraph<R>> compile(LogicalGraph const& graph) {
    auto kept = options;
    kept.cuts.clear(), kept.rules.clear();
    return compile(graph, kept, false);
  }

  /// First values of all parameters and states.
  void initialize(ModelGraph const& of, std::uint64_t seed) {
    LogicalGraph init("initialize", {of.graph.numerics().mode});  // no sums, and not all axes
    nntile::nn::initialize(init, of.step, seed);
    compile(init)->execute();
  }
  /// Gradients of several micro-batches, which no checkpoint has.
  void zero_gradients(ModelGraph const& of) {
    LogicalGraph zero("zero gradients", {of.graph.numerics().mode});
    of.step.zero_gradients(zero);
    compile(zero)->execute();
  }
  void write_positions(ModelGraph const& of) {
    store.template write<Index>("positions", of.step.position_values());
  }

  nntile::TensorStore<R> store;
  nntile::PlanOptions options;
  nntile::Isa isa;
  int ranks_here;

 private:
  std::unique_ptr<CompiledGraph<R>> compile(LogicalGraph const& graph,
                                            nntile::PlanOptions const& kept, bool trace) {
    auto const plan = this->plan(graph, kept);
    (void)store.together(nntile::concat("memory of '", graph.name(), "'"), [&] {
      require_memory(*plan);
      return std::vector<std::byte>();
    });
    try {
      return std::make_unique<CompiledGraph<R>>(plan, store,
                                                nntile::BindOptions{.isa = isa, .trace = trace});
    } catch (nntile::OutOfMemory const& error) {
      throw nntile::OutOfMemory(in_options(error.what()));
    }
  }
  /// Around what the store holds.
  std::shared_ptr<Plan const> plan(LogicalGraph const& graph, nntile::PlanOptions const& kept) {
    return plan_within(machine_, graph.name(), [&] {
      return kept.mesh.empty() ? nntile::plan_around(graph, store, kept)
                               : nntile::plan_part(graph, store, kept);
    });
  }
  void require_memory(Plan const& plan) const {
    std::size_t const needed = bytes_to_take(plan, store) * static_cast<std::size_t>(ranks_here);
    if (std::size_t const available = available_bytes(); available != 0 && needed > available)
      throw nntile::OutOfMemory(nntile::concat(
          "the plan '", plan.name(), "' needs ", readable_bytes(static_cast<double>(needed)),
          ranks_here == 1 ? "" : nntile::concat(" for the ", ranks_here, " ranks of this host"),
          " but ", readable_bytes(static_cast<double>(available)), " are available; ",
          trains(plan.name()) ? "use a smaller --width, --layers, --seq or --batch"
                              : "free some, or give --disk and --disk-keeps parameters"));
  }

  Machine machine_;
};

/// The description of the model in a checkpoint, without a dtype where that is fp32; checkpoints of
/// another model are refused.
inline nntile::io::Json describe(nntile::nn::Gpt2Config const& model, Index seq) {
  auto json = nntile::io::Json::object({{"model_type", "gpt2"},
                                        {"vocab_size", model.vocab},
                                        {"n_positions", model.positions},
                                        {"n_embd", model.width},
                                        {"n_layer", model.layers},
                                        {"n_head", model.heads},
                                        {"layer_norm_epsilon", model.eps},
                                        {"trained_seq", seq}});
  if (model.dtype != DType::fp32) json["dtype"] = std::string(name_of(model.dtype));
  return json;
}

/// The dtype of a model from its description. Throws FormatError.
inline DType dtype_from(nntile::io::JsonView json, std::string const& path) {
  if (!json.find("dtype")) return DType::fp32;
  auto const name = nntile::io::json_field<std::string>(json, "dtype", path);
  try {
    return dtype_named(nntile::concat(nntile::io::path_in_quotes(path), ": its model"), name);
  } catch (nntile::ValueError const& error) {
    throw nntile::FormatError(error.what());
  }
}

/// A model from its description, and the sequence it was trained on. Throws FormatError.
struct Described {
  nntile::nn::Gpt2Config model;
  Index seq;
};
inline Described model_from(nntile::io::JsonView json, std::string const& path) {
  auto const integer = [&](char const* key) {
    auto const value = json[key].as<Index>();
    if (!value || *value < 1)
      throw nntile::FormatError(
          nntile::concat("'", path, "': its model has no usable '", key, "'"));
    return *value;
  };
  Described result{{}, integer("trained_seq")};
  result.model = {.vocab = integer("vocab_size"),
                  .positions = integer("n_positions"),
                  .width = integer("n_embd"),
                  .layers = integer("n_layer"),
                  .heads = integer("n_head"),
                  .eps = json.find("layer_norm_epsilon")
                             ? nntile::io::json_field<double>(json, "layer_norm_epsilon", path)
                             : 1e-5,
                  .dtype = dtype_from(json, path)};
  if (!(result.model.eps > 0))
    throw nntile::FormatError(nntile::concat("'", path, "': its model's 'layer_norm_epsilon' is ",
                                             result.model.eps, ", not above 0"));
  return result;
}

/// Compares the numbers of a model with the tensors of its checkpoint, whose files bear out their
/// sizes. Throws FormatError that names the number and the tensor that contradicts it. So a graph
/// that is built from these numbers is no larger than the files.
inline void require_tensors(nntile::io::Checkpoint const& checkpoint, Described const& described) {
  checkpoint.check(nntile::io::Part::model);
  auto const& [model, seq] = described;
  auto const fail = [&](auto const&... words) {
    throw nntile::FormatError(nntile::concat(nntile::io::path_in_quotes(checkpoint.path()),
                                             ": its model says ", words...));
  };
  auto const extent = [&](char const* key, Index said, char const* name, std::size_t axis) {
    auto const tensor = checkpoint.tensors().find(name);
    if (!tensor) fail(key, " is ", said, " but there is no tensor '", name, "'");
    if (tensor->shape.size() != 2 || tensor->shape[axis] != static_cast<std::uint64_t>(said))
      fail(key, " is ", said, " but '", name, "' is ", nntile::io::to_string(tensor->shape));
  };
  extent("vocab_size", model.vocab, "wte.weight", 0);
  extent("n_positions", model.positions, "wpe.weight", 0);
  extent("n_embd", model.width, "wte.weight", 1);
  auto const block = [](Index i) { return nntile::concat("h.", i, ".ln_1.weight"); };
  Index blocks = 0;
  while (blocks < model.layers && checkpoint.tensors().find(block(blocks))) ++blocks;
  if (blocks < model.layers)
    fail("n_layer is ", model.layers, " but there is no tensor '", block(blocks), "'");
  if (checkpoint.tensors().find(block(blocks)))
    fail("n_layer is ", model.layers, " but there is a tensor '", block(blocks), "'");
  if (model.width % model.heads != 0)
    fail("n_head is ", model.heads, ", which does not divide the width of 'wte.weight', ",
         model.width);
  if (seq > model.positions)
    fail("trained_seq is ", seq, " but 'wpe.weight' has ", model.positions, " positions");
}

}  // namespace gpt2
