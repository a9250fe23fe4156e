// SPDX-License-Identifier: BSD-3-Clause
// Trains a GPT-2 on text, byte by byte; generates text with it; says what a model needs.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "checks.hh"
#include "fits.hh"
#include "info.hh"
#include "nntile/nntile.hh"
#include "nntile/runtime/disk/disk.hh"
#include "nntile/runtime/dynamic/dynamic.hh"
#include "nntile/testing/device.hh"
#include "signals.hh"
#include "streams.hh"
#include "train.hh"
#ifdef NNTILE_HAVE_CUDA
#include "nntile/runtime/cuda.hh"
#endif
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif

namespace {

using namespace gpt2;

using nntile::DiskOptions, nntile::RuntimeOptions, nntile::WithDisk;
using nntile::testing::EmulatedOptions;
template <nntile::Device D> struct DevicePolicy : nntile::RingPolicy {
  using Device = D;
};

// Each is given all options, and takes those of its devices.
struct DiskSerial : nntile::BasicSerial<WithDisk<>> {
  using BasicSerial::BasicSerial;
  DiskSerial(RuntimeOptions const& options, DiskOptions const& disk, EmulatedOptions const&)
      : BasicSerial(options, disk) {}
  static constexpr char const* runtime_name = "serial-disk";
};
struct DiskRing : nntile::BasicRing<DevicePolicy<WithDisk<>>> {
  using BasicRing::BasicRing;
  DiskRing(RuntimeOptions const& options, DiskOptions const& disk, EmulatedOptions const&)
      : BasicRing(options, disk) {}
  static constexpr char const* runtime_name = "ring-disk";
};

using EmulatedDevice = WithDisk<nntile::testing::EmulatedDevice>;
struct EmulatedSerial : nntile::BasicSerial<EmulatedDevice> {
  using BasicSerial::BasicSerial;
  static constexpr char const* runtime_name = "serial-emulated";
};
struct EmulatedRing : nntile::BasicRing<DevicePolicy<EmulatedDevice>> {
  using BasicRing::BasicRing;
  static constexpr char const* runtime_name = "ring-emulated";
};

#ifdef NNTILE_HAVE_CUDA
// These take the log from the options of emulated devices, which all runtimes here are given.
struct DeviceSerial : nntile::BasicSerial<WithDisk<nntile::Cuda>> {
  DeviceSerial(RuntimeOptions const& options, DiskOptions const& disk, EmulatedOptions const& given)
      : BasicSerial(options, disk, nntile::CudaOptions{.log = given.log}) {}
  static constexpr char const* runtime_name = "serial-device";
};
struct DeviceRing : nntile::BasicRing<DevicePolicy<WithDisk<nntile::Cuda>>> {
  DeviceRing(RuntimeOptions const& options, DiskOptions const& disk, EmulatedOptions const& given)
      : BasicRing(options, disk, nntile::CudaOptions{.log = given.log}) {}
  static constexpr char const* runtime_name = "ring-device";
};
#endif

template <class... More> struct Runtimes {
  using OnHost = nntile::Dynamic<nntile::Serial, nntile::Ring, More...>;
#ifdef NNTILE_HAVE_CUDA
  using Any = nntile::Dynamic<nntile::Serial, nntile::Ring, More..., DiskSerial, DiskRing,
                              EmulatedSerial, EmulatedRing, DeviceSerial, DeviceRing>;
#else
  using Any = nntile::Dynamic<nntile::Serial, nntile::Ring, More..., DiskSerial, DiskRing,
                              EmulatedSerial, EmulatedRing>;
#endif
};
#ifdef NNTILE_HAVE_STARPU
/// Asks for as many CUDA workers as there shall be devices; without, STARPU_NCUDA decides.
struct DeviceStarPU : nntile::StarPU {
  DeviceStarPU(RuntimeOptions const& options, DiskOptions const&, EmulatedOptions const& given)
      : StarPU(options,
               {.devices = given.devices == 0 ? std::nullopt : std::optional<int>(given.devices)}) {
  }
};
using All = Runtimes<DeviceStarPU>;
#else
using All = Runtimes<>;
#endif
using HostRuntime = All::OnHost;
using AnyRuntime = All::Any;

/// `log`: of what its devices run.
AnyRuntime open_runtime(Machine const& machine, int ranks_here = 1,
                        nntile::DeviceLog* log = nullptr) {
#ifndef NNTILE_HAVE_CUDA
  if (machine.place == "device")
    throw nntile::ValueError(
        "--place device: this program was built without CUDA; Meson's option cuda says more");
#endif
  require_runtime(machine, HostRuntime::names());
  auto workers = machine.workers;
  if (!workers && ranks_here > 1)
    workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks_here);
  bool const of_starpu = machine.runtime == "starpu" && machine.place == "device";
  auto runtime = [&]() -> AnyRuntime {
    try {
      return AnyRuntime(
          runtime_at(machine), RuntimeOptions{.workers = workers},
          DiskOptions{.directory = machine.disk, .log = log},
          EmulatedOptions{.devices = machine.place == "host" ? 0 : machine.devices, .log = log});
    } catch (nntile::DeviceError const& error) {
      if (!of_starpu) throw;
      throw nntile::ValueError(
          nntile::concat("--runtime starpu --place device: ", std::string_view(error.what()),
                         "; --runtime ring needs none of StarPU's, --place host no device"));
    }
  }();
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
         "Devices that share the layers, a run of them each, with all that these keep and compute; "
         "the first has the rest, too [1]")
      ->check(CLI::Range(1, 64));
  app.add_option("--offload", machine.offload,
                 "What a device leaves to the host: none, optimizer (its states; steps copy them), "
                 "or parameters (these, too: the host updates them)")
      ->capture_default_str();
  add_bytes(app, "--device-memory", machine.device_memory,
            "Bytes that a plan may use of each device, 400MB: values that are needed late move "
            "out to the host [what the plan needs]");
  app.add_option("--disk", machine.disk,
                 "Directory of a file without a name, gone with the process, that takes what "
                 "--disk-keeps and --host-memory say")
      ->check(not_empty());
  app.add_option("--disk-keeps", machine.disk_keeps,
                 "What lives in the file: none, optimizer (its states; steps copy them), or "
                 "parameters (these, too)")
      ->capture_default_str();
  add_bytes(app, "--host-memory", machine.host_memory,
            "Bytes that a plan may use of the host, 400MB: values that are needed late move "
            "out to the file [what the plan needs]");
  app.add_option(
         "--workers", machine.workers,
         "Threads that execute tasks, 1 to 1024 [one per core, shared by the ranks of a host]")
      ->check(within(1, 1024));
  app.add_option("--tile", machine.tile,
                 "Wished tile size, then cuts of named axes: auto, 256, 256,embed=64+192; 0 leaves "
                 "tensors whole")
      ->check(not_empty())
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
  app.add_option("--batch", settings.batch,
                 "Sequences of a step [the preset's; a resumed run's own]");
  app.add_option("--accumulate", settings.accumulate,
                 "Micro-batches that a step's sequences are run in, one after another, adding up "
                 "gradients: less memory; a divisor of --batch [1; a resumed run's own]")
      ->check(within(1, largest_batch));
  app.add_option("--dtype", settings.dtype,
                 "Of weights in use, activations and gradients: fp32; bf16, while weights are kept "
                 "and AdamW computes in fp32; or fp32_fast_tf32, fp32 that devices multiply in "
                 "TF32 with --numerics fast [fp32; a resumed run's own]")
      ->check(not_empty());
  app.add_option("--groups", settings.groups,
                 "Canonical groups of named axes, which sums are split into whatever runs them: "
                 "batch=4,head=2; 4 is batch=4 [one each; a resumed run's own]")
      ->check(not_empty());
  app.add_option(
         "--parallel", settings.parallel,
         "What ranks share, under mpiexec: ddp, zero1, fsdp, tensor, sequence, pipeline, or "
         "several, tensor+zero1 [ddp]")
      ->check(not_empty());
  app.add_option("--mesh", settings.mesh,
                 "Ranks on each axis, nearest first: tensor=2,data=4 [all on the axis of "
                 "--parallel]")
      ->check(not_empty());
  app.add_option(
         "--keep-received", settings.keep_received,
         "Ops in a row that may do without a parameter which another rank has sent; then it "
         "is sent again: less memory, more traffic [kept to its last reader]")
      ->check(within(0, UINT32_MAX));
  add_machine_options(app, settings.machine);
}

