// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/chain.hh"

#include "tests/support/catch.hh"

namespace {

using namespace nntile;

constexpr Chain first{true, false}, middle{false, false}, last{false, true};

TEST_CASE("a chain starts from nothing, and goes on from what is left", "[ops][chain]") {
  float const left[] = {3, 5};
  CHECK(first.start(left, 1) == 0);
  CHECK(first.start(left, 1, -1.0f) == -1);
  CHECK(middle.start(left, 1, -1.0f) == 5);
  CHECK(first.start<float>(nullptr, 7) == 0);
  CHECK((first.factor(0.5) == 0.5 && middle.factor(0.5) == 1));
}

TEST_CASE("a phase reads the results of earlier ones whole", "[ops][chain]") {
  CHECK(first.in_phase(0, 0).first);
  CHECK_FALSE(middle.in_phase(0, 0).first);
  CHECK_FALSE(first.in_phase(1, 0).first);
  CHECK(first.in_phase(1, 1).first);
  CHECK_FALSE(first.in_phase(2, 1).first);
  CHECK((middle.in_phase(-1, 0).first && middle.in_phase(-1, 1).last));
}

TEST_CASE("a result is scaled by the first task and rounded by the last", "[ops][chain]") {
  bf16_t out[] = {bf16_t(4.0f)};
  float carry[] = {0};
  ChainResult<bf16_t> result{out, carry, 0.5, first};
  CHECK(result.start(0) == 2);
  result.put(0, 1.001f);
  CHECK((carry[0] == 1.001f && static_cast<float>(out[0]) == 4));
  result.chain = last;
  CHECK(result.start(0) == 1.001f);
  result.put(0, 1.001f);
  CHECK((carry[0] == 1.001f && static_cast<float>(out[0]) == 1));
}

TEST_CASE("without a carry partial results are in the result", "[ops][chain]") {
  float out[] = {4};
  ChainResult<float> result{out, nullptr, 0.5, middle};
  CHECK(result.start(0) == 4);
  result.put(0, 6);
  CHECK(out[0] == 6);
  CHECK(result.with_left([](auto const* from) { return from == nullptr ? -1.0f : *from; }) == 6);
}

TEST_CASE("finishing adds the former value to the sum in the carry", "[ops][chain]") {
  float out[] = {4}, carry[] = {3};
  CHECK(ChainResult<float>{out, carry, 0.5, last, true}.start(0) == 5);
  CHECK(ChainResult<float>{out, carry, 0, last, true}.start(0) == 3);
}

TEST_CASE("a former value is not read where beta is 0", "[ops][chain]") {
  auto const never = []() -> float { throw 0; };
  CHECK(scaled<float>(0, never) == 0);
  CHECK(updated_by(0, never, 7.0f) == 7);
  CHECK(updated_by(2, [] { return 3.0f; }, 7.0f) == 13);
}

}  // namespace
