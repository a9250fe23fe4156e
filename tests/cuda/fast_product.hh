// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Products of fast numerics for the tests: their operands, how a task runs one, and whether it is
// right.

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/lists.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/kernel.hh"
#include "tests/cuda/cublaslt.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"

namespace nntile::test {

/// The entry of fast numerics, as binding finds it.
inline Codelet const& fast_gemm(DType dtype) {
  kernels::join_device_kernels(kernels::cuda::lists(), &kernels::cuda::fast_kernels);
  Codelet const* const found = kernels::find("gemm", dtype, dtype, Mode::fast, Isa::best);
  REQUIRE(found != nullptr);
  REQUIRE(found->cuda != nullptr);
  return *found;
}

/// Half a unit in the last place of what is multiplied, and of what is stored.
inline double unit_of_products(DType dtype) {
  switch (dtype) {
    case DType::fp32_fast_tf32:
    case DType::fp32_fast_fp16:
      return 0x1p-11;
    case DType::fp32_fast_bf16:
      return 0x1p-8;
    default:
      return 0;  // of the operands themselves
  }
}
inline double unit_of(DType dtype) {
  return dtype == DType::fp64   ? 0x1p-53
         : dtype == DType::bf16 ? 0x1p-8
         : dtype == DType::fp16 ? 0x1p-11
                                : 0x1p-24;
}

/// One product, in pieces of k, whose matrices have gaps and whose tiles begin within buffers.
template <DType dtype> struct Problem {
  using S = stored_t<dtype>;
  using T = compute_t<S>;
  using Operand = ops::Gemm::Operand;
  ops::Gemm::Args args{};
  bool biased = false, carried = false;
  std::vector<S> a, b, bias, c;
  std::vector<T> carry;

  /// Columns begin at multiples of `unit` elements, where the gap does.
  Problem(Index m, Index n, Index k, Index batch, bool trans_a, bool trans_b, Index gap,
          unsigned seed, Index unit = 1) {
    auto const padded = [&](Index extent) { return (extent + unit - 1) / unit * unit; };
    args.m = m, args.n = n, args.k = k, args.batch = batch;
    args.trans_a = trans_a, args.trans_b = trans_b, args.alpha = 1;
    args.lda = padded(trans_a ? k : m) + gap;
    args.ldb = padded(trans_b ? n : k) + 2 * gap;
    args.ldc = padded(m) + 3 * gap;
    args.a_offset = gap, args.b_offset = 2 * gap, args.c_offset = gap, args.bias_offset = gap;
    args.a_stride = args.lda * (trans_a ? m : k) + gap;
    args.b_stride = args.ldb * (trans_b ? k : n);
    args.c_stride = args.ldc * n + 2 * gap;
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    auto const fill = [&](std::vector<S>& x, Index count) {
      for (Index i = 0; i < count; ++i) x.push_back(S(static_cast<T>(uniform(engine))));
    };
    fill(a, args.a_offset + args.a_stride * batch);
    fill(b, args.b_offset + args.b_stride * batch);
    fill(bias, args.bias_offset + m);
    fill(c, args.c_offset + args.c_stride * batch);
    carry.assign(c.size(), T(77));
  }

  Status run(Codelet const& codelet, void* workspace = nullptr) {
    std::vector<void*> list{a.data(), b.data()};
    OperandSet present{Operand::a, Operand::b, Operand::c};
    if (biased) list.push_back(bias.data()), present.add(Operand::bias);
    list.push_back(c.data());
    if (carried) list.push_back(carry.data()), present.add(Operand::carry);
    Arguments<ops::Gemm> const given{args, present};
    text[0] = 0;
    return codelet.cuda({list.data(), &given, text, workspace}, &stream);
  }
  /// As a chain of tasks.
  void run(Codelet const& codelet, std::vector<Index> const& pieces, void* workspace = nullptr) {
    ops::Gemm::Args const whole = args;
    Index p = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      args.k = pieces[i];
      args.a_offset = whole.a_offset + (whole.trans_a ? p : p * whole.lda);
      args.b_offset = whole.b_offset + (whole.trans_b ? p * whole.ldb : p);
      args.chain = {i == 0, i + 1 == pieces.size()};
      Status const status = run(codelet, workspace);
      INFO((status.ok() ? "" : status.error));
      REQUIRE(status.ok());
      p += pieces[i];
    }
    args = whole;
  }

  /// The first element that is too far from the definition in fp64, in words.
  std::string deviation(Problem const& before) const {
    auto const widen = [](std::vector<S> const& x) {
      std::vector<double> result;
      for (S const& each : x) result.push_back(static_cast<double>(static_cast<T>(each)));
      return result;
    };
    std::vector<double> wa = widen(a), wb = widen(b), wbias = widen(bias), wc = widen(before.c);
    std::vector<double> magnitude = wc;
    auto const define = [&](ops::Gemm::Args with, std::vector<double>& result) {
      std::vector<void*> list{wa.data(), wb.data()};
      OperandSet present{Operand::a, Operand::b, Operand::c};
      if (biased) list.push_back(wbias.data()), present.add(Operand::bias);
      list.push_back(result.data());
      Arguments<ops::Gemm> const given{with, present};
      ops::Gemm::reference<double>(with, Buffers<ops::Gemm>({list.data(), &given, nullptr}));
    };
    define(args, wc);
    for (auto* const each : {&wa, &wb, &wbias, &magnitude})
      for (double& x : *each) x = std::fabs(x);
    ops::Gemm::Args sizes = args;
    sizes.alpha = std::fabs(args.alpha), sizes.beta = std::fabs(args.beta);
    sizes.activation = Activation::none;
    define(sizes, magnitude);
    double const sums =
        4 * std::sqrt(static_cast<double>(args.k) + 2) * unit_of(accumulator_of(dtype)) +
        2.1 * unit_of_products(dtype);
    auto const got = widen(c);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double const bound = 1.2 * sums * magnitude[i] + unit_of(dtype) * std::fabs(wc[i]) +
                           0x1p-25 * (dtype == DType::fp16);
      bool const is_inside = is_result(static_cast<Index>(i));
      if (is_inside ? std::fabs(got[i] - wc[i]) <= bound : got[i] == wc[i]) continue;
      return concat("c[", i, "] = ", got[i], ", expected ", wc[i], " within ", bound,
                    is_inside ? "" : ", and it is no result");
    }
    return "";
  }
  bool is_result(Index i) const {
    i -= args.c_offset;
    if (i < 0) return false;
    Index const within = i % args.c_stride;
    return within / args.ldc < args.n && within % args.ldc < args.m;
  }

  static inline int stream = 0;
  char text[status_text_bytes] = {};
};

inline std::string all_errors() {
  std::string text;
  for (std::string const& each : cublaslt::errors()) text += each + "; ";
  return text;
}

using Types =
    std::tuple<type_tag<double>, type_tag<float>, type_tag<bf16_t>, type_tag<fp16_t>,
               type_tag<fp32_fast_tf32_t>, type_tag<fp32_fast_fp16_t>, type_tag<fp32_fast_bf16_t>>;
template <class Tag> constexpr DType dtype_of_tag = dtype_of<typename Tag::type>;

}  // namespace nntile::test