void add_train_options(CLI::App& app, TrainSettings& settings) {
  app.add_option("--data", settings.data,
                 "Text files [the King James Bible of Debian's package bible-kjv]")
      ->expected(1, 1 << 20)  // as many as one likes; else CLI11 takes "[a,b]" for two
      ->allow_extra_args(false)
      ->type_name("TEXT ...")
      ->check(not_empty());
  add_model_options(app, settings);
  app.add_option("--steps", settings.steps, "Steps in all, those before a --resume included")
      ->check(not_negative())
      ->capture_default_str();
  app.add_option("--minutes", settings.minutes,
                 "Train about this long instead: the first steps are timed; a resumed run keeps "
                 "to its steps")
      ->check(not_negative());
  app.add_option("--lr", settings.lr,
                 "Peak learning rate; linear warm-up, then a half cosine to a tenth")
      ->capture_default_str();
  app.add_option("--warmup", settings.warmup, "Steps of the warm-up")
      ->check(not_negative(15))  // of a longer one no run is resumed
      ->capture_default_str();
  app.add_option("--weight-decay", settings.weight_decay,
                 "Decay of weights a step, times the rate; not of biases and norms")
      ->capture_default_str();
  app.add_option("--beta1", settings.beta1,
                 "AdamW: what its mean of gradients keeps of the step before, below 1")
      ->capture_default_str();
  app.add_option("--beta2", settings.beta2, "AdamW: the same of its mean of their squares")
      ->capture_default_str();
  app.add_option("--clip", settings.clip, "Largest global norm of the gradients; 0 for none")
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "Of the first weights and of the data order")
      ->check(not_negative(19))
      ->capture_default_str();
  app.add_option("--out", settings.out, "Folder of the run: checkpoints and loss.svg")
      ->check(not_empty())
      ->capture_default_str();
  app.add_flag("--resume", settings.resume,
               "Continue the run in --out, with the model, steps and numbers that it has where no "
               "others are given");
  app.add_option("--eval-every", settings.eval_every, "Steps between validations; 0 for none")
      ->check(not_negative())
      ->capture_default_str();
  app.add_option("--save-every", settings.save_every,
                 "Steps between checkpoints; 0 for the end only")
      ->check(not_negative())
      ->capture_default_str();
  app.add_flag("--profile", settings.profile,
               "Print where the time of steps goes; write the last step to trace.json, which "
               "Perfetto opens");
  app.add_option("--trace", settings.trace,
                 "Write the last step to this file, which Perfetto opens: tasks by thread and "
                 "stream, copies with bytes and direction, memory of each place")
      ->check(not_empty());
  app.add_flag("--hash", settings.hash, "Print a 64-bit hash of all parameters as the last line");
}

