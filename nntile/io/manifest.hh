#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The manifest of a checkpoint: what a training run is besides its tensors, and the checksums of
// those.

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nntile/io/directory.hh"
#include "nntile/io/hash.hh"
#include "nntile/io/json.hh"
#include "nntile/io/safetensors_header.hh"

namespace nntile::io {

/// Everything but tensors that makes a resumed run continue with the same bits.
struct TrainingState {
  std::uint64_t step = 0;
  /// Index of the next sample in the global order: the position in the data.
  std::uint64_t sample = 0;
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  /// The optimizer's numbers: learning rate, betas, and the like.
  std::map<std::string, double> optimizer;
  std::optional<double> loss;
  /// Whatever else the caller wants back: an object, not looked at.
  Json run = Json::object();
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
};

/// What manifest.json says.
struct Manifest {
  /// The model, as the caller describes it: an object that is compared when a checkpoint is loaded.
  Json model = Json::object();
  TrainingState state;
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;
};

inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::string_view manifest_format = "nntile-checkpoint";
inline constexpr std::uint64_t manifest_version = 1;
inline constexpr std::uint64_t largest_manifest = std::uint64_t{64}
                                                  << 20;  // bytes; 124M parameters make 60 KiB

/// What to do about a checkpoint that was changed.
inline constexpr std::string_view use_an_older_one =
    "; use an older checkpoint, which is the newest once this one is removed";

namespace detail {

// The first two lines of a manifest; the hash is that of everything else, so that no bit of the
// file is unwatched.
inline constexpr std::string_view manifest_opening = "{\n \"checksum\": \"xxh64:";
inline constexpr std::string_view manifest_after_checksum = "\",";

inline std::uint64_t decimal(std::string const& text, char const* key, std::string_view source) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw FormatError(concat(path_in_quotes(source), ": '", key, "' is ", in_quotes(text),
                             " where a 64-bit number is needed"));
  return value;
}

inline std::uint64_t hexadecimal(Json const& object, std::string_view source) {
  std::string const text = json_field<std::string>(object, "checksum", source);
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    throw FormatError(concat(path_in_quotes(source), ": checksum ", in_quotes(text),
                             " is not 16 hexadecimal digits"));
  return value;
}

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

inline TrainingState state_from_json(Json const& json, std::string_view source) {
  TrainingState state;
  state.step = json_field<std::uint64_t>(json, "step", source);
  state.sample = json_field<std::uint64_t>(json, "sample", source);
  Json const random = json_field<Json>(json, "random", source);
  state.seed = decimal(json_field<std::string>(random, "seed", source), "seed", source);
  state.counter = decimal(json_field<std::string>(random, "counter", source), "counter", source);
  state.optimizer = json_field<std::map<std::string, double>>(json, "optimizer", source);
  if (!json_field<Json>(json, "loss", source).is_null())
    state.loss = json_field<double>(json, "loss", source);
  state.run = json_field<Json>(json, "run", source);
  return state;
}

inline FileRecord file_record(Json const& json, std::string_view source) {
  FileRecord record{json_field<std::string>(json, "name", source),
                    json_field<std::uint64_t>(json, "bytes", source), hexadecimal(json, source)};
  if (!is_basename(record.name))
    throw FormatError(concat(path_in_quotes(source), ": file ", in_quotes(record.name),
                             " is not a plain file name"));
  return record;
}

inline TensorRecord tensor_record(Json const& json, std::string_view source) {
  std::string const dtype = json_field<std::string>(json, "dtype", source);
  auto const known = file_dtype_named(dtype);
  if (!known)
    throw FormatError(concat(path_in_quotes(source), ": unknown dtype ", in_quotes(dtype)));
  return {json_field<std::string>(json, "name", source), *known,
          json_field<FileShape>(json, "shape", source),
          json_field<std::string>(json, "file", source), hexadecimal(json, source)};
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
/// finite or a text is not UTF-8.
inline std::string manifest_text(Manifest const& manifest) {
  detail::check_finite(manifest.state);
  Json json = detail::state_to_json(manifest.state);
  json["format"] = manifest_format;
  json["version"] = manifest_version;
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
  std::string const body = to_text(json, 1).substr(1) + "\n";
  if (body.size() > largest_manifest - 64)
    throw ValueError(concat("checkpoint of step ", manifest.state.step, ": a manifest of ",
                            body.size(), " bytes where ", largest_manifest,
                            " are read; keep less in `run`"));
  return concat(detail::manifest_opening, to_hex(hash64(body)), detail::manifest_after_checksum,
                body);
}

/// Reads the text of manifest.json. Throws FormatError that names `source` where it was changed, is
/// of another version or lacks something.
inline Manifest parse_manifest(std::string_view text, std::string_view source) {
  std::size_t const digits = detail::manifest_opening.size();
  std::size_t const end = digits + 16 + detail::manifest_after_checksum.size();
  if (text.size() < end || !text.starts_with(detail::manifest_opening) ||
      text.substr(digits + 16, detail::manifest_after_checksum.size()) !=
          detail::manifest_after_checksum)
    throw FormatError(
        concat(path_in_quotes(source),
               ": not the manifest of a checkpoint, or its first lines were changed"));
  if (to_hex(hash64(text.substr(end))) != text.substr(digits, 16))
    throw FormatError(concat(path_in_quotes(source), ": changed since it was written: checksum ",
                             to_hex(hash64(text.substr(end))), " where it says ",
                             in_quotes(text.substr(digits, 16)), use_an_older_one));
  Json const json = parse_json(text, source);
  if (json_field<std::string>(json, "format", source) != manifest_format)
    throw FormatError(concat(path_in_quotes(source), ": not a checkpoint of this library"));
  if (auto const version = json_field<std::uint64_t>(json, "version", source);
      version != manifest_version)
    throw FormatError(concat(path_in_quotes(source), ": version ", version, " where ",
                             manifest_version, " is read"));
  Manifest manifest{
      json_field<Json>(json, "model", source), detail::state_from_json(json, source), {}, {}};
  for (Json const& file : json_field<Json::Array>(json, "files", source))
    manifest.files.push_back(detail::file_record(file, source));
  for (Json const& tensor : json_field<Json::Array>(json, "tensors", source))
    manifest.tensors.push_back(detail::tensor_record(tensor, source));
  return manifest;
}

}  // namespace nntile::io
