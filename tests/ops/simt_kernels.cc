// SPDX-License-Identifier: BSD-3-Clause
// The kernels of kernels/cuda on the emulator, against those of the CPU.
#define NNTILE_SIMT "tests/support/simt/simt.hh"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/simt/bits.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Dtypes that operands of Kind::second have beside the usual ones of their elements.
std::vector<DType> seconds_of(OpCase const& c) {
  std::vector<DType> result;
  for (ElementTypes const& types : c.op->types)
    if (types != c.types(types.element) &&
        std::find(result.begin(), result.end(), types.second) == result.end())
      result.push_back(types.second);
  return result;
}

}  // namespace

TEST_CASE("every kernel of the device has the bits of the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  int checked = 0;
  for (OpCase const& c : every_op()) {
    checked += check_bits(c);
    check_bits(c, canonical_cuts(c));
    check_bits(with_groups(c, 3), canonical_cuts(c));
    for (DType const second : seconds_of(c)) {
      OpCase other = c;
      other.second = second;
      check_bits(other);
      check_bits(with_groups(other, 3), canonical_cuts(other));
    }
    AxisTable const table = axes_of(c);
    for (std::size_t axis = 0; axis < table.axes.size(); ++axis)
      if (OpCase const empty = without(c, axis); !means_nothing(empty)) check_bits(empty);
  }
  CHECK(checked > 60);
}

TEST_CASE("large blocks of products begin anywhere, and apply bias and activation", "[ops][simt]") {
  if (!comparable()) return;
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      Index const m = 201, k = 27, n = 133;  // a cut begins at no multiple of four
      Shape const a = trans_a ? Shape{k, m} : Shape{m, k};
      Shape const b = trans_b ? Shape{n, k} : Shape{k, n};
      OpCase const c = op_case<ops::Gemm>({.trans_a = trans_a,
                                           .trans_b = trans_b,
                                           .bias = true,
                                           .activation = Activation::gelu_tanh,
                                           .beta = trans_b ? 0.0 : 1.0},
                                          {a, b, {m}, {m, n}});
      check_bits(c, {{"m0", {70, 131}}, {"n0", {65, 68}}, {"k0", {8, 19}}});
    }
  // Whole fours at places that are no multiples of them, and batches.
  check_bits(op_case<ops::Gemm>({.batch_ndim = 1}, {{66, 9, 3}, {9, 66, 3}, {66, 66, 3}}));
  check_bits(op_case<ops::Gemm>({.beta = 0.5}, {{128, 16}, {16, 128}, {128, 128}}));
}

TEST_CASE("pairs of groups are summed in one task of the device", "[ops][simt]") {
  if (!comparable()) return;
  for (double const beta : {0.0, 1.0, 0.5}) {
    auto product = op_case<ops::Gemm>({.trans_a = true, .bias = true, .ndim = 2, .beta = beta},
                                      {{9, 7, 70}, {9, 7, 67}, {70}, {70, 67}});
    auto table = op_case<ops::EmbeddingBackward>({.beta = beta}, {{40, 5}, {33, 40, 5}, {33, 17}});
    table.prepare = [](std::vector<Array>& x) { set_classes(x[0], 13); };
    for (int const groups : {2, 3, 4}) {
      product.groups = {{"k1", groups}};
      table.groups = {{"i1", groups}};
      for (Cuts const& cuts : {Cuts{}, Cuts{{"k1", {4, 3}}}}) check_bits(product, cuts);
      for (Cuts const& cuts : {Cuts{}, Cuts{{"v0", {9, 8}}, {"i1", {4, 1}}}})
        check_bits(table, cuts);
    }
    table.groups = {{"i1", 2}};
    for (DType const second : {DType::int32, DType::int64}) {
      table.second = second;
      if (second == DType::int32) check_bits(table);
      OpCase whole = table;
      whole.groups = {};
      check_bits(whole);
    }
  }
  Multiprocessors const many(1000);  // small blocks
  check_bits(with_groups(
      op_case<ops::Gemm>({.trans_a = true, .beta = 0.5}, {{9, 70}, {9, 67}, {70, 67}}), 2));
}