int train(TrainSettings settings, World const& world) {
  check_run(settings);
  take_model(settings);
  require_room(settings, world);
  Watch watch(world);
  // One of several that is ended alone would end all without a save.
  if (world.size() > 1) EndSignals::take(false);
  nntile::DeviceLog log;
  bool const logs = settings.profile || !settings.trace.empty();
  auto runtime = open_runtime(settings.machine, world.ranks_here(), logs ? &log : nullptr);
  Trainer<AnyRuntime> trainer(runtime, settings, world, watch, log);
  if (world.size() == 1) EndSignals::take(true);
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
  require_runtime(settings.model.machine, HostRuntime::names());
  limit_memory();
  if (settings.run.empty())
    show_model(settings);
  else
    show_run(settings.run);
  show_machine(HostRuntime::names());
  return 0;
}

/// Says why, in one line whatever a name in it holds, and the exit status. Ranks that fail together
/// fail alike, and the first of them ends all: one line, not one from each.
int end(std::optional<World>& world, char const* why) {
  join_others(world);
  int const rank = world ? world->rank() : launched().rank;
  if (!world && rank > 0) return 2;
  if (world && world->size() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(500 * std::min(rank, 5)));
  say_in_one_line(world ? world->name() : "", why);
  if (world && world->size() > 1) world->abort(2);
  return 2;
}

