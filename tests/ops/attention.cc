// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/attention.hh"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/eager_gradient.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::Array;
using test::op_case;

struct Sizes {
  Index d, h, queries, keys;
  Shape batch = {};
};

Shape head_shape(Sizes const& s, Index tokens) {
  Shape shape{s.d, s.h, tokens};
  for (Index const extent : s.batch) shape.push_back(extent);
  return shape;
}
Shape statistics_shape(Sizes const& s) {
  Shape shape{s.queries, s.h};
  for (Index const extent : s.batch) shape.push_back(extent);
  return shape;
}

/// q, k, v, out, max, sum.
test::OpCase forward_case(Sizes const& s, ops::AttentionAttrs const& attrs) {
  Shape const q = head_shape(s, s.queries), k = head_shape(s, s.keys),
              statistics = statistics_shape(s);
  auto c = op_case<ops::Attention>(attrs, {q, k, k, q, statistics, statistics});
  c.terms = static_cast<double>(s.keys);
  c.scale = 16;
  return c;
}

/// q, k, v, out, max, sum, dout, dq, dk, dv; the first six as a forward pass leaves them.
test::OpCase backward_case(Sizes const& s, ops::AttentionAttrs const& attrs) {
  auto const forward = forward_case(s, attrs);
  Shape const q = forward.shapes[0], k = forward.shapes[1], statistics = forward.shapes[4];
  auto c = op_case<ops::AttentionBackward>(attrs, {q, k, k, q, statistics, statistics, q, q, k, k});
  c.prepare = [=](std::vector<Array>& operands) {
    auto const done = test::run_reference(
        forward, operands[0].dtype,
        {operands[0], operands[1], operands[2], operands[3], operands[4], operands[5]});
    for (std::size_t o = 3; o < 6; ++o) operands[o] = done[o].as(operands[o].dtype);
  };
  c.terms = static_cast<double>(s.keys);
  c.scale = 64;
  return c;
}

TEST_CASE("attention gives equal bits for every cut of queries, and of keys at multiples of 64",
          "[ops][attention]") {
  for (bool const causal : {false, true}) {
    auto c = forward_case({32, 3, 256, 256, {2}}, {.causal = causal});
    c.canonical = {{{"j", {64, 192}}, {"i", {64, 192}}},
                   {{"j", {128, 128}}, {"i", {100, 156}}, {"h", {1, 2}}},
                   {{"i", {1, 255}}, {"b", {1, 1}}},
                   {{"j", {64, 64, 64, 64}}, {"i", {96, 96, 64}}, {"h", {2, 1}}}};
    c.other = {{{"j", {100, 156}}}};
    test::check_op(c);
  }
}

TEST_CASE("attention takes heads, queries and keys that are no multiple of anything",
          "[ops][attention]") {
  for (bool const causal : {false, true})
    for (Sizes const& s :
         {Sizes{1, 1, 1, 1}, Sizes{5, 2, 7, 9}, Sizes{24, 1, 65, 70}, Sizes{48, 2, 33, 129},
          Sizes{64, 1, 3, 200}, Sizes{80, 1, 130, 130, {1, 2}}}) {
      auto c = forward_case(s, {.causal = causal, .scale = 0.3});
      if (s.queries > 1) c.canonical = {{{"i", {1, s.queries - 1}}}};
      if (s.keys > 64) c.canonical.push_back({{"j", {64, s.keys - 64}}});
      test::check_op(c);
    }
}

TEST_CASE("attention takes heads wider than its scratch", "[ops][attention]") {
  auto c = forward_case({300, 1, 70, 70}, {.causal = true});
  c.canonical = {{{"j", {64, 6}}, {"i", {30, 40}}}};
  test::check_op(c);
  auto b = backward_case({300, 1, 70, 70}, {.causal = true});
  b.canonical = {{{"j", {64, 6}}, {"i", {30, 40}}}};
  test::check_op(b);
}

TEST_CASE("attention walks more keys than its scratch holds", "[ops][attention]") {
  for (Index const d : {200, 256}) {
    Sizes const s{d, 1, 130, 300};
    auto c = forward_case(s, {.causal = true});
    c.canonical = {{{"j", {64, 236}}, {"i", {100, 30}}}};
    test::check_op(c);
    auto b = backward_case(s, {.causal = true, .beta_dq = 1, .beta_dv = 1});
    b.canonical = {{{"j", {64, 236}}, {"i", {100, 30}}}};
    test::check_op(b);
  }
}