TEST_CASE("a cache is filled and read on the device as on the CPU", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const start : {0, 59, 119}) {
    Shape const cache{16, 2, 130, 2}, tokens{16, 2, 11, 2}, rows{11, 2, 2};
    OpCase append = op_case<ops::KvCacheAppend>({}, {tokens, {}, cache});
    OpCase read =
        op_case<ops::Attention>({.cached = true}, {tokens, cache, cache, {}, tokens, rows, rows});
    auto const set_start = [start](Array& of) { of.set(0, static_cast<double>(start)); };
    append.prepare = [=](std::vector<Array>& x) { set_start(x[1]); };
    read.prepare = [=](std::vector<Array>& x) { set_start(x[3]); };
    for (OpCase const& c : {append, read})
      for (Cuts const& cuts : {Cuts{}, Cuts{{"j", {64, 66}}}, Cuts{{"i", {1, 10}}, {"h", {1, 1}}}})
        check_bits(c, cuts);
  }
}

TEST_CASE("long rows are a block's on the device, with the bits of the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const n : {255, 257, 768, 1023, 1024}) {  // held in registers
    OpCase const norm = op_case<ops::LayerNorm>({}, {{n, 5}, {n}, {n}, {n, 5}, {5}, {5}});
    OpCase const slope =
        op_case<ops::LayerNormBackward>({.beta = 0.5}, {{n, 5}, {n, 5}, {n}, {5}, {5}, {n, 5}});
    for (OpCase const& c : {norm, slope}) {
      check_bits(c);
      check_bits(c, {{"e0", {128, n - 128}}});
    }
  }
  for (Index const n : {1025, 1500, 2100}) {  // norms hold the first two
    check_bits(op_case<ops::SumSlice>({.axis = 0, .beta = 0.5}, {{n, 3}, {3}}));
    check_bits(op_case<ops::Softmax>({}, {{n, 3}, {n, 3}}));
    check_bits(op_case<ops::Softmax>({}, {{n, 3}, {n, 3}}), {{"v0", {64, n - 64}}});
    check_bits(op_case<ops::SoftmaxBackward>({.beta = 0.5}, {{n, 3}, {n, 3}, {n, 3}}));
    check_bits(op_case<ops::LayerNorm>({}, {{n, 3}, {n}, {n}, {n, 3}, {3}, {3}}));
    check_bits(op_case<ops::LayerNormBackward>({}, {{n, 3}, {n, 3}, {n}, {3}, {3}, {n, 3}}));
    check_bits(op_case<ops::Argmax>({}, {{n, 3}, {3}}), {{"v0", {64, n - 64}}});
    check_bits(op_case<ops::SumSquares>({}, {{n, 3}, {3}}));
    OpCase loss = op_case<ops::CrossEntropy>({}, {{n, 3}, {3}, {3}, {3}, {3}});
    OpCase sample = op_case<ops::Sample>({.top_k = 99, .top_p = 0.9}, {{n, 3}, {}, {3}});
    OpCase slope = op_case<ops::CrossEntropyBackward>({}, {{n, 3}, {3}, {3}, {3}, {3}, {n, 3}});
    OpCase rows = op_case<ops::Embedding>({}, {{3}, {n, 5}, {n, 3}});
    OpCase sums = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{40}, {n, 40}, {n, 5}});
    loss.prepare = slope.prepare = [](std::vector<Array>& x) { set_classes(x[1], x[0].shape[0]); };
    rows.prepare = sums.prepare = [](std::vector<Array>& x) { set_classes(x[0], 4); };
    for (OpCase const& c : {loss, slope, sample, rows, sums}) check_bits(c);
    OpCase one = op_case<ops::CrossEntropyBackward>({}, {{n, 1}, {1}, {1}, {1}, {1}, {n, 1}});
    one.prepare = slope.prepare;  // a column of which runs are left over
    for (OpCase c : {loss, slope, one, rows, sums}) {
      c.second = DType::int32;
      check_bits(c);
    }
    sums.prepare = [](std::vector<Array>& x) { x[0].set(39, 4); };  // a row of the last token alone
    check_bits(sums);
    check_bits(loss, {{"v0", {64, n - 64}}});
  }
}

