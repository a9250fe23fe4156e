// SPDX-License-Identifier: BSD-3-Clause
// Shares that do not make up a checkpoint: a save refuses them, and the last good one stays.
#include "nntile/io/checkpoint.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

std::vector<float> const values(4, 1.0f);

TensorSource source(std::string name, Shape const& shape, DType dtype = DType::fp32) {
  auto const count = static_cast<std::size_t>(element_count(shape));
  return source_of(std::move(name), dtype, shape,
                   std::as_bytes(std::span(values)).first(count * size_of(dtype)));
}
TensorShare whole(std::string name) { return {name, DType::fp32, {4}, {}, {source(name, {4})}}; }
/// One of four elements, in tiles of two and what the borders say.
TensorShare in_tiles(Borders borders, std::vector<TensorSource> own) {
  return {"a", DType::fp32, {4}, std::move(borders), std::move(own)};
}
std::vector<TensorSource> halves() { return {source("a#t0", {2}), source("a#t1", {2})}; }

/// The error of saving shares on one rank, where one checkpoint is kept; that one is read.
std::string refusal(std::vector<TensorShare> const& shares) {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path(), {.keep = 1});
  directory.save_shares(Json::object(), {}, std::vector{whole("a")});
  TrainingState state;
  state.step = 1;
  std::string const error =
      message_of<ValueError>([&] { directory.save_shares(Json::object(), state, shares); });
  CHECK(list_directory(scratch.path()) == std::vector<std::string>{"step-0000000000"});
  CHECK_NOTHROW(Checkpoint::open(*directory.latest()).verify());
  return error;
}

}  // namespace

TEST_CASE("tiles and whole tensors are saved on one rank, too", "[io][shares]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  TensorShare const tiles = in_tiles({{0, 2, 4}}, halves());
  directory.save_shares(Json::object(), {}, std::vector{tiles, whole("b")});
  auto const checkpoint = Checkpoint::open(*directory.latest());
  CHECK_NOTHROW(checkpoint.verify());
  CHECK(checkpoint.tensors().size() == 3);
}

TEST_CASE("two tensors of one name are not saved", "[io][shares]") {
  TensorShare other = whole("a#t1");
  other.own.clear();  // another rank writes it, into a file of its own
  CHECK(refusal({in_tiles({{0, 2, 4}}, halves()), other}) ==
        "save: two tensors would be 'a#t1': tiles of 'a' have such names; rename the other");
  CHECK(refusal({other, in_tiles({{0, 2, 4}}, halves())}) ==
        "save: two tensors would be 'a#t1': tiles of 'a' have such names; rename the other");
  TensorShare twice = whole("a");
  twice.own.clear();
  CHECK(refusal({whole("a"), twice}) == "save: two tensors would be 'a'; rename one");
  CHECK_THAT(refusal({whole("a"), in_tiles({{0, 2, 4}}, halves())}),
             Contains("'a' is whole and cut"));
}

TEST_CASE("a share of another name, dtype or shape than what is written is refused",
          "[io][shares]") {
  TensorShare share = whole("a");
  share.own[0].name = "b";
  CHECK(refusal({share}) == "save: rank 0 writes tensor 'b', of which no share is given");
  share.own = {source("a", {2, 2})};
  CHECK(refusal({share}) ==
        "save: rank 0 writes tensor 'a' as F32 [2, 2] where the shares say F32 [4]");
  share.own = {source("a", {2}, DType::fp64)};
  CHECK_THAT(refusal({share}), Contains("'a' as F64 [2] where the shares say F32 [4]"));
  CHECK_THAT(refusal({in_tiles({{0, 1, 4}}, halves())}),
             Contains("'a#t0' as F32 [2] where the shares say F32 [1]"));
}

TEST_CASE("a tensor or tile that no rank writes is refused", "[io][shares]") {
  TensorShare share = whole("a");
  share.own.clear();
  CHECK(refusal({share}) == "save: no rank writes tensor 'a'");
  CHECK(refusal({in_tiles({{0, 2, 4}}, {source("a#t0", {2})})}) ==
        "save: no rank writes tensor 'a#t1'");
}

TEST_CASE("borders that do not cut a tensor are refused", "[io][shares]") {
  std::vector<TensorSource> const short_halves{source("a#t0", {2}), source("a#t1", {1})};
  CHECK(refusal({in_tiles({{0, 2, 3}}, short_halves)}) ==
        "save: tensor 'a': its borders are those of [3], its shape is [4]");
  for (Borders const& borders : {Borders{{}}, Borders{{0}}, Borders{{0, 3, 2, 4}}, Borders{{1, 4}}})
    CHECK(refusal({in_tiles(borders, halves())}) ==
          "save: tensor 'a': its borders do not ascend from 0");
  CHECK_THAT(refusal({in_tiles(Borders(9, {0, 1}), halves())}),
             Contains("9 dimensions of borders"));
}

TEST_CASE("a tensor that two ranks write is refused with the second one's number", "[io][shares]") {
  TensorShare const share{"a", DType::fp32, {4}, {}, {}};
  nntile::io::detail::SharedTensors shared(std::span(&share, 1));
  std::string const text = R"([{"name":"f","bytes":1,"checksum":2,"tensors":[)"
                           R"({"name":"a","dtype":"F32","shape":[4],"checksum":3}]}])";
  JsonView const list = parse_json(text, "a rank");
  shared.take(0, list);
  CHECK(thrown<ValueError>([&] { shared.take(1, list); }) ==
        "save: rank 1 writes tensor 'a', which is written already");
}
