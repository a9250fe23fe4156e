#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The training loop: batches, steps, progress, validation, checkpoints.

#include <unistd.h>

#include <cmath>
#include <exception>
#include <optional>
#include <tuple>

#include "corpus.hh"
#include "folder.hh"
#include "history.hh"
#include "machine.hh"
#include "nntile/graph/device_times.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/io/tokens.hh"
#include "nntile/nn/schedule.hh"
#include "plot.hh"
#include "profile.hh"
#include "ranks.hh"
#include "report.hh"
#include "resume.hh"
#include "session.hh"
#include "signals.hh"
#include "watch.hh"

namespace gpt2 {

/// One training run on a runtime.
template <nntile::Runtime R> class Trainer {
 public:
  /// Reads the data, tries whether the run's folder can be written, compares its checkpoint with
  /// the settings, plans, allocates, and initialises or resumes. Throws whatever is wrong with any
  /// of it. `log` is of the runtime's devices, where a profile or a trace is asked for.
  Trainer(R& runtime, TrainSettings const& settings, World const& world, Watch& watch,
          nntile::DeviceLog& log)
      : runtime_(runtime),
        world_(world),
        watch_(watch),
        log_(log),
        settings_(settings),
        config_(model_of(settings)),
        seq_(settings.seq.value_or(preset_of(settings.preset).seq)),
        corpus_(open_corpus(settings.data, seq_)),
        sharing_(share()),
        steps_(settings.minutes > 0 ? INT64_MAX : settings.steps),
        directory_(open_directory(settings)),
        resumed_(open_checkpoint()),
        micro_batches_(settings_.accumulate.value_or(1)),
        micro_batch_(micro_batch_of(settings_)),
        batch_(micro_batch_ * micro_batches_),
        session_(runtime, settings.machine, config_.layers, &world, sharing_),
        train_(ModelGraph::Purpose::training, config_, seq_, micro_batch_, numerics(),
               {settings_.beta1, settings_.beta2, 1e-8, settings_.weight_decay, settings_.clip},
               sharing_.mesh, micro_batches_),
        valid_(ModelGraph::Purpose::validation, config_, seq_, micro_batch_, numerics()) {
    step_graph_ = session_.compile(train_, times());
    valid_graph_ = session_.compile(valid_);
    if (resumed_)
      resume();
    else
      session_.initialize(train_, settings_.seed);
    session_.write_positions(train_);
    for (std::string const& flops : world_.gather(std::to_string(work().flops)))
      step_flops_ += std::stod(flops);
    if (step_ > 0) watch_.saves_in(settings_.out);
  }

  /// Trains to the end, or to Ctrl-C. Returns false when a loss was not finite. A save on the way
  /// that fails is a warning; the last one throws.
  bool run() {
    describe_run();
    last_line_ = seconds_now();
    first_step_ = timed_step_ = step_;
    if (step_ == 0 && !validate()) return false;
    if (step_ > 0 && step_ >= steps_ && world_.speaks())
      std::printf("nothing to train: step %lld of %lld is reached; %s\n",
                  static_cast<long long>(step_), static_cast<long long>(steps_),
                  end_of_resumed(settings_, step_).c_str());
    train_begin_ = seconds_now();
    while (step_ < steps_ && !stops()) {
      if (!train_step()) return false;
      calibrate();
      if (step_ == first_step_ + 1 && step_ < steps_)  // it includes what later ones reuse
        std::tie(timed_step_, train_begin_) = std::pair(step_, seconds_now());
      show_progress(false);
      if (settings_.eval_every > 0 && step_ % settings_.eval_every == 0 && step_ < steps_ &&
          !validate())
        return false;
      if (settings_.save_every > 0 && step_ % settings_.save_every == 0 && step_ < steps_)
        try_save();
    }
    show_progress(true);
    if (!validate()) return false;
    std::exception_ptr unsaved;
    try {
      save();
    } catch (nntile::Error const&) {  // on all ranks
      unsaved = std::current_exception();
    }
    if (world_.speaks()) report_times();
    if (unsaved) {
      (void)world_.gather({});  // behind rank 0's report: the first rank to end ends all
      std::rethrow_exception(unsaved);
    }
    if (world_.speaks())
      show_end(settings_, step_, stops() && step_ < steps_, calibrated() ? 0 : settings_.minutes);
    return true;
  }

  /// 64-bit hash of all parameters: names, shapes and bytes. All ranks ask together.
  std::uint64_t hash() {
    return nntile::io::hash_tensors(
        nntile::io::sources_of(session_.store, nntile::io::is_parameter));
  }

  double validation_loss() const { return history_.valid.empty() ? NAN : history_.valid.back(); }

 private:
  /// What of the model each rank has; nothing for one. All ranks were started alike, or it throws
  /// ValueError.
  Sharing share() const {
    if (!settings_.resume || settings_.batch) (void)micro_batch_of(settings_);  // as it is written
    if (world_.size() == 1) {
      (void)sharing_of(settings_.parallel, settings_.mesh, 1, config_.layers);  // as it is written
      return {};
    }
    require_alike(world_, as_given(settings_, config_, seq_) +
                              nntile::concat("--data of hash ", corpus_.hash(), "\n"));
    auto const& s = settings_;
    Sharing sharing = sharing_of(s.parallel, s.mesh, world_.size(), config_.layers);
    sharing.keep_received = s.keep_received;
    return sharing;
  }

  /// Whether to stop before the last step: on Ctrl-C, at whichever rank, behind the same step.
  bool stops() const { return sharing_.mesh.empty() ? EndSignals::asked() : stops_; }

  std::unique_ptr<nntile::io::CheckpointDirectory> open_directory(
      TrainSettings const& settings) const {
    auto folder = open_folder(settings.out, settings.resume, world_.link());
    // It may be in the folder, which a new run makes.
    if (!settings.trace.empty() && world_.speaks()) require_writable("--trace", settings.trace);
    return folder;
  }

  /// The checkpoint to go on from, after its numbers were compared with the settings and the text:
  /// all that can be before anything is built from them.
  std::optional<nntile::io::Checkpoint> open_checkpoint() {
    auto const path = directory_->latest();
    if (!path) return std::nullopt;
    auto checkpoint = nntile::io::Checkpoint::open(*path, nullptr, {}, world_.link());
    DType const dtype = dtype_from(checkpoint.model(), *path);
    if (!settings_.dtype.empty() && config_.dtype != dtype)
      throw nntile::ValueError(nntile::concat("--dtype: ", name_of(config_.dtype),
                                              " but the run in '", *path, "' began with ",
                                              name_of(dtype), ", and its bits belong to that"));
    config_.dtype = dtype;
    require_model(checkpoint, describe(config_, seq_));
    checkpoint.check();
    auto const state = checkpoint.state();
    RunRecord run = run_from(state.run, state.step, *path);
    if (run.data != corpus_.hash())
      throw nntile::ValueError(nntile::concat("--resume: the run in '", *path,
                                              "' was trained on another text than ", corpus_.name(),
                                              "; name its files with --data"));
    take_over(settings_, run, state, *path);
    changes_ = changes_of(settings_, run, state);
    history_ = std::move(run.history);
    if (state.loss) history_.last_train = *state.loss;
    if (settings_.minutes <= 0) {
      steps_ = settings_.steps;
    } else if (state.step >= calibration_steps) {
      steps_ = run.steps;
      if (static_cast<std::int64_t>(state.step) < steps_)
        changes_ += nntile::concat(changes_.empty() ? "" : ", ", "it keeps to its ", steps_,
                                   " steps, and --minutes is not timed anew");
    }
    return checkpoint;
  }

  nntile::Numerics numerics() const {
    auto result = numerics_of(settings_.machine.numerics);
    result.groups = groups_of(settings_.groups);
    return result;
  }

  void resume() {
    resumed_->load(nntile::io::targets_of(session_.store, is_saved), nntile::io::Part::all,
                   session_.store.link());
    if (train_.step.accumulates()) session_.zero_gradients(train_);
    step_ = static_cast<std::int64_t>(resumed_->state().step);
    sample_ = resumed_->state().sample;
    if (world_.speaks())
      std::printf("resumed '%s' at step %lld%s%s\n", resumed_->path().c_str(),
                  static_cast<long long>(step_), changes_.empty() ? "" : "; from here on ",
                  changes_.c_str());
    resumed_.reset();
    saved_ = true;
  }

  /// A save on the way. One that fails leaves the last checkpoint, and the next one tries again.
  void try_save() {
    try {
      save();
    } catch (std::exception const& error) {
      if (!world_.speaks()) return;
      if (isatty(STDOUT_FILENO)) std::printf("\n");
      std::fflush(stdout);
      std::fprintf(stderr, "warning: %s; training goes on, and the next save tries again\n",
                   error.what());
    }
  }

  void save() {
    namespace io = nntile::io;
    io::TrainingState state;
    state.step = static_cast<std::uint64_t>(step_);
    state.sample = sample_;
    state.seed = settings_.seed;
    state.optimizer = numbers_of(settings_);
    if (std::isfinite(history_.last_train)) state.loss = history_.last_train;
    state.run = to_json(RunRecord{history_, steps_, corpus_.hash(),
                                  to_text(groups_of(settings_.groups)), micro_batches_, batch_});
    auto const saved = [&] {
      try {
        return directory_->save_shares(describe(config_, seq_), state,
                                       io::shares_of(session_.store, is_saved));
      } catch (nntile::Error const& error) {
        throw nntile::Error(
            nntile::concat("step ", step_, " is not saved: ", std::string_view(error.what())));
      }
    }();
    saved_ = true;
    watch_.saves_in(settings_.out);
    if (!world_.speaks()) return;
    if (!saved.warning.empty()) std::fprintf(stderr, "warning: %s\n", saved.warning.c_str());
    try {
      write_plot();
    } catch (nntile::Error const& error) {  // a picture is never worth a run
      std::fprintf(stderr, "warning: no picture: %s\n", error.what());
    }
  }

  void report_times() {
    if (settings_.profile) report_profile();
    if (!settings_.trace.empty()) write_last_step(settings_.trace, step_graph_->plan(), times_);
  }
  void report_profile() {
    if (micro_batches_ > 1)
      std::printf("\nof each step the profile has the last micro-batch and the update\n");
    show_profile(profile_, settings_.machine, runtime_.workers().cpu, core_peak_, core_triad());
    try {
      directory_->check();
    } catch (nntile::Error const&) {  // nothing is written into what may be another run's
      return;
    }
    write_last_step(settings_.out + "/trace.json", step_graph_->plan(), times_);
  }

  void write_plot() const {
    auto const curve = curve_of(
        history_,
        nntile::concat("GPT-2, ",
                       detail::grouped(static_cast<double>(train_.model.parameters().count())),
                       " parameters, on ", corpus_.name()));
    write_into(*directory_, "loss.svg", loss_svg(curve));
  }

  double learning_rate(std::int64_t step) const {
    bool const open = settings_.minutes > 0 && !calibrated();  // still within the warm-up
    std::int64_t const end = open ? 1 << 30 : steps_;
    // A run may end within its warm-up.
    return nntile::nn::WarmupCosine{settings_.lr, settings_.warmup, std::max(end, settings_.warmup),
                                    0.1}
        .at(step);
  }

  bool calibrated() const { return settings_.minutes <= 0 || step_ >= calibration_steps; }

  /// With --minutes, the number of steps follows from the time of the first ones.
  void calibrate() {
    if (settings_.minutes <= 0 || step_ != calibration_steps) return;
    double const per_step =
        world_.first_of((seconds_now() - train_begin_) / static_cast<double>(step_ - timed_step_));
    steps_ = std::max<std::int64_t>(
        2 * calibration_steps, static_cast<std::int64_t>(0.97 * settings_.minutes * 60 / per_step));
  }

  bool train_step() {
    auto const number = step_ + 1;
    step_graph_->template bind_input<float>(
        "lr", std::vector<float>{static_cast<float>(learning_rate(number))});
    step_graph_->template bind_input<std::int64_t>("step", std::vector<std::int64_t>{number});
    if (!sharing_.mesh.empty()) {
      std::vector<float> const asked(static_cast<std::size_t>(world_.size()),
                                     EndSignals::asked() ? 1.0f : 0.0f);
      step_graph_->template bind_input<float>("stop asked", asked);
    }
    watch_.begin(number);
    double loss = 0;
    for (int micro = 0; micro < micro_batches_; ++micro) loss += run_micro_batch(micro);
    loss /= micro_batches_;
    if (!sharing_.mesh.empty()) stops_ = step_graph_->template get_output<float>("stop")[0] > 0;
    watch_.end();
    if (!require_finite("the loss of", number, loss)) return false;
    if (settings_.profile && number > first_step_ + 1)  // the first one touches fresh memory
      profile_.add(step_graph_->plan(), times_);
    step_ = number;
    sample_ += static_cast<std::uint64_t>(batch_);
    history_.trained(loss);
    return true;
  }

  /// Whether a loss is a number; says why the run ends where it is none. All ranks have the same.
  bool require_finite(char const* what, std::int64_t step, double loss) const {
    if (std::isfinite(loss)) return true;
    if (std::isnan(loss)) loss = std::fabs(loss);  // its sign says nothing
    if (world_.speaks())
      std::fprintf(stderr, "%s%s step %lld is %g: stopped; %s in '%s'%s; try a smaller --lr\n",
                   isatty(STDOUT_FILENO) ? "\n" : "", what, static_cast<long long>(step), loss,
                   saved_ ? "the last checkpoint" : "there is no checkpoint", settings_.out.c_str(),
                   saved_ ? " is untouched" : "");
    return false;
  }

  /// Runs a step, or one micro-batch of it; behind the last one the update. Returns its loss.
  double run_micro_batch(int number) {
    corpus_.train_tile(sample_ + static_cast<std::uint64_t>(number * micro_batch_), own_samples(),
                       settings_.seed, tokens_, labels_);
    bind_batch(*step_graph_);
    if (times()) log_.clear();
    if (micro_batches_ == 1) {
      step_graph_->execute();
    } else {
      (void)step_graph_->execute_async("forward");
      step_graph_->execute("backward");
      if (number + 1 == micro_batches_) step_graph_->execute("optimizer");
    }
    if (times())
      times_ = nntile::with_device_times(step_graph_->plan(), step_graph_->times(), log_);
    return static_cast<double>(step_graph_->template get_output<float>("loss")[0]);
  }

  /// Whether the tasks of steps are timed.
  bool times() const { return settings_.profile || !settings_.trace.empty(); }
  StepWork work() const { return work_of(step_graph_->plan(), micro_batches_); }

  /// What this rank has of a batch, which it then makes and binds; all where that is no box.
  nntile::TileBox own_samples() const {
    auto const& tokens = session_.store.at("tokens").held;
    auto const& labels = session_.store.at("labels").held;
    if (tokens && labels && tokens->begin == labels->begin && tokens->extent == labels->extent)
      return *tokens;
    return {{0, 0}, {seq_, micro_batch_}};
  }
  void bind_batch(CompiledGraph<R>& graph) {
    graph.template bind_input<std::int64_t>("tokens", tokens_);
    graph.template bind_input<std::int64_t>("labels", labels_);
  }

  /// Mean loss over evenly spread windows of the validation part. Returns false when it was not
  /// finite.
  bool validate() {
    double sum = 0;
    auto const size = static_cast<std::size_t>(micro_batch_);
    std::size_t const batches =
        std::min(20 * static_cast<std::size_t>(micro_batches_), corpus_.validation_batches(size));
    double const begin = seconds_now();
    for (std::size_t i = 0; i < batches; ++i) {
      corpus_.validation_tile(i, batches, size, own_samples(), tokens_, labels_);
      bind_batch(*valid_graph_);
      valid_graph_->execute();
      watch_.moves();
      sum += static_cast<double>(valid_graph_->template get_output<float>("loss")[0]);
    }
    train_begin_ += seconds_now() - begin;  // not training time
    double const loss = sum / static_cast<double>(batches);
    if (!require_finite("the validation loss behind", step_, loss)) return false;
    history_.validated(step_, loss);
    if (!world_.speaks()) return true;
    if (isatty(STDOUT_FILENO)) std::printf("\r\033[K");
    std::printf("step %6lld  validation loss %.4f nats per byte\n", static_cast<long long>(step_),
                history_.valid.back());
    std::fflush(stdout);
    return true;
  }

  void describe_run() {
    if (!world_.speaks()) return;
    auto const& plan = step_graph_->plan();
    core_peak_ = core_peak(session_.isa);
    int const cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    peak_ = core_peak_ * std::min(runtime_.workers().cpu * world_.ranks_here(), cores) *
            (world_.size() / world_.ranks_here());
    std::printf(
        "model   %lld parameters: width %lld, %lld layers, %lld heads, sequence %lld, batch "
        "%lld%s%s\n",
        static_cast<long long>(train_.model.parameters().count()),
        static_cast<long long>(config_.width), static_cast<long long>(config_.layers),
        static_cast<long long>(config_.heads), static_cast<long long>(seq_),
        static_cast<long long>(batch_),
        micro_batches_ == 1
            ? ""
            : nntile::concat(" in ", micro_batches_, " micro-batches of ", micro_batch_).c_str(),
        dtype_text(config_).c_str());
    std::printf("data    %s\n", corpus_.describe().c_str());
    StepWork const work = this->work();
    show_plan(plan, work);
    show_products(plan, settings_.machine);
    show_sharing(plan, work, world_, sharing_);
    auto const isa = session_.isa == nntile::Isa::best ? nntile::kernels::best() : session_.isa;
    std::printf("machine %s, %d workers, kernels %s%s, peak %.0f Gflop/s\n",
                settings_.machine.runtime.c_str(), runtime_.workers().cpu, name_of(isa),
                isa == nntile::Isa::v2 ? " (no FMA: slower, and bits of their own)" : "",
                peak_ * 1e-9);
    std::fflush(stdout);
  }

  void show_progress(bool last) {
    if (!world_.speaks()) return;
    double const now = seconds_now();
    bool const terminal = isatty(STDOUT_FILENO) != 0;
    if (!last && now - last_line_ < (terminal ? 0.5 : 10.0)) return;
    if (step_ == timed_step_) return;
    last_line_ = now;
    double const per_step = (now - train_begin_) / static_cast<double>(step_ - timed_step_);
    std::size_t const window = std::min<std::size_t>(history_.train.size(), 20);
    double loss = 0;
    for (std::size_t i = history_.train.size() - window; i < history_.train.size(); ++i)
      loss += history_.train[i];
    std::string const left =
        calibrated() ? readable_time(per_step * static_cast<double>(steps_ - step_)) : "?";
    std::string const total = calibrated() ? std::to_string(steps_) : "?";
    char text[256];
    std::snprintf(
        text, sizeof text, "step %6lld/%s  loss %.4f  val %.4f  %.0f tok/s  %s  memory %s  left %s",
        static_cast<long long>(step_), total.c_str(), loss / static_cast<double>(window),
        validation_loss(), static_cast<double>(seq_ * batch_) / per_step,
        speed_text(step_flops_ / per_step, peak_, settings_.machine.place == "host").c_str(),
        readable_bytes(static_cast<double>(resident_bytes())).c_str(), left.c_str());
    bool const stays = last || !terminal;  // else the next replaces it, which it can in one row
    int const most = stays ? -1 : terminal_columns(STDOUT_FILENO) - 1;
    std::printf("%s%.*s%s", terminal ? "\r\033[K" : "", most, text, stays ? "\n" : "");
    std::fflush(stdout);
  }

  static constexpr std::int64_t calibration_steps = 20;

  R& runtime_;
  World const& world_;
  Watch& watch_;
  nntile::DeviceLog& log_;
  std::vector<nntile::TaskTime> times_;  // of the last step
  TrainSettings settings_;
  nntile::nn::Gpt2Config config_;
  Index seq_;
  nntile::io::Corpus corpus_;
  Sharing sharing_;
  bool stops_ = false;
  bool saved_ = false;   // there is a checkpoint
  std::string changes_;  // of numbers of the run that is resumed
  std::int64_t steps_;
  History history_;
  std::unique_ptr<nntile::io::CheckpointDirectory> directory_;
  std::optional<nntile::io::Checkpoint> resumed_;
  int micro_batches_;
  Index micro_batch_;
  Index batch_;  // of a step
  Session<R> session_;
  ModelGraph train_;
  ModelGraph valid_;
  std::unique_ptr<CompiledGraph<R>> step_graph_;
  std::unique_ptr<CompiledGraph<R>> valid_graph_;
  std::vector<std::int64_t> tokens_;
  std::vector<std::int64_t> labels_;
  std::int64_t step_ = 0;
  std::int64_t first_step_ = 0, timed_step_ = 0;
  std::uint64_t sample_ = 0;
  nntile::Profile profile_;
  double core_peak_ = 0;
  double peak_ = 0;
  double step_flops_ = 0;  // of all ranks
  double train_begin_ = 0;
  double last_line_ = 0;
};

}  // namespace gpt2