namespace {

/// The operands of a kernel of fp32 that has just been called, each of 2 rows of 64 elements. The
/// shifted one, if any, begins an element behind a multiple of 16 bytes.
template <class Op>
std::vector<std::vector<float>> call_shifted(typename Op::Args args, int shifted) {
  constexpr int most = 8, elements = 2 * 64;
  alignas(16) float memory[most][elements + 4] = {};
  Arguments<Op> given{args, {}};
  void* list[most] = {};
  int const count = static_cast<int>(Op::operands.size());
  for (int o = 0; o < count; ++o) {
    float* const begin = memory[o] + (o == shifted ? 1 : 0);
    for (int i = 0; i < elements; ++i) begin[i] = static_cast<float>(std::cos(o * elements + i));
    given.operands.add(OperandIndex(o));
    list[o] = begin;
  }
  char text[status_text_bytes] = {};
  Status const status =
      on_device(Op::name, DType::fp32, DType::fp32)->cuda({list, &given, text}, nullptr);
  INFO((status.ok() ? "" : status.error));
  CHECK(status.ok());
  std::vector<std::vector<float>> result;
  for (int o = 0; o < count; ++o) {
    auto const* const begin = static_cast<float const*>(list[o]);
    result.emplace_back(begin, begin + elements);
  }
  return result;
}

}  // namespace

TEST_CASE("norms hold rows of operands that lie in fours alone", "[ops][simt]") {
  simt::set_seed(1);
  ops::LayerNorm::Args norm{};
  norm.e = norm.whole_e = norm.ldx = norm.ldy = 64, norm.n = 2, norm.phase = -1, norm.eps = 1e-5;
  ops::LayerNormBackward::Args slope{};
  slope.e = slope.whole_e = slope.ldx = slope.lddy = slope.lddx = 64, slope.n = 2;
  slope.phase = -1, slope.first = true;
  auto const aligned = call_shifted<ops::LayerNorm>(norm, -1);
  auto const slopes = call_shifted<ops::LayerNormBackward>(slope, -1);
  for (int o = 0; o < 8; ++o) {
    INFO("operand " << o);
    CHECK((call_shifted<ops::LayerNorm>(norm, o) == aligned));
    CHECK((call_shifted<ops::LayerNormBackward>(slope, o) == slopes));
  }
}

TEST_CASE("sums over rows on the device begin and end anywhere in a tile", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const k : {63, 64, 255, 256, 257, 511, 512, 513, 1100})  // tiles of 256 and 512 rows
    for (Index const m : {2, 31, 33})                                 // strips of 8, 16 and 32
      check_bits(op_case<ops::SumSlice>({.axis = 1, .alpha = 3, .beta = 0.5}, {{m, k, 2}, {m, 2}}));
  OpCase const cut = op_case<ops::SumSlice>({.axis = 1, .beta = 0.5}, {{70, 400, 3}, {70, 3}});
  check_bits(cut, {{"k0", {130, 270}}, {"i0", {33, 37}}});
  check_bits(with_groups(cut, 3), canonical_cuts(cut));
  check_bits(op_case<ops::SumSlice>({.axis = 1}, {{9, 65, 4100}, {9, 4100}}));  // several a block
  for (Index const tokens : {1, 127, 128, 129, 255, 256, 257, 300})
    for (Index const e : {7, 33}) {
      OpCase const slope = op_case<ops::LayerNormWeightBackward>(
          {.beta_dgamma = 0.5}, {{e, tokens}, {e, tokens}, {tokens}, {tokens}, {e}, {e}});
      check_bits(slope);
      if (tokens == 300) {
        check_bits(slope, {{"s0", {131, 169}}, {"e0", {3, e - 3}}});
        check_bits(with_groups(slope, 3), canonical_cuts(slope));
      }
    }
}

TEST_CASE("tokens of a row of a table are found in each run of them on the device", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const n : {255, 256, 257, 1024, 1025, 4097}) {
    OpCase sums = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{n}, {5, n}, {5, 40}});
    sums.prepare = [=](std::vector<Array>& x) {  // one of them in all, others in few runs
      for (Index i = 0; i < n; ++i) x[0].set(i, i % 250 == 249 ? static_cast<double>(i / 250) : 30);
      x[0].set(n - 1, 35);
      x[0].set(n - 2, 35);
      x[0].set(0, 36);
      x[0].set(n / 2, 36);
    };
    check_bits(sums);
    check_bits(sums, {{"v0", {31, 9}}, {"i0", {n / 3, n - n / 3}}});
  }
  for (Index const e : {255, 256, 257, 600}) {
    OpCase sums = op_case<ops::EmbeddingBackward>({.beta = 1}, {{70}, {e, 70}, {e, 5}});
    sums.prepare = [](std::vector<Array>& x) { set_classes(x[0], 4); };
    check_bits(sums);
    check_bits(with_groups(sums, 2));
  }
}

