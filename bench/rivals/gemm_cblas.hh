#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Products through a CBLAS, whose header has been included before.

#include "bench/rivals/gemm.hh"

namespace gemm_bench {

/// Serves with cblas_sgemm and cblas_dgemm; `Integer` is the library's.
template <class Integer> struct Cblas {
  static auto transposition(bool yes) { return yes ? CblasTrans : CblasNoTrans; }

  void operator()(Operands<float> const& x) const { multiply(x, cblas_sgemm); }
  void operator()(Operands<double> const& x) const { multiply(x, cblas_dgemm); }

 private:
  template <class T, class Function>
  static void multiply(Operands<T> const& x, Function const& gemm) {
    auto const integer = [](Index i) { return static_cast<Integer>(i); };
    Shape const& s = x.shape;
    gemm(CblasColMajor, transposition(s.trans_a), transposition(s.trans_b), integer(s.m),
         integer(s.n), integer(s.k), T(1), x.a.data(), integer(s.lda()), x.b.data(),
         integer(s.ldb()), T(0), x.c.data(), integer(s.m));
  }
};

}  // namespace gemm_bench
