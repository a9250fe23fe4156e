#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Settings of the trainer and the generator, from the command line.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/numerics.hh"
#include "nntile/graph/options.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/ops/kernel.hh"

namespace gpt2 {

using nntile::Index;

/// Sizes of a model and of its batches, by name.
struct Preset {
  char const* name;
  nntile::nn::Gpt2Config model;
  Index seq;
  Index batch;
};

inline constexpr Index largest_batch = 65536;

/// Byte-level models of three sizes; 124m has GPT-2's own vocabulary, of which bytes use the first
/// 256.
inline constexpr Preset presets[] = {
    {"tiny", {.vocab = 256, .positions = 128, .width = 256, .layers = 4, .heads = 4}, 128, 8},
    {"small", {.vocab = 256, .positions = 256, .width = 384, .layers = 6, .heads = 6}, 256, 8},
    {"124m", {}, 64, 4},
};

/// Throws ValueError with the names there are.
inline Preset const& preset_of(std::string const& name) {
  std::string list;
  for (Preset const& preset : presets) {
    if (name == preset.name) return preset;
    list += nntile::concat(list.empty() ? "" : ", ", preset.name);
  }
  throw nntile::ValueError(nntile::concat("--preset: no preset '", name, "'; there are ", list));
}

/// Runtime, workers, places, instruction set and numerics.
struct Machine {
  std::string runtime = "ring";
  std::string place = "host";
  int devices = 1;                  // that keep the layers, where the host does not
  std::string offload = "none";     // from a device
  std::uint64_t device_memory = 0;  // bytes that a plan may use of each; 0: what it needs
  std::string disk;                 // directory of the file that values move to; "": no disk
  std::string disk_keeps = "none";
  std::uint64_t host_memory = 0;  // bytes that a plan may use; 0: what it needs
  std::optional<int> workers;
  std::string tile = "auto";
  std::string numerics = "exact";
  std::string isa = "best";
};

struct TrainSettings {
  std::vector<std::string> data;
  std::string preset = "tiny";
  std::optional<Index> width, layers, heads, seq, batch;
  std::optional<int> accumulate = {};  // micro-batches of a step
  std::string dtype = {};              // fp32; of a resumed run: its own, where none is given
  std::int64_t steps = 1000;
  double minutes = 0;  // 0: as many steps as `steps` says
  double lr = 3e-3;
  std::int64_t warmup = 50;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double clip = 0;
  std::uint64_t seed = 1;
  std::string out = "run";
  bool resume = false;
  std::set<std::string> given = {};  // options, as "--lr"; a resumed run has its own of others
  bool hash = false;
  bool profile = false;
  std::string trace = {};   // file of the last step's
  std::string groups = {};  // of a resumed run: its own, where none are given
  std::string parallel = {}, mesh = {};
  std::uint32_t keep_received = nntile::PlanOptions::to_last_reader;  // ops
  std::int64_t eval_every = 100;
  std::int64_t save_every = 500;
  Machine machine;
};

struct GenerateSettings {
  std::string run = "run";
  std::string prompt = "In the beginning ";
  Index tokens = 400;
  double temperature = 0.8;
  int top_k = 0;
  double top_p = 0.95;
  std::uint64_t seed = 1;
  Machine machine;
};

/// "auto", "256", or "256,embed=64+192,seq=32": the target tile, then cuts of named axes. Throws
/// ValueError.
inline nntile::PlanOptions tile_options(std::string const& text) {
  nntile::PlanOptions options;
  auto const number = [&](std::string_view digits) {
    Index value = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 0)
      throw nntile::ValueError(nntile::concat("--tile: invalid size '", digits, "' in '", text,
                                              "'; write auto, 256 or 256,embed=64+192"));
    return value;
  };
  std::string_view rest = text;
  bool given = false;  // the target
  while (!rest.empty()) {
    std::string_view const item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    auto const equals = item.find('=');
    if (equals == item.npos) {
      if (std::exchange(given, true))
        throw nntile::ValueError(nntile::concat("--tile: a second size for all axes, '", item,
                                                "', in '", text,
                                                "'; write 256 or 256,embed=64+192"));
      options.tile = item == "auto" ? nntile::PlanOptions::automatic : number(item);
      continue;
    }
    nntile::AxisCut cut{std::string(item.substr(0, equals)), {}};
    for (nntile::AxisCut const& other : options.cuts)
      if (other.axis == cut.axis)
        throw nntile::ValueError(nntile::concat("--tile: axis '", cut.axis, "' comes twice in '",
                                                text, "'; list it once, as embed=64+192"));
    for (std::string_view sizes = item.substr(equals + 1); !sizes.empty();) {
      std::string_view const size = sizes.substr(0, sizes.find('+'));
      sizes.remove_prefix(std::min(sizes.size(), size.size() + 1));
      cut.sizes.push_back(number(size));
    }
    options.cuts.push_back(std::move(cut));
  }
  return options;
}

