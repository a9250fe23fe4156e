#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Normal numbers in pairs. Source: Box and Muller 1958.

#include "kernels/cpu/angle.hh"
#include "nntile/core/random.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Two uniform numbers: u in (0, 1], a part of a turn in [0, 1).
struct UniformPair {
  double u, turn;
};

/// Those of one Philox block.
NNTILE_ALWAYS_INLINE UniformPair uniform_pair(std::uint64_t key, std::uint64_t block) {
  RandomWords const words = philox(key, block, 0);
  // 53-bit integers: the conversion from signed integers is the one with an instruction.
  auto const a = static_cast<std::int64_t>(bits53(words.word[0], words.word[1]) + 1);
  auto const b = static_cast<std::int64_t>(bits53(words.word[2], words.word[3]));
  return {static_cast<double>(a) * 0x1p-53, static_cast<double>(b) * 0x1p-53};
}

/// The two normal numbers of two uniform ones.
NNTILE_ALWAYS_INLINE void normal_pair(Vec<double> u, Vec<double> turn, Vec<double>& even,
                                      Vec<double>& odd) {
  using V = Vec<double>;
  V const radius = sqrt(V(-2) * log(u));
  V sine, cosine;
  sin_cos_turn(turn, sine, cosine);
  even = radius * cosine;
  odd = radius * sine;
}

}  // namespace nntile::kernels::NNTILE_ISA
