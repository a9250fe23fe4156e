// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/random.hh"

#include <set>

#include "tests/support/catch.hh"

namespace {

using namespace nntile;

void check_words(RandomWords const& got, RandomWords const& expected) {
  for (int i = 0; i < 4; ++i) CHECK(got.word[i] == expected.word[i]);
}

}  // namespace

TEST_CASE("Philox gives the published numbers", "[core][random]") {
  // Known-answer vectors of Random123 1.09, "philox4x32 10".
  check_words(philox(0, 0, 0), {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  check_words(philox(~0ull, ~0ull, ~0ull), {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  check_words(philox(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
              {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST_CASE("the same integers come out while compiling", "[core][random]") {
  static_assert(philox(0, 0, 0).word[0] == 0x6627e8d5u);
  static_assert(bits53(~0u, ~0u) == (1ull << 53) - 1);
}

TEST_CASE("names, seeds and neighbours have keys of their own", "[core][random]") {
  std::set<std::uint64_t> keys;
  for (char const* name : {"", "h.0.attn.weight", "h.1.attn.weight", "h.0.attn.bias", "wte"})
    for (std::uint64_t seed = 0; seed < 100; ++seed) keys.insert(random_key(seed, hash_name(name)));
  CHECK(keys.size() == 500);
}