/// Prints the help that was asked for, as rank 0 does, or says what is wrong with the words of the
/// call. The exit status.
int explain(CLI::App const& app, CLI::ParseError const& error, std::optional<World>& world) {
  std::ostringstream help, why;
  if (app.exit(error, help, why) == 0) {
    if (launched().rank == 0) std::fputs(help.str().c_str(), stdout);
    return printed(0);
  }
  return end(world, why.str().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  keep_streams_apart();
  CLI::App app(
      "Trains a GPT-2 on text, byte by byte, on a runtime of your choice; and generates text with "
      "it.");
  app.require_subcommand(1);
  app.option_defaults()->take_last();
  app.failure_message([](CLI::App const* of, CLI::Error const& error) {
    std::string why = error.what();
    if (of->get_parent() == nullptr && of->get_subcommands().empty()) {  // CLI11 names neither
      auto const given = of->remaining();
      why = nntile::concat(given.empty() ? "" : nntile::concat("'", given.front(), "': "),
                           "give train, generate or info first");
    }
    std::string const command =
        of->get_subcommands().empty() ? "" : of->get_subcommands().front()->get_name() + " ";
    return nntile::concat(why, "; gpt2 ", command, "--help tells more");
  });
  std::string const example =
      "Example: gpt2 train --preset tiny --steps 500 --out run && gpt2 generate --run run --prompt "
      "'And God said'";
  app.footer(example);

  TrainSettings train_settings;
  auto* const train_command = app.add_subcommand("train", "Train a model");
  add_train_options(*train_command, train_settings);
  train_command->footer(
      "Ctrl-C, SIGTERM or SIGHUP ends the run behind the step in flight and saves it, on all ranks "
      "the\nsame step; a second one, a second later, ends it at once. A pipe that is closed asks "
      "once, where\nthere is one process. A step that waits for another rank is left when it "
      "hasn't ended 10 s later, or\nin twice its usual time. The last checkpoint stays in both "
      "cases. Signals that were ignored stay so,\nas under nohup.\n\n" +
      example);

  GenerateSettings generate_settings;
  auto* const generate_command =
      app.add_subcommand("generate", "Continue a text with a trained model");
  generate_command
      ->add_option("--run", generate_settings.run, "Folder of a run, or of one checkpoint")
      ->check(not_empty())
      ->capture_default_str();
  generate_command->add_option("--prompt", generate_settings.prompt, "Text to continue")
      ->capture_default_str();
  generate_command->add_option("--tokens", generate_settings.tokens, "Bytes to generate")
      ->check(not_negative())
      ->capture_default_str();
  generate_command
      ->add_option("--temperature", generate_settings.temperature, "0 takes the likeliest byte")
      ->capture_default_str();
  generate_command
      ->add_option("--top-k", generate_settings.top_k, "Draw among the k likeliest; 0 for all")
      ->check(within(0, INT32_MAX))
      ->capture_default_str();
  generate_command
      ->add_option("--top-p", generate_settings.top_p, "Draw among the likeliest that sum to p")
      ->capture_default_str();
  generate_command->add_option("--seed", generate_settings.seed, "Of the draws")
      ->check(not_negative(19))
      ->capture_default_str();
  add_machine_options(*generate_command, generate_settings.machine);

  InfoSettings info_settings;
  auto* const info_command = app.add_subcommand(
      "info", "Say what a model needs, or what a run holds, and what this machine offers");
  info_command
      ->add_option("--run", info_settings.run,
                   "Check a run's newest checkpoint instead of planning a model")
      ->check(not_empty());
  add_model_options(*info_command, info_settings.model);
  info_command
      ->add_option("--ranks", info_settings.ranks,
                   "Say what each rank of this many would hold and send, as --parallel and --mesh "
                   "share the model; none is started")
      ->check(CLI::Range(1, 65536));
  info_command
      ->add_option("--dot", info_settings.dot, "Write the graph of a training step, for dot -Tsvg")
      ->check(not_empty());
  info_command
      ->add_option("--plan", info_settings.plan, "Write the plan of a training step as text")
      ->check(not_empty());
  info_command
      ->add_option("--draw", info_settings.draw,
                   "Draw the plan of a training step, or a --part: tasks, copies, transfers "
                   "and memory as a page (.html), or for dot -Tsvg (.dot)")
      ->check(not_empty());
  info_command
      ->add_option("--draw-begin", info_settings.drawn.begin, "The first task that --draw may show")
      ->check(not_negative());
  info_command->add_option("--draw-end", info_settings.drawn.end, "The task before which it ends")
      ->check(not_negative());
  info_command->add_option("--draw-name", info_settings.drawn.name,
                           "Draw tasks alone whose kernel or tensors have this in their names");
  info_command
      ->add_option("--draw-limit", info_settings.drawn.limit, "The most tasks that are drawn")
      ->check(not_negative())
      ->capture_default_str();
  info_command
      ->add_option("--save-parts", info_settings.save_parts,
                   "Write each rank's part of the plan into this folder, rank-0.json and "
                   "so on")
      ->check(not_empty());
  auto* const part =
      info_command
          ->add_option("--part", info_settings.part,
                       "Say what such a file plans for its rank; the model's options as they "
                       "were when it was saved")
          ->check(not_empty());
  for (char const* const other : {"--run", "--ranks", "--dot", "--plan", "--save-parts"})
    part->excludes(info_command->get_option(other));
  for (CLI::Option* const other : info_command->get_options())  // of a model's plan
    if (other->get_name() != "--run" && other->get_name() != "--help" && other != part)
      info_command->get_option("--run")->excludes(other);
  for (char const* const of_drawing : {"--draw-begin", "--draw-end", "--draw-name", "--draw-limit"})
    info_command->get_option(of_drawing)->needs(info_command->get_option("--draw"));
  // Parts are drawn one by one: --part.
  info_command->get_option("--draw")->excludes(info_command->get_option("--ranks"));

  for (CLI::App* const command : app.get_subcommands({})) check_numbers(*command);
  std::optional<World> world;
  try {
    try {
      app.parse(argc, argv);
    } catch (CLI::ParseError const& error) {
      return explain(app, error, world);
    }
    if (!train_command->parsed() && launched().ranks > 1)
      throw nntile::ValueError(nntile::concat("generate and info are for one process, not the ",
                                              launched().ranks, " that were started"));
    if (generate_command->parsed()) return printed(generate(generate_settings));
    if (!train_command->parsed()) return printed(info(info_settings));
    for (CLI::Option const* const option : train_command->get_options())
      if (option->count() > 0) train_settings.given.insert(option->get_name());
    world.emplace(!train_settings.parallel.empty() || !train_settings.mesh.empty());
    int const status = train(train_settings, *world);
    return world->speaks() ? printed(status) : status;
  } catch (std::bad_alloc const&) {
    return end(world,
               "out of memory; free some, or use a smaller --width, --layers, --seq or --batch");
  } catch (std::exception const& error) {
    return end(world, error.what());
  }
}
