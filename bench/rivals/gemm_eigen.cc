// SPDX-License-Identifier: BSD-3-Clause
// bench/gemm on Eigen, compiled for the CPU that builds it; with threads where OpenMP is found.

// g++ 12 takes the undefined operand of its own intrinsics for a mistake (fixed in 13); clang knows
// no such warning.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <Eigen/Core>
#pragma GCC diagnostic pop

#include "bench/rivals/gemm.hh"

namespace {

using namespace gemm_bench;

struct Eigen3 {
  template <class T> void operator()(Operands<T> const& x) const {
    using Dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
    Shape const& s = x.shape;
    Eigen::Map<Dense const> const a(x.a.data(), s.lda(), s.trans_a ? s.m : s.k);
    Eigen::Map<Dense const> const b(x.b.data(), s.ldb(), s.trans_b ? s.k : s.n);
    Eigen::Map<Dense> c(x.c.data(), s.m, s.n);
    if (s.trans_a && s.trans_b)
      c.noalias() = a.transpose() * b.transpose();
    else if (s.trans_a)
      c.noalias() = a.transpose() * b;
    else if (s.trans_b)
      c.noalias() = a * b.transpose();
    else
      c.noalias() = a * b;
  }
};

}  // namespace

int main() { return serve(Eigen3{}); }
