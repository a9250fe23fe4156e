// SPDX-License-Identifier: BSD-3-Clause
// Trains a GPT-2 on text, byte by byte; generates text with it; says what a model needs.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <optional>
#include <sstream>
#include <thread>

#include "info.hh"
#include "nntile/nntile.hh"
#include "nntile/runtime/dynamic/dynamic.hh"
#include "nntile/testing/device.hh"
#include "train.hh"
#ifdef NNTILE_HAVE_CUDA
#include "nntile/runtime/ring/cuda.hh"
#endif
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif

namespace {

using namespace gpt2;

using nntile::testing::EmulatedDevice;
struct EmulatedSerial : nntile::BasicSerial<EmulatedDevice> {
  using BasicSerial::BasicSerial;
  static constexpr char const* runtime_name = "serial-emulated";
};
struct EmulatedRingPolicy : nntile::RingPolicy {
  using Device = EmulatedDevice;
};
struct EmulatedRing : nntile::BasicRing<EmulatedRingPolicy> {
  using BasicRing::BasicRing;
  static constexpr char const* runtime_name = "ring-emulated";
};

#ifdef NNTILE_HAVE_CUDA
struct DeviceSerial : nntile::BasicSerial<nntile::Cuda> {
  using BasicSerial::BasicSerial;
  static constexpr char const* runtime_name = "serial-device";
};
struct DeviceRing : nntile::CudaRing {
  using BasicRing::BasicRing;
  static constexpr char const* runtime_name = "ring-device";
};
#endif

template <class... More> struct Runtimes {
  using OnHost = nntile::Dynamic<nntile::Serial, nntile::Ring, More...>;
#ifdef NNTILE_HAVE_CUDA
  using Any = nntile::Dynamic<nntile::Serial, nntile::Ring, More..., EmulatedSerial, EmulatedRing,
                              DeviceSerial, DeviceRing>;
#else
  using Any = nntile::Dynamic<nntile::Serial, nntile::Ring, More..., EmulatedSerial, EmulatedRing>;
#endif
};
#ifdef NNTILE_HAVE_STARPU
using All = Runtimes<nntile::StarPU>;
#else
using All = Runtimes<>;
#endif
using HostRuntime = All::OnHost;
using AnyRuntime = All::Any;

AnyRuntime open_runtime(Machine const& machine, int ranks_here = 1) {
#ifndef NNTILE_HAVE_CUDA
  if (machine.place == "device")
    throw nntile::ValueError(
        "--place device: this program was built without CUDA; Meson's option cuda says more");
#endif
  auto workers = machine.workers;
  if (!workers && ranks_here > 1)
    workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks_here);
  AnyRuntime runtime(runtime_at(machine), nntile::RuntimeOptions{.workers = workers},
                     nntile::testing::EmulatedOptions{.devices = machine.devices});
#ifdef NNTILE_HAVE_CUDA
  if (runtime.workers().cuda > 0) nntile::use_cuda_kernels();  // StarPU's, by STARPU_NCUDA
#endif
  return runtime;
}

void add_machine_options(CLI::App& app, Machine& machine) {
  app.add_option("--runtime", machine.runtime, "One of " + HostRuntime::names())
      ->capture_default_str();
  app.add_option("--place", machine.place,
                 "Where the model lives: host, device (the first that CUDA has), or emulated, a "
                 "device without hardware")
      ->capture_default_str();
  app.add_option(
         "--devices", machine.devices,
         "Devices that keep the layers' parameters, gradients and states, a run of layers each; "
         "activations stay on the first [1]")
      ->check(CLI::Range(1, 64));
  app.add_option("--offload", machine.offload,
                 "What a device leaves to the host: none, optimizer (its states; steps copy them), "
                 "or parameters (these, too: the host updates them)")
      ->capture_default_str();
  app.add_option(
         "--device-memory", machine.device_memory,
         "Bytes that a plan may use of each device, 400MB: values that are needed late move "
         "out to the host [what the plan needs]")
      ->transform(CLI::AsSizeValue(false));
  app.add_option(
      "--workers", machine.workers,
      "Threads that execute tasks, 1 to 1024 [one per core, shared by the ranks of a host]");
  app.add_option("--tile", machine.tile,
                 "Wished tile size, then cuts of named axes: auto, 256, 256,embed=64+192; 0 leaves "
                 "tensors whole")
      ->capture_default_str();
  app.add_option("--numerics", machine.numerics,
                 "exact (equal bits everywhere) or fast (vendor GEMM)")
      ->capture_default_str();
  app.add_option("--isa", machine.isa, "Kernels: best, v2, v3, v4")->capture_default_str();
}

