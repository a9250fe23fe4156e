// SPDX-License-Identifier: BSD-3-Clause
// What a user with MPI ranks compiles, where MPI is installed.
#include <nntile/comm/mpi.hh>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    nntile::MpiComm ranks(MPI_COMM_WORLD);
    ranks.barrier();
  }
  MPI_Finalize();
}