/// Calls take(name, count) for each item of "batch=4,head=2"; the name of "4" is "". False from it
/// refuses the item. Throws ValueError, which says what to write for the option.
template <class Take>
void each_count(char const* option, std::string const& text, char const* example, Take take) {
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view const item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    auto const equals = item.find('=');
    std::string_view const digits = equals == item.npos ? item : item.substr(equals + 1);
    int count = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (error != std::errc{} || end != digits.data() + digits.size() || equals == 0 ||
        !take(std::string(equals == item.npos ? "" : item.substr(0, equals)), count))
      throw nntile::ValueError(
          nntile::concat(option, ": invalid '", item, "' in '", text, "'; write ", example));
  }
}

/// "batch=4,head=2": canonical groups of named axes; "4" is those of the batch. Throws ValueError.
inline std::vector<nntile::AxisGroups> groups_of(std::string const& text) {
  std::vector<nntile::AxisGroups> result;
  each_count("--groups", text, "batch=4,head=2, or 4 for batch=4",
             [&](std::string const& axis, int count) {
               nntile::AxisGroups const groups{axis.empty() ? "batch" : axis, count};
               bool const twice = std::any_of(result.begin(), result.end(), [&](auto const& other) {
                 return other.axis == groups.axis;
               });
               result.push_back(groups);
               return !twice && count >= 1;
             });
  return result;
}

/// The groups as --groups takes them.
inline std::string to_text(std::vector<nntile::AxisGroups> const& groups) {
  std::string text;
  for (nntile::AxisGroups const& each : groups)
    text += nntile::concat(text.empty() ? "" : ",", each.axis, "=", each.groups);
  return text;
}

inline nntile::Numerics numerics_of(std::string const& name) {
  if (name == "exact") return {nntile::Mode::exact};
  if (name == "fast") return {nntile::Mode::fast};
  throw nntile::ValueError(nntile::concat("--numerics: '", name, "' is neither exact nor fast"));
}

/// Dtypes that models are trained in.
inline constexpr nntile::DType trained_dtypes[] = {
    nntile::DType::fp32, nntile::DType::fp32_fast_tf32, nntile::DType::bf16};

/// One of them, by its name. Throws ValueError that begins with `where`.
inline nntile::DType dtype_named(std::string const& where, std::string_view name) {
  std::string list;
  for (nntile::DType const dtype : trained_dtypes) {
    if (name == name_of(dtype)) return dtype;
    list += nntile::concat(list.empty() ? "" : ", ", name_of(dtype));
  }
  throw nntile::ValueError(nntile::concat(where, ": no dtype '", name, "'; there are ", list));
}

/// Says that a model is of another dtype than fp32, and in which it is kept; "" where it is not.
inline std::string dtype_text(nntile::nn::Gpt2Config const& model) {
  if (model.dtype == nntile::DType::fp32) return {};
  return nntile::concat(", in ", name_of(model.dtype),
                        model.kept() == model.dtype ? "" : " with weights and AdamW in fp32");
}

