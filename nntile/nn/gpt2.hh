#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// GPT-2 with the tensor names of Hugging Face.

#include <cmath>
#include <optional>

#include "nntile/nn/attention.hh"
#include "nntile/nn/loss.hh"
#include "nntile/nn/mlp.hh"
#include "nntile/nn/norm.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/add_slice.hh"
#include "nntile/ops/embedding.hh"

namespace nntile::nn {

/// Sizes of a GPT-2 model. Defaults are the smallest published one.
struct Gpt2Config {
  Index vocab = 50257;
  Index positions = 1024;
  Index width = 768;
  Index layers = 12;
  Index heads = 12;
  double eps = 1e-5;
  double stddev = 0.02;
  /// Of activations, their gradients, and parameters where they are used. Those of bf16 and fp16
  /// are kept and trained in fp32, and cast once a run (mixed precision); others in this dtype.
  DType dtype = DType::fp32;

  DType kept() const { return size_of(dtype) < size_of(DType::fp32) ? DType::fp32 : dtype; }
  bool operator==(Gpt2Config const&) const = default;
};

/// Throws ShapeError, TypeError or ValueError for sizes and numbers that no model has.
inline void check(Gpt2Config const& config) {
  auto const require = [](char const* name, Index value, Index least) {
    if (value < least)
      throw ShapeError(concat("gpt2: ", name, "=", value, "; ", least, " or more"));
  };
  require("vocab", config.vocab, 1);
  require("positions", config.positions, 1);
  require("width", config.width, 1);
  require("layers", config.layers, 0);
  require("heads", config.heads, 1);
  if (config.width % config.heads != 0)
    throw ShapeError(concat("gpt2: heads=", config.heads, " do not divide width=", config.width));
  auto const require_size = [](char const* name, double value, char const* example) {
    if (!(value >= 0 && std::isfinite(value)))
      throw ValueError(concat("gpt2: ", name, "=", value, "; 0 or more, such as ", example));
  };
  require_size("eps", config.eps, "1e-5");
  require_size("stddev", config.stddev, "0.02");
  if (!is_dtype(config.dtype) || !is_float(config.dtype))
    throw TypeError(concat("gpt2: dtype=",
                           is_dtype(config.dtype) ? std::string(name_of(config.dtype))
                                                  : std::to_string(static_cast<int>(config.dtype)),
                           "; activations are floats, such as fp32 or bf16"));
}

/// Token and position embeddings, `layers` pre-norm blocks, a final norm, and logits by the
/// transposed token embedding. Initial weights N(0, stddev), both c_proj N(0, stddev / sqrt(2
/// layers)), norms 1, biases 0. Source: Radford et al. 2019.
class Gpt2 {
 public:
  /// Throws as check() does, and GraphError for a name that is taken; the graph is then as it was.
  Gpt2(LogicalGraph& graph, Gpt2Config const& config)
      : config_(config), prefix_(graph.prefix()), parameters_(graph) {
    check(config);
    parameters_.all_or_nothing([&] { declare(config); });
  }

  Gpt2(Gpt2 const&) = default;  // a move copies, and leaves no model without layers
  Gpt2& operator=(Gpt2 const&) = default;

  /// logits[vocab, seq, batch] of tokens int64 [seq, batch] at positions int64 [seq], both of which
  /// may be open; what layer i computes is named h.<i>.<op>, and so are the gradients of that.
  /// Throws ShapeError; the graph is then as it was.
  Node logits(Node const& tokens, Node const& positions, bool inference = false) const {
    return append(tokens, positions, inference, nullptr);
  }

  /// The same of tokens that follow those in the caches, one of each layer, which they join; not
  /// differentiable.
  Node logits(Node const& tokens, Node const& positions,
              std::vector<KeyValueCache> const& caches) const {
    if (caches.size() != blocks_.size())
      throw ShapeError(concat("gpt2: ", caches.size(), " caches for ", blocks_.size(), " layers"));
    return append(tokens, positions, true, &caches);
  }

  /// Declares states h.<i>.attn.keys and h.<i>.attn.values, behind the prefix that the parameters
  /// have, for `slots` tokens of each of `batch` sequences, of which the first `start` (an int64
  /// scalar) are in use. Bytes: 2 layers width slots batch elements. Throws ShapeError, and
  /// GraphError for a start of another graph; the graph is then as it was.
  std::vector<KeyValueCache> caches(Node const& start, Index slots, Index batch) const {
    if (slots < 1 || slots > config_.positions)
      throw ShapeError(concat("gpt2: caches of ", slots, " slots; from 1 to ", config_.positions,
                              ", the positions of the model, is possible"));
    LogicalGraph& graph = parameters_.graph();
    (void)graph.tensor_of(start, "gpt2's start of the caches");
    return graph.all_or_nothing([&] {
      auto const full_names = graph.without_prefix();
      std::vector<KeyValueCache> result;
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        auto const state = [&](char const* name) {
          return graph.state({.shape = {config_.width / config_.heads, config_.heads, slots, batch},
                              .dtype = config_.dtype,
                              .axes = "head_dim head slot batch"},
                             concat(prefix_, "h.", i, ".attn.", name));
        };
        Node const keys = state("keys");
        result.push_back({keys, state("values"), start});
      }
      return result;
    });
  }

