#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Moves tensors between files and any storage, in pieces, through callbacks.

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "nntile/core/nan.hh"
#include "nntile/io/hash.hh"
#include "nntile/io/pieces.hh"
#include "nntile/io/safetensors.hh"

namespace nntile::io {

/// A tensor that can be read. Bytes are in a file's order (row-major in `shape`, which is
/// column-major in our reversed shape); a request begins at `offset` bytes and covers whole rows of
/// shape[0]. Requests come upwards, each byte once.
struct TensorSource {
  std::string name;
  DType dtype = DType::fp32;
  FileShape shape;
  std::function<void(std::uint64_t offset, std::span<std::byte> out)> read;
};

/// A tensor that can be written, by the same rules.
struct TensorTarget {
  std::string name;
  DType dtype = DType::fp32;
  FileShape shape;
  std::function<void(std::uint64_t offset, std::span<std::byte const> bytes)> write;
  /// Whether it takes anything of that tile of a tensor that is cut so, or, without borders, of the
  /// whole: what it does not want may be given as any bytes. All, where it does not say.
  std::function<bool(Borders const& borders, Index tile)> wants = {};
  /// Lets go of what it holds between writes; called where a load throws, which may be another
  /// tensor's. What was written is of no use then, and the next write begins anew.
  std::function<void()> abandon = {};
};

/// A tensor that ranks write together, each what it holds: one of them all of it, or several its
/// tiles.
struct TensorShare {
  std::string name;
  DType dtype = DType::fp32;
  FileShape shape;
  Borders borders = {};  // none: one rank writes it whole
  /// The sources that this rank writes: the tensor, or tiles under their piece_name().
  std::vector<TensorSource> own = {};
};

/// Bytes that are held in memory at once: more only where one row of a tensor is longer.
inline constexpr std::uint64_t default_piece_bytes = std::uint64_t{4} << 20;

namespace detail {

/// Calls f(offset, bytes) for pieces of whole rows that cover a tensor of `bytes` bytes.
template <class F>
void for_each_piece(FileShape const& shape, std::uint64_t bytes, std::uint64_t piece_bytes, F f) {
  if (bytes == 0) return;
  std::uint64_t const row = shape.empty() ? bytes : bytes / shape[0];
  std::uint64_t const piece = std::max<std::uint64_t>(1, piece_bytes / row) * row;
  for (std::uint64_t at = 0; at < bytes; at += piece) f(at, std::min(piece, bytes - at));
}

/// A buffer that grows to the largest piece and is reused.
class PieceBuffer {
 public:
  std::span<std::byte> of(std::uint64_t bytes) {
    if (bytes > memory_.size()) memory_.resize(bytes);
    return std::span(memory_).first(bytes);
  }

