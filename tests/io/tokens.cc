// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/tokens.hh"

#include <filesystem>
#include <set>
#include <utility>

#include "nntile/core/box.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

/// Byte i is i mod 251: the first byte of a window gives its position.
std::string counting(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i % 251);
  return text;
}

struct Batch {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
};

}  // namespace

TEST_CASE("the last twentieth of a text is kept for validation", "[io][tokens]") {
  Corpus const corpus(counting(1000), 8);
  CHECK(corpus.train().size() == 950);
  CHECK(corpus.validation().size() == 50);
  CHECK(corpus.describe() == "text: 1000 bytes, 950 to train on, 50 to validate on");
  Corpus const small(counting(100), 8);  // a twentieth would be shorter than a window
  CHECK(small.validation().size() == 9);
}

TEST_CASE("labels are the tokens one later, sample after sample", "[io][tokens]") {
  Corpus const corpus(counting(240), 4);
  Batch batch;
  corpus.train_batch(10, 3, 7, batch.tokens, batch.labels);
  REQUIRE(batch.tokens.size() == 12);
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t s = 0; s < 4; ++s) {
      auto const at = static_cast<std::int64_t>(corpus.position(7, 10 + b) + s);
      CHECK(batch.tokens[4 * b + s] == at);
      CHECK(batch.labels[4 * b + s] == at + 1);
    }
}

TEST_CASE("a batch is the same wherever the run was resumed", "[io][tokens]") {
  Corpus const corpus(counting(5000), 16);
  Batch all, half;
  corpus.train_batch(0, 8, 1, all.tokens, all.labels);
  corpus.train_batch(4, 4, 1, half.tokens, half.labels);
  CHECK(std::equal(half.tokens.begin(), half.tokens.end(), all.tokens.begin() + 64));
  CHECK(std::equal(half.labels.begin(), half.labels.end(), all.labels.begin() + 64));
}

TEST_CASE("positions depend on seed and sample, stay inside and reach both ends", "[io][tokens]") {
  Corpus const corpus(counting(60), 4);  // 55 bytes to train on: positions 0 to 50
  std::set<std::uint64_t> seen;
  for (std::uint64_t sample = 0; sample < 2000; ++sample) seen.insert(corpus.position(3, sample));
  CHECK(seen.size() == 51);
  CHECK(*seen.rbegin() == 50);
  CHECK(corpus.position(3, 5) != corpus.position(4, 5));
}

TEST_CASE("positions are those that were documented", "[io][tokens]") {
  Corpus const corpus(std::string(1'000'000, 'x'), 64);
  std::uint64_t const words[2] = {42, 7};
  std::uint64_t const hash = hash64(std::as_bytes(std::span(words)));
  // 949,936 positions; the fraction in two halves, so that 64 bits suffice.
  std::uint64_t const expected =
      ((hash >> 32) * 949936 + ((hash & 0xffffffffu) * 949936 >> 32)) >> 32;
  CHECK(corpus.position(42, 7) == expected);
}

TEST_CASE("validation batches are spread evenly and do not overlap", "[io][tokens]") {
  Corpus const corpus(counting(20 * 201), 10);  // 201 bytes to validate on: 20 windows
  CHECK(corpus.validation_windows() == 20);
  CHECK(corpus.validation_batches(4) == 5);
  CHECK(corpus.validation_batches(64) == 1);
  Batch batch;
  std::vector<std::int64_t> firsts;
  for (std::size_t i = 0; i < 2; ++i) {
    corpus.validation_batch(i, 2, 4, batch.tokens, batch.labels);
    for (std::size_t b = 0; b < 4; ++b) firsts.push_back(batch.tokens[10 * b]);
  }
  auto const origin = static_cast<std::int64_t>(corpus.train().size() % 251);
  std::vector<std::int64_t> expected;
  for (std::int64_t const window : {0, 2, 5, 7, 10, 12, 15, 17})
    expected.push_back((origin + 10 * window) % 251);
  CHECK(firsts == expected);
}

