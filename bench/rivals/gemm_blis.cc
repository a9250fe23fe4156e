// SPDX-License-Identifier: BSD-3-Clause
// bench/gemm on BLIS, through its own interface.

#if __has_include(<blis/blis.h>)
#include <blis/blis.h>
#else
#include <blis.h>  // Debian
#endif

#include <cstdlib>
#include <string>

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

/// BLIS 0.9 reads BLIS_ARCH_TYPE as a number, which is another in each version, and any name as 0.
void number_architecture() {
  char const* const value = std::getenv("BLIS_ARCH_TYPE");
  std::string const name = value == nullptr ? "" : value;
  if (name != "skx" && name != "haswell") return;
  int const number = name == "skx" ? BLIS_ARCH_SKX : BLIS_ARCH_HASWELL;
  setenv("BLIS_ARCH_TYPE", std::to_string(number).c_str(), 1);
}

}  // namespace

int main() {
  number_architecture();
  return serve(Blis{});
}
