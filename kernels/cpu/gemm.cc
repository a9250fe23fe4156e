// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/gemm.hh"

#include "kernels/cpu/gemm_vector.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// Columns a multiple of half a page apart fall into few sets of the first cache.
template <class T> bool collides(Index ld, Index count) {
  return ld * static_cast<Index>(sizeof(T)) % 2048 == 0 && count > 64;
}

template <class T> bool a_collides(Product<T, T> const& x) { return collides<T>(x.lda, x.k); }
template <class T> bool b_collides(Product<T, T> const& x) {
  return collides<T>(x.ldb, x.trans_b ? x.k : x.n);
}

/// Whether a block of B that has n contiguous stays near, so that it can be used in place: a tile
/// walks across its rows, of which no CPU fetches the next one by itself.
template <class T> bool b_stays_near(Product<T, T> const& x) {
  constexpr Index most = 1 << 20;  // bytes, of the second cache
  return !x.trans_b || (x.k < 256 ? x.k : 256) * x.n * static_cast<Index>(sizeof(T)) <= most;
}

/// Packing pays where what is packed is used often enough: B by many rows, A by many columns,
/// unless few rows keep it near. On a quiet machine A is 3 % faster in place whatever the columns,
/// but where others use the memory 10 % slower. Measured on Zen 5 over squares of 16 to 1024 and
/// GPT-2's products; what stays near, on an Intel Xeon with 2 MiB of second cache.
template <class T> InPlace choose(Product<T, T> const& x) {
  if (sizeof(T) != sizeof(float)) return {false, false};
  constexpr bool wide = Vec<T>::lanes * sizeof(T) == 64;
  bool const few_rows = x.m <= 256 || ((wide || !x.trans_b) && x.m <= 1024);
  bool const b = few_rows && !b_collides(x) && b_stays_near(x);
  bool const few_columns = x.n <= (wide && b ? 256 : 128) || x.m <= 192;
  bool const scattered = a_collides(x) && !(wide && x.n <= 16);
  return {!x.trans_a && x.alpha == T(1) && few_columns && !scattered, b};
}

template <class S>
Product<S, compute_t<S>> product_of(ops::Gemm::Args const& args, KernelCall const& call,
                                    Index batch) {
  using T = compute_t<S>;
  using Operand = ops::Gemm::Operand;
  Buffers<ops::Gemm> const buffers(call);
  S const* const bias = buffers.at<S>(Operand::bias);
  T* const carry = buffers.at<T>(Operand::carry);
  Product<S, T> x{};
  x.m = args.m, x.n = args.n, x.k = args.k;
  x.a = buffers.at<S>(Operand::a) + args.a_offset + batch * args.a_stride;
  x.b = buffers.at<S>(Operand::b) + args.b_offset + batch * args.b_stride;
  x.bias = bias == nullptr ? nullptr : bias + args.bias_offset;
  x.c = buffers.at<S>(Operand::c);
  if (x.c == nullptr)  // a canonical group's, which only the carry holds: neither read nor written
    x.c = reinterpret_cast<S*>(carry);
  x.c += args.c_offset + batch * args.c_stride;
  x.carry = carry == nullptr ? nullptr : carry + args.c_offset + batch * args.c_stride;
  x.lda = args.lda, x.ldb = args.ldb, x.ldc = args.ldc;
  x.trans_a = args.trans_a, x.trans_b = args.trans_b;
  x.chain = args.chain;
  x.alpha = static_cast<T>(args.alpha), x.beta = static_cast<T>(args.beta);
  x.reads_c = args.beta != 0;
  x.activation = args.activation;
  x.left = args.left_terms;
  return x;
}

/// A of at most 144 KiB, k in one piece: straight to tiles.
template <class T> bool small(Product<T, T> const& x) {
  constexpr Index most_rows = 576 / static_cast<Index>(sizeof(T));
  return !x.trans_a && x.alpha == T(1) && x.k <= 256 && x.m <= most_rows && !a_collides(x) &&
         !b_collides(x);
}

template <class T> NNTILE_ALWAYS_INLINE void multiply(Product<T, T> const& x, void* workspace) {
  if (x.left > 0 && x.reads_c) return multiply_narrow(x, workspace);  // C is asked for last
  if (is_vector(x)) return multiply_vector(x);
  if (small(x)) return multiply_in_place(x);
  multiply_blocked(x, choose(x), workspace);
}

/// Bias and activation on the sum of all canonical groups, which is in C, or in the carry: then
/// beta C is added to it first.
template <class S> void finish_groups(ops::Gemm::Args const& args, KernelCall const& call) {
  using T = compute_t<S>;
  for (Index batch = 0; batch < args.batch; ++batch) {
    auto const x = product_of<S>(args, call, batch);
    if (x.carry == nullptr) {
      finish_block(x.finish(), x.m, x.n, static_cast<S const*>(x.c), x.ldc, x.c, x.ldc);
      continue;
    }
    if (x.reads_c) add_scaled(x.beta, static_cast<S const*>(x.c), x.ldc, x.m, x.n, x.carry, x.ldc);
    finish_block(x.finish(), x.m, x.n, static_cast<T const*>(x.carry), x.ldc, x.c, x.ldc);
  }
}

template <class S> struct Gemm {
  using T = compute_t<S>;
  static constexpr std::size_t workspace =
      std::same_as<S, T> ? WideBlocking<T>::bytes : NarrowBlocking<T>::bytes;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Gemm>(call);
    // Before the workspace is asked for: a vendor's entry, which comes by here, states none.
    if (args.finishing) return finish_groups<S>(args, call), Status{};
    if (call.workspace == nullptr) return {no_workspace};
    if (args.m == 0 || args.n == 0) return {};
    for (Index batch = 0; batch < args.batch; ++batch) {
      auto const x = product_of<S>(args, call, batch);
      if constexpr (std::same_as<S, T>)
        multiply(x, call.workspace);
      else
        multiply_narrow(x, call.workspace);
    }
    return {};
  }
};

/// Bias and activation alone, on sums that a vendor's product has left in C.
struct GemmFinish : ops::Gemm {
  static constexpr char const* name = "gemm_finish";
};

template <class S> struct Finishing {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Gemm>(call);
    for (Index batch = 0; batch < args.batch; ++batch) {
      auto const x = product_of<S>(args, call, batch);
      S const* const sums = x.c;
      finish_block(x.finish(), x.m, x.n, sums, x.ldc, x.c, x.ldc);
    }
    return {};
  }
};

constinit auto const kernels =
    join(op_kernels<ops::Gemm, Gemm>(), kernel<GemmFinish, DType::fp32>(&Finishing<float>::run),
         kernel<GemmFinish, DType::fp64>(&Finishing<double>::run));

}  // namespace
NNTILE_KERNEL_LIST(gemm, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
