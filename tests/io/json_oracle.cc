// SPDX-License-Identifier: BSD-3-Clause
// Our JSON reader against nlohmann's, on texts with random damage; tests/fuzz goes on with it.
#include "tests/support/catch.hh"

#if __has_include(<nlohmann/json.hpp>)

#include "tests/io/json_oracle.hh"

using namespace nntile::test;

TEST_CASE("a damaged text is read as nlohmann's reader reads it", "[io][json_oracle]") {
  std::string const texts[] = {
      R"({"a":[1,-2,3.5e2,true,false,null],"b":{"c":"\u00e9\ud83d\ude00\n\/"},"":[[],{}]})",
      "[0,-0,0.5,-0.0,1E+2,1e-2,18446744073709551615,18446744073709551616,-9223372036854775808,"
      "-9223372036854775809,1e308,4.9e-324,123456789012345678901234567890]",
      "\t\r\n [ \"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\" , \"\\\"\\\\\\b\\f\\r\\t\" ] ",
  };
  std::uint64_t state = 2026;  // a fixed seed: Knuth's linear congruential generator
  auto const next = [&] {
    return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33;
  };
  for (int round = 0; round < 30000; ++round) {
    std::string text = texts[next() % std::size(texts)];
    if (round >= 3)
      for (std::uint64_t edits = 1 + next() % 3; edits > 0 && !text.empty(); --edits) {
        std::size_t const at = next() % text.size();
        if (next() % 3 == 0)
          text.erase(at, 1);
        else if (next() % 2 == 0)
          text[at] = static_cast<char>(next());
        else
          text.insert(at, 1, "{}[]\",:0129-+.eE\\uDdntf \n"[next() % 25]);
      }
    std::string const difference = json_disagreement(text);
    INFO(text);
    REQUIRE(difference == "");
  }
}

#else

TEST_CASE("nlohmann's reader is not there to compare with", "[io][json_oracle]") {
  nntile::test::skip("no nlohmann/json.hpp");
}

#endif
