#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compares what the ranks have written into a checkpoint with the shares, which may be wrong.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/io/manifest.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io::detail {

/// By which a rank tells of a file that it has written.
inline Json json_of(std::string const& name, WrittenFile const& file) {
  Json tensors = Json::array();
  for (auto const& [entry, checksum] : file.tensors)
    tensors.push_back(Json::object({{"name", entry.name},
                                    {"dtype", name_of(entry.dtype)},
                                    {"shape", entry.shape},
                                    {"checksum", checksum}}));
  return Json::object(
      {{"name", name}, {"bytes", file.bytes}, {"checksum", file.checksum}, {"tensors", tensors}});
}

/// The files and tensors of a manifest: those that shares make up, each written once. Throws
/// ValueError with the name of one that is not. Refers to the shares.
class SharedTensors {
 public:
  explicit SharedTensors(std::span<TensorShare const> shares) {
    for (TensorShare const& share : shares) {
      if (share.borders.empty()) {
        add(share.name, {&share, share.shape});
        continue;
      }
      if (std::string const problem = borders_problem(share.borders, share.shape); !problem.empty())
        throw ValueError(concat("save: tensor ", in_quotes(share.name), ": ", problem));
      Tiling const tiling = tiling_of(share.borders);
      for (Index tile = 0; tile < tiling.tile_count(); ++tile)
        add(piece_name(share.name, tiling, tile), {&share, piece_shape(tiling, tile)});
      cut_.push_back({share.name, file_dtype_of(share.dtype), share.shape, "", 0, share.borders});
    }
    for (TensorRecord const& tensor : cut_)
      if (places_.contains(tensor.name))
        throw ValueError(concat("save: tensor ", in_quotes(tensor.name), " is whole and cut"));
  }

  /// Takes what a rank says: a list of json_of() of its files.
  void take(std::size_t rank, JsonView list) {
    for (JsonView const file : list.elements()) {
      auto const name = *file["name"].as<std::string>();
      files_.push_back(
          {name, *file["bytes"].as<std::uint64_t>(), *file["checksum"].as<std::uint64_t>()});
      for (JsonView const tensor : file["tensors"].elements())
        take(rank, {*tensor["name"].as<std::string>(),
                    *file_dtype_named(*tensor["dtype"].as<std::string>()),
                    *tensor["shape"].as<FileShape>(),
                    name,
                    *tensor["checksum"].as<std::uint64_t>(),
                    {}});
    }
  }

  /// To be called when all ranks have been heard.
  void move_to(Manifest& manifest) {
    for (auto const& [name, place] : places_)
      if (!place.written) throw ValueError(concat("save: no rank writes tensor ", in_quotes(name)));
    manifest.files = std::move(files_);
    manifest.tensors = std::move(tensors_);
    manifest.cut = std::move(cut_);
  }

 private:
  /// A whole tensor or a tile.
  struct Place {
    TensorShare const* share;
    FileShape shape;
    bool written = false;
  };

  void add(std::string const& name, Place place) {
    auto const [at, added] = places_.try_emplace(name, std::move(place));
    if (added) return;
    std::string cut;
    for (TensorShare const* const share : {at->second.share, place.share})
      if (share->name != name)
        cut = concat(": tiles of ", in_quotes(share->name), " have such names");
    throw ValueError(concat("save: two tensors would be ", in_quotes(name), cut, "; rename ",
                            cut.empty() ? "one" : "the other"));
  }

  void take(std::size_t rank, TensorRecord tensor) {
    auto const at = places_.find(tensor.name);
    std::string const words =
        concat("save: rank ", rank, " writes tensor ", in_quotes(tensor.name));
    if (at == places_.end()) throw ValueError(words + ", of which no share is given");
    Place& place = at->second;
    if (place.written) throw ValueError(words + ", which is written already");
    FileDType const dtype = file_dtype_of(place.share->dtype);
    if (tensor.dtype != dtype || tensor.shape != place.shape)
      throw ValueError(concat(words, " as ", describe(tensor.dtype, tensor.shape),
                              " where the shares say ", describe(dtype, place.shape)));
    place.written = true;
    tensors_.push_back(std::move(tensor));
  }

  std::map<std::string, Place> places_;
  std::vector<FileRecord> files_;
  std::vector<TensorRecord> tensors_, cut_;
};

}  // namespace nntile::io::detail
