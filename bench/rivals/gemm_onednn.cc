// SPDX-License-Identifier: BSD-3-Clause
// bench/gemm on oneDNN, which has no product of doubles.

#include <dnnl.h>

#include "bench/rivals/gemm.hh"

namespace {

using namespace gemm_bench;

/// Its matrices are row-major: computes the transpose of all three.
struct OneDnn {
  void operator()(Operands<float> const& x) const {
    Shape const& s = x.shape;
    if (dnnl_sgemm(s.trans_b ? 'T' : 'N', s.trans_a ? 'T' : 'N', s.n, s.m, s.k, 1, x.b.data(),
                   s.ldb(), x.a.data(), s.lda(), 0, x.c.data(), s.m) != dnnl_success)
      std::exit(1);
  }
};

}  // namespace

int main() { return serve(OneDnn{}); }
