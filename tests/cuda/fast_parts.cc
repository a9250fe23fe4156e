// SPDX-License-Identifier: BSD-3-Clause
// Products of fast numerics whose extents along memory are odd, which the library is asked for in
// parts.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/cuda/products.hh"
#include "nntile/nn/gpt2.hh"
#include "tests/cuda/cublaslt.hh"
#include "tests/cuda/fast_product.hh"
#include "tests/support/catch.hh"
#include "tests/support/simt/runtime.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::cuda::KeptProducts;

namespace {

/// A product that the library was asked for.
struct Asked {
  Index m, n, k;
  double beta = 0;
  int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool operator==(Asked const&) const = default;
};
std::ostream& operator<<(std::ostream& out, Asked const& each) {
  return out << each.m << 'x' << each.n << 'x' << each.k << " beta " << each.beta << " epilogue "
             << each.epilogue;
}

Asked asked(cublaslt::Call const& call) {
  bool const trans_a = call.product.trans_a == CUBLAS_OP_T;
  return {call.d.rows, call.d.columns, trans_a ? call.a.rows : call.a.columns, call.beta,
          call.product.epilogue};
}
/// Of the calls from the `first` one on.
std::vector<Asked> asked_since(std::size_t first) {
  std::vector<Asked> result;
  for (std::size_t i = first; i < cublaslt::calls().size(); ++i)
    result.push_back(asked(cublaslt::calls()[i]));
  return result;
}

/// The parts of a product that leave these rows and terms.
std::vector<Asked> in_parts(Asked const& whole, Index rows, Index terms) {
  std::vector<Asked> of_terms{whole}, result;
  if (terms > 0) {
    of_terms = {{whole.m, whole.n, terms, whole.beta},
                {whole.m, whole.n, whole.k - terms, 1, whole.epilogue}};
  }
  for (Asked part : of_terms) {
    part.m = whole.m - rows;
    result.push_back(part);
    part.m = rows;
    if (rows > 0) result.push_back(part);
  }
  return result;
}

/// Elements of 16 bytes; the shortest extent that is cut.
template <DType dtype>
constexpr Index unit = static_cast<Index>(16 / sizeof(typename Problem<dtype>::S));
template <DType dtype> constexpr Index shortest = 512 * unit<dtype>;

template <DType dtype>
void check_parts(Problem<dtype> problem, std::vector<Index> const& pieces, std::string const& text,
                 Index rows_left, Index terms_left) {
  bool const narrow = size_of(dtype) == 2, in_carry = narrow && pieces.size() > 1;
  bool const along = problem.args.trans_a || !problem.args.trans_b;
  if (dtype == DType::fp64) rows_left = terms_left = 0;
  std::vector<Asked> expected;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    bool const last = i + 1 == pieces.size();
    double const beta = i > 0 || (in_carry && problem.args.beta != 0) ? 1 : problem.args.beta;
    int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (last && !in_carry) {
      bool const gelu = problem.args.activation == Activation::gelu_tanh;
      if (gelu)
        epilogue = problem.biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
      else if (problem.biased)
        epilogue = CUBLASLT_EPILOGUE_BIAS;
    }
    // A narrow result holds no sum of terms that beta C is in, and none of fp16.
    bool const sums = !narrow || in_carry || (dtype == DType::bf16 && beta == 0);
    Asked const whole{problem.args.m, problem.args.n, pieces[i], beta, epilogue};
    for (Asked const& part : in_parts(whole, rows_left, last && along && sums ? terms_left : 0))
      expected.push_back(part);
  }
  INFO(name_of(dtype) << ' ' << text << " transposed " << problem.args.trans_a
                      << problem.args.trans_b << " batch " << problem.args.batch << " beta "
                      << problem.args.beta << " tasks " << pieces.size());
  std::size_t const first = cublaslt::calls().size();
  Problem<dtype> const before = problem;
  problem.run(fast_gemm(dtype), pieces);
  CHECK(problem.deviation(before) == "");
  REQUIRE(all_errors() == "");
  CHECK(asked_since(first) == expected);
  for (std::size_t i = first; i < cublaslt::calls().size(); ++i) {
    cublaslt::Call const& call = cublaslt::calls()[i];
    for (void const* const each :
         std::array<void const*, 4>{call.at_a, call.at_b, call.at_c, call.at_d})
      CHECK(reinterpret_cast<std::uintptr_t>(each) % 16 == 0);
  }
}

