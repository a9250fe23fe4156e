#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Text from a trained model, byte by byte. The window is recomputed for every byte.

#include <cmath>
#include <cstdio>

#include "nntile/io/checkpoint.hh"
#include "nntile/ops/sample.hh"
#include "session.hh"

namespace gpt2 {

/// Opens the newest checkpoint of a run, or the checkpoint itself.
inline nntile::io::Checkpoint open_run(std::string const& run) {
  if (auto const latest = nntile::io::latest_checkpoint(run))
    return nntile::io::Checkpoint::open(*latest);
  return nntile::io::Checkpoint::open(run);
}

/// A model that continues texts.
template <nntile::Runtime R> class Generator {
 public:
  Generator(R& runtime, GenerateSettings const& settings)
      : settings_(settings),
        checkpoint_(open_run(settings.run)),
        described_(checked_model(checkpoint_, settings)),
        session_(runtime, settings.machine, described_.model.layers),
        model_(ModelGraph::Purpose::inference, described_.model, described_.seq, 1,
               numerics_of(settings.machine.numerics)) {
    LogicalGraph draw("sample", {model_.graph.numerics().mode});
    Node const logits = draw.input(
        {.shape = {described_.model.vocab}, .dtype = described_.model.dtype, .axes = "class"},
        "row");
    Node const step = draw.input({.shape = {}, .dtype = DType::int64}, "draw");
    nntile::ops::sample({.seed = settings.seed,
                         .temperature = settings.temperature,
                         .top_k = settings.top_k,
                         .top_p = settings.top_p},
                        logits, step, draw.tensor({.shape = {}, .dtype = DType::int64}, "token"))
        .mark_output();
    forward_ = session_.compile(model_.graph);
    draw_ = session_.compile(draw);
    checkpoint_.load(nntile::io::targets_of(session_.store, nntile::io::is_parameter),
                     nntile::io::Part::model);
    session_.write_positions(model_);
  }

  /// Prints the prompt and what follows, as it comes.
  void run() {
    std::vector<std::int64_t> text;
    for (char const c : settings_.prompt) text.push_back(static_cast<unsigned char>(c));
    std::fwrite(settings_.prompt.data(), 1, settings_.prompt.size(), stdout);
    std::size_t const window = static_cast<std::size_t>(described_.seq);
    std::vector<std::int64_t> tokens(window);
    for (Index i = 0; i < settings_.tokens; ++i) {
      std::size_t const length = std::min(text.size(), window);
      std::fill(tokens.begin(), tokens.end(), 0);
      std::copy(text.end() - static_cast<std::ptrdiff_t>(length), text.end(), tokens.begin());
      text.push_back(next(tokens, length, i));
      std::putchar(static_cast<int>(text.back()));
      std::fflush(stdout);
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

  /// The token after the first `length` ones; later positions are masked by causality.
  std::int64_t next(std::vector<std::int64_t> const& tokens, std::size_t length, Index number) {
    forward_->template bind_input<std::int64_t>("tokens", tokens);
    forward_->execute();
    switch (described_.model.dtype) {
      case DType::bf16:
        hand_over<nntile::bf16_t>(length - 1);
        break;
      case DType::fp32_fast_tf32:
        hand_over<nntile::fp32_fast_tf32_t>(length - 1);
        break;
      default:
        hand_over<float>(length - 1);
    }
    draw_->template bind_input<std::int64_t>("draw", std::vector<std::int64_t>{number});
    draw_->execute();
    return draw_->template get_output<std::int64_t>("token")[0];
  }

  /// Gives the draw the logits of a position.
  template <class T> void hand_over(std::size_t position) {
    auto const logits =
        forward_->template get_output<T>(model_.step.logits().name());  // [vocab, seq, 1]
    auto const vocab = static_cast<std::size_t>(described_.model.vocab);
    draw_->template bind_input<T>("row",
                                  std::span<T const>(logits).subspan(position * vocab, vocab));
  }

  GenerateSettings settings_;
  nntile::io::Checkpoint checkpoint_;
  Described described_;
  Session<R> session_;
  ModelGraph model_;
  std::unique_ptr<CompiledGraph<R>> forward_;
  std::unique_ptr<CompiledGraph<R>> draw_;
};

}  // namespace gpt2