TEST_CASE("products on the device have the bits of the CPU's at ragged shapes", "[ops][simt]") {
  if (!comparable()) return;
  for (int const multiprocessors : {1, 1000}) {  // large blocks, small ones
    Multiprocessors const of_device(multiprocessors);
    for (Index const k : {1, 8, 16, 17, 35})
      for (bool const trans_a : {false, true})
        for (bool const trans_b : {false, true}) {
          Index const m = 67, n = 65;
          Shape const a = trans_a ? Shape{k, m} : Shape{m, k};
          Shape const b = trans_b ? Shape{n, k} : Shape{k, n};
          check_bits(op_case<ops::Gemm>(
              {.trans_a = trans_a, .trans_b = trans_b, .alpha = 3, .beta = 0.5}, {a, b, {m, n}}));
        }
  }
  // A result of -0 is no sum with +0.
  OpCase zeros = op_case<ops::Gemm>({.beta = 1}, {{3, 5}, {5, 3}, {3, 3}});
  zeros.prepare = [](std::vector<Array>& x) {
    for (Array& each : x) set_all(each, -0.0);
    set_all(x[1], 1);
  };
  check_bits(zeros);
}

TEST_CASE("products whose panels come by copies have the bits of the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      auto const product = [&](Index m, Index k, Index n, double beta) {
        Shape const a = trans_a ? Shape{k, m} : Shape{m, k};
        Shape const b = trans_b ? Shape{n, k} : Shape{k, n};
        return op_case<ops::Gemm>(
            {.trans_a = trans_a, .trans_b = trans_b, .bias = beta == 0.5, .beta = beta},
            beta == 0.5 ? std::vector<Shape>{a, b, {m}, {m, n}} : std::vector<Shape>{a, b, {m, n}});
      };
      for (Index const k : {1, 16, 33, 64}) check_bits(product(96, k, 128, 0));  // one rectangle
      check_bits(product(188, 53, 252, 0.5));                       // four that overlap
      check_bits(product(188, 53, 252, 1), {{"k0", {17, 32, 4}}});  // partial sums
      check_bits(product(192, 20, 256, 0), {{"m0", {100, 92}}, {"n0", {128, 128}}});
      Multiprocessors const many(1000);  // small ones
      check_bits(product(64, 35, 64, 0));
      check_bits(product(100, 48, 68, 0.5), {{"k0", {15, 33}}});
      check_bits(product(67, 18, 66, 1));
    }
  check_bits(op_case<ops::Gemm>({.batch_ndim = 1}, {{68, 9, 3}, {9, 64, 3}, {68, 64, 3}}));
}

TEST_CASE("attention on the device takes wide heads piece by piece, and what no multiple is",
          "[ops][simt]") {
  if (!comparable()) return;
  for (auto const& [d, queries, keys] :
       {std::array<Index, 3>{140, 3, 70}, {65, 66, 67}, {1, 1, 1}, {2, 3, 65}, {5, 65, 129}}) {
    Shape const q{d, 1, queries}, k{d, 1, keys}, rows{queries, 1};
    for (bool const causal : {false, true}) {
      ops::AttentionAttrs const attrs{.causal = causal, .beta_dk = 0.5};
      OpCase const forward = op_case<ops::Attention>(attrs, {q, k, k, q, rows, rows});
      OpCase back = op_case<ops::AttentionBackward>(attrs, {q, k, k, q, rows, rows, q, q, k, k});
      back.prepare = [attrs](std::vector<Array>& x) {
        run_before<ops::Attention>(attrs, x, {0, 1, 2, 3, 4, 5});
      };
      for (OpCase const& c : {forward, back}) {
        if (d != 140 || !causal) check_bits(c);
        if (keys > 64 && causal == (d == 140)) check_bits(c, {{"j", {64, keys - 64}}});
      }
    }
  }
}