/// A task on operands that are addresses alone; the result and the carry begin at these bytes.
template <DType dtype>
std::vector<Asked> asked_of(ops::Gemm::Args const& args, bool carried = false,
                            std::uintptr_t c_from = 0, std::uintptr_t carry_from = 0) {
  using Operand = ops::Gemm::Operand;
  auto const address = [](std::uintptr_t i, std::uintptr_t from = 0) {
    return reinterpret_cast<void*>((i << 40) + from);
  };
  std::vector<void*> list{address(1), address(2), address(3, c_from)};
  OperandSet present{Operand::a, Operand::b, Operand::c};
  if (carried) list.push_back(address(4, carry_from)), present.add(Operand::carry);
  Arguments<ops::Gemm> const given{args, present};
  char text[status_text_bytes] = {};
  int stream = 0;
  std::size_t const first = cublaslt::calls().size();
  REQUIRE(fast_gemm(dtype).cuda({list.data(), &given, text, nullptr}, &stream).ok());
  REQUIRE(all_errors() == "");
  return asked_since(first);
}
std::uintptr_t offset_of(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) & ((std::uintptr_t{1} << 40) - 1);
}

template <DType dtype>
ops::Gemm::Args args_of(Index m, Index n, Index k, bool trans_a, bool trans_b) {
  auto const padded = [](Index extent) {
    return (extent + unit<dtype> - 1) / unit<dtype> * unit<dtype>;
  };
  ops::Gemm::Args args{};
  args.m = m, args.n = n, args.k = k, args.batch = 1;
  args.trans_a = trans_a, args.trans_b = trans_b, args.alpha = 1;
  args.lda = padded(trans_a ? k : m), args.ldb = padded(trans_b ? n : k), args.ldc = padded(m);
  args.a_stride = args.lda * (trans_a ? m : k);
  args.b_stride = args.ldb * (trans_b ? k : n);
  args.c_stride = args.ldc * n;
  args.chain = {true, true};
  return args;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("what is odd along memory is left to parts of its own", "[cuda][parts]",
                        Types) {
  constexpr DType dtype = dtype_of_tag<TestType>;
  constexpr Index one = unit<dtype>, most = shortest<dtype>;
  fast_gemm(dtype);
  cublaslt::reset();
  KeptProducts const kept;
  KeptProducts::here()->least_in_parts = 0;
  unsigned seed = 0;
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true})
      for (Index const batch : {1, 2})
        for (double const beta : {0.0, 1.0, -0.75})
          for (bool const chained : {false, true}) {
            Index const left = 1 + ++seed % (one - 1), gap = seed % 3 == 0 ? one : 0;
            auto const problem = [&](Index m, Index k) {
              Problem<dtype> result(m, 2, k, batch, trans_a, trans_b, gap, seed, one);
              result.args.beta = beta;
              result.args.alpha = seed % 5 == 0 ? -0.5 : 1;
              result.biased = seed % 2 == 0;
              if (seed / 2 % 2 == 0) result.args.activation = Activation::gelu_tanh;
              result.carried = chained && (size_of(dtype) == 2 || seed % 4 < 2);
              return result;
            };
            std::vector<Index> pieces{one + 5};
            if (chained) pieces = {one, 5};
            check_parts(problem(most + one + left, one + 5), pieces, "rows", left, 0);
            pieces = {most + left};
            if (chained) pieces = {2 * one, most + left};
            check_parts(problem(3, most + left + (chained ? 2 * one : 0)), pieces, "terms", 0,
                        left);
          }
  // Columns, alone and beside rows, which lie along memory in B.
  for (Index const rows : {Index{3}, dtype == DType::fp32 ? most + 1 : Index{5}}) {
    Problem<dtype> problem(rows, most + 1, 3, 1, false, true, one, 1, one);
    problem.args.beta = 0.5;
    problem.biased = true;
    Problem<dtype> const before = problem;
    std::size_t const from = cublaslt::calls().size();
    REQUIRE(problem.run(fast_gemm(dtype)).ok());
    CHECK(problem.deviation(before) == "");
    REQUIRE(all_errors() == "");
    std::size_t const parts = dtype == DType::fp64 ? 1 : rows <= 5 ? 2 : 4;
    CHECK(asked_since(from).size() == parts);
  }
  if (dtype == DType::fp16) return;  // its narrow results have their terms at once
  Problem<dtype> both(most + 1, 1, most + one - 1, 1, true, false, 0, 1, one);
  both.biased = true;
  both.args.activation = Activation::gelu_tanh;
  check_parts(both, {both.args.k}, "both", 1, one - 1);
}

