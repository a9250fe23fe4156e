// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/safetensors.hh"

#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

struct Sample {
  io::TensorSpec spec;
  std::string bytes;
};

std::string raw(std::initializer_list<int> values) {
  std::string bytes;
  for (int const value : values) bytes += static_cast<char>(value);
  return bytes;
}

template <class T> std::string raw_of(std::initializer_list<T> values) {
  std::string bytes;
  for (T const value : values) bytes.append(reinterpret_cast<char const*>(&value), sizeof value);
  return bytes;
}

/// Tensors of several dtypes, an empty one, a scalar, and a name that JSON must escape.
std::vector<Sample> samples() {
  return {
      {{"wte.weight", FileDType::f32, {2, 3}}, raw_of<float>({1, 2, 3, 4, 5, 6})},
      {{"h.0.bias", FileDType::f32, {2}}, raw_of<float>({-1.5f, 0.25f})},
      {{"flag", FileDType::boolean, {3}}, raw({1, 0, 1})},
      {{"ids", FileDType::i64, {2}}, raw_of<std::int64_t>({7, -8})},
      {{"scale", FileDType::f64, {}}, raw_of<double>({2.5})},
      {{"half", FileDType::f16, {2}}, raw({0x00, 0x3c, 0x00, 0xc0})},
      {{"empty", FileDType::i32, {0, 4}}, ""},
      {{"quo\"te\\ \xC3\xA9", FileDType::i32, {1}}, raw({3, 0, 0, 0})},
  };
}

/// What safetensors 0.8.0 for Python writes for samples() with metadata {"format": "pt"}.
std::string golden() {
  std::string const header =
      R"({"__metadata__":{"format":"pt"},"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("scale":{"dtype":"F64","shape":[],"data_offsets":[16,24]},)"
      R"("h.0.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},)"
      R"("wte.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[32,56]},)"
      R"("empty":{"dtype":"I32","shape":[0,4],"data_offsets":[56,56]},)"
      R"("quo\"te\\ )"
      "\xC3\xA9"
      R"(":{"dtype":"I32","shape":[1],"data_offsets":[56,60]},)"
      R"("half":{"dtype":"F16","shape":[2],"data_offsets":[60,64]},)"
      R"("flag":{"dtype":"BOOL","shape":[3],"data_offsets":[64,67]}}  )";
  std::string const data =
      raw({0x07, 0,    0,    0,    0,    0,    0,    0,    0xf8, 0xff, 0xff, 0xff, 0xff, 0xff,
           0xff, 0xff, 0,    0,    0,    0,    0,    0,    0x04, 0x40, 0,    0,    0xc0, 0xbf,
           0,    0,    0x80, 0x3e, 0,    0,    0x80, 0x3f, 0,    0,    0,    0x40, 0,    0,
           0x40, 0x40, 0,    0,    0x80, 0x40, 0,    0,    0xa0, 0x40, 0,    0,    0xc0, 0x40,
           0x03, 0,    0,    0,    0,    0x3c, 0,    0xc0, 0x01, 0x00, 0x01});
  return raw({0x08, 0x02, 0, 0, 0, 0, 0, 0}) + header + data;
}

void write_samples(std::string const& path) {
  std::vector<io::TensorSpec> specs;
  for (Sample const& sample : samples()) specs.push_back(sample.spec);
  SafetensorsWriter writer(path, specs);
  for (Sample const& sample : samples()) writer.write(sample.spec.name, bytes_of(sample.bytes));
  writer.commit();
}