TEST_CASE("attention finds room for a ragged last block of copied keys, however many come before",
          "[ops][attention]") {
  // Wider than registers divide, so that keys are copied, and used twice: by two blocks of queries.
  for (bool const causal : {false, true})
    for (Index const before : {1, 2, 3, 4, 5, 6}) {
      Sizes const s{250, 1, 66, 64 * before + 8};
      test::Cut apart{"j", std::vector<Index>(static_cast<std::size_t>(before), 64)};
      apart.sizes.push_back(8);
      for (auto const& c :
           {forward_case(s, {.causal = causal}), backward_case(s, {.causal = causal})}) {
        INFO(c.op->name << " " << s.keys << " keys, causal " << causal);
        auto const operands = test::make_operands(c, DType::fp32);
        auto const whole = test::run_kernel(c, DType::fp32, operands);
        CHECK(test::difference(
                  c, whole, test::run_kernel(c, DType::fp32, operands, {.cuts = {apart}})) == "");
        if (before == 3)
          CHECK(test::deviation(c, DType::fp32, whole,
                                test::run_reference(c, DType::fp32, operands)) == "");
      }
    }
}

TEST_CASE("attention aligns sequences at their ends, as decoding does", "[ops][attention]") {
  auto const whole = forward_case({16, 1, 100, 100}, {.causal = true});
  auto const last = forward_case({16, 1, 3, 100}, {.causal = true});
  auto const operands = test::make_operands(whole, DType::fp32);
  auto const all = test::run_kernel(whole, DType::fp32, operands);
  auto few = test::make_operands(last, DType::fp32);
  few[1] = operands[1];
  few[2] = operands[2];
  for (Index e = 0; e < 48; ++e) few[0].set(e, operands[0].get(97 * 16 + e));
  auto const got = test::run_kernel(last, DType::fp32, few);
  for (Index e = 0; e < 48; ++e) CHECK(got[3].get(e) == all[3].get(97 * 16 + e));
}

TEST_CASE("attention refuses a causal mask where some query would see no key", "[ops][attention]") {
  auto const c = forward_case({8, 1, 5, 4}, {.causal = true});
  CHECK_THROWS_WITH(test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32)),
                    Catch::Contains("attention: causal with q[i]=5 queries but k[j]=4 keys"));
}

TEST_CASE("attention refuses a scale that makes no score a number", "[ops][attention]") {
  for (double const scale : {std::nan(""), HUGE_VAL}) {
    auto const refused = [](test::OpCase const& c) {
      return test::message_of<ValueError>([&] { (void)test::axes_of(c); });
    };
    Sizes const sizes{8, 1, 4, 4};
    CHECK(test::contains(refused(forward_case(sizes, {.scale = scale})), "attention: scale="));
    CHECK(test::contains(refused(backward_case(sizes, {.scale = scale})),
                         "attention_backward: scale="));
  }
}

TEST_CASE("attention gives masked keys no part, be they infinite or NaN", "[ops][attention]") {
  auto clean = forward_case({16, 1, 70, 70}, {.causal = true});
  auto const operands = test::make_operands(clean, DType::fp32);
  auto dirty = operands;
  for (Index key = 50; key < 70; ++key)
    for (Index e = 0; e < 16; ++e) {
      dirty[1].set(key * 16 + e, std::nan(""));
      dirty[2].set(key * 16 + e, std::numeric_limits<double>::infinity());
    }
  auto const expected = test::run_kernel(clean, DType::fp32, operands);
  auto const got = test::run_kernel(clean, DType::fp32, dirty);
  for (Index at = 0; at < 50 * 16; ++at) CHECK(got[3].get(at) == expected[3].get(at));
  for (Index at = 50 * 16; at < 70 * 16; ++at) CHECK(std::isnan(got[3].get(at)));
}

TEST_CASE("attention of -inf scores alone is NaN, of some is the others' mean",
          "[ops][attention]") {
  auto c = forward_case({1, 1, 2, 80}, {.scale = 1});
  auto operands = test::make_operands(c, DType::fp32);
  for (Index key = 0; key < 80; ++key) {
    operands[1].set(key, key < 70 ? -std::numeric_limits<double>::infinity() : 0);
    operands[2].set(key, static_cast<double>(key));
  }
  operands[0].set(0, 1);
  operands[0].set(1, 1);
  CHECK(test::run_kernel(c, DType::fp32, operands)[3].get(0) == 74.5);
  for (Index key = 70; key < 80; ++key)
    operands[1].set(key, -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(test::run_kernel(c, DType::fp32, operands)[3].get(0)));
}

