// SPDX-License-Identifier: BSD-3-Clause
// A cache of keys and values: what is appended, and attention to it.
#include "nntile/ops/kv_cache_append.hh"

#include <cmath>
#include <cstring>

#include "nntile/ops/attention.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

OpCase append_case(Index tokens, Index slots, Index start) {
  auto c = op_case<ops::KvCacheAppend>({}, {{8, 3, tokens, 2}, {}, {8, 3, slots, 2}});
  c.prepare = [start](std::vector<Array>& x) { x[1].set(0, static_cast<double>(start)); };
  return c;
}

OpCase cached_case(Index d, Index tokens, Index slots, Index start, bool causal = false) {
  Shape const q{d, 2, tokens, 2}, cache{d, 2, slots, 2}, rows{tokens, 2, 2};
  auto c = op_case<ops::Attention>({.causal = causal, .cached = true},
                                   {q, cache, cache, {}, q, rows, rows});
  c.prepare = [start](std::vector<Array>& x) { x[3].set(0, static_cast<double>(start)); };
  c.terms = static_cast<double>(slots);
  c.scale = 16;
  return c;
}

TEST_CASE("tokens go to their slots in every tiling, and other slots stay", "[ops][kv_cache]") {
  for (Index const start : {0, 1, 59, 60, 89}) {
    auto c = append_case(11, 100, start);
    c.canonical = {{{"j", {60, 40}}},
                   {{"j", {1, 59, 40}}, {"i", {1, 10}}},
                   {{"i", {4, 4, 3}}, {"h", {1, 2}}, {"d", {3, 5}}, {"b", {1, 1}}},
                   {{"j", {25, 25, 25, 25}}, {"i", {10, 1}}}};
    check_op(c);
    auto const before = make_operands(c, DType::fp32);
    auto const after = run_kernel(c, DType::fp32, before);
    for (Index b = 0; b < 2; ++b)
      for (Index slot = 0; slot < 100; ++slot) {
        Index const token = slot - start;
        bool const fresh = token >= 0 && token < 11;
        for (Index e = 0; e < 24; ++e) {
          double const value = after[2].get(e + 24 * (slot + 100 * b));
          CHECK(value == (fresh ? before[0].get(e + 24 * (token + 11 * b))
                                : before[2].get(e + 24 * (slot + 100 * b))));
        }
      }
  }
}

TEST_CASE("what does not fit into a cache is refused", "[ops][kv_cache]") {
  for (Index const start : {Index{-1}, Index{90}, INT64_MAX, INT64_MIN})
    for (OpCase const& c : {append_case(11, 100, start), cached_case(8, 11, 100, start)}) {
      auto operands = make_operands(c, DType::fp32);
      std::size_t const at = c.op->name == std::string("attention") ? 3 : 1;
      std::memcpy(operands[at].bytes.data(), &start, sizeof start);
      for (Cuts const& cuts : {Cuts{}, Cuts{{"j", {64, 36}}}})
        CHECK_THROWS_WITH(run_kernel(c, DType::fp32, operands, {.cuts = cuts}),
                          Catch::Contains(concat("start ", start, " is outside [0, 89]")));
    }
  for (OpCase const& c : {append_case(11, 10, 0), cached_case(8, 11, 10, 0)})
    CHECK(contains(message_of<ShapeError>([&] { (void)axes_of(c); }),
                   "11 tokens [i], but the cache has 10 slots [j]"));
}

TEST_CASE("attention to a cache has one result in every tiling", "[ops][kv_cache]") {
  for (Index const start : {0, 63, 64, 100, 189}) {
    auto c = cached_case(32, 11, 200, start, start % 2 != 0);  // `causal` says no more
    c.canonical = {{{"j", {64, 136}}},
                   {{"j", {64, 64, 64, 8}}, {"i", {1, 10}}, {"h", {1, 1}}},
                   {{"j", {128, 72}}, {"i", {4, 7}}, {"b", {1, 1}}}};
    check_op(c);
  }
}

/// Elements of a dimension before the last, {d, h, token, b}, of tokens from `first` on.
void copy_tokens(Array const& from, Index first, Array& to, Index count) {
  Index const row = from.shape[0] * from.shape[1];
  for (Index b = 0; b < from.shape[3]; ++b)
    for (Index t = 0; t < count; ++t)
      for (Index e = 0; e < row; ++e)
        to.set(e + row * (t + to.shape[2] * b),
               from.get(e + row * (first + t + from.shape[2] * b)));
}

TEST_CASE("slots that no query can see have no tasks", "[ops][kv_cache]") {
  OpCase const c = cached_case(32, 128, 128, 0);
  Cuts const halves{{"i", {64, 64}}, {"j", {64, 64}}};
  CHECK(total_cost(c, halves).flops == total_cost(c).flops * 3 / 4);
}

TEST_CASE("attention to a cache has the bits of the whole sequence, whatever else slots hold",
          "[ops][kv_cache]") {
  constexpr Index whole_length = 150;
  for (DType const dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16})
    for (Index const d : {16, 64, 300}) {
      Shape const all{d, 2, whole_length, 2}, of_all{whole_length, 2, 2};
      auto const whole =
          op_case<ops::Attention>({.causal = true}, {all, all, all, all, of_all, of_all});
      auto const operands = make_operands(whole, dtype);
      auto const expected = run_kernel(whole, dtype, operands);
      for (Index const tokens : {1, 3, 66})
        for (Index const start : {0, 1, 63, 64, 84})
          for (Index const slots : {whole_length, Index{192}}) {
            auto const c = cached_case(d, tokens, slots, start);
            auto given = make_operands(c, dtype);
            copy_tokens(operands[0], start, given[0], tokens);
            for (std::size_t const o : {1u, 2u}) {
              for (Index e = 0; e < given[o].count(); ++e) given[o].set(e, std::nan(""));
              copy_tokens(operands[o], 0, given[o], start + tokens);
            }
            Cuts const halves{{"j", {64, slots - 64}}};
            for (Cuts const& cuts : {Cuts{}, halves}) {
              auto const got = run_kernel(c, dtype, given, {.cuts = cuts});
              Array wanted = got[4];
              copy_tokens(expected[3], start, wanted, tokens);
              INFO(name_of(dtype) << " d " << d << ", " << tokens << " tokens from " << start
                                  << ", slots " << slots << ", cuts " << cuts.size());
              CHECK(got[4].bytes == wanted.bytes);
            }
          }
    }
}

}  // namespace