void add_model_options(CLI::App& app, TrainSettings& settings) {
  app.add_option("--preset", settings.preset,
                 "tiny (width 256), small (384) or 124m (GPT-2's smallest)")
      ->capture_default_str();
  app.add_option("--width", settings.width, "Width of the model [the preset's]");
  app.add_option("--layers", settings.layers, "Number of blocks [the preset's]");
  app.add_option("--heads", settings.heads,
                 "Attention heads; they divide the width [the preset's]");
  app.add_option("--seq", settings.seq, "Tokens of a sequence [the preset's]");
  app.add_option("--batch", settings.batch, "Sequences of a step [the preset's]");
  app.add_option("--accumulate", settings.accumulate,
                 "Micro-batches that a step's sequences are run in, one after another, adding up "
                 "gradients: less memory; a divisor of --batch [1; a resumed run's own]");
  app.add_option("--groups", settings.groups,
                 "Canonical groups of named axes, which sums are split into whatever runs them: "
                 "batch=4,head=2; 4 is batch=4 [one each; a resumed run's own]");
  app.add_option(
      "--parallel", settings.parallel,
      "What ranks share, under mpiexec: ddp, zero1, fsdp, tensor, sequence, pipeline, or "
      "several, tensor+zero1 [ddp]");
  app.add_option("--mesh", settings.mesh,
                 "Ranks on each axis, nearest first: tensor=2,data=4 [all on the axis of "
                 "--parallel]");
  app.add_option(
      "--keep-received", settings.keep_received,
      "Ops in a row that may do without a parameter which another rank has sent; then it "
      "is sent again: less memory, more traffic [kept to its last reader]");
  add_machine_options(app, settings.machine);
}

void add_train_options(CLI::App& app, TrainSettings& settings) {
  app.add_option("--data", settings.data,
                 "Text files [the King James Bible of Debian's package bible-kjv]");
  add_model_options(app, settings);
  app.add_option("--steps", settings.steps, "Steps in all, those before a --resume included")
      ->capture_default_str();
  app.add_option("--minutes", settings.minutes,
                 "Train about this long instead: the first steps are timed");
  app.add_option("--lr", settings.lr,
                 "Peak learning rate; linear warm-up, then a half cosine to a tenth")
      ->capture_default_str();
  app.add_option("--warmup", settings.warmup, "Steps of the warm-up")->capture_default_str();
  app.add_option("--weight-decay", settings.weight_decay, "Of weights, not of biases and norms")
      ->capture_default_str();
  app.add_option("--beta1", settings.beta1, "AdamW")->capture_default_str();
  app.add_option("--beta2", settings.beta2, "AdamW")->capture_default_str();
  app.add_option("--clip", settings.clip, "Largest global norm of the gradients; 0 for none")
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "Of the first weights and of the data order")
      ->capture_default_str();
  app.add_option("--out", settings.out, "Folder of the run: checkpoints and loss.svg")
      ->capture_default_str();
  app.add_flag("--resume", settings.resume, "Continue the run in --out");
  app.add_option("--eval-every", settings.eval_every, "Steps between validations; 0 for none")
      ->capture_default_str();
  app.add_option("--save-every", settings.save_every,
                 "Steps between checkpoints; 0 for the end only")
      ->capture_default_str();
  app.add_flag("--profile", settings.profile,
               "Print where the time of steps goes; write the last step to trace.json, which "
               "Perfetto opens");
  app.add_flag("--hash", settings.hash, "Print a 64-bit hash of all parameters as the last line");
}

int train(TrainSettings const& settings, World const& world) {
  auto const stop_by_signal = [] {
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
  };
  Watch watch(world);
  if (world.size() > 1) stop_by_signal();  // one that is ended alone would end all without a save
  auto runtime = open_runtime(settings.machine, world.ranks_here());
  Trainer<AnyRuntime> trainer(runtime, settings, world, watch);
  stop_by_signal();
  if (!trainer.run()) return 3;
  if (settings.hash) {
    std::uint64_t const hash = trainer.hash();
    if (world.speaks()) std::printf("%016" PRIx64 "\n", hash);
  }
  return 0;
}

int generate(GenerateSettings const& settings) {
  auto runtime = open_runtime(settings.machine);
  Generator<AnyRuntime>(runtime, settings).run();
  return 0;
}

int info(InfoSettings const& settings) {
  if (settings.run.empty())
    show_model(settings);
  else
    show_run(settings.run);
  show_machine(HostRuntime::names());
  return 0;
}