inline nntile::Isa isa_of(std::string const& name) {
  using nntile::Isa;
  std::string list;
  for (Isa const isa : {Isa::best, Isa::plain, Isa::v2, Isa::v3, Isa::v4}) {
    if (name == name_of(isa) && nntile::kernels::available(isa)) return isa;
    if (nntile::kernels::available(isa))
      list += nntile::concat(list.empty() ? "" : ", ", name_of(isa));
  }
  if (list.empty())
    throw nntile::ValueError(
        "this CPU runs none of the kernels of this build; configure it with -Disa=v2");
  throw nntile::ValueError(
      nntile::concat("--isa: '", name, "' is not available here; there are ", list));
}

/// Sequences of a micro-batch, of which a step has `accumulate`. Throws ValueError.
inline Index micro_batch_of(TrainSettings const& settings) {
  Index const batch = settings.batch.value_or(preset_of(settings.preset).batch);
  int const count = settings.accumulate.value_or(1);
  if (count < 1 || batch % count != 0)
    throw nntile::ValueError(nntile::concat(
        "--accumulate: ", count, " micro-batches of the ", batch, " sequences of a step; ",
        settings.resume && count >= 1
            ? nntile::concat("a resumed run keeps its own: give --batch a multiple of ", count)
            : "use a divisor of --batch"));
  return batch / count;
}

/// Throws ValueError for a number of a run that would train nothing, or not say so: steps are
/// computed in fp32, and a comparison with what is no number is false.
inline void check_run(TrainSettings const& settings) {
  constexpr double largest = 3e38;  // of fp32
  struct Range {
    char const* option;
    double value, least, most;
    char const* fits;
  };
  for (auto const& [option, value, least, most, fits] :
       {Range{"--lr", settings.lr, 0, largest, "0 or more, such as 3e-3"},
        Range{"--weight-decay", settings.weight_decay, 0, largest, "0 (none) or more, such as 0.1"},
        Range{"--clip", settings.clip, 0, largest, "0 (none) or more, such as 1"},
        Range{"--minutes", settings.minutes, 0, 1e6, "0 (as --steps says) to 1000000"}})
    if (!(value >= least && value <= most))
      throw nntile::ValueError(nntile::concat(option, ": ", value, " does not work; give ", fits));
  for (auto const& [option, value] :
       {std::pair{"--beta1", settings.beta1}, std::pair{"--beta2", settings.beta2}})
    if (!(value >= 0 && value < 1))
      throw nntile::ValueError(nntile::concat(
          option, ": ", value, " does not work; give 0 or more, below 1, such as 0.9"));
}

/// The model of a preset with its overrides. Positions are the sequence's length, but for 124m.
inline nntile::nn::Gpt2Config model_of(TrainSettings const& settings) {
  Preset const& preset = preset_of(settings.preset);
  nntile::nn::Gpt2Config model = preset.model;
  if (!settings.dtype.empty()) model.dtype = dtype_named("--dtype", settings.dtype);
  model.width = settings.width.value_or(model.width);
  model.layers = settings.layers.value_or(model.layers);
  model.heads = settings.heads.value_or(model.heads);
  Index const seq = settings.seq.value_or(preset.seq);
  bool const any_length = model.positions < 1024;
  if (any_length) model.positions = seq;
  struct Bound {
    char const* option;
    Index value, least, most;
  };
  for (auto const& [option, value, least, most] :
       {Bound{"--width", model.width, 1, 65536}, Bound{"--layers", model.layers, 1, 1000},
        Bound{"--heads", model.heads, 1, model.width},
        Bound{"--seq", seq, 2, any_length ? 65536 : model.positions},
        Bound{"--batch", settings.batch.value_or(preset.batch), 1, largest_batch}})
    if (value < least || value > most)
      throw nntile::ValueError(
          nntile::concat(option, ": ", value, " is outside ", least, " to ", most));
  if (model.width % model.heads != 0)
    throw nntile::ValueError(
        nntile::concat("--heads: ", model.heads, " heads do not divide a width of ", model.width));
  return model;
}

}  // namespace gpt2