TEST_CASE(
    "attention of a NaN or +inf score is NaN, its maximum and sum too, by the reference as well",
    "[ops][attention]") {
  auto c = forward_case({1, 1, 2, 80}, {.scale = 1});
  for (double const score : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (Index const key : {5, 70}) {
      auto operands = test::make_operands(c, DType::fp64);
      operands[0].set(0, 1);
      operands[0].set(1, 1);
      operands[1].set(key, score);
      std::vector<std::vector<Array>> results{test::run_reference(c, DType::fp64, operands)};
      for (test::Cuts const& cuts : {test::Cuts{}, test::Cuts{{"j", {64, 16}}}})
        for (Isa const isa : test::instruction_sets())
          results.push_back(test::run_kernel(c, DType::fp64, operands, {.cuts = cuts, .isa = isa}));
      for (auto const& result : results)
        for (std::size_t o = 3; o < 6; ++o) CHECK(std::isnan(result[o].get(1)));
    }
}

TEST_CASE("attention has no maximum of -0, in whatever order zeros of either sign come",
          "[ops][attention]") {
  auto c = forward_case({1, 1, 70, 70}, {.causal = true, .scale = 1});
  for (DType const element : {DType::fp64, DType::fp32, DType::bf16}) {
    auto operands = test::make_operands(c, element);
    double const tiny = element == DType::fp64 ? 1e-200 : 1e-30;  // its square rounds to 0
    for (Index i = 0; i < 70; ++i) {
      operands[0].set(i, tiny);
      operands[1].set(i, i % 7 == 3 ? tiny : -tiny);
    }
    std::vector<std::vector<Array>> results;
    if (element == DType::fp64) results.push_back(test::run_reference(c, element, operands));
    for (test::Cuts const& cuts :
         {test::Cuts{}, test::Cuts{{"i", {3, 67}}}, test::Cuts{{"j", {64, 6}}}})
      for (Isa const isa : test::instruction_sets())
        results.push_back(test::run_kernel(c, element, operands, {.cuts = cuts, .isa = isa}));
    for (auto const& result : results)
      for (Index i = 0; i < 70; ++i) {
        INFO(name_of(element) << " " << &result - results.data() << " " << i);
        CHECK((result[4].get(i) == 0 && !std::signbit(result[4].get(i))));
      }
  }
}

TEST_CASE("attention_backward gives equal bits for every cut of queries and keys",
          "[ops][attention]") {
  for (bool const causal : {false, true})
    for (double const beta : {0.0, 1.0}) {
      auto c =
          backward_case({32, 2, 200, 200, {2}},
                        {.causal = causal, .beta_dq = beta, .beta_dk = 1 - beta, .beta_dv = beta});
      c.canonical = {{{"j", {64, 136}}, {"i", {64, 136}}},
                     {{"j", {128, 72}}, {"i", {50, 150}}, {"h", {1, 1}}},
                     {{"j", {10, 190}}, {"i", {1, 199}}, {"b", {1, 1}}}};
      test::check_op(c);
    }
}

TEST_CASE("attention_backward takes heads, queries and keys that are no multiple of anything",
          "[ops][attention]") {
  for (bool const causal : {false, true})
    for (Sizes const& s :
         {Sizes{1, 1, 1, 1}, Sizes{5, 2, 7, 9}, Sizes{24, 1, 65, 70}, Sizes{64, 1, 3, 200}})
      test::check_op(backward_case(s, {.causal = causal}));
}

TEST_CASE("attention_backward scales queries before their products, as attention does",
          "[ops][attention]") {
  auto c = backward_case({4, 1, 3, 5}, {.scale = 0x1p-10});
  c.prepare = [before = c.prepare](std::vector<Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i) operands[0].set(i, 0x1.8p1023);
    for (Index i = 0; i < operands[1].count(); ++i) operands[1].set(i, 1);
    before(operands);
  };
  auto const operands = test::make_operands(c, DType::fp64);
  auto const exact = test::run_reference(c, DType::fp64, operands);
  for (Index i = 0; i < 12; ++i) CHECK(std::isfinite(exact[7].get(i)));
}

TEST_CASE("attention has gradients for q, k and v", "[ops][attention]") {
  for (bool const causal : {false, true})
    for (std::vector<int> const& wanted : {std::vector<int>{0, 1, 2}, {1}})
      test::check_gradient<ops::Attention>(forward_case({3, 2, 4, 5, {2}}, {.causal = causal}), 3,
                                           wanted);
}

TEST_CASE("attention counts causal products at half", "[ops][attention]") {
  for (auto const& [causal, flops] :
       {std::pair<bool, Index>{false, 4 * 64 * 128 * 128}, {true, 2 * 64 * 128 * 128}}) {
    auto const c = forward_case({64, 1, 128, 128}, {.causal = causal});
    CHECK(test::total_cost(c).flops == flops);
    CHECK(test::total_cost(c, {{"i", {50, 78}}, {"j", {64, 64}}}).flops == flops);
  }
}

}  // namespace