std::string read_all(SafetensorsFile const& file, std::string_view name) {
  TensorEntry const entry = file.at(name);
  std::string bytes(static_cast<std::size_t>(entry.bytes()), '\0');
  file.read(entry, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

TEST_CASE("the writer makes the reference's bytes", "[io][safetensors]") {
  Scratch const scratch;
  write_samples(scratch / "a.safetensors");
  CHECK(get(scratch / "a.safetensors") == golden());
}

TEST_CASE("the reader finds what the reference wrote", "[io][safetensors]") {
  Scratch const scratch;
  put(scratch / "a", golden());
  auto const file = SafetensorsFile::open(scratch / "a", Reading::strict);
  REQUIRE(file.entries().size() == samples().size());
  CHECK(file.entries().front().name == "ids");
  CHECK(file.metadata() == Json::object({{"format", "pt"}}));
  for (Sample const& sample : samples()) {
    CHECK(file.at(sample.spec.name).dtype == sample.spec.dtype);
    CHECK(file.at(sample.spec.name).shape == sample.spec.shape);
    CHECK(read_all(file, sample.spec.name) == sample.bytes);
  }
}

TEST_CASE("a range of a tensor is read alone", "[io][safetensors]") {
  Scratch const scratch;
  put(scratch / "a", golden());
  auto const file = SafetensorsFile::open(scratch / "a");
  float row[3] = {};
  file.read(file.at("wte.weight"), 12, std::as_writable_bytes(std::span(row)));
  CHECK(row[0] == 4);
  CHECK(row[2] == 6);
  CHECK_THAT(thrown<ShapeError>([&] {
               file.read(file.at("wte.weight"), 16, std::as_writable_bytes(std::span(row)));
             }),
             Contains("12 bytes at 16 of 'wte.weight', which has 24"));
  CHECK_THAT(thrown<ShapeError>(
                 [&] { file.read(file.at("ids"), std::as_writable_bytes(std::span(row))); }),
             Contains("'ids', which has 16"));
  CHECK_THAT(thrown<FormatError>([&] { file.at("wpe"); }), Contains("no tensor 'wpe'"));
}

TEST_CASE("data may be written backwards in pieces", "[io][safetensors]") {
  Scratch const scratch;
  SafetensorsWriter writer(scratch / "a", {{"w", FileDType::u8, {6}}, {"v", FileDType::u8, {2}}});
  writer.write("w", 3, bytes_of("def"));
  writer.write("v", bytes_of("xy"));
  writer.write("w", 0, bytes_of("abc"));
  writer.commit();
  CHECK(get(scratch / "a").ends_with("xyabcdef"));
  CHECK(get(scratch / "a").size() == writer.file_bytes());
}

TEST_CASE("a file without all of its data is not committed", "[io][safetensors]") {
  Scratch const scratch;
  {
    SafetensorsWriter writer(scratch / "a", {{"w", FileDType::f32, {2}}});
    writer.write("w", 0, bytes_of("1234"));
    CHECK_THAT(thrown<ValueError>([&] { writer.commit(); }),
               Contains("4 of 8 bytes of 'w' were written"));
    CHECK_THAT(thrown<ShapeError>([&] { writer.write("w", 5, bytes_of("1234")); }),
               Contains("which has 8"));
    CHECK_THAT(thrown<ValueError>([&] { writer.write("u", bytes_of("1234")); }),
               Contains("no tensor 'u'"));
  }
  CHECK(list_directory(scratch.path()).empty());
}

TEST_CASE("bytes of a tensor that come twice are refused", "[io][safetensors]") {
  Scratch const scratch;
  SafetensorsWriter writer(scratch / "a", {{"w", FileDType::u8, {9}}});
  writer.write("w", 3, bytes_of("def"));
  for (std::uint64_t const at : {1u, 3u, 4u, 5u})
    CHECK_THAT(thrown<ValueError>([&] { writer.write("w", at, bytes_of("xyz")); }),
               Contains(concat("bytes ", at, " to ", at + 2, " of 'w' in '")) &&
                   Contains("bytes 3 to 5 were written"));
  writer.write("w", 0, bytes_of("abc"));
  writer.write("w", 3, bytes_of(""));
  CHECK_THROWS_AS(writer.write("w", bytes_of("abcdefghi")), ValueError);
  CHECK_THROWS_AS(writer.commit(), ValueError);
  writer.write("w", 6, bytes_of("ghi"));
  writer.commit();
  CHECK(get(scratch / "a").ends_with("abcdefghi"));
}

TEST_CASE("bytes whose write failed may come again", "[io][safetensors]") {
  Scratch const scratch;
  int writes = 0;
  Fault const fault{[&](FileStep step, std::string const&, std::size_t&) {
    return step == FileStep::write && ++writes == 2 ? ENOSPC : 0;
  }};
  SafetensorsWriter writer(scratch / "a", {{"w", FileDType::u8, {3}}}, {.fault = &fault});
  CHECK_THROWS_AS(writer.write("w", bytes_of("abc")), Error);
  writer.write("w", bytes_of("abc"));
  writer.commit();
  CHECK(get(scratch / "a").ends_with("abc"));
}

TEST_CASE("tensors that no file can hold are refused", "[io][safetensors]") {
  auto const refused = [](std::vector<io::TensorSpec> specs) {
    return thrown([&] { lay_out(std::move(specs)); });
  };
  CHECK_THAT(refused({{"a", FileDType::f32, {}}, {"a", FileDType::f64, {}}}),
             Contains("'a' comes twice"));
  CHECK_THAT(refused({{"__metadata__", FileDType::f32, {}}}), Contains("no tensor's name"));
  CHECK_THAT(refused({{"a\nb", FileDType::f32, {}}}), Contains("control character 10"));
  CHECK_THAT(refused({{std::string(70000, 'x'), FileDType::f32, {}}}),
             Contains("longer than 65536"));
  CHECK_THAT(refused({{"a", FileDType::f4, {3}}}), Contains("'a' [3] of F4 cannot be stored"));
  CHECK_THAT(refused({{"a", FileDType::f64, {1u << 31, 1u << 31, 2}}}),
             Contains("cannot be stored"));
  CHECK_THAT(refused({{"a", FileDType::u8, {0, std::uint64_t{1} << 48}}}),
             Contains("cannot be stored"));
  CHECK_NOTHROW(lay_out({{"a", FileDType::u8, {0, largest_extent}}}));
  CHECK_THAT(refused({{"__pad__/a", FileDType::f32, {}}}),
             Contains("'__pad__/a' is no tensor's name: readers skip"));
  Scratch const scratch;
  CHECK_THAT(
      thrown<ValueError>([&] { SafetensorsWriter(scratch / "a", {{"\xff", FileDType::f32, {}}}); }),
      Contains("UTF-8"));
  SafetensorsWriter writer(scratch / "b", {{"flag", FileDType::boolean, {2}}});
  CHECK_THAT(thrown<ValueError>([&] { writer.write("flag", bytes_of("12")); }),
             Contains("'flag' is BOOL"));
}

TEST_CASE("a file without tensors and one with metadata only are read back", "[io][safetensors]") {
  Scratch const scratch;
  SafetensorsWriter writer(scratch / "a", {}, {.metadata = {{"step", "7"}, {"text", "a\n\"b\""}}});
  writer.commit();
  auto const file = SafetensorsFile::open(scratch / "a", Reading::strict);
  CHECK(file.entries().empty());
  CHECK(file.metadata() == Json::object({{"format", "pt"}, {"step", "7"}, {"text", "a\n\"b\""}}));
}

TEST_CASE("our dtypes and shapes map to a file's and back", "[io][safetensors]") {
  for (int i = 0; i < dtype_count; ++i) {
    auto const dtype = static_cast<DType>(i);
    CHECK(bits_of(file_dtype_of(dtype)) == 8 * size_of(dtype));
    bool const tag = name_of(dtype).starts_with("fp32_fast");
    CHECK(dtype_from(file_dtype_of(dtype)) == (tag ? DType::fp32 : dtype));
  }
  CHECK_FALSE(dtype_from(FileDType::u8).has_value());
  CHECK(file_shape_of(Shape{3, 2}) == FileShape{2, 3});
  CHECK(shape_from({2, 3}) == Shape{3, 2});
  CHECK_THROWS_AS(shape_from(FileShape(9, 1)), ShapeError);
}