  Gpt2Config const& config() const { return config_; }
  ParameterList const& parameters() const { return parameters_; }

 private:
  Node append(Node const& tokens, Node const& positions, bool inference,
              std::vector<KeyValueCache> const* caches) const {
    if (tokens.shape().size() != 2 || positions.shape().size() != 1)
      throw ShapeError(concat("gpt2: tokens ('", tokens.name(), "') of shape ",
                              to_string(tokens.shape()), " and positions ('", positions.name(),
                              "') of shape ", to_string(positions.shape()),
                              ", but they are {seq, batch} and {seq}"));
    Dim const seq = tokens.shape()[0];
    if (!seq.open() && seq > config_.positions)
      throw ShapeError(concat("gpt2: sequence of ", to_string(seq), " tokens ('", tokens.name(),
                              "') but the model has ", config_.positions, " positions"));
    return parameters_.graph().all_or_nothing([&] {
      // One after the other: compilers differ in the order of a call's arguments, and nodes take
      // their numbers as they are made.
      Node const wte = in_dtype(wte_, config_.dtype);            // [e, v], of both uses
      Node const of_tokens = embedding(tokens, wte);             // [e, s, b]
      Node const wpe = in_dtype(wpe_, config_.dtype);            // [e, p]
      Node const of_positions = embedding(positions, wpe);       // [e, s]
      Node x = add_slice({.axis = 2}, of_tokens, of_positions);  // [e, s, b]
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        // Activations are placed by name, like the parameters of their layer.
        auto const layer = tokens.graph().prefix(concat("h.", i, "."));
        Block const& block = blocks_[i];
        Node const before = block.norm_1(x);
        x = add(x, caches ? block.attention(before, (*caches)[i]) : block.attention(before));
        Node const normed = block.norm_2(x);
        x = add(x, inference ? block.mlp.inference(normed) : block.mlp(normed));
      }
      return gemm({.trans_a = true}, wte, (*final_norm_)(x));
    });
  }

  struct Block {
    LayerNorm norm_1;
    CausalSelfAttention attention;
    LayerNorm norm_2;
    Mlp mlp;
  };

  void declare(Gpt2Config const& config) {
    wte_ = parameters_.add({{config.width, config.vocab}, config.kept(), "embed vocab", {}},
                           "wte.weight", 0, config.stddev, true);
    wpe_ = parameters_.add({{config.width, config.positions}, config.kept(), "embed position", {}},
                           "wpe.weight", 0, config.stddev, true);
    // Conv1D of the published files: weights [in, out], with a bias.
    BranchOptions const branch{
        .linear = {.stddev = config.stddev,
                   .bias = true,
                   .dtype = config.dtype,
                   .kept = config.kept(),
                   .transposed = false},
        .projection_stddev = config.stddev / std::sqrt(2.0 * static_cast<double>(config.layers))};
    NormOptions const norm{.eps = config.eps, .dtype = config.dtype, .kept = config.kept()};
    for (Index i = 0; i < config.layers; ++i) {
      std::string const name = concat("h.", i);
      blocks_.push_back(
          {LayerNorm(parameters_, name + ".ln_1", config.width, "embed", norm),
           CausalSelfAttention(parameters_, name + ".attn", config.width, config.heads, branch),
           LayerNorm(parameters_, name + ".ln_2", config.width, "embed", norm),
           Mlp(parameters_, name + ".mlp", config.width, 4 * config.width, branch)});
    }
    final_norm_.emplace(parameters_, "ln_f", config.width, "embed", norm);
  }

  Gpt2Config config_;
  std::string prefix_;  // of the parameters' names
  ParameterList parameters_;
  Node wte_;
  Node wpe_;
  std::vector<Block> blocks_;
  std::optional<LayerNorm> final_norm_;
};

/// Names of the tensors of each stage of a pipeline, for pipeline() of graph/presets.hh: layers in
/// contiguous runs, the longer ones first; both embeddings with the first stage, which computes the
/// logits as well, and the last norm with the last. Throws PlanError where there are fewer layers.
inline std::vector<std::vector<std::string>> pipeline_stages(Gpt2Config const& config, int count) {
  if (count < 1 || count > config.layers)
    throw PlanError(concat("gpt2: ", config.layers, " layers in ", count, " stages; ",
                           config.layers < 1
                               ? std::string("a stage has 1 at least; give the model layers")
                               : concat("from 1 to ", config.layers, " is possible")));
  std::vector<std::vector<std::string>> stages(static_cast<std::size_t>(count));
  stages.front() = {"wte.*", "wpe.*"};
  Index layer = 0;
  for (Index s = 0; s < count; ++s)
    for (Index left = config.layers / count + (s < config.layers % count ? 1 : 0); left > 0; --left)
      stages[static_cast<std::size_t>(s)].push_back(concat("h.", layer++, ".*"));
  stages.back().push_back("ln_f.*");
  return stages;
}

}  // namespace nntile::nn