 private:
  std::vector<std::byte> memory_;
};

/// Bytes of a tensor that the caller describes. Throws ShapeError that names it when they do not
/// fit into 64 bits.
template <class Described> std::uint64_t bytes_of_tensor(Described const& tensor) {
  auto const bytes = byte_count(file_dtype_of(tensor.dtype), tensor.shape);
  if (!bytes)
    throw ShapeError(concat(in_quotes(tensor.name), ' ', to_string(tensor.shape), " is too large"));
  return *bytes;
}

/// The tensor whose bytes are those of memory. Throws ShapeError where it has others.
template <class Described>
Described in_memory(Described tensor, std::span<std::byte const> memory) {
  if (std::uint64_t const bytes = bytes_of_tensor(tensor); bytes != memory.size())
    throw ShapeError(concat(in_quotes(tensor.name), ' ', to_string(tensor.shape), " of ",
                            name_of(file_dtype_of(tensor.dtype)), " has ", bytes,
                            " bytes, the memory given for it ", memory.size()));
  return tensor;
}

/// "F32 [2, 3]".
inline std::string describe(FileDType dtype, FileShape const& shape) {
  return concat(name_of(dtype), ' ', to_string(shape));
}

}  // namespace detail

/// A source that reads contiguous memory, which outlives it. Throws ShapeError where that has more
/// or fewer bytes than the tensor.
inline TensorSource source_of(std::string name, DType dtype, Shape const& shape,
                              std::span<std::byte const> memory) {
  return detail::in_memory(TensorSource{std::move(name), dtype, file_shape_of(shape),
                                        [memory](std::uint64_t offset, std::span<std::byte> out) {
                                          std::copy_n(
                                              memory.begin() + static_cast<std::ptrdiff_t>(offset),
                                              out.size(), out.begin());
                                        }},
                           memory);
}

/// A target that fills contiguous memory, by the same rules.
inline TensorTarget target_of(std::string name, DType dtype, Shape const& shape,
                              std::span<std::byte> memory) {
  return detail::in_memory(
      TensorTarget{std::move(name), dtype, file_shape_of(shape),
                   [memory](std::uint64_t offset, std::span<std::byte const> bytes) {
                     std::copy(bytes.begin(), bytes.end(),
                               memory.begin() + static_cast<std::ptrdiff_t>(offset));
                   }},
      memory);
}

/// The hash of names, dtypes, shapes and bytes of all tensors, in the order of their names: equal
/// for equal tensors, however they are tiled or held. NaNs of a dtype are one. (Checksums of files
/// are of their bytes as they are.)
inline std::uint64_t hash_tensors(std::span<TensorSource const> tensors) {
  std::vector<TensorSource const*> sorted;
  for (TensorSource const& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](auto const* a, auto const* b) { return a->name < b->name; });
  Hash64 hash;
  detail::PieceBuffer buffer;
  for (TensorSource const* const tensor : sorted) {
    hash.update(tensor->name.size());
    hash.update(std::string_view(tensor->name));
    hash.update(static_cast<std::uint64_t>(file_dtype_of(tensor->dtype)));
    hash.update(tensor->shape.size());
    for (std::uint64_t const extent : tensor->shape) hash.update(extent);
    detail::for_each_piece(tensor->shape, detail::bytes_of_tensor(*tensor), default_piece_bytes,
                           [&](std::uint64_t offset, std::uint64_t bytes) {
                             tensor->read(offset, buffer.of(bytes));
                             unify_nans(tensor->dtype, buffer.of(bytes));
                             hash.update(buffer.of(bytes));
                           });
  }
  return hash.digest();
}

/// Checksum of one tensor in a file that was written.
struct TensorChecksum {
  TensorEntry entry;
  std::uint64_t checksum = 0;
};

/// The parts of a written file.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // of the whole file
  std::vector<TensorChecksum> tensors;
};

/// Writes tensors into one safetensors file and commits it. Blocks: until the file is on the disk.
inline WrittenFile save_tensors(std::string const& path, std::span<TensorSource const> tensors,
                                WriteOptions options = {},
                                std::uint64_t piece_bytes = default_piece_bytes) {
  std::vector<TensorSpec> specs;
  std::map<std::string_view, TensorSource const*> sources;
  for (TensorSource const& tensor : tensors) {
    specs.push_back({tensor.name, file_dtype_of(tensor.dtype), tensor.shape});
    sources.emplace(tensor.name, &tensor);
  }
  return detail::with_memory_for("write", path, [&] {
    SafetensorsWriter writer(path, std::move(specs), std::move(options));
    WrittenFile result{writer.file_bytes(), 0, {}};
    Hash64 whole;
    whole.update(std::string_view(writer.header()));
    detail::PieceBuffer buffer;
    for (TensorEntry const& entry : writer.entries()) {
      Hash64 hash;
      detail::for_each_piece(entry.shape, entry.bytes(), piece_bytes,
                             [&](std::uint64_t offset, std::uint64_t bytes) {
                               std::span<std::byte> const piece = buffer.of(bytes);
                               sources.at(entry.name)->read(offset, piece);
                               hash.update(piece);
                               whole.update(piece);
                               writer.write(entry.name, offset, piece);
                             });
      result.tensors.push_back({entry, hash.digest()});
    }
    writer.commit();
    result.checksum = whole.digest();
    return result;
  });
}