TEST_CASE("products of GPT-2's logits are in parts, and no others", "[cuda][parts]") {
  fast_gemm(DType::bf16);
  cublaslt::reset({.computes = false});
  KeptProducts const kept;
  auto const check = [&]<DType dtype>() {
    constexpr Index n = 16384, v = 50257, e = 768;
    constexpr std::uintptr_t bytes = sizeof(typename Problem<dtype>::S);
    auto const of = [&](std::size_t back) {
      return cublaslt::calls()[cublaslt::calls().size() - back];
    };
    CHECK(asked_of<dtype>(args_of<dtype>(v, n, e, true, false)) ==
          std::vector<Asked>{{v - 1, n, e}, {1, n, e}});
    for (std::size_t const back : {1, 2}) {
      CHECK(offset_of(of(back).at_a) == (2 - back) * (v - 1) * e * bytes);
      CHECK(offset_of(of(back).at_b) == 0);
      CHECK(offset_of(of(back).at_d) == (2 - back) * (v - 1) * bytes);
      CHECK(of(back).at_c == of(back).at_d);
    }
    CHECK(asked_of<dtype>(args_of<dtype>(e, n, v, false, false)) ==
          std::vector<Asked>{{e, n, 1, 0}, {e, n, v - 1, 1}});
    for (std::size_t const back : {1, 2}) {
      CHECK(offset_of(of(back).at_a) == (back - 1) * (v - 1) * e * bytes);
      CHECK(offset_of(of(back).at_b) == (back - 1) * (v - 1) * bytes);
      CHECK(offset_of(of(back).at_d) == 0);
      CHECK(of(back).at_c == of(back).at_d);
    }
    CHECK(asked_of<dtype>(args_of<dtype>(e, v, n, false, true)) ==
          std::vector<Asked>{{e, v - 1, n}, {e, 1, n}});
    for (std::size_t const back : {1, 2}) {
      CHECK(offset_of(of(back).at_a) == 0);
      CHECK(offset_of(of(back).at_b) == (2 - back) * (v - 1) * bytes);
      CHECK(offset_of(of(back).at_d) == (2 - back) * (v - 1) * e * bytes);
      CHECK(of(back).at_c == of(back).at_d);
    }
    CHECK(asked_of<dtype>(args_of<dtype>(e, v, n, true, false)).size() == 1);
    CHECK(asked_of<dtype>(args_of<dtype>(3072, n, e, true, false)).size() == 1);
    ops::Gemm::Args dense = args_of<dtype>(v, n, e, true, false);
    dense.ldc = v;
    CHECK(asked_of<dtype>(dense).size() == 1);
    dense = args_of<dtype>(e, n, v, false, false);
    dense.ldb = v;
    CHECK(asked_of<dtype>(dense).size() == 1);
  };
  check.operator()<DType::bf16>();
  check.operator()<DType::fp32_fast_tf32>();
  check.operator()<DType::fp32>();
}

TEST_CASE("what is short, small, or nowhere aligned stays whole", "[cuda][parts]") {
  constexpr DType dtype = DType::bf16;
  constexpr Index one = unit<dtype>, most = shortest<dtype>;
  fast_gemm(dtype);
  cublaslt::reset({.computes = false});
  KeptProducts const kept;
  // 2 m n k on both sides of the least work.
  CHECK(asked_of<dtype>(args_of<dtype>(most + 1, 1 << 9, 476, true, false)).size() == 1);
  CHECK(asked_of<dtype>(args_of<dtype>(most + 1, 1 << 9, 477, true, false)).size() == 2);
  ops::Gemm::Args batched = args_of<dtype>(most + 1, 1 << 8, 477, true, false);
  CHECK(asked_of<dtype>(batched).size() == 1);
  batched.batch = 2;
  CHECK(asked_of<dtype>(batched).size() == 2);
  KeptProducts::here()->least_in_parts = 0;
  CHECK(asked_of<dtype>(args_of<dtype>(most - 1, 8, 8, true, false)).size() == 1);
  CHECK(asked_of<dtype>(args_of<dtype>(8, 8, most - 1, true, false)).size() == 1);
  CHECK(asked_of<dtype>(args_of<dtype>(8, most - 1, 8, true, true)).size() == 1);
  CHECK(asked_of<dtype>(args_of<dtype>(most, most + 1, most, true, false)).size() == 1);
  CHECK(asked_of<dtype>(args_of<dtype>(most, most + 1, most, true, true)).size() == 2);
  using Args = ops::Gemm::Args;
  for (bool const of_rows : {false, true}) {
    Args const whole = of_rows ? args_of<dtype>(most + 1, 5, 16, true, false)
                               : args_of<dtype>(16, 5, most + 1, true, false);
    for (Index Args::* const field :
         {&Args::a_offset, &Args::b_offset, &Args::c_offset, &Args::lda, &Args::ldb, &Args::ldc}) {
      for (Index const by : {Index{1}, one / 2, one}) {
        Args args = whole;
        args.*field += by;
        CHECK(asked_of<dtype>(args).size() == (by == one ? 2 : 1));
      }
    }
    for (Index Args::* const stride : {&Args::a_stride, &Args::b_stride, &Args::c_stride}) {
      Args args = whole;
      args.*stride += one / 2;
      CHECK(asked_of<dtype>(args).size() == 2);  // of one batch: nothing is there
      args.batch = 2;
      CHECK(asked_of<dtype>(args).size() == 1);
      args.*stride += one / 2;
      CHECK(asked_of<dtype>(args).size() == 2);
    }
    Args in_carry = whole;  // whose elements have twice the bytes
    in_carry.chain.last = false;
    in_carry.ldc += one / 2;
    CHECK(asked_of<dtype>(in_carry, true).size() == 2);
    in_carry.ldc += one / 4;
    CHECK(asked_of<dtype>(in_carry, true).size() == 1);
  }
  Args from_carry = args_of<DType::fp32>(most + 1, 5, 16, true, false);
  from_carry.chain.first = false;
  CHECK(asked_of<DType::fp32>(from_carry, true).size() == 2);
  CHECK(asked_of<DType::fp32>(from_carry, true, 4, 0).size() == 1);
  CHECK(asked_of<DType::fp32>(from_carry, true, 0, 4).size() == 1);
}

