// SPDX-License-Identifier: BSD-3-Clause
// bench/gemm on BLIS, through its own interface.

#if __has_include(<blis/blis.h>)
#include <blis/blis.h>
#else
#include <blis.h>  // Debian
#endif

#include "bench/rivals/gemm.hh"

namespace {

using namespace gemm_bench;

struct Blis {
  void operator()(Operands<float> const& x) const { multiply(x, bli_sgemm); }
  void operator()(Operands<double> const& x) const { multiply(x, bli_dgemm); }

 private:
  template <class T, class Function> static void multiply(Operands<T> const& x, Function gemm) {
    Shape const& s = x.shape;
    T one = 1, zero = 0;
    gemm(s.trans_a ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE,
         s.trans_b ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, s.m, s.n, s.k, &one, x.a.data(), 1,
         s.lda(), x.b.data(), 1, s.ldb(), &zero, x.c.data(), 1, s.m);
  }
};

}  // namespace

int main() { return serve(Blis{}); }
