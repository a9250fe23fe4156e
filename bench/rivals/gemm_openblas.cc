// SPDX-License-Identifier: BSD-3-Clause
// bench/gemm on OpenBLAS.

#include <cblas.h>

#include "bench/rivals/gemm_cblas.hh"

int main() { return gemm_bench::serve(gemm_bench::Cblas<blasint>{}); }
