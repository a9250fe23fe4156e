#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Safetensors files that every reader has to refuse, each broken in one way.

#include <cstdint>
#include <string>
#include <vector>

namespace nntile::test {

struct BrokenFile {
  std::string title;
  std::string bytes;
  std::string words;  // that the refusal holds
};

/// The corpus: headers that are no JSON object, names and entries that lie, numbers that do not
/// fit, holes and overlaps, length words that lie, a file cut at every byte and longer by some.
std::vector<BrokenFile> broken_safetensors();

/// The eight bytes in front of a header.
std::string length_word(std::uint64_t length);
/// A file of this header and that many zeros.
std::string file_of(std::string const& header, std::size_t data_bytes);
/// What stands behind a name: dtype, shape and offsets as JSON.
std::string entry(std::string const& dtype, std::string const& shape, std::string const& offsets);
/// A header of one tensor, 'w'.
std::string one(std::string const& dtype, std::string const& shape, std::string const& offsets);
/// A header of one tensor with an unknown key, whose value is nested `levels` deep.
std::string nested(std::size_t levels);
/// Two tensors and metadata, nothing broken.
std::string valid_safetensors();

}  // namespace nntile::test
