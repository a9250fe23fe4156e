// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Checks of test programs that mpiexec starts, whose ranks share no Catch session.

#include <mpi.h>

#include <cstdio>
#include <string>

namespace nntile::test {

/// Checks of this rank that did not hold.
inline int problems = 0;

/// Notes and prints a check that does not hold, with the rank.
inline void expect(bool condition, std::string const& text) {
  if (condition) return;
  ++problems;
  int rank = 0;
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
}

}  // namespace nntile::test
