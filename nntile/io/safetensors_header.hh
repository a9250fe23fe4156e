#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The header of a safetensors file: dtypes, entries, and the text that a writer makes of them.
// Source: github.com/huggingface/safetensors, safetensors/src/tensor.rs.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/dtype.hh"
#include "nntile/core/shape.hh"
#include "nntile/io/json_text.hh"

namespace nntile::io {

/// Element types of the format, in its alignment order, which is also the writer's (from the last
/// to the first).
enum class FileDType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};
inline constexpr std::size_t file_dtype_count = 22;

namespace detail {
struct FileDTypeFacts {
  std::string_view name;
  std::uint64_t bits;
};
inline constexpr std::array<FileDTypeFacts, file_dtype_count> file_dtypes{
    {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
     {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
     {"I64", 64},        {"U64", 64}}};
}  // namespace detail

constexpr std::string_view name_of(FileDType dtype) {
  return detail::file_dtypes[static_cast<std::size_t>(dtype)].name;
}
constexpr std::uint64_t bits_of(FileDType dtype) {
  return detail::file_dtypes[static_cast<std::size_t>(dtype)].bits;
}

/// The dtype of that name in a file, of whatever compares with a std::string_view.
template <class Name>
requires requires(Name const& name) { name == std::string_view(); }
constexpr std::optional<FileDType> file_dtype_named(Name const& name) {
  for (std::size_t i = 0; i < file_dtype_count; ++i)
    if (name == detail::file_dtypes[i].name) return static_cast<FileDType>(i);
  return std::nullopt;
}

/// The file's dtype of our elements; the fp32_fast tags are fp32.
constexpr FileDType file_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return FileDType::f64;
    case DType::bf16:
      return FileDType::bf16;
    case DType::fp16:
      return FileDType::f16;
    case DType::int64:
      return FileDType::i64;
    case DType::int32:
      return FileDType::i32;
    case DType::boolean:
      return FileDType::boolean;
    case DType::fp32:
    case DType::fp32_fast_tf32:
    case DType::fp32_fast_fp16:
    case DType::fp32_fast_bf16:
      break;
  }
  return FileDType::f32;
}

/// Our dtype for a file's; none for the eleven that we have no elements of.
constexpr std::optional<DType> dtype_from(FileDType dtype) {
  switch (dtype) {
    case FileDType::f64:
      return DType::fp64;
    case FileDType::f32:
      return DType::fp32;
    case FileDType::bf16:
      return DType::bf16;
    case FileDType::f16:
      return DType::fp16;
    case FileDType::i64:
      return DType::int64;
    case FileDType::i32:
      return DType::int32;
    case FileDType::boolean:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

/// Extents as a file lists them, outer to inner (row-major).
using FileShape = std::vector<std::uint64_t>;

/// Ours are column-major, the first index fastest: the same bytes with the extents in reverse.
inline FileShape file_shape_of(Shape const& shape) {
  FileShape result;
  for (std::size_t d = shape.size(); d-- > 0;)
    result.push_back(static_cast<std::uint64_t>(shape[d]));
  return result;
}

/// Throws ShapeError when the rank exceeds ours or an extent 63 bits.
inline Shape shape_from(FileShape const& extents) {
  Shape result;
  if (extents.size() > max_rank)
    throw ShapeError(concat("file shape of rank ", extents.size(), " where at most ", max_rank,
                            " are supported"));
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (extents[d] > static_cast<std::uint64_t>(INT64_MAX))
      throw ShapeError(concat("file extent ", extents[d]));
    result.push_back(static_cast<Index>(extents[d]));
  }
  return result;
}

/// "[2, 3]".
inline std::string to_string(FileShape const& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) text += concat(i == 0 ? "" : ", ", extents[i]);
  return text + "]";
}

/// Bytes of an array; none when they do not fit into 64 bits or an array of a packed type ends
/// inside a byte. As in the reference, a product that overflows before a zero extent comes is
/// refused too.
inline std::optional<std::uint64_t> byte_count(FileDType dtype, FileShape const& extents) {
  std::uint64_t count = 1;
  for (std::uint64_t const extent : extents)
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  if (__builtin_mul_overflow(count, bits_of(dtype), &count) || count % 8 != 0) return std::nullopt;
  return count / 8;
}

/// One tensor of a file.
struct TensorEntry {
  std::string name;
  FileDType dtype = FileDType::f32;
  FileShape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

/// String to string, sorted.
using FileMetadata = std::map<std::string, std::string, std::less<>>;

/// Names of filler entries, which some writers add to align tensors to pages. Readers of models
/// skip them.
inline constexpr std::string_view padding_prefix = "__pad__/";
inline bool is_padding(std::string_view name) { return name.starts_with(padding_prefix); }

inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr std::uint64_t largest_header = 100'000'000;  // bytes; the reference's limit
inline constexpr std::size_t longest_name = 65'536;           // bytes; ours, of what is written
inline constexpr std::size_t largest_file_rank = 64;          // ours
inline constexpr std::uint64_t largest_extent = (std::uint64_t{1} << 48) - 1;  // its schema's

constexpr bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
inline std::string control_problem(char c) {
  return concat("a name holds the control character ",
                static_cast<int>(static_cast<unsigned char>(c)));
}

/// The reason that a writer may not give a tensor this name; empty if it may.
inline std::string name_problem(std::string_view name) {
  if (name.size() > longest_name)
    return concat("name ", in_quotes(name), " is longer than ", longest_name, " bytes");
  auto const control = std::find_if(name.begin(), name.end(), is_control);
  return control == name.end() ? "" : control_problem(*control);
}

/// The bytes in front of the data, length word included, for entries that stand in the order of
/// their data. The same bytes as the reference's, which keeps its metadata unordered: equal with at
/// most one key.
inline std::string header_text(std::vector<TensorEntry> const& entries,
                               FileMetadata const& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += concat('"', metadata_key, "\":", to_text(Json(metadata)));
  for (TensorEntry const& entry : entries) {
    text += concat(text.size() > 1 ? "," : "", json_string(entry.name), ":{\"dtype\":\"",
                   name_of(entry.dtype), "\",\"shape\":", to_text(Json(entry.shape)),
                   ",\"data_offsets\":[", entry.begin, ',', entry.end, "]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  std::uint64_t length = text.size();
  std::string prefix;
  for (int i = 0; i < 8; ++i, length >>= 8) prefix += static_cast<char>(length & 0xffu);
  return prefix + text;
}

}  // namespace nntile::io
