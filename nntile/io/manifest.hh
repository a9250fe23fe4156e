#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The manifest of a checkpoint: what a training run is besides its tensors, and the checksums of
// those; and its text.

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nntile/io/directory.hh"
#include "nntile/io/hash.hh"
#include "nntile/io/json.hh"
#include "nntile/io/pieces.hh"
#include "nntile/io/safetensors_parse.hh"

namespace nntile::io {

/// The position of a run.
struct Progress {
  std::uint64_t step = 0;
  /// Index of the next sample in the global order: the position in the data.
  std::uint64_t sample = 0;
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  std::optional<double> loss;
};

/// Everything but tensors that makes a resumed run continue with the same bits.
struct TrainingState : Progress {
  /// The optimizer's numbers: learning rate, betas, and the like.
  std::map<std::string, double> optimizer;
  /// Whatever else the caller wants back: an object, not looked at.
  Json run = Json::object();
};

/// The same as a manifest says it, to whose text it refers.
struct SavedState : Progress {
  JsonView optimizer;  // an object of finite numbers
  JsonView run;        // an object
};

/// One file of a checkpoint.
struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// One tensor of a checkpoint.
struct TensorRecord {
  std::string name;
  FileDType dtype = FileDType::f32;
  FileShape shape;
  std::string file;
  std::uint64_t checksum = 0;
  /// Of one that is cut: it is in no file, its tiles are, each a tensor of its own.
  Borders borders = {};
};

/// The contents of a manifest.json to be written.
struct Manifest {
  /// The model, as the caller describes it: an object that is compared when a checkpoint is loaded.
  Json model = Json::object();
  TrainingState state;
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;
  /// Tensors whose tiles are among `tensors`, under their piece_name().
  std::vector<TensorRecord> cut = {};
};

inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::string_view manifest_format = "nntile-checkpoint";
inline constexpr std::uint64_t manifest_version = 2;  // 1: one rank's
inline constexpr std::uint64_t largest_manifest = std::uint64_t{64}
                                                  << 20;  // bytes; 124M parameters make 60 KiB

/// Tensors of the optimizer are named so: "optim.exp_avg/h.0.ln_1.weight".
inline constexpr std::string_view optimizer_prefix = "optim.";

/// The data files of a checkpoint: the model's and the optimizer's.
inline constexpr std::array<std::string_view, 2> checkpoint_files{"model.safetensors",
                                                                  "optimizer.safetensors"};
/// The one that holds a tensor of this name; of several ranks each has its rank_file() of it.
inline std::string_view checkpoint_file_of(std::string_view tensor) {
  return checkpoint_files[tensor.starts_with(optimizer_prefix) ? 1 : 0];
}

/// Remedy for a checkpoint that was changed.
inline constexpr std::string_view use_an_older_one =
    "; use an older checkpoint, which is the newest once this one is removed";

namespace detail {

// The first two lines of a manifest; the hash is that of everything else, so that no bit of the
// file is unwatched.
inline constexpr std::string_view manifest_opening = "{\n \"checksum\": \"xxh64:";
inline constexpr std::string_view manifest_after_checksum = "\",";

inline Json state_to_json(TrainingState const& state) {
  Json json;
  json["step"] = state.step;
  json["sample"] = state.sample;
  json["optimizer"] = state.optimizer;
  json["run"] = state.run;
  // As text: other readers of JSON keep 53 bits of a number.
  json["random"] = Json::object(
      {{"seed", std::to_string(state.seed)}, {"counter", std::to_string(state.counter)}});
  json["loss"] = state.loss ? Json(*state.loss) : Json();
  return json;
}

/// Containers within one another, the value included.
inline int levels_of(Json const& value) {
  int inside = 0;
  if (value.is_array())
    for (Json const& element : value.elements()) inside = std::max(inside, levels_of(element));
  else if (value.is_object())
    for (auto const& [key, member] : value.members()) inside = std::max(inside, levels_of(member));
  else
    return 0;
  return inside + 1;
}

/// A manifest whose `model` or `run` is no object, or nested too deep, could not be opened.
inline void check_object(std::uint64_t step, char const* name, Json const& value) {
  if (!value.is_object())
    throw ValueError(concat("checkpoint of step ", step, ": '", name, "' is ",
                            value.is_null()    ? "null"
                            : value.is_array() ? "an array"
                                               : "a single value",
                            " where an object is needed, such as Json::object()"));
  constexpr int most = usual_json_depth - 1;  // inside the manifest
  if (int const levels = levels_of(value); levels > most)
    throw ValueError(concat("checkpoint of step ", step, ": '", name, "' has ", levels,
                            " levels where at most ", most, " are read"));
}

/// Numbers that JSON cannot hold would come back as something else.
inline void check_finite(TrainingState const& state) {
  if (state.loss && !std::isfinite(*state.loss))
    throw ValueError(
        concat("checkpoint of step ", state.step, ": loss ", *state.loss, " is not finite"));
  for (auto const& [name, value] : state.optimizer)
    if (!std::isfinite(value))
      throw ValueError(concat("checkpoint of step ", state.step, ": ", in_quotes(name), " is ",
                              value, ", not finite"));
}

}  // namespace detail

/// The text of manifest.json, its own checksum included. Throws ValueError when a number is not
/// finite, a text is not UTF-8, or `model` or `run` is no object or nested deeper than 31 levels.
inline std::string manifest_text(Manifest const& manifest) {
  detail::check_finite(manifest.state);
  detail::check_object(manifest.state.step, "model", manifest.model);
  detail::check_object(manifest.state.step, "run", manifest.state.run);
  Json json = detail::state_to_json(manifest.state);
  json["format"] = manifest_format;
  auto const of_one = [](FileRecord const& file) {
    return file.name == checkpoint_files[0] || file.name == checkpoint_files[1];
  };
  bool const one = std::all_of(manifest.files.begin(), manifest.files.end(), of_one);
  json["version"] = one && manifest.cut.empty() ? 1 : manifest_version;
  json["model"] = manifest.model;
  json["files"] = Json::array();
  for (FileRecord const& file : manifest.files)
    json["files"].push_back(Json::object(
        {{"name", file.name}, {"bytes", file.bytes}, {"checksum", to_hex(file.checksum)}}));
  json["tensors"] = Json::array();
  for (TensorRecord const& tensor : manifest.tensors)
    json["tensors"].push_back(Json::object({{"name", tensor.name},
                                            {"dtype", name_of(tensor.dtype)},
                                            {"shape", tensor.shape},
                                            {"file", tensor.file},
                                            {"checksum", to_hex(tensor.checksum)}}));
  if (!manifest.cut.empty()) json["cut"] = Json::array();
  for (TensorRecord const& tensor : manifest.cut) {
    Json borders = Json::array();
    for (auto const& dimension : tensor.borders) borders.push_back(dimension);
    json["cut"].push_back(
        Json::object({{"name", tensor.name}, {"shape", tensor.shape}, {"borders", borders}}));
  }
  std::string const body = to_text(json, 1).substr(1) + "\n";
  if (std::size_t const size = body.size(); size > largest_manifest - 64) {
    bool const run = to_text(manifest.state.run).size() > size / 2;
    throw ValueError(concat("checkpoint of step ", manifest.state.step, ": a manifest of ", size,
                            " bytes where ", largest_manifest, " are read; ",
                            run ? "keep less in `run`" : "have fewer tensors, or larger tiles"));
  }
  return concat(detail::manifest_opening, to_hex(hash64(body)), detail::manifest_after_checksum,
                body);
}

}  // namespace nntile::io
