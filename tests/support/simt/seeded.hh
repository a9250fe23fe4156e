// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Copies of kernels with mistakes, of which one at most is made: tests/ops/simt_mutants.py.

#include <span>
#include <string>
#include <vector>

#include "nntile/core/codelet.hh"

namespace nntile::test::simt {

/// The number of the mistake that is made, 0 for none.
inline int seeded_mistake = 0;
inline bool is_seeded(int number) { return seeded_mistake == number; }

/// The copied kernels of a source.
struct Unit {
  std::string name;
  std::span<Codelet const> codelets;
};
std::vector<Unit> seeded_units();

struct Mutant {
  int number;
  std::string kind, source, change;
  std::vector<std::string> units;
};
std::vector<Mutant> mutants();

}  // namespace nntile::test::simt
