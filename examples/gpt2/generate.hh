#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Text from a trained model, byte by byte. Keys and values of the bytes before are kept; where the
// text is longer than the sequence that the model was trained on, its window moves with every byte,
// and is computed anew.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "nntile/io/checkpoint.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/ops/sample.hh"
#include "session.hh"
#include "streams.hh"
#include "words.hh"

namespace gpt2 {

/// Opens the newest checkpoint of a run, or the checkpoint itself, which may lack the optimizer's
/// files. Throws ValueError where there is none, Error as Checkpoint does.
inline nntile::io::Checkpoint open_run(std::string const& run) {
  namespace io = nntile::io;
  std::string path = run;
  if (io::path_exists(run)) path = io::latest_checkpoint(run).value_or(run);
  if (!io::path_exists(nntile::concat(path, '/', io::manifest_name)))
    throw nntile::ValueError(nntile::concat(
        "--run: '", run, "' ", io::path_exists(run) ? "holds no checkpoint" : "is not there",
        "; gpt2 train --out ", shell_word(run), " saves one there"));
  return io::Checkpoint::open(path, nullptr, io::Part::model);
}

/// A model that continues texts.
template <nntile::Runtime R> class Generator {
 public:
  Generator(R& runtime, GenerateSettings const& settings)
      : settings_(settings),
        checkpoint_(open_run(settings.run)),
        described_(checked_model(checkpoint_, settings)),
        session_(runtime, settings.machine, described_.model.layers),
        prefill_(graph(ModelGraph::Purpose::prefill)),
        next_(graph(ModelGraph::Purpose::inference)) {
    LogicalGraph draw("sample", {next_.graph.numerics().mode});
    Node const logits =
        draw.input({.shape = {bytes()}, .dtype = described_.model.dtype, .axes = "class"}, "row");
    Node const step = draw.input({.shape = {}, .dtype = DType::int64}, "draw");
    nntile::ops::sample({.seed = settings.seed,
                         .temperature = settings.temperature,
                         .top_k = settings.top_k,
                         .top_p = settings.top_p},
                        logits, step, draw.tensor({.shape = {}, .dtype = DType::int64}, "token"))
        .mark_output();
    keep_heads_whole(session_);
    plan_passes(runtime);
    draw_ = session_.compile(draw);
    LogicalGraph clear("clear", {next_.graph.numerics().mode});
    nntile::nn::initialize_caches(clear, next_.step);
    session_.compile(clear)->execute();
    checkpoint_.load(nntile::io::targets_of(session_.store, nntile::io::is_parameter),
                     nntile::io::Part::model);
  }

  /// Prints the prompt and what follows, as it comes. Throws Error at the first byte that cannot
  /// be.
  void run() {
    std::vector<std::int64_t> text;
    for (char const c : settings_.prompt) text.push_back(static_cast<unsigned char>(c));
    std::fwrite(settings_.prompt.data(), 1, settings_.prompt.size(), stdout);
    for (Index i = 0; i < settings_.tokens; ++i) {
      auto const length = std::min(text.size(), static_cast<std::size_t>(described_.seq));
      text.push_back(next(std::span(text).last(length), length < text.size(), i));
      std::putchar(static_cast<int>(text.back()));
      (void)printed(0);
    }
    std::putchar('\n');
  }

 private:
  static void check(GenerateSettings const& settings) {
    auto const fail = [](auto const&... text) {
      throw nntile::ValueError(nntile::concat(text...));
    };
    if (settings.prompt.empty()) fail("--prompt: at least one byte is needed");
    if (settings.tokens < 0) fail("--tokens: ", settings.tokens, " is negative");
    if (!(settings.temperature >= 0 && std::isfinite(settings.temperature)))
      fail("--temperature: ", settings.temperature,
           " does not work; give 0 (the likeliest byte) or more, such as 0.8");
    if (settings.top_k < 0) fail("--top-k: ", settings.top_k, " is negative; 0 means all");
    if (!(settings.top_p > 0 && settings.top_p <= 1))
      fail("--top-p: ", settings.top_p, " does not work; give more than 0, and 1 (all) at most");
  }

  /// The checkpoint's model, after everything that can be wrong with it or the settings was looked
  /// at: nothing is built before.
  static Described checked_model(nntile::io::Checkpoint const& checkpoint,
                                 GenerateSettings const& settings) {
    check(settings);
    auto const described = model_from(checkpoint.model(), checkpoint.path());
    require_tensors(checkpoint, described);
    return described;
  }

  ModelGraph graph(ModelGraph::Purpose purpose) const {
    return ModelGraph(purpose, described_.model, "seq", 1, numerics_of(settings_.machine.numerics),
                      {}, {}, 1, described_.seq);
  }

  /// Cuts no head: attention reads the caches in whole heads, but the last block's prefill, which
  /// ends at its cache and is planned first, would follow the tile. Throws ValueError where --tile
  /// cuts them.
  void keep_heads_whole(Session<R>& session) const {
    auto& cuts = session.options.cuts;
    Index const head = described_.model.width / described_.model.heads;
    auto const of_heads = [](nntile::AxisCut const& cut) { return cut.axis == "head_dim"; };
    auto const found = std::find_if(cuts.begin(), cuts.end(), of_heads);
    if (found == cuts.end()) return cuts.push_back({"head_dim", {head}});
    for (Index const size : found->sizes)
      if (size > 0 && size < head)
        throw nntile::ValueError(nntile::concat("--tile: head_dim=", size, " cuts heads of ", head,
                                                ", which stay whole; leave head_dim out"));
  }

  /// Plans the pass that fills the caches, for the largest window, and that of one byte, so that
  /// what has no room is said before the first.
  void plan_passes(R& runtime) {
    try {
      plan(described_.seq);
      decode_ = session_.compile(next_, false, {{"seq", 1}});
    } catch (TooFewBytes const& few) {
      throw TooFewBytes(settings_.machine, few.graph, few.place, enough_for_both(runtime, few));
    }
  }
  /// Bytes with which both are planned: each keeps tensors, and their tiles depend on the bytes.
  Index enough_for_both(R& runtime, TooFewBytes const& few) const {
    Machine machine = settings_.machine;
    Index enough = few.enough;
    while (enough != 0) try {
        auto const bytes = static_cast<std::uint64_t>(enough);
        (few.place == nntile::host ? machine.host_memory : machine.device_memory) = bytes;
        Session<R> trial(runtime, machine, described_.model.layers);
        keep_heads_whole(trial);
        trial.compile(prefill_, false, {{"seq", described_.seq}});
        trial.compile(next_, false, {{"seq", 1}});
        return enough;
      } catch (TooFewBytes const& more) {
        if (more.place != few.place) return enough;  // of the other, which is said next
        enough = more.enough;
      } catch (nntile::Error const&) {
        return enough;
      }
    return 0;
  }

  /// Plans the pass that fills the caches, for a window of that many tokens.
  void plan(Index window) {
    if (window == window_) return;
    context_.reset();  // its memory
    context_ = session_.compile(prefill_, false, {{"seq", window}});
    window_ = window;
  }

  /// Fills the caches with the keys and values of `text`, in a window of 64, 128, ... tokens. What
  /// it has behind the text is not seen, and overwritten by what follows.
  void fill(std::span<std::int64_t const> text) {
    plan(std::min(described_.seq,
                  static_cast<Index>(std::bit_ceil(std::max<std::size_t>(text.size(), 64)))));
    std::vector<std::int64_t> tokens(text.begin(), text.end());
    tokens.resize(static_cast<std::size_t>(window_));
    run(*context_, tokens, 0);
    kept_ = text.size();
  }

  /// The token after `text`, all of which but the last is as before, unless `moved`.
  std::int64_t next(std::span<std::int64_t const> text, bool moved, Index number) {
    auto const before = text.first(text.size() - 1);
    if (!before.empty() && (moved || kept_ != before.size())) fill(before);
    run(*decode_, text.last(1), static_cast<Index>(before.size()));
    kept_ = text.size();
    switch (described_.model.dtype) {
      case DType::bf16:
        hand_over<nntile::bf16_t>();
        break;
      case DType::fp32_fast_tf32:
        hand_over<nntile::fp32_fast_tf32_t>();
        break;
      default:
        hand_over<float>();
    }
    draw_->template bind_input<std::int64_t>("draw", std::vector<std::int64_t>{number});
    draw_->execute();
    return draw_->template get_output<std::int64_t>("token")[0];
  }

  /// Tokens that are bytes; those behind them, of a larger vocabulary, cannot be printed.
  Index bytes() const { return std::min<Index>(described_.model.vocab, 256); }

  /// Gives the draw the logits of the last token.
  template <class T> void hand_over() {
    std::vector<T> logits = decode_->template get_output<T>(next_.step.logits().name());
    logits.resize(static_cast<std::size_t>(bytes()));
    draw_->template bind_input<T>("row", logits);
  }

  /// Runs a graph on tokens that follow `start` others.
  void run(CompiledGraph<R>& graph, std::span<std::int64_t const> tokens, Index start) {
    auto const count = static_cast<Index>(tokens.size());
    graph.template bind_input<std::int64_t>("tokens", tokens);
    graph.template bind_input<std::int64_t>("positions", next_.step.position_values(count, start));
    graph.template bind_input<std::int64_t>("start", std::vector<std::int64_t>{start});
    graph.execute();
  }

  GenerateSettings settings_;
  nntile::io::Checkpoint checkpoint_;
  Described described_;
  Session<R> session_;
  ModelGraph prefill_, next_;
  std::unique_ptr<CompiledGraph<R>> context_;
  Index window_ = 0;  // of context_
  std::unique_ptr<CompiledGraph<R>> decode_, draw_;
  std::size_t kept_ = 0;  // tokens in the caches
};

}  // namespace gpt2
