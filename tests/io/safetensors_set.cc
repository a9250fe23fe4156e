// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/safetensors_set.hh"

#include "nntile/io/tensor_io.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

/// Two files with a tensor each, "a" = 1 and "b" = 2, in a directory of their own.
void write_two(Scratch const& scratch) {
  float value = 0;
  for (auto const& [file, tensor] : {std::pair("model-00001-of-00002.safetensors", "a"),
                                     std::pair("model-00002-of-00002.safetensors", "b")}) {
    value += 1;
    TensorSource const source =
        source_of(tensor, DType::fp32, {1}, std::as_bytes(std::span(&value, 1)));
    save_tensors(scratch / file, std::span(&source, 1));
  }
}

std::string index_of(std::string const& map) {
  return R"({"metadata":{"total_size":1},"weight_map":)" + map + "}";
}
std::string const good_map =
    R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})";

}  // namespace

TEST_CASE("a directory with an index is one model", "[io][safetensors_set]") {
  Scratch const scratch;
  write_two(scratch);
  put(scratch / "model.safetensors.index.json", index_of(good_map));
  auto const set = SafetensorsSet::open(scratch.path());
  float values[2] = {};
  TensorTarget const targets[] = {
      target_of("b", DType::fp32, {1}, std::as_writable_bytes(std::span(values, 1))),
      target_of("a", DType::fp32, {1}, std::as_writable_bytes(std::span(values + 1, 1)))};
  load_tensors(set, targets);
  CHECK(values[0] == 2);
  CHECK(values[1] == 1);
  CHECK_THAT(thrown<FormatError>([&] { load_tensors(set, std::span(targets, 1)); }),
             Contains("tensor 'a' is not among those to load"));
}

TEST_CASE("a single file and a directory with one are sets too", "[io][safetensors_set]") {
  Scratch const scratch;
  write_two(scratch);
  CHECK(SafetensorsSet::open(scratch / "model-00001-of-00002.safetensors").size() == 1);
  rename_path(scratch / "model-00001-of-00002.safetensors", scratch / "model.safetensors");
  CHECK(SafetensorsSet::open(scratch.path()).at("a").entry.bytes() == 4);
  CHECK_THAT(thrown([&] { SafetensorsSet::open(scratch / "none"); }), Contains("No such file"));
}

TEST_CASE("memory that is not a tensor's size is refused", "[io][safetensors_set]") {
  float values[3] = {};
  for (std::size_t const size : {std::size_t{1}, std::size_t{3}}) {
    auto const memory = std::as_writable_bytes(std::span(values).first(size));
    std::string const words =
        concat("'w' [2] of F32 has 8 bytes, the memory given for it ", 4 * size);
    CHECK(thrown<ShapeError>([&] { (void)source_of("w", DType::fp32, {2}, memory); }) == words);
    CHECK(thrown<ShapeError>([&] { (void)target_of("w", DType::fp32, {2}, memory); }) == words);
  }
  CHECK_THROWS_AS(source_of("w", DType::fp32, {INT64_MAX, 8}, {}), ShapeError);
  CHECK_NOTHROW(source_of("w", DType::fp32, {0, 8}, {}));
}

TEST_CASE("an index that lies is refused", "[io][safetensors_set]") {
  Scratch const scratch;
  write_two(scratch);
  auto const refused = [&](std::string const& text) {
    put(scratch / "i.json", text);
    return thrown([&] { SafetensorsSet::open(scratch / "i.json"); });
  };
  std::string const one = R"("model-00001-of-00002.safetensors")";
  CHECK(refused(index_of(good_map)).empty());
  CHECK_THAT(refused("{}"), Contains("'weight_map' is missing"));
  CHECK_THAT(refused(index_of("[]")), Contains("'weight_map' is []"));
  CHECK_THAT(refused(index_of(R"({"a":1})")),
             Contains("the file of tensor 'a' is 1 where a string"));
  CHECK_THAT(refused(index_of(R"({"a":"../x.safetensors"})")),
             Contains("'../x.safetensors' of tensor 'a' is not a plain"));
  CHECK_THAT(refused(index_of(R"({"a":"/etc/passwd"})")), Contains("not a plain file name"));
  CHECK_THAT(refused(index_of(R"({"a":".."})")), Contains("not a plain file name"));
  CHECK_THAT(refused(index_of(R"({"a":""})")), Contains("not a plain file name"));
  CHECK_THAT(refused(index_of(R"({"a":"none.safetensors"})")),
             Contains("none.safetensors': No such file"));
  CHECK_THAT(refused(index_of(R"({"c":)" + one + "}")),
             Contains("tensor 'c' is not in 'model-00001"));
  CHECK_THAT(refused(index_of(R"({"a":)" + one + R"(,"a":)" + one + "}")), Contains("comes twice"));
}

TEST_CASE("tensors that an index does not list are an error unless ignored",
          "[io][safetensors_set]") {
  Scratch const scratch;
  write_two(scratch);
  put(scratch / "i.json", index_of("{}"));
  CHECK(SafetensorsSet::open(scratch / "i.json").size() == 0);
  float const values[2] = {1, 2};
  TensorSource const sources[] = {
      source_of("a", DType::fp32, {1}, std::as_bytes(std::span(values, 1))),
      source_of("extra", DType::fp32, {1}, std::as_bytes(std::span(values, 1)))};
  save_tensors(scratch / "model-00001-of-00002.safetensors", sources);
  put(scratch / "i.json", index_of(good_map));
  CHECK_THAT(thrown<FormatError>([&] { SafetensorsSet::open(scratch / "i.json"); }),
             Contains("tensor 'extra' is not listed"));
  CHECK(SafetensorsSet::open(scratch / "i.json", Reading::lenient, Extra::ignored).size() == 3);
}

TEST_CASE("a tensor in two files of a set is refused", "[io][safetensors_set]") {
  Scratch const scratch;
  write_two(scratch);
  put(scratch / "model-00002-of-00002.safetensors",
      get(scratch / "model-00001-of-00002.safetensors"));
  put(scratch / "i.json",
      index_of(
          R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})"));
  CHECK_THAT(thrown<FormatError>([&] { SafetensorsSet::open(scratch / "i.json"); }),
             Contains("tensor 'a' is in another file"));
}
