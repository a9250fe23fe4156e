#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// From axes strings and shapes to a table of axes: shape inference and shape errors of every op.

#include <algorithm>
#include <span>
#include <string>

#include "nntile/core/dims.hh"
#include "nntile/core/error.hh"
#include "nntile/core/tiling.hh"
#include "nntile/ops/operand.hh"

namespace nntile {

/// One axis of an op: a letter, its place within the letter's group, whether it stays whole, and
/// its extent, which may be open in a graph: then it is a number below all extents, the same for
/// equal names of one call.
struct Axis {
  char group = 0;
  std::uint8_t within = 0;
  bool whole = false;
  Index extent = unknown;

  static constexpr Index unknown = -1;
  /// Stands for the open dimension number k of a call.
  static constexpr Index open_extent(std::size_t k) { return unknown - 1 - static_cast<Index>(k); }
  constexpr bool open() const { return extent < unknown; }
};

inline constexpr std::size_t max_axes = 16;

/// The axes of one call of an op, in order of first appearance, and which of them each operand's
/// dimensions are.
struct AxisTable {
  inplace_vector<Axis, max_axes> axes;
  inplace_vector<inplace_vector<std::uint8_t, max_rank>, max_operands> operands;
  /// The operands of the op's table that the call has: those of `operands`, in their order.
  OperandSet present = OperandSet::all();

  /// Whether some extent is open.
  bool open() const {
    for (Axis const& axis : axes)
      if (axis.open()) return true;
    return false;
  }
  /// Elements along a group in the whole tensors.
  Index whole(char group) const {
    Index product = 1;
    for (Axis const& axis : axes)
      if (axis.group == group) product *= axis.extent;
    return product;
  }
  /// Shape of an operand, from the extents that the others gave.
  Shape shape(std::size_t operand) const {
    Shape result;
    for (auto const axis : operands[operand]) result.push_back(axes[axis].extent);
    return result;
  }
  Shape shape(OperandIndex operand) const { return shape(present.rank(operand)); }
};

namespace detail {

struct AxisToken {
  char group;
  bool many;
  bool whole;
};

constexpr inplace_vector<AxisToken, max_rank> axis_tokens(char const* text) {
  inplace_vector<AxisToken, max_rank> tokens;
  while (*text != 0) {
    if (*text == ' ') {
      ++text;
      continue;
    }
    AxisToken token{*text++, false, false};
    for (; *text == '.' || *text == '!'; ++text) (*text == '.' ? token.many : token.whole) = true;
    tokens.push_back(token);
  }
  return tokens;
}

inline constexpr int unknown_rank = -1;

/// Ranks of the groups, whatever their letters; groups that are not "..." have rank 1.
class GroupTable {
 public:
  GroupTable() {
    for (int& rank : ranks_) rank = unknown_rank;
  }
  int& operator[](char group) { return ranks_[static_cast<unsigned char>(group)]; }

 private:
  int ranks_[256];
};

/// Settles the rank of every group that one operand's rank determines; true when something was
/// learnt.
inline bool learn_rank(GroupTable& ranks, char const* axes, Shape const& shape) {
  char open = 0;
  int known = 0;
  for (AxisToken const token : axis_tokens(axes)) {
    int& rank = ranks[token.group];
    if (!token.many) rank = 1;
    if (rank == unknown_rank) {
      if (open != 0) return false;  // two unknown groups: another operand must decide
      open = token.group;
    } else {
      known += rank;
    }
  }
  if (open == 0 || static_cast<int>(shape.size()) < known) return false;
  ranks[open] = static_cast<int>(shape.size()) - known;
  return true;
}

/// Refuses an operand whose axes, as far as their ranks are known, are more than a tensor has.
inline void check_rank(char const* op, OperandInfo const& operand, GroupTable& ranks) {
  Index dimensions = 0;
  for (AxisToken const token : axis_tokens(operand.axes))
    dimensions += !token.many ? 1 : std::max(ranks[token.group], 0);
  if (dimensions > static_cast<Index>(max_rank))
    throw ShapeError(concat(op, ": operand ", operand.name, " would have ", dimensions,
                            " dimensions, axes \"", operand.axes, "\"; a tensor has at most ",
                            max_rank));
}

inline std::string axis_name(Axis const& axis, GroupTable& ranks) {
  return ranks[axis.group] > 1 ? concat(axis.group, axis.within) : std::string(1, axis.group);
}

}  // namespace detail

/// An operand as the caller has it: its shape where it is known (results may be inferred), what
/// errors call it, and its dimensions where the shape has numbers in place of names.
struct GivenOperand {
  Shape const* shape = nullptr;
  std::string_view name;
  Dims const* dims = nullptr;

