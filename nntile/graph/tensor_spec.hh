#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Descriptions of tensors in graphs and plans.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "nntile/core/dims.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/utf8.hh"

namespace nntile {

/// No tensor, task or slot, where a list is pointed into.
inline constexpr std::uint32_t no_id = ~0u;

/// Description of a tensor, apart from its name. A dimension of `shape` is a number, or a name that
/// planning binds to one: {512, "seq", "batch"}. `axes` names its dimensions, inner to outer
/// ("embed seq batch"): tilings and canonical groups are asked for by these names. `file_shape` is
/// the row-major shape in files where it is not simply the dimensions reversed; the bytes are the
/// same.
struct TensorSpec {
  Dims shape;
  DType dtype = DType::fp32;
  std::string axes = {};
  Shape file_shape = {};
  bool operator==(TensorSpec const&) const = default;
};

/// The names of a tensor's axes, one blank between two; an empty one leaves its dimension nameless.
/// A blank behind the last one is of no dimension where there is none for it.
inline DynamicArray<std::string_view> axis_names(TensorSpec const& spec) {
  DynamicArray<std::string_view> names;
  std::string_view axes = spec.axes;
  if (axes.find_first_not_of(' ') == axes.npos) return names;
  for (bool more = true; more;) {
    std::size_t const end = std::min(axes.find(' '), axes.size());
    names.push_back(axes.substr(0, end));
    more = end < axes.size();
    if (more) axes.remove_prefix(end + 1);
  }
  if (names.size() == spec.shape.size() + 1 && names.back().empty()) names.pop_back();
  return names;
}

namespace detail {

/// Throws GraphError for a text that has control characters or is no UTF-8; `words` say what it is.
template <class... Words> void check_text(std::string_view text, Words const&... words) {
  for (char const c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw GraphError(concat(words..., ", ", text.size(), " bytes, holds the control character ",
                              static_cast<int>(static_cast<unsigned char>(c)),
                              "; no file could name it"));
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(utf8_length(rest)))
    if (utf8_length(rest) == 0)
      throw GraphError(concat(words..., ", ", text.size(), " bytes, is no UTF-8 from byte ",
                              text.size() - rest.size(), " on; no file could name it"));
}

}  // namespace detail

/// From these follow the roles: parameter = persistent and requires_grad; state = persistent; input
/// = external; constant = persistent and external; an output is kept until the next run.
struct TensorAttributes {
  bool requires_grad = false;
  bool persistent = false;
  bool external = false;
  bool output = false;
  bool operator==(TensorAttributes const&) const = default;
};

/// The kind of a tensor, in the text of an error.
constexpr char const* kind_of(TensorAttributes const& attributes) {
  if (attributes.external) return attributes.persistent ? "a constant" : "an input";
  if (!attributes.persistent) return "a result";
  return attributes.requires_grad ? "a parameter" : "a state";
}

/// The storage of a planned tensor: kept by the store, in slots of the arena, another tensor's, the
/// caller's memory, or kept by the store in two buffers that are bound in turn.
enum class Storage : std::uint8_t { stored, arena, view, adopted, double_buffered };

constexpr char const* name_of(Storage storage) {
  constexpr char const* names[] = {"stored", "arena", "view", "adopted", "double_buffered"};
  return names[static_cast<int>(storage)];
}

}  // namespace nntile
