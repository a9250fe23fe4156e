#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Names that are known by their places in a list.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nntile/graph/name_table.hh"

namespace nntile {

/// Names in the order in which they came, each once.
class NameList {
 public:
  explicit NameList(std::string first) { names_.push_back(static_cast<std::string&&>(first)); }

  std::vector<std::string> const& names() const { return names_; }

  /// The place of a name, which is added where it is not there. Throws std::bad_alloc, having
  /// changed nothing. Cost: O(1).
  std::uint32_t place(std::string const& name) {
    std::uint32_t* at = places_.find(name);
    if (at == nullptr) at = &places_.add(name, 0);
    if (*at >= names_.size() || names_[*at] != name) {  // not of this name, or of one cut off
      names_.push_back(name);
      *at = static_cast<std::uint32_t>(names_.size() - 1);
    }
    return *at;
  }
  /// Takes back all behind the first `count`. Throws nothing.
  void cut(std::size_t count) {
    while (names_.size() > count) names_.pop_back();
  }

 private:
  std::vector<std::string> names_;
  NameTable places_;  // also of names that are not there: each place is compared
};

}  // namespace nntile
