#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tensors in pieces: how files hold one whose tiles are on several ranks.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/tiling.hh"
#include "nntile/io/safetensors_header.hh"

namespace nntile::io {

/// The borders of a tensor's tiles, by dimension, the outermost first, as files have them: from 0
/// to the extent. None: the tensor is whole. The shape that they cut has the elements of the file's
/// in the same order, but may have other dimensions.
using Borders = std::vector<std::vector<std::uint64_t>>;

inline Borders borders_of(Tiling const& tiling) {
  Borders borders;
  for (std::size_t d = tiling.rank(); d-- > 0;) {
    AxisTiling const& axis = tiling.axis(d);
    std::vector<std::uint64_t>& of_axis = borders.emplace_back();
    for (Index tile = 0; tile <= axis.count(); ++tile)
      of_axis.push_back(static_cast<std::uint64_t>(axis.begin(tile)));
  }
  return borders;
}
/// The reason for which borders do not cut a tensor of that shape; empty where they do.
inline std::string borders_problem(Borders const& borders, FileShape const& shape) {
  if (borders.empty() || borders.size() > max_rank)
    return concat("it has ", borders.size(), " dimensions of borders where 1 to ", max_rank,
                  " are possible");
  FileShape cut;
  for (auto const& of_axis : borders) {
    if (of_axis.size() < 2 || of_axis[0] != 0 || of_axis.back() >> 48 != 0 ||
        ((of_axis.size() > 2 || of_axis[1] != 0) &&
         std::adjacent_find(of_axis.begin(), of_axis.end(), std::greater_equal<>()) !=
             of_axis.end()))
      return "its borders do not ascend from 0";
    cut.push_back(of_axis.back());
  }
  auto const bytes = byte_count(FileDType::u8, cut);
  if (!bytes) return concat("its borders are those of ", to_string(cut), ", which is too large");
  if (bytes == byte_count(FileDType::u8, shape)) return "";
  return concat("its borders are those of ", to_string(cut), ", its shape is ", to_string(shape));
}
/// Of borders without a problem.
inline Tiling tiling_of(Borders const& borders) {
  std::vector<AxisTiling> axes;
  for (std::size_t d = borders.size(); d-- > 0;) {
    std::vector<Index> sizes;
    for (std::size_t i = 1; i < borders[d].size(); ++i)
      sizes.push_back(static_cast<Index>(borders[d][i] - borders[d][i - 1]));
    axes.push_back(sizes.size() == 1 ? AxisTiling::whole(sizes[0]) : AxisTiling::sizes(sizes));
  }
  return Tiling(std::move(axes));
}

/// The name of a tile in its file: "h.0.weight#t1,0", its place in the grid, the outermost first.
inline std::string piece_name(std::string_view tensor, Tiling const& tiling, Index tile) {
  std::string name = concat(tensor, "#t");
  Shape const at = tiling.position(tile);
  for (std::size_t d = at.size(); d-- > 0;) name += concat(at[d], d == 0 ? "" : ",");
  return name;
}
inline FileShape piece_shape(Tiling const& tiling, Index tile) {
  return file_shape_of(tiling.box(tile).extent);
}

/// The file of one rank of several: "model-00002-of-00004.safetensors".
inline std::string rank_file(std::string_view file, int rank, int ranks) {
  if (ranks == 1) return std::string(file);
  auto const five = [](int number) {
    std::string const digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  std::size_t const dot = file.rfind('.');
  return concat(file.substr(0, dot), '-', five(rank + 1), "-of-", five(ranks), file.substr(dot));
}
/// Whether a name is that of `file`, or of one rank's part of it.
inline bool is_rank_file(std::string_view name, std::string_view file) {
  if (name == file) return true;
  std::size_t const dot = file.rfind('.');
  if (!name.starts_with(file.substr(0, dot)) || !name.ends_with(file.substr(dot))) return false;
  std::string_view const middle = name.substr(dot, name.size() - file.size());
  std::size_t const of = middle.find("-of-");
  auto const number = [](std::string_view text) {
    return text.size() >= 5 && text.size() <= 9 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return middle.starts_with('-') && of != std::string_view::npos && of > 0 &&
         number(middle.substr(1, of - 1)) && number(middle.substr(of + 4));
}

}  // namespace nntile::io