TEST_CASE("attention on the device meets NaN, infinite and masked scores as the CPU does",
          "[ops][simt]") {
  if (!comparable()) return;
  double const odd[] = {NAN, INFINITY, -INFINITY, 1e38, -1e38};
  for (bool const causal : {false, true}) {
    OpCase c =
        op_case<ops::Attention>({.causal = causal, .scale = 1},
                                {{2, 1, 70}, {2, 1, 70}, {2, 1, 70}, {2, 1, 70}, {70, 1}, {70, 1}});
    for (double const value : odd) {
      c.prepare = [value](std::vector<Array>& x) {
        for (Index const key : {7, 66})
          for (Index e = 0; e < 2; ++e) x[1].set(2 * key + e, value), x[2].set(2 * key + e, value);
      };
      check_bits(c);
    }
    c.prepare = [](std::vector<Array>& x) {  // whole rows, and blocks, of -inf
      for (Index at = 0; at < x[0].count(); ++at) x[0].set(at, at % 4 < 2 ? 1 : -1);
      for (Index at = 0; at < 128; ++at) x[1].set(at, -INFINITY);
    };
    check_bits(c, {{"j", {64, 6}}});
    c.prepare = [](std::vector<Array>& x) {  // scores of +0 and -0
      set_all(x[0], 1e-200);
      for (Index at = 0; at < x[1].count(); ++at) x[1].set(at, at % 7 == 3 ? 1e-200 : -1e-200);
    };
    check_bits(c);
  }
}

TEST_CASE("the device samples as the CPU does among equal, infinite and a single logit",
          "[ops][simt]") {
  if (!comparable()) return;
  for (ops::SampleAttrs const& attrs :
       {ops::SampleAttrs{.top_k = 3}, ops::SampleAttrs{.temperature = 0},
        ops::SampleAttrs{.temperature = 30, .top_k = 20, .top_p = 0.5}})
    for (Index const n : {1, 17, 1100}) {
      OpCase c = op_case<ops::Sample>(attrs, {{n, 4}, {}, {4}});
      c.prepare = [=](std::vector<Array>& x) {
        for (Index i = 0; i < n; ++i) {
          x[0].set(i, 1);
          x[0].set(n + i, i % 3 == 2 ? 5 : 0);
          x[0].set(2 * n + i, i % 5 != 0 ? -INFINITY : -static_cast<double>(i / 10));
          x[0].set(3 * n + i, i % 2 == 0 ? 0.0 : -0.0);
        }
      };
      check_bits(c);
    }
}

TEST_CASE("data that the CPU's kernels refuse gives NaN on the device, and no other access",
          "[ops][simt]") {
  if (!comparable()) return;
  auto const run_on_device = [](OpCase const& c) {
    return run_kernel(c, DType::fp32, make_operands(c, DType::fp32), {.runtime = "simt"});
  };
  auto const set_labels = [](std::vector<Array>& x, std::size_t labels) {
    for (Index i = 0; i < 4; ++i) x[labels].set(i, i == 1 ? -1 : i == 2 ? 7 : 3);
  };
  OpCase loss = op_case<ops::CrossEntropy>({}, {{7, 4}, {4}, {4}, {4}, {4}});
  loss.prepare = [=](std::vector<Array>& x) { set_labels(x, 1); };
  OpCase slope = op_case<ops::CrossEntropyBackward>({}, {{7, 4}, {4}, {4}, {4}, {4}, {7, 4}});
  slope.prepare = loss.prepare;
  OpCase rows = op_case<ops::Embedding>({}, {{4}, {5, 7}, {5, 4}});
  rows.prepare = [=](std::vector<Array>& x) { set_labels(x, 0); };
  OpCase sums = op_case<ops::EmbeddingBackward>({}, {{4}, {5, 4}, {5, 7}});
  sums.prepare = rows.prepare;
  for (OpCase const& c : {loss, slope, rows}) {
    auto const got = run_on_device(c);
    Array const& result = c.op == loss.op ? got[2] : got.back();
    Index const each = result.count() / 4;
    for (Index i = 0; i < result.count(); ++i)
      CHECK(std::isnan(result.get(i)) == (i / each == 1 || i / each == 2));
  }
  auto const table = run_on_device(sums)[2];
  for (Index i = 0; i < table.count(); ++i) CHECK((table.get(i) != 0) == (i / 5 == 3));
  OpCase draw = op_case<ops::Sample>({}, {{7, 3}, {}, {3}});
  draw.prepare = [](std::vector<Array>& x) {
    x[0].set(3, NAN);
    for (Index i = 7; i < 14; ++i) x[0].set(i, -INFINITY);
  };
  auto const drawn = run_on_device(draw)[2];
  CHECK(drawn.get(0) == -1);
  CHECK(drawn.get(1) == -1);
  CHECK(drawn.get(2) >= 0);
  for (double const beta : {0.9, 0.0}) {
    OpCase step =
        op_case<ops::AdamwStep>({.beta1 = beta, .beta2 = beta}, {{3}, {3}, {3}, {3}, {}, {}});
    step.prepare = [](std::vector<Array>& x) { set_all(x[5], 0); };
    CHECK(std::isnan(run_on_device(step)[0].get(0)));
  }
}

