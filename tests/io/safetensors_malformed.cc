// SPDX-License-Identifier: BSD-3-Clause
// The safetensors reader against files that lie, and against damage.
#include <set>

#include "nntile/io/safetensors.hh"
#include "tests/io/allocations.hh"
#include "tests/io/broken_safetensors.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

std::string const good_entry = entry(R"("F32")", "[1]", "[0,4]");
std::string const good = R"({"w":)" + good_entry + "}";

/// The largest request for memory that refusing a file may make: texts of errors take some hundred
/// bytes, whatever the file's size.
std::size_t allowed(std::string const& bytes) { return std::max<std::size_t>(bytes.size(), 1024); }

}  // namespace

TEST_CASE("each file of the corpus is refused before anything larger than it is allocated",
          "[io][safetensors]") {
  Scratch const scratch;
  auto const corpus = broken_safetensors();
  CHECK(corpus.size() >= 150);
  std::set<std::string> titles;
  for (BrokenFile const& broken : corpus) {
    INFO(broken.title);
    CHECK(titles.insert(broken.title).second);
    put(scratch / "a", broken.bytes);
    for (Reading const reading : {Reading::lenient, Reading::strict}) {
      forget_allocations();
      std::string const text =
          thrown<FormatError>([&] { SafetensorsFile::open(scratch / "a", reading); });
      CHECK(largest_allocation() <= allowed(broken.bytes));
      CHECK_THAT(text, Contains(scratch / "a"));
      CHECK(text.find('\n') == std::string::npos);
      if (reading == Reading::lenient) CHECK_THAT(text, Contains(broken.words));
    }
  }
}

TEST_CASE("the file that the corpus is made from is read", "[io][safetensors]") {
  Scratch const scratch;
  put(scratch / "a", valid_safetensors());
  CHECK_NOTHROW(SafetensorsFile::open(scratch / "a", Reading::strict));
}

TEST_CASE("strict reading refuses what lenient reading takes", "[io][safetensors]") {
  Scratch const scratch;
  std::pair<std::string, char const*> const cases[] = {
      {" \t\r\n" + good, "does not begin with '{'"},
      {good + "\n", "not padded with spaces"},
      {R"({"w":{"x":{"y":[1.5,null]},"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       "unknown key 'x'"},
      {R"({"w":)" + good_entry + R"(,"e":)" + entry(R"("U8")", "[0,281474976710656]", "[4,4]") +
           "}",
       "exceeds 2^48 - 1"},
      {nested(125), "unknown key 'x'"},
      {R"({"w":{"x":1,"x":[{}],"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "unknown key"},
      {R"({"__metadata__":null,"w":)" + good_entry + "}", "is null where an object"},
      {"{\"" + std::string(65537, 'x') + "\":" + good_entry + "}", "longer than 65536 bytes"},
  };
  for (auto const& [header, words] : cases) {
    put(scratch / "a", file_of(header, 4));
    CHECK_NOTHROW(SafetensorsFile::open(scratch / "a"));
    CHECK_THAT(thrown<FormatError>([&] { SafetensorsFile::open(scratch / "a", Reading::strict); }),
               Contains(words));
  }
}

TEST_CASE("unusual but legal headers are read", "[io][safetensors]") {
  Scratch const scratch;
  std::string const empties = R"({"a":)" + entry(R"("U8")", "[0]", "[0,0]") + R"(,"b":)" +
                              entry(R"("F64")", "[3,0]", "[0,0]") + R"(,"":)" + good_entry +
                              R"(,"__pad__/0":)" + entry(R"("U8")", "[3]", "[4,7]") + "}   ";
  put(scratch / "a", file_of(empties, 7));
  auto const file = SafetensorsFile::open(scratch / "a", Reading::strict);
  REQUIRE(file.entries().size() == 4);
  CHECK(file.at("").bytes() == 4);
  CHECK(file.at("b").shape == FileShape{3, 0});
  CHECK(is_padding(file.entries().back().name));
  put(scratch / "a", file_of(one(R"("F6_E3M2")", "[4]", "[0,3]"), 3));
  CHECK(SafetensorsFile::open(scratch / "a").at("w").bytes() == 3);
}

TEST_CASE("a BOOL byte of 2 is refused when it is read", "[io][safetensors]") {
  Scratch const scratch;
  std::string bytes = valid_safetensors();
  bytes.back() = 2;
  put(scratch / "a", bytes);
  auto const file = SafetensorsFile::open(scratch / "a");
  std::byte value{};
  CHECK_THAT(thrown<FormatError>([&] { file.read(file.at("b"), std::span(&value, 1)); }),
             Contains("'b' is BOOL but holds a byte of value 2"));
}

TEST_CASE("a file that shrinks after it was opened is refused", "[io][safetensors]") {
  Scratch const scratch;
  put(scratch / "a", valid_safetensors());
  auto const file = SafetensorsFile::open(scratch / "a");
  REQUIRE(::truncate((scratch / "a").c_str(), static_cast<off_t>(valid_safetensors().size() - 4)) ==
          0);
  std::byte out[8];
  CHECK_THAT(thrown<FormatError>([&] { file.read(file.at("a"), out); }),
             Contains("more were expected"));
}

TEST_CASE("a header with random damage is refused or still consistent", "[io][safetensors]") {
  std::string const header = valid_safetensors().substr(8, valid_safetensors().size() - 17);
  std::uint64_t state = 12345;  // a fixed seed: Knuth's linear congruential generator
  auto const next = [&] {
    return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33;
  };
  for (int round = 0; round < 5000; ++round) {
    std::string text = header;
    for (std::uint64_t edits = 1 + next() % 3; edits > 0; --edits) {
      std::size_t const at = next() % text.size();
      if (next() % 3 == 0)
        text.erase(at, 1);
      else if (next() % 2 == 0)
        text[at] = static_cast<char>(next());
      else
        text.insert(at, 1, "{}[]\",:0129-.e\\u"[next() % 16]);
    }
    try {
      FileHeader const parsed = parse_header(text, 9, "random");
      CHECK((parsed.empty() || parsed.back().end == 9));
    } catch (FormatError const&) {
    }
  }
}