TEST_CASE("a product without an algorithm for each part is whole", "[cuda][parts]") {
  constexpr DType dtype = DType::fp32;
  constexpr Index one = unit<dtype>, most = shortest<dtype>;
  fast_gemm(dtype);
  for (bool const of_rows : {false, true}) {
    Problem<dtype> problem(of_rows ? most + 1 : 8, 3, of_rows ? 8 : most + 1, 2, true, false, 0, 7,
                           one);
    problem.args.beta = 0.5;
    problem.biased = true;
    for (cublaslt::Library const& library :
         {cublaslt::Library{.least_rows = 2}, {.least_terms = 2}, {.fuses = false}}) {
      cublaslt::reset(library);
      KeptProducts const kept;
      KeptProducts::here()->least_in_parts = 0;
      bool const has_all = (of_rows ? library.least_rows : library.least_terms) == 1;
      std::size_t const before = cublaslt::calls().size();
      Problem<dtype> ours = problem;
      REQUIRE(ours.run(fast_gemm(dtype)).ok());
      CHECK(ours.deviation(problem) == "");
      CHECK(all_errors() == "");
      std::vector<Asked> const got = asked_since(before);
      CHECK(got.size() == (has_all ? 2 : 1));
      CHECK(got.back().epilogue ==
            (library.fuses ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
    }
    cublaslt::reset({.multiplies = false});
    KeptProducts const kept;
    KeptProducts::here()->least_in_parts = 0;
    Problem<dtype> ours = problem, theirs = problem;
    REQUIRE(ours.run(fast_gemm(dtype)).ok());
    REQUIRE(theirs.run(*kernels::find("gemm", dtype, dtype, Mode::exact, Isa::best)).ok());
    CHECK(ours.c == theirs.c);
  }
}

TEST_CASE("a training step with padded logits has their products in parts", "[cuda][parts]") {
  constexpr Index width = 16, seq = 16;
  fast_gemm(DType::fp32);
  for (DType const dtype : {DType::fp32, DType::fp32_fast_tf32, DType::bf16}) {
    Index const whole = 512 * 16 / static_cast<Index>(size_of(dtype)), vocab = whole + 3;
    cublaslt::reset();
    KeptProducts const kept;
    KeptProducts::here()->least_in_parts = 0;
    TinyGpt sizes{.config = {.vocab = vocab,
                             .positions = seq,
                             .width = width,
                             .layers = 1,
                             .heads = 2,
                             .dtype = dtype},
                  .seq = seq,
                  .batch = 1};
    Serial serial;
    float const expected = TinyGptRun(serial, TinyGptGraph(sizes), {.tile = 0}).train(2);
    sizes.numerics.mode = Mode::fast;
    TinyGptGraph const fast(sizes);
    PlanOptions options{.tile = 0};
    std::string const logits = fast.step.logits().name();
    options.pad = {{logits, 16}, {logits + ".grad", 16}};  // as examples/gpt2 does
    Simt runtime;
    BindOptions const submitted{.replay = false};  // a recorded program would run on the host
    float const loss = TinyGptRun(runtime, fast, options, submitted).train(2);
    INFO(name_of(dtype));
    CHECK(std::fabs(loss - expected) < (dtype == DType::fp32 ? 1e-5f : 1e-2f) * expected);
    std::vector<Asked> const all = asked_since(0);
    for (Asked const& part : std::vector<Asked>{{whole, seq, width},
                                                {3, seq, width},
                                                {width, seq, 3},
                                                {width, seq, whole, 1},
                                                {width, whole, seq},
                                                {width, 3, seq}})
      CHECK(std::count(all.begin(), all.end(), part) == 2);
    CHECK(all_errors() == "");
    if (dtype == DType::bf16) CHECK(TinyGptRun(runtime, fast, options, submitted).train(2) == loss);
  }
}
