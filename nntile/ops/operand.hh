#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What an op says about its operands; everything else follows from it.

#include <cstdint>

#include "nntile/core/access.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// Dtype of an operand, given the op's own dtype T (and U, the source of a cast).
enum class Kind : std::uint8_t { element, source, accumulator, fp32, fp64, int64, boolean };

constexpr DType dtype_of_kind(Kind kind, DType element, DType source) {
  switch (kind) {
    case Kind::element:
      return element;
    case Kind::source:
      return source;
    case Kind::accumulator:
      return accumulator_of(element);
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

/// One operand. `axes` lists its dimensions, inner to outer, one letter each, separated by blanks;
/// "k..." is a group of any number of dimensions, "d!" is never cut. The same letter on two
/// operands means the same extent and the same tiles. An operand that is not read is a result:
/// `write` overwrites, `update` adds to what is there, unless the op `overwrites` it. A result that
/// lacks an axis of the other operands is reduced over it, tile after tile, upwards.
struct Operand {
  char const* name;
  char const* axes;
  Access access = Access::read;
  Kind kind = Kind::element;
  Carry carry = Carry::none;
};

inline constexpr std::size_t max_operands = 16;
using Operands = inplace_vector<Operand, max_operands>;

/// One pass of an op that reduces an axis before it uses it: the operands it touches, by position,
/// and how. On a single tile all phases run in one task (phase -1), in the same sequence of IEEE
/// operations.
struct PhaseUse {
  std::uint8_t operand;
  Access access;
};
struct Phase {
  inplace_vector<PhaseUse, max_operands> uses;
};
using Phases = inplace_vector<Phase, 4>;

/// How many dimensions a group has, where an attribute says so: {'k', ndim, "ndim"}.
struct GroupRank {
  char group;
  int rank;
  char const* attribute = "an attribute";
};
using GroupRanks = inplace_vector<GroupRank, 6>;

}  // namespace nntile
