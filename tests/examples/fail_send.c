/* SPDX-License-Identifier: BSD-3-Clause
 * Preloaded into one rank: MPI fails the send of that number, counted from 1, and nothing else. */
#include <mpi.h>
#include <stdlib.h>

static int fails(void) {
  static int sends = 0;
  char const* const number = getenv("NNTILE_FAIL_SEND");
  return number != NULL && ++sends == atoi(number);
}

int MPI_Isend(void const* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return fails() ? MPI_ERR_OTHER : PMPI_Isend(bytes, count, type, to, tag, comm, request);
}
#if MPI_VERSION >= 4
int MPI_Isend_c(void const* bytes, MPI_Count count, MPI_Datatype type, int to, int tag,
                MPI_Comm comm, MPI_Request* request) {
  return fails() ? MPI_ERR_OTHER : PMPI_Isend_c(bytes, count, type, to, tag, comm, request);
}
#endif
