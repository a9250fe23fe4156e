#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The problem of bench/gemm, and how a program that solves it answers.
//
// A line "DTYPE TRANS_A TRANS_B M N K REPETITIONS", such as "fp32 1 0 2304 256 768 3", is a product
// C = op(A) op(B) of column-major matrices. It is answered by seconds a repetition, on the wall and
// of CPU time; with 0 repetitions by elements of C. "none": there is no such product here.

#include <time.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "nntile/runtime/support/aligned.hh"

namespace gemm_bench {

using Index = std::int64_t;

/// C[m,n] = sum over k; leading dimensions are the least possible.
struct Shape {
  bool trans_a = false, trans_b = false;
  Index m = 0, n = 0, k = 0;

  Index lda() const { return trans_a ? k : m; }
  Index ldb() const { return trans_b ? n : k; }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  bool operator==(Shape const&) const = default;
};

/// A matrix as our own arenas have it: huge pages where it is large. The same for every rival.
template <class T> class Matrix {
 public:
  explicit Matrix(Index count)
      : data_(static_cast<T*>(
            nntile::support::allocate_aligned(static_cast<std::size_t>(count) * sizeof(T)))) {}
  T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { nntile::support::free_aligned(data); }
  };
  std::unique_ptr<T[], Free> data_;
};

/// Numbers in [-1/2, 1/2). Source of the constants: Numerical Recipes, 7.1.
template <class T> void fill(T* data, Index count, std::uint32_t seed) {
  for (Index i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = static_cast<T>(static_cast<double>(seed >> 8) / (1 << 24) - 0.5);
  }
}

template <class T> struct Operands {
  Shape shape;
  Matrix<T> a, b, c;

  explicit Operands(Shape const& of) : shape(of), a(of.m * of.k), b(of.k * of.n), c(of.m * of.n) {
    fill(a.data(), of.m * of.k, 1);
    fill(b.data(), of.k * of.n, 2);
    fill(c.data(), of.m * of.n, 3);  // touches it
  }
};

/// How many elements of C are compared, and which: the corners and others in between.
constexpr int probes = 16;
inline Index probe(Shape const& shape, int which) {
  Index const row = (shape.m - 1) * (which % 4) / 3, column = (shape.n - 1) * (which / 4) / 3;
  return row + column * shape.m;
}

inline double wall() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}
inline double cpu() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds a repetition of `work`, after one that does not count where that costs little.
struct Seconds {
  double wall = 0, cpu = 0;
};
template <std::invocable Work> Seconds time(double flops, int repetitions, Work work) {
  if (flops < 4e10) work();  // others have just had the caches
  double const wall_begin = wall(), cpu_begin = cpu();
  for (int i = 0; i < repetitions; ++i) work();
  return {(wall() - wall_begin) / repetitions, (cpu() - cpu_begin) / repetitions};
}

/// Answers one line; multiply(operands) is the rival's product.
template <class T, class Multiply>
void answer(std::optional<Operands<T>>& operands, Shape const& shape, int repetitions,
            Multiply multiply) {
  if (!operands || operands->shape != shape) {
    operands.reset();  // the old ones first
    operands.emplace(shape);
  }
  if (repetitions == 0) {
    multiply(*operands);
    for (int i = 0; i < probes; ++i)
      std::printf("%.17g ", static_cast<double>(operands->c.data()[probe(shape, i)]));
  } else {
    Seconds const s = time(shape.flops(), repetitions, [&] { multiply(*operands); });
    std::printf("%.9g %.9g", s.wall, s.cpu);
  }
}

/// Answers standard input. `multiply` takes Operands<float> and, where it can, Operands<double>.
template <class Multiply> int serve(Multiply multiply) {
  char line[128], dtype[16];
  std::optional<Operands<float>> singles;
  std::optional<Operands<double>> doubles;
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    int trans_a = 0, trans_b = 0, repetitions = 0;
    long long m = 0, n = 0, k = 0;
    if (std::sscanf(line, "%15s %d %d %lld %lld %lld %d", dtype, &trans_a, &trans_b, &m, &n, &k,
                    &repetitions) != 7)
      return 1;
    Shape const shape{trans_a != 0, trans_b != 0, m, n, k};
    if (std::strcmp(dtype, "fp32") == 0) {
      doubles.reset();
      answer(singles, shape, repetitions, multiply);
    } else if constexpr (std::invocable<Multiply, Operands<double> const&>) {
      singles.reset();
      answer(doubles, shape, repetitions, multiply);
    } else {
      std::printf("none");
    }
    std::puts("");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace gemm_bench
