#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads tensors from a safetensors file.

#include "nntile/io/file.hh"
#include "nntile/io/safetensors_parse.hh"

namespace nntile::io {

/// An open safetensors file whose header has passed every check. Tensors are read by position, in
/// any order, into the caller's memory; the file's data need not be aligned. Throws FormatError
/// when the file is malformed or ends early.
class SafetensorsFile {
 public:
  /// Reads and checks the header. Allocates after the sizes have been compared with the file's.
  static SafetensorsFile open(std::string const& path, Reading reading = Reading::lenient,
                              Fault const* fault = nullptr) {
    return detail::with_memory_for("read", path,
                                   [&] { return of(File::open(path, fault), reading); });
  }
  /// The same for a file that is open already.
  static SafetensorsFile of(File file, Reading reading = Reading::lenient) {
    return SafetensorsFile(std::move(file), reading);
  }

  std::string const& path() const { return file_.path(); }
  /// Closes the file, whose entries stay known, until it is there again.
  void close() {
    is_open_ = false;
    file_.close();
  }
  void reopen(File file) {
    file_ = std::move(file);
    is_open_ = true;
  }
  bool is_open() const { return is_open_; }

  /// All tensors, in the order of their data.
  FileHeader const& entries() const { return header_; }
  /// An object of strings, or null.
  JsonView metadata() const { return header_.metadata(); }
  /// Bytes in front of the data.
  std::uint64_t data_begin() const { return data_begin_; }

  /// The tensor of that name, if there is one. Cost: log n comparisons.
  std::optional<TensorEntry> find(std::string_view name) const {
    auto const at = header_.find(name);
    return at ? std::optional(header_[*at]) : std::nullopt;
  }
  TensorEntry at(std::string_view name) const {
    auto entry = find(name);
    if (!entry) throw FormatError(concat(path_in_quotes(path()), ": no tensor ", in_quotes(name)));
    return std::move(*entry);
  }

  /// Reads a whole tensor. Throws ShapeError when `out` has another size.
  void read(TensorEntry const& entry, std::span<std::byte> out) const {
    if (out.size() != entry.bytes()) out_of_range(entry, 0, out.size());
    read(entry, 0, out);
  }

  /// Reads from byte `offset` of a tensor as far as `out` is long.
  void read(TensorEntry const& entry, std::uint64_t offset, std::span<std::byte> out) const {
    if (offset > entry.bytes() || out.size() > entry.bytes() - offset)
      out_of_range(entry, offset, out.size());
    file_.read_at(data_begin_ + entry.begin + offset, out);
    if (entry.dtype == FileDType::boolean)
      for (std::byte const value : out)
        if (value > std::byte{1})
          throw FormatError(concat(path_in_quotes(path()), ": ", in_quotes(entry.name),
                                   " is BOOL but holds a byte of value ", static_cast<int>(value)));
  }

 private:
  SafetensorsFile(File file, Reading reading) : file_(std::move(file)) {
    std::uint64_t const bytes = file_.size();
    if (bytes < 8)
      throw FormatError(
          concat(path_in_quotes(path()), ": ", bytes, " bytes where a header needs at least 8"));
    std::uint64_t length = 0;
    file_.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > largest_header)
      throw FormatError(concat(path_in_quotes(path()), ": header of ", length,
                               " bytes where at most ", largest_header, " are read"));
    if (length > bytes - 8)
      throw FormatError(
          concat(path_in_quotes(path()), ": header of ", length, " bytes in a file of ", bytes));
    std::string text(length, '\0');
    file_.read_at(8, std::as_writable_bytes(std::span(text.data(), text.size())));
    data_begin_ = 8 + length;
    header_ = parse_header(std::move(text), bytes - data_begin_, path(), reading);
  }

  [[noreturn]] void out_of_range(TensorEntry const& entry, std::uint64_t offset,
                                 std::size_t bytes) const {
    throw ShapeError(concat("read of ", bytes, " bytes at ", offset, " of ", in_quotes(entry.name),
                            ", which has ", entry.bytes(), " in ", path_in_quotes(path())));
  }

  File file_;
  bool is_open_ = true;
  std::uint64_t data_begin_ = 0;
  FileHeader header_;
};

}  // namespace nntile::io