TEST_CASE("files are joined in order", "[io][tokens]") {
  Scratch const scratch;
  put(scratch / "a", std::string(30, 'a'));
  put(scratch / "b", std::string(30, 'b'));
  Corpus const corpus = Corpus::open({scratch / "a", scratch / "b"}, 4);
  CHECK(corpus.train().starts_with("aaa"));
  CHECK(corpus.validation() == "bbbbb");
  CHECK(corpus.hash() == hash64(std::string(30, 'a') + std::string(30, 'b')));
  CHECK_THAT(corpus.describe(), Contains("2 files: 60 bytes"));
}

TEST_CASE("a text that does not fit in memory is refused unread", "[io][tokens]") {
  Scratch const scratch;
  put(scratch / "a", std::string(30, 'a'));
  put(scratch / "huge", "b");
  std::filesystem::resize_file(scratch / "huge", std::uint64_t{1} << 40);  // a hole
  std::vector<std::string> const paths{scratch / "a", scratch / "huge"};
  CHECK_THAT(thrown<OutOfMemory>([&] { Corpus::open(paths, 4, 1000); }),
             Contains("huge' has 1099511627776 bytes where 970 fit in memory"));
  CHECK(Corpus::open({scratch / "a", scratch / "a"}, 4, 60).describe().starts_with("2 files: 60"));
}

TEST_CASE("text that cannot be trained on is refused with what would suffice", "[io][tokens]") {
  Scratch const scratch;
  put(scratch / "empty", "");
  put(scratch / "short", std::string(100, 'x'));
  auto const refused = [](std::vector<std::string> const& paths) {
    return thrown([&] { Corpus::open(paths, 64); });
  };
  CHECK_THAT(refused({}), Contains("name at least one file"));
  CHECK_THAT(refused({scratch / "none"}), Contains("none': No such file"));
  CHECK_THAT(refused({scratch.path()}), Contains("Is a directory"));
  CHECK_THAT(refused({scratch / "short", scratch / "empty"}), Contains("empty' is empty"));
  CHECK_THAT(refused({scratch / "short"}),
             Contains("short': 100 bytes where sequences of 64 need 130"));
  for (std::size_t const length : {std::size_t{0}, SIZE_MAX, SIZE_MAX / 2 + 1})
    CHECK(thrown<ValueError>([&] { Corpus("text", length); }) ==
          concat("sequence of ", length, " tokens; 1 to 1099511627776"));
}

TEST_CASE("batches that are not there are refused", "[io][tokens]") {
  Corpus const corpus(counting(20 * 201), 10);
  Batch batch;
  for (auto const& [index, batches] : {std::pair(0, 0), {2, 2}, {1 << 30, 2}}) {
    auto const at = static_cast<std::size_t>(index), of = static_cast<std::size_t>(batches);
    auto const words = concat(": there is no batch ", index, " of ", batches);
    CHECK_THAT(
        thrown<ValueError>([&] { corpus.validation_batch(at, of, 4, batch.tokens, batch.labels); }),
        Contains("validation_batch" + words));
    CHECK_THAT(thrown<ValueError>([&] {
                 corpus.validation_tile(at, of, 4, {{0, 0}, {10, 4}}, batch.tokens, batch.labels);
               }),
               Contains("validation_tile" + words));
  }
  for (TileBox const& box : {TileBox{{0, 3}, {10, 2}}, TileBox{{0, 0}, {10, -1}},
                             TileBox{{0, 0}, {-1, 4}}, TileBox{{1, 0}, {INT64_MAX, 4}}})
    CHECK_THROWS_AS(corpus.validation_tile(1, 2, 4, box, batch.tokens, batch.labels), ShapeError);
}