TEST_CASE("the least of all numbers is a label or an index of no tile of the device",
          "[ops][simt]") {
  if (!comparable()) return;
  auto const run_cut = [](OpCase c, std::size_t labels) {
    c.prepare = [=](std::vector<Array>& x) { set_all(x[labels], -0x1p63); };
    return run_kernel(c, DType::fp32, make_operands(c, DType::fp32),
                      {.cuts = {{"v", {64, 6}}}, .runtime = "simt"});
  };
  std::vector<Shape> const loss{{70, 2}, {2}, {2}, {2}, {2}};
  CHECK(std::isnan(run_cut(op_case<ops::CrossEntropy>({}, loss), 1)[2].get(0)));
  CHECK(run_cut(op_case<ops::CrossEntropy>({.ignore_index = INT64_MIN}, loss), 1)[2].get(0) == 0);
  std::vector<Shape> const slope{{70, 2}, {2}, {2}, {2}, {2}, {70, 2}};
  auto const slopes = run_cut(op_case<ops::CrossEntropyBackward>({}, slope), 1)[5];
  CHECK(std::isnan(slopes.get(0)));
  CHECK(std::isnan(slopes.get(69)));
  CHECK(std::isnan(run_cut(op_case<ops::Embedding>({}, {{2}, {5, 70}, {5, 2}}), 0)[2].get(0)));
  auto const sums = run_cut(op_case<ops::EmbeddingBackward>({}, {{2}, {5, 2}, {5, 70}}), 0)[2];
  for (Index i = 0; i < sums.count(); ++i) CHECK(sums.get(i) == 0);
}

TEST_CASE("zeros, NaNs and the smallest powers on the device are the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const n : {16, 64, 65, 128, 1200}) {
    OpCase c = op_case<ops::SumSlice>({.axis = 0, .beta = 1}, {{n, 2}, {2}});
    c.prepare = [](std::vector<Array>& x) {
      for (Array& each : x) set_all(each, -0.0);
    };
    check_bits(c);
    OpCase top = op_case<ops::Softmax>({}, {{n, 2}, {n, 2}});
    top.prepare = [](std::vector<Array>& x) { x[0].set(7, NAN); };
    check_bits(top);
    OpCase largest = op_case<ops::Argmax>({}, {{n, 5}, {5}});
    largest.prepare = [=](std::vector<Array>& x) {  // equal ones, two NaNs, nothing but -inf
      for (Index i = 0; i < n; ++i) {
        x[0].set(i, i % 2 == 0 ? 0.0 : -0.0);
        x[0].set(n + i, i > n / 2 ? 1 : -1);
        x[0].set(3 * n + i, -INFINITY);
      }
      x[0].set(2 * n + n / 3, NAN);
      x[0].set(2 * n + n / 2, NAN);
      x[0].set(5 * n - 1, 2);
    };
    check_bits(largest);
    check_bits(largest, {{"v0", {n / 3, n - n / 3}}});
    OpCase spread = op_case<ops::Softmax>({}, {{n, 2}, {n, 2}});
    spread.prepare = [](std::vector<Array>& x) {  // powers that are 0, subnormal and normal
      for (Index i = 0; i < x[0].count(); ++i) x[0].set(i, -static_cast<double>(i % 110));
    };
    check_bits(spread);
  }
}
