#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Writes safetensors files, in any order of the tensors and of the bytes of each.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "nntile/io/directory.hh"
#include "nntile/io/safetensors_header.hh"

namespace nntile::io {

/// A tensor that a file is going to hold.
struct TensorSpec {
  std::string name;
  FileDType dtype = FileDType::f32;
  FileShape shape;
};

/// Entries in the order of the reference's writer: wide dtypes first, so that all are aligned, then
/// by name. Throws ValueError for a name that the format or our reader refuses, or one that comes
/// twice; ShapeError for a size that does not fit.
inline std::vector<TensorEntry> lay_out(std::vector<TensorSpec> specs) {
  std::sort(specs.begin(), specs.end(), [](TensorSpec const& a, TensorSpec const& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  std::vector<TensorEntry> entries;
  std::uint64_t at = 0;
  std::set<std::string_view> names;
  for (TensorSpec const& spec : specs) {
    if (std::string const problem = name_problem(spec.name); !problem.empty())
      throw ValueError("safetensors: " + problem);
    if (spec.name == metadata_key)
      throw ValueError(concat("safetensors: ", in_quotes(spec.name), " is no tensor's name"));
    if (is_padding(spec.name))
      throw ValueError(concat("safetensors: ", in_quotes(spec.name), " is no tensor's name: ",
                              "readers skip those that begin with '", padding_prefix, "'"));
    if (!names.insert(spec.name).second)
      throw ValueError(concat("safetensors: ", in_quotes(spec.name), " comes twice"));
    auto const bytes = byte_count(spec.dtype, spec.shape);
    std::uint64_t end = 0;
    bool const extents = std::all_of(spec.shape.begin(), spec.shape.end(),
                                     [](std::uint64_t extent) { return extent <= largest_extent; });
    if (!bytes || !extents || spec.shape.size() > largest_file_rank ||
        __builtin_add_overflow(at, *bytes, &end))
      throw ShapeError(concat("safetensors: ", in_quotes(spec.name), ' ', to_string(spec.shape),
                              " of ", name_of(spec.dtype), " cannot be stored"));
    entries.push_back({spec.name, spec.dtype, spec.shape, at, end});
    at = end;
  }
  return entries;
}

/// Options of a writer.
struct WriteOptions {
  Appear appear = Appear::renamed;
  /// Beside `format`, which is always there, because some loaders ask for it.
  FileMetadata metadata = {};
  Fault const* fault = nullptr;
};

/// A safetensors file being written. All names, dtypes and shapes come first; the data may then
/// come in any order, and commit() checks that all of it came. Without commit() no file stays.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::string path, std::vector<TensorSpec> specs, WriteOptions options = {})
      : entries_(lay_out(std::move(specs))),
        written_(entries_.size()),
        header_(checked_header(path, options.metadata)),
        file_(std::move(path), options.appear, options.fault) {
    for (std::size_t i = 0; i < entries_.size(); ++i) places_.emplace(entries_[i].name, i);
    file_.file().write_at(0, std::as_bytes(std::span(header_.data(), header_.size())));
  }

  /// In the order of their data.
  std::vector<TensorEntry> const& entries() const { return entries_; }
  /// The bytes in front of the data.
  std::string const& header() const { return header_; }
  /// Bytes that the finished file has.
  std::uint64_t file_bytes() const {
    return header_.size() + (entries_.empty() ? 0 : entries_.back().end);
  }

  /// Writes bytes of a tensor from byte `offset` on. Every byte is written once, unless its write
  /// failed. Throws ShapeError beyond its end, ValueError for bytes that were written.
  void write(std::string_view name, std::uint64_t offset, std::span<std::byte const> bytes) {
    auto const found = places_.find(name);
    if (found == places_.end())
      throw ValueError(
          concat(path_in_quotes(file_.path()), ": no tensor ", in_quotes(name), " was announced"));
    TensorEntry const& entry = entries_[found->second];
    if (offset > entry.bytes() || bytes.size() > entry.bytes() - offset)
      throw ShapeError(concat("write of ", bytes.size(), " bytes at ", offset, " of ",
                              in_quotes(name), ", which has ", entry.bytes(), " in ",
                              path_in_quotes(file_.path())));
    if (entry.dtype == FileDType::boolean)
      for (std::byte const value : bytes)
        if (value > std::byte{1})
          throw ValueError(concat(in_quotes(name), " is BOOL but holds a byte other than 0 and 1"));
    Written& written = written_[found->second];
    check_unwritten(written, name, offset, bytes.size());
    file_.file().write_at(header_.size() + entry.begin + offset, bytes);
    note(written, offset, bytes.size());
  }
  /// Writes a whole tensor.
  void write(std::string_view name, std::span<std::byte const> bytes) { write(name, 0, bytes); }

  /// Makes the file durable and visible. Throws ValueError when bytes of a tensor are missing.
  void commit() {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (std::uint64_t const bytes = total(written_[i]); bytes != entries_[i].bytes())
        throw ValueError(concat(path_in_quotes(file_.path()), ": ", bytes, " of ",
                                entries_[i].bytes(), " bytes of ", in_quotes(entries_[i].name),
                                " were written"));
    file_.commit();
  }

 private:
  using Written = std::map<std::uint64_t, std::uint64_t>;  // begins and ends, apart: few

  void check_unwritten(Written const& written, std::string_view name, std::uint64_t offset,
                       std::size_t bytes) const {
    auto const behind = written.lower_bound(offset + bytes);
    if (bytes == 0 || behind == written.begin()) return;
    auto const [begin, end] = *std::prev(behind);
    if (end > offset)
      throw ValueError(concat("write of bytes ", offset, " to ", offset + bytes - 1, " of ",
                              in_quotes(name), " in ", path_in_quotes(file_.path()), ": bytes ",
                              begin, " to ", end - 1, " were written"));
  }
  static void note(Written& written, std::uint64_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    auto const next = written.find(offset + bytes);
    std::uint64_t const end = next != written.end() ? next->second : offset + bytes;
    auto const behind = written.lower_bound(offset);
    if (behind != written.begin() && std::prev(behind)->second == offset)
      std::prev(behind)->second = end;
    else
      written.emplace(offset, end);  // may throw: what was written stays noted
    if (next != written.end()) written.erase(next);
  }
  static std::uint64_t total(Written const& written) {
    std::uint64_t bytes = 0;
    for (auto const& [begin, end] : written) bytes += end - begin;
    return bytes;
  }

  std::string checked_header(std::string const& path, FileMetadata metadata) const {
    metadata.emplace("format", "pt");
    std::string text = header_text(entries_, metadata);
    if (text.size() - 8 <= largest_header) return text;
    throw ValueError(concat(path_in_quotes(path), ": ", entries_.size(),
                            " tensors need a header of ", text.size(), " bytes where readers take ",
                            largest_header));
  }

  std::vector<TensorEntry> entries_;
  std::map<std::string_view, std::size_t> places_;  // views of the names in entries_
  std::vector<Written> written_;
  std::string header_;
  PendingFile file_;
};

}  // namespace nntile::io