/// Says why, and the exit status. Ranks that fail together fail alike, and the first of them ends
/// all: one line, not one from each.
int end(std::optional<World>& world, char const* why) {
  int const rank = world ? world->rank() : launched().rank;
  if (!world && rank > 0) return 2;
  if (world && world->size() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(500 * std::min(rank, 5)));
  std::fprintf(stderr, "gpt2: %s%s\n", world ? world->name().c_str() : "", why);
  if (world && world->size() > 1) world->abort(2);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a GPT-2 on text, byte by byte, on a runtime of your choice; and generates text with "
      "it.");
  app.require_subcommand(1);
  app.option_defaults()->take_last();
  app.failure_message([](CLI::App const*, CLI::Error const& error) {
    return nntile::concat("gpt2: ", std::string_view(error.what()), "; gpt2 --help tells more\n");
  });
  app.footer(
      "Example: gpt2 train --preset tiny --steps 500 --out run && gpt2 generate --run run --prompt "
      "'And God said'");

  TrainSettings train_settings;
  auto* const train_command = app.add_subcommand("train", "Train a model");
  add_train_options(*train_command, train_settings);

  GenerateSettings generate_settings;
  auto* const generate_command =
      app.add_subcommand("generate", "Continue a text with a trained model");
  generate_command
      ->add_option("--run", generate_settings.run, "Folder of a run, or of one checkpoint")
      ->capture_default_str();
  generate_command->add_option("--prompt", generate_settings.prompt, "Text to continue")
      ->capture_default_str();
  generate_command->add_option("--tokens", generate_settings.tokens, "Bytes to generate")
      ->capture_default_str();
  generate_command
      ->add_option("--temperature", generate_settings.temperature, "0 takes the likeliest byte")
      ->capture_default_str();
  generate_command
      ->add_option("--top-k", generate_settings.top_k, "Draw among the k likeliest; 0 for all")
      ->capture_default_str();
  generate_command
      ->add_option("--top-p", generate_settings.top_p, "Draw among the likeliest that sum to p")
      ->capture_default_str();
  generate_command->add_option("--seed", generate_settings.seed, "Of the draws")
      ->capture_default_str();
  add_machine_options(*generate_command, generate_settings.machine);

  InfoSettings info_settings;
  auto* const info_command = app.add_subcommand(
      "info", "Say what a model needs, or what a run holds, and what this machine offers");
  info_command->add_option("--run", info_settings.run,
                           "Check a run's newest checkpoint instead of planning a model");
  add_model_options(*info_command, info_settings.model);
  info_command
      ->add_option("--ranks", info_settings.ranks,
                   "Say what each rank of this many would hold and send, as --parallel and --mesh "
                   "share the model; none is started")
      ->check(CLI::Range(1, 65536));
  info_command->add_option("--dot", info_settings.dot,
                           "Write the graph of a training step, for dot -Tsvg");
  info_command->add_option("--plan", info_settings.plan,
                           "Write the plan of a training step as text");
  info_command->add_option(
      "--draw", info_settings.draw,
      "Draw the plan of a training step, or a --part: tasks, copies, transfers "
      "and memory as a page (.html), or for dot -Tsvg (.dot)");
  info_command->add_option("--draw-begin", info_settings.drawn.begin,
                           "The first task that --draw may show");
  info_command->add_option("--draw-end", info_settings.drawn.end, "The task before which it ends");
  info_command->add_option("--draw-name", info_settings.drawn.name,
                           "Draw tasks alone whose kernel or tensors have this in their names");
  info_command
      ->add_option("--draw-limit", info_settings.drawn.limit, "The most tasks that are drawn")
      ->capture_default_str();
  info_command->add_option("--save-parts", info_settings.save_parts,
                           "Write each rank's part of the plan into this folder, rank-0.json and "
                           "so on");
  auto* const part = info_command->add_option(
      "--part", info_settings.part,
      "Say what such a file plans for its rank; the model's options as they "
      "were when it was saved");
  for (char const* const other : {"--run", "--ranks", "--dot", "--plan", "--save-parts"})
    part->excludes(info_command->get_option(other));
  for (char const* const other : {"--run", "--ranks"})  // parts are drawn one by one: --part
    info_command->get_option("--draw")->excludes(info_command->get_option(other));

  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& error) {
    if (launched().rank == 0) return app.exit(error);
    std::ostringstream nowhere;  // rank 0 says it
    return app.exit(error, nowhere, nowhere);
  }
  std::optional<World> world;
  try {
    if (!train_command->parsed() && launched().ranks > 1)
      throw nntile::ValueError(nntile::concat("generate and info are for one process, not the ",
                                              launched().ranks, " that were started"));
    if (generate_command->parsed()) return generate(generate_settings);
    if (!train_command->parsed()) return info(info_settings);
    world.emplace(!train_settings.parallel.empty() || !train_settings.mesh.empty());
    return train(train_settings, *world);
  } catch (std::bad_alloc const&) {
    return end(world,
               "out of memory; free some, or use a smaller --width, --layers, --seq or --batch");
  } catch (std::exception const& error) {
    return end(world, error.what());
  }
}