namespace detail {

/// Calls fill(), which writes to the targets; where it throws, they let go of what they hold.
template <class Fill> void fill_or_abandon(std::span<TensorTarget const> targets, Fill fill) {
  try {
    fill();
  } catch (...) {
    for (TensorTarget const& target : targets)
      if (target.abandon) target.abandon();
    throw;
  }
}

/// Compares what files hold with what is wanted, then reads. `find(name)` is a LocatedTensor, and
/// throws where there is none.
template <class Find>
void load_located(std::span<TensorTarget const> targets, Find find, std::uint64_t piece_bytes) {
  std::vector<LocatedTensor> located;
  for (TensorTarget const& target : targets) {
    auto const& [file, entry] = located.emplace_back(find(target.name));
    FileDType const dtype = file_dtype_of(target.dtype);
    if (entry.dtype != dtype || entry.shape != target.shape)
      throw FormatError(concat(path_in_quotes(file->path()), ": ", in_quotes(target.name), " is ",
                               describe(entry.dtype, entry.shape), " there but ",
                               describe(dtype, target.shape), " here"));
  }
  PieceBuffer buffer;
  fill_or_abandon(targets, [&] {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      LocatedTensor const& from = located[i];
      for_each_piece(from.entry.shape, from.entry.bytes(), piece_bytes,
                     [&](std::uint64_t offset, std::uint64_t bytes) {
                       from.file->read(from.entry, offset, buffer.of(bytes));
                       targets[i].write(offset, buffer.of(bytes));
                     });
    }
  });
}

/// The end of an error for a caller without targets.
inline constexpr std::string_view nothing_to_load =
    ", and no tensor was given to load it into; a store has tensors once graphs are compiled on it";

using Names = std::set<std::string_view>;
inline Names names_of(std::span<TensorTarget const> targets) {
  Names names;
  for (TensorTarget const& target : targets) names.insert(target.name);
  return names;
}

inline void refuse_unwanted(Names const& wanted, std::string_view name, std::string const& path) {
  if (is_padding(name) || wanted.contains(name)) return;
  if (wanted.empty())
    throw FormatError(
        concat(path_in_quotes(path), " has tensor ", in_quotes(name), nothing_to_load));
  throw FormatError(concat(path_in_quotes(path), ": tensor ", in_quotes(name),
                           " is not among those to load; Extra::ignored leaves it out"));
}

}  // namespace detail

/// Reads tensors of a safetensors file into targets, after all names, dtypes and shapes have been
/// compared.
inline void load_tensors(SafetensorsFile const& file, std::span<TensorTarget const> targets,
                         Extra extra = Extra::refused,
                         std::uint64_t piece_bytes = default_piece_bytes) {
  detail::with_memory_for("read", file.path(), [&] {
    if (extra == Extra::refused)
      for (detail::Names const wanted = detail::names_of(targets);
           TensorEntry const entry : file.entries())
        detail::refuse_unwanted(wanted, entry.name, file.path());
    detail::load_located(
        targets, [&](std::string const& name) { return LocatedTensor{&file, file.at(name)}; },
        piece_bytes);
  });
}

/// The same from a set of files.
inline void load_tensors(SafetensorsSet const& set, std::span<TensorTarget const> targets,
                         Extra extra = Extra::refused,
                         std::uint64_t piece_bytes = default_piece_bytes) {
  detail::with_memory_for("read", set.path(), [&] {
    if (extra == Extra::refused)
      set.for_each([&, wanted = detail::names_of(targets)](LocatedTensor const& located) {
        detail::refuse_unwanted(wanted, located.entry.name, located.file->path());
      });
    detail::load_located(
        targets, [&](std::string const& name) { return set.at(name); }, piece_bytes);
  });
}

}  // namespace nntile::io