TEST_CASE("a batch that no memory holds is refused", "[io][tokens]") {
  Corpus const corpus(counting(1000), 64);
  Batch batch;
  std::size_t const many = std::size_t{1} << 58;  // times 64 tokens is 2^64
  std::string const words = "a batch of 288230376151711744 sequences of 64 tokens: no memory holds";
  CHECK_THAT(
      thrown<ValueError>([&] { corpus.train_batch(0, many, 1, batch.tokens, batch.labels); }),
      Contains(words));
  CHECK_THAT(
      thrown<ValueError>([&] { corpus.validation_batch(0, 1, many, batch.tokens, batch.labels); }),
      Contains(words));
  TileBox const box{{0, 0}, {64, static_cast<Index>(many)}};
  CHECK_THAT(thrown<ValueError>([&] { corpus.train_tile(0, box, 1, batch.tokens, batch.labels); }),
             Contains(words));
}

TEST_CASE("a tile of no tokens is empty, however many sequences it has", "[io][tokens]") {
  Corpus const corpus(counting(1000), 64);
  Batch batch{{1}, {1}};
  TileBox const box{{0, 0}, {0, INT64_MAX}};
  corpus.train_tile(0, box, 1, batch.tokens, batch.labels);
  CHECK(batch.tokens.empty());
  CHECK(batch.labels.empty());
}

TEST_CASE("more validation batches than can be counted are refused", "[io][tokens]") {
  Corpus const corpus(counting(1000), 10);
  Batch batch;
  for (std::size_t const batches : {SIZE_MAX / 2 + 1, SIZE_MAX / 4, SIZE_MAX / 8 + 1}) {
    auto const words = concat(": ", batches, " batches of 2 sequences");
    CHECK_THAT(thrown<ValueError>([&] {
                 corpus.validation_batch(batches - 1, batches, 2, batch.tokens, batch.labels);
               }),
               Contains("validation_batch" + words));
    CHECK_THAT(thrown<ValueError>([&] {
                 corpus.validation_tile(0, batches, 2, {{0, 0}, {10, 2}}, batch.tokens,
                                        batch.labels);
               }),
               Contains("validation_tile" + words));
  }
}

TEST_CASE("bytes above 127 are tokens above 127", "[io][tokens]") {
  Corpus const corpus(std::string(40, '\xff'), 4);
  Batch batch;
  corpus.train_batch(0, 1, 0, batch.tokens, batch.labels);
  CHECK(batch.tokens == std::vector<std::int64_t>(4, 255));
}

TEST_CASE("tiles of a batch are read without the rest of it", "[io][tokens]") {
  Corpus const corpus(counting(5000), 12);
  Batch all;
  corpus.train_batch(20, 5, 3, all.tokens, all.labels);
  Tiling const tiling(Shape{12, 5}, Shape{5, 2});
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    TileBox const box = tiling.box(tile);
    Batch part, wanted;
    corpus.train_tile(20, box, 3, part.tokens, part.labels);
    for (auto const& [from, to] :
         {std::pair(&all.tokens, &wanted.tokens), {&all.labels, &wanted.labels}}) {
      to->resize(static_cast<std::size_t>(element_count(box.extent)));
      copy_to_tile(to->data(), box, from->data(), {12, 5}, sizeof(std::int64_t));
    }
    CHECK(part.tokens == wanted.tokens);
    CHECK(part.labels == wanted.labels);
  }
  corpus.validation_batch(1, 3, 5, all.tokens, all.labels);
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    TileBox const box = tiling.box(tile);
    Batch part;
    std::vector<std::int64_t> wanted(static_cast<std::size_t>(element_count(box.extent)));
    corpus.validation_tile(1, 3, 5, box, part.tokens, part.labels);
    copy_to_tile(wanted.data(), box, all.tokens.data(), {12, 5}, sizeof(std::int64_t));
    CHECK(part.tokens == wanted);
    copy_to_tile(wanted.data(), box, all.labels.data(), {12, 5}, sizeof(std::int64_t));
    CHECK(part.labels == wanted);
  }
  Batch part;
  for (TileBox const& box : {TileBox{{8, 0}, {5, 2}}, TileBox{{-1, 0}, {5, 2}}, TileBox{{0}, {5}}})
    CHECK_THROWS_AS(corpus.train_tile(0, box, 3, part.tokens, part.labels), ShapeError);
}