  Dims shown() const { return dims != nullptr ? *dims : Dims(*shape); }
};
using GivenOperands = inplace_vector<GivenOperand, max_operands>;

namespace detail {

/// Refuses attributes that count dimensions which an operand lacks, and operands of too few.
inline void check_ranks(char const* op, Operands const& operands, GroupRanks const& given_ranks,
                        GivenOperands const& given) {
  for (GroupRank const& fixed : given_ranks)
    if (fixed.rank < 0)
      throw ShapeError(concat(op, ": ", fixed.attribute, "=", fixed.rank,
                              ", but dimensions are counted upwards from 0, the innermost"));
  for (std::size_t o = 0; o < operands.size(); ++o) {
    if (given[o].shape == nullptr) continue;
    Index needed = 0;
    GroupRank const* by = nullptr;  // the attribute that asks for most of them
    for (AxisToken const token : axis_tokens(operands[o].axes)) {
      if (!token.many) ++needed;
      for (GroupRank const& fixed : given_ranks) {
        if (!token.many || fixed.group != token.group) continue;
        needed += fixed.rank;
        if (by == nullptr || fixed.rank > by->rank) by = &fixed;
      }
    }
    Index const excess = needed - static_cast<Index>(given[o].shape->size());
    if (excess <= 0) continue;
    std::string const attribute = by == nullptr || by->rank == 0
                                      ? std::string()
                                      : concat(by->attribute, "=", by->rank, ", but ");
    std::string const most =
        attribute.empty() || excess > by->rank
            ? std::string()
            : concat("; ", by->attribute, " is at most ", by->rank - excess, " here");
    throw ShapeError(
        concat(op, ": ", attribute, operands[o].name, " ('", given[o].name, "') has shape ",
               to_string(given[o].shown()), ", and axes \"", operands[o].axes, "\" of ", needed,
               needed == 1 ? " dimension" : " dimensions", " or more are needed", most));
  }
}

}  // namespace detail

/// Matches the operands' shapes with their axes strings. Throws ShapeError naming both operands:
/// "gemm: a[k]=512 ('h1') but b[k]=768 ('w2')", or one that would have more than max_rank
/// dimensions. Cost: operands x rank.
inline AxisTable resolve_axes(char const* op, Operands const& operands,
                              GroupRanks const& given_ranks, GivenOperands const& given) {
  detail::GroupTable ranks;
  for (GroupRank const& fixed : given_ranks) ranks[fixed.group] = fixed.rank;
  detail::check_ranks(op, operands, given_ranks, given);
  for (bool learnt = true; learnt;) {
    learnt = false;
    for (std::size_t o = 0; o < operands.size(); ++o)
      if (given[o].shape != nullptr)
        learnt |= detail::learn_rank(ranks, operands[o].axes, *given[o].shape);
  }

  AxisTable table;
  inplace_vector<std::size_t, max_axes> origins;  // the operand that gave each axis its extent
  for (std::size_t o = 0; o < operands.size(); ++o) {
    detail::check_rank(op, operands[o], ranks);
    table.operands.push_back({});
    std::size_t dimension = 0;
    Shape const* const shape = given[o].shape;
    for (auto const token : detail::axis_tokens(operands[o].axes)) {
      if (!token.many) ranks[token.group] = 1;
      int const rank = ranks[token.group];
      if (rank == detail::unknown_rank)
        throw ShapeError(concat(op, ": the rank of axes '", token.group, "' of operand ",
                                operands[o].name, " follows from no operand"));
      for (int within = 0; within < rank; ++within, ++dimension) {
        std::size_t id = 0;
        while (id < table.axes.size() &&
               !(table.axes[id].group == token.group && table.axes[id].within == within))
          ++id;
        if (id == table.axes.size()) {
          table.axes.push_back({token.group, static_cast<std::uint8_t>(within)});
          origins.push_back(o);
        }
        Axis& axis = table.axes[id];
        axis.whole |= token.whole;
        table.operands[o].push_back(static_cast<std::uint8_t>(id));
        if (shape == nullptr || dimension >= shape->size()) continue;
        Index const extent = (*shape)[dimension];
        if (axis.extent == Axis::unknown) {
          axis.extent = extent;
          origins[id] = o;
        } else if (axis.extent != extent) {
          auto const& other = operands[origins[id]];
          std::string const letter = detail::axis_name(axis, ranks);
          std::size_t origin = 0;
          while (table.operands[origins[id]][origin] != id) ++origin;
          Dim const before = given[origins[id]].shown()[origin], here = given[o].shown()[dimension];
          throw ShapeError(concat(op, ": ", other.name, "[", letter, "]=", to_string(before), " ('",
                                  given[origins[id]].name, "') but ", operands[o].name, "[", letter,
                                  "]=", to_string(here), " ('", given[o].name, "')",
                                  before.open() || here.open()
                                      ? "; an open dimension equals that of the same name alone"
                                      : ""));
        }
      }
    }
    if (shape != nullptr && shape->size() != dimension)
      throw ShapeError(concat(op, ": operand ", operands[o].name, " ('", given[o].name,
                              "') has axes \"", operands[o].axes, "\", ", dimension,
                              " dimensions here, but its shape is ", to_string(given[o].shown())));
  }
  for (std::size_t id = 0; id < table.axes.size(); ++id) {
    if (table.axes[id].extent != Axis::unknown) continue;
    OperandInfo const& operand = operands[origins[id]];
    throw ShapeError(concat(op, ": the extent of axis '", table.axes[id].group, "' of ",
                            operand.carry == Carry::none ? "operand " : "hidden operand ",
                            operand.name, " follows from no operand; ",
                            operand.carry == Carry::none ? "declare it and pass it"
                                                         : "add it to the axes of a visible one"));
  }
  return table;
}

}  // namespace nntile
