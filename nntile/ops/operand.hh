#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An op's statements about its operands; everything else follows from them.

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "nntile/core/access.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/error.hh"
#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// Dtype of an operand: the call's element type, its second one (what a cast reads, labels, an
/// optimizer's states), or one that follows or is fixed.
enum class Kind : std::uint8_t { element, second, accumulator, fp32, fp64, int64, boolean };

/// Element types of a call: of its operands of Kind::element, and of Kind::second; equal where the
/// op has no such operands.
struct ElementTypes {
  DType element = DType::fp32;
  DType second = DType::fp32;
  constexpr bool operator==(ElementTypes const& other) const {
    return element == other.element && second == other.second;
  }
};

/// A view of a table of them. No span: every file that includes an op pays for one more.
class TypeTable {
 public:
  constexpr TypeTable() = default;
  template <std::size_t n>
  constexpr TypeTable(ElementTypes const (&table)[n]) : first_(table), size_(n) {}
  constexpr ElementTypes const* data() const { return first_; }
  constexpr ElementTypes const* begin() const { return first_; }
  constexpr ElementTypes const* end() const { return first_ + size_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr ElementTypes const& operator[](std::size_t i) const { return first_[i]; }

 private:
  ElementTypes const* first_ = nullptr;
  std::size_t size_ = 0;
};

constexpr DType dtype_of_kind(Kind kind, ElementTypes types) {
  switch (kind) {
    case Kind::element:
      return types.element;
    case Kind::second:
      return types.second;
    case Kind::accumulator:
      return accumulator_of(types.element);
    case Kind::fp32:
      return DType::fp32;
    case Kind::fp64:
      return DType::fp64;
    case Kind::int64:
      return DType::int64;
    case Kind::boolean:
      break;
  }
  return DType::boolean;
}

/// Hidden operands that hold a partial result between the tiles of a chain. They exist only where a
/// chain is cut: `narrow` ones only if, besides, the result's dtype is narrower than its
/// accumulator; `phases` ones always then.
enum class Carry : std::uint8_t { none, narrow, phases };

/// The operation that makes one result of those of several canonical groups of a reduced axis.
/// `add` rounds, so it goes by a fixed tree; the others are exact, so that one chain over all
/// groups has their bits: the larger, the one that was chosen among them, a sum of whole numbers.
enum class Combine : std::uint8_t { add, max, select, count };

/// One operand of an op's table. `axes` lists its dimensions, inner to outer, one letter each,
/// separated by blanks; "k..." is a group of any number of dimensions, "d!" is never cut. The same
/// letter on two operands means the same extent and the same tiles. An operand that is not read is
/// a result: `write` overwrites, `update` adds to what is there, unless the op `overwrites` it;
/// `accumulate` is an `update` where Numerics is exact, and in fast mode lets the tasks that add to
/// one tile run in any order: each adds, and none scales what is there or stores a sum at last. A
/// result that lacks an axis of the other operands is reduced over it, in ascending tile order.
struct OperandInfo {
  char const* name = nullptr;  // nvcc takes `{}` of a member without a value for uninitialized
  char const* axes = nullptr;
  Access access = Access::read;
  Kind kind = Kind::element;
  Carry carry = Carry::none;
  Combine combine = Combine::add;
};

inline constexpr std::size_t max_operands = 16;
using Operands = inplace_vector<OperandInfo, max_operands>;

namespace detail {

/// An error's text: operands were given, and the first `most` of a table, but at least `least`, are
/// needed.
inline std::string wrong_count(std::size_t given, Operands const& operands, std::size_t least,
                               std::size_t most) {
  std::string text = concat(given, given == 1 ? " operand" : " operands", " given, but it takes ");
  if (least < most) text += concat(least, " to ");
  text += std::to_string(most);
  for (std::size_t i = 0; i < most; ++i) text += concat(i == 0 ? ": " : ", ", operands[i].name);
  return text;
}

}  // namespace detail

/// The enum beside an op's table, of the same names in the same order.
template <class Name>
concept OperandName = std::is_enum_v<Name> && !requires(Name name) { +name; };

/// An operand by its position in the op's table: made from the enum's name, so that a number where
/// a name belongs does not compile.
class OperandIndex {
 public:
  constexpr OperandIndex() = default;
  template <OperandName Name>
  constexpr OperandIndex(Name name) : position_(static_cast<std::uint8_t>(name)) {}
  /// For code that steps through a table.
  explicit constexpr OperandIndex(std::size_t position)
      : position_(static_cast<std::uint8_t>(position)) {}

  constexpr std::size_t position() const { return position_; }
  friend constexpr bool operator==(OperandIndex, OperandIndex) = default;

 private:
  std::uint8_t position_ = 0;
};

/// Some operands of a table.
class OperandSet {
 public:
  constexpr OperandSet() = default;
  constexpr OperandSet(std::initializer_list<OperandIndex> members) {
    for (OperandIndex const member : members) add(member);
  }
  static constexpr OperandSet all() {
    OperandSet set;
    set.bits_ = ~0u;
    return set;
  }

  constexpr void add(OperandIndex member) { bits_ |= 1u << member.position(); }
  constexpr bool has(OperandIndex member) const { return (bits_ >> member.position() & 1u) != 0; }
  /// Members before this one: its position among arrays that hold the members alone.
  constexpr std::size_t rank(OperandIndex member) const {
    return static_cast<std::size_t>(std::popcount(bits_ & ((1u << member.position()) - 1)));
  }
  /// The member of that rank.
  constexpr OperandIndex at(std::size_t rank) const {
    std::uint32_t left = bits_;
    for (; rank > 0; --rank) left &= left - 1;
    return OperandIndex(static_cast<std::size_t>(std::countr_zero(left)));
  }
  friend constexpr OperandSet operator|(OperandSet a, OperandSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  /// Those of a that b lacks.
  friend constexpr OperandSet operator-(OperandSet a, OperandSet b) {
    a.bits_ &= ~b.bits_;
    return a;
  }
  friend constexpr bool operator==(OperandSet, OperandSet) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// One pass of an op that reduces an axis before it uses it: the operands it touches, and how. On a
/// single tile all phases run in one task (phase -1), in the same sequence of IEEE operations.
struct Phase {
  inplace_vector<Use<OperandIndex>, max_operands> uses;
};
using Phases = inplace_vector<Phase, 4>;

/// The number of dimensions of a group, where an attribute holds it: {'k', ndim, "ndim"}.
struct GroupRank {
  char group;
  int rank;
  char const* attribute = "an attribute";
};
using GroupRanks = inplace_vector<GroupRank, 6>;

}  // namespace nntile
