// SPDX-License-Identifier: BSD-3-Clause
#include "tests/io/broken_safetensors.hh"

#include "nntile/core/error.hh"

namespace nntile::test {

std::string length_word(std::uint64_t length) {
  std::string word;
  for (int i = 0; i < 8; ++i, length >>= 8) word += static_cast<char>(length & 0xffu);
  return word;
}

std::string file_of(std::string const& header, std::size_t data_bytes) {
  return length_word(header.size()) + header + std::string(data_bytes, '\0');
}

std::string entry(std::string const& dtype, std::string const& shape, std::string const& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string one(std::string const& dtype, std::string const& shape, std::string const& offsets) {
  return R"({"w":)" + entry(dtype, shape, offsets) + "}";
}
std::string nested(std::size_t levels) {
  return R"({"w":{"x":)" + std::string(levels, '[') + std::string(levels, ']') +
         R"(,"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
}
std::string valid_safetensors() {
  return file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}})",
      9);
}

namespace {

std::string const good_entry = entry(R"("F32")", "[1]", "[0,4]");
std::string const good = R"({"w":)" + good_entry + "}";

struct Broken {
  std::string title;
  std::string header;
  std::size_t data_bytes;
  std::string words;
};

std::vector<Broken> broken_texts() {
  return {
      {"empty header", "", 0, "header is empty"},
      {"byte order mark", "\xEF\xBB\xBF" + good, 4, "byte order mark"},
      {"byte order mark, UTF-16", std::string("\xFF\xFE{\0}\0", 6), 0, "control character"},
      {"NUL after the object", good + std::string("\0x", 2), 4, "control character"},
      {"raw control character in a name", "{\"w\x01\":" + good_entry + "}", 4, "control character"},
      {"raw newline in a name", "{\"w\n\":" + good_entry + "}", 4, "not JSON at byte 4"},
      {"not UTF-8 in a name", "{\"w\xC3(\":" + good_entry + "}", 4, "not JSON"},
      {"overlong UTF-8", "{\"\xC0\x80\":" + good_entry + "}", 4, "not JSON"},
      {"surrogate in UTF-8", "{\"\xED\xA0\x80\":" + good_entry + "}", 4, "not JSON"},
      {"lone surrogate escape", R"({"\ud800":)" + good_entry + "}", 4, "not JSON"},
      {"bad escape", R"({"\q":)" + good_entry + "}", 4, "not JSON"},
      {"not UTF-8 between tokens", "{\xFF\"w\":" + good_entry + "}", 4, "not JSON"},
      {"open object", R"({"w":)" + good_entry, 4, "not JSON"},
      {"two objects", good + good, 4, "not JSON"},
      {"text after the object", good + "x", 4, "not JSON"},
      {"trailing comma", R"({"w":)" + good_entry + ",}", 4, "not JSON"},
      {"comment", "/**/" + good, 4, "not JSON"},
      {"single quotes", "{'w':" + good_entry + "}", 4, "not JSON"},
      {"only spaces", "        ", 0, "not JSON"},
      {"array", "[]", 0, "header is an array where an object is needed"},
      {"string", "\"w\"", 0, "header is a string where an object"},
      {"number", "7", 0, "header is a number where an object"},
      {"null", "null", 0, "header is null where an object"},
      {"truncated literal", "nul", 0, "not JSON"},
  };
}

std::vector<Broken> broken_names() {
  std::string const twice =
      R"({"w":)" + good_entry + R"(,"w":)" + entry(R"("F32")", "[1]", "[4,8]");
  std::string const metadata = R"({"__metadata__":)";
  return {
      {"escaped NUL in a name", R"({"a\u0000b":)" + good_entry + "}", 4, "control character 0"},
      {"escaped newline in a name", R"({"a\nb":)" + good_entry + "}", 4, "control character 10"},
      {"escaped DEL in a name", R"({"a\u007f":)" + good_entry + "}", 4, "control character 127"},
      {"name twice", twice + "}", 8, "'w' comes twice"},
      {"name twice, once escaped", R"({"w":)" + good_entry + R"(,"\u0077":)" + good_entry + "}", 4,
       "comes twice"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0,
       "'__metadata__' comes twice"},
      {"metadata key twice", metadata + R"({"a":"1","a":"2"}})", 0, "metadata key 'a' comes twice"},
      {"metadata of a number", metadata + R"({"a":1}})", 0,
       "metadata key 'a' is a number where a string"},
      {"metadata of null", metadata + R"({"a":null}})", 0,
       "metadata key 'a' is null where a string"},
      {"metadata of an object", metadata + R"({"a":{}}})", 0,
       "metadata key 'a' is an object where a string"},
      {"metadata of an array", metadata + R"({"a":["b"]}})", 0,
       "metadata key 'a' is an array where a string"},
      {"metadata is a string", metadata + R"("pt"})", 0, "is a string where an object"},
      {"tensor is a number", R"({"w":1})", 0, "'w' is a number where an object"},
      {"tensor is an array", R"({"w":[]})", 0, "'w' is an array where an object"},
      {"tensor is true", R"({"w":true})", 0, "'w' is a boolean where an object"},
      {"no dtype", R"({"w":{"shape":[1],"data_offsets":[0,4]}})", 4, "'w': dtype is missing"},
      {"no shape", R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4, "'w': shape is missing"},
      {"no offsets", R"({"w":{"dtype":"F32","shape":[1]}})", 4, "'w': data_offsets is missing"},
      {"empty tensor object", R"({"w":{}})", 0, "'w': dtype is missing"},
      {"dtype twice", R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "dtype comes twice"},
      {"shape twice", R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4,
       "shape comes twice"},
      {"an entry that is the list of its fields", R"({"w":["F32",[1],[0,4]]})", 4,
       "'w' is an array where an object"},
      {"a dtype that is an object", one(R"({"F32":null})", "[1]", "[0,4]"), 4,
       "dtype is an object where a string"},
      {"nested deeply", nested(126), 4, "deeper than 127"},
      {"nested very deeply", std::string(100000, '['), 0, "deeper than 127"},
      {"nested very deeply in a key", R"({"w":{"x":)" + std::string(100000, '['), 0,
       "deeper than 127"},
  };
}

std::string ones(int rank) {
  std::string text = "[1";
  for (int i = 1; i < rank; ++i) text += ",1";
  return text + "]";
}

std::vector<Broken> broken_numbers() {
  std::string const f32 = R"("F32")";
  return {
      {"unknown dtype", one(R"("F31")", "[1]", "[0,4]"), 4, "unknown dtype 'F31'"},
      {"lower-case dtype", one(R"("f32")", "[1]", "[0,4]"), 4, "unknown dtype 'f32'"},
      {"dtype is a number", one("1", "[1]", "[0,4]"), 4, "dtype is a number where a string"},
      {"dtype is an array", one("[]", "[1]", "[0,4]"), 4, "dtype is an array where a string"},
      {"shape is a number", one(f32, "1", "[0,4]"), 4, "shape is a number where an array"},
      {"shape is an object", one(f32, "{}", "[0,4]"), 4, "shape is an object where an array"},
      {"shape is a string", one(f32, R"("1")", "[0,4]"), 4, "shape is a string where an array"},
      {"shape of arrays", one(f32, "[[1]]", "[0,4]"), 4, "shape is an array where an integer"},
      {"shape of objects", one(f32, "[{}]", "[0,4]"), 4, "shape is an object where an integer"},
      {"shape of strings", one(f32, R"(["1"])", "[0,4]"), 4, "shape is a string where an integer"},
      {"shape of null", one(f32, "[null]", "[0,4]"), 4, "shape is null where an integer"},
      {"negative extent", one(f32, "[-1]", "[0,4]"), 4, "a negative number where an integer"},
      {"negative zero", one(f32, "[-0]", "[0,0]"), 0, "where an integer"},
      {"fraction as extent", one(f32, "[1.0]", "[0,4]"), 4, "no 64-bit integer where an integer"},
      {"exponent as extent", one(f32, "[1e0]", "[0,4]"), 4, "no 64-bit integer"},
      {"extent of 65 bits", one(f32, "[18446744073709551616]", "[0,4]"), 4, "no 64-bit integer"},
      {"leading zero", one(f32, "[01]", "[0,4]"), 4, "not JSON"},
      {"hexadecimal", one(f32, "[0x1]", "[0,4]"), 4, "not JSON"},
      {"rank 65", one(f32, ones(65), "[0,4]"), 4, "shape holds more than 64 numbers"},
      {"product overflows", one(f32, "[4294967296,4294967296]", "[0,4]"), 4,
       "no whole number of bytes"},
      {"bits overflow", one(f32, "[1152921504606846976]", "[0,4]"), 4, "no whole number of bytes"},
      {"overflow before a zero", one(f32, "[4294967296,4294967296,0]", "[0,0]"), 0,
       "no whole number of bytes"},
      {"product wraps to fit", one(f32, "[4611686018427387905]", "[0,4]"), 4,
       "no whole number of bytes"},
      {"packed type ends inside a byte", one(R"("F4")", "[3]", "[0,2]"), 2,
       "no whole number of bytes"},
      {"six-bit type ends inside a byte", one(R"("F6_E2M3")", "[3]", "[0,3]"), 3,
       "no whole number of bytes"},
      {"no offsets in the array", one(f32, "[1]", "[]"), 4, "data_offsets holds 0 numbers, not 2"},
      {"one offset", one(f32, "[1]", "[0]"), 4, "data_offsets holds 1 numbers, not 2"},
      {"three offsets", one(f32, "[1]", "[0,4,4]"), 4, "data_offsets holds more than 2"},
      {"offsets of strings", one(f32, "[1]", R"(["0","4"])"), 4,
       "data_offsets is a string where an integer"},
      {"negative offset", one(f32, "[1]", "[-4,0]"), 4, "a negative number"},
      {"fraction as offset", one(f32, "[1]", "[0,4.0]"), 4, "no 64-bit integer"},
      {"offsets swapped", one(f32, "[1]", "[4,0]"), 4, "data ends at 0, before its begin at 4"},
      {"offsets short", one(f32, "[2]", "[0,4]"), 4, "F32 [2] has 8 bytes but data_offsets span 4"},
      {"offsets long", one(f32, "[1]", "[0,8]"), 8, "F32 [1] has 4 bytes but data_offsets span 8"},
      {"scalar with two elements", one(f32, "[]", "[0,8]"), 8, "F32 [] has 4 bytes"},
      {"empty dimension with bytes", one(f32, "[0,7]", "[0,4]"), 4, "F32 [0, 7] has 0 bytes"},
      {"hole in front", one(f32, "[1]", "[4,8]"), 8, "'w' begins at 4, after a hole from 0"},
      {"end beyond the file", one(f32, "[1]", "[0,4]"), 3,
       "tensors have 4 bytes but the file has 3"},
      {"trailing bytes", one(f32, "[1]", "[0,4]"), 8, "tensors have 4 bytes but the file has 8"},
      {"data without tensors", "{}", 1, "tensors have 0 bytes but the file has 1"},
      {"huge offsets", one(f32, "[4611686018427387903]", "[0,18446744073709551612]"), 4,
       "no whole number of bytes"},
  };
}

std::vector<Broken> broken_pairs() {
  auto const two = [](std::string const& a, std::string const& b) {
    return R"({"a":)" + entry(R"("F32")", "[1]", a) + R"(,"b":)" + entry(R"("F32")", "[1]", b) +
           "}";
  };
  return {
      {"hole between", two("[0,4]", "[8,12]"), 12, "'b' begins at 8, after a hole from 4"},
      {"overlap", two("[0,4]", "[2,6]"), 6, "'b' begins at 2, inside the tensor that ends at 4"},
      {"the same bytes twice", two("[0,4]", "[0,4]"), 4, "inside the tensor that ends at 4"},
      {"overlap out of order", two("[3,7]", "[0,4]"), 7, "'a' begins at 3, inside"},
      {"second beyond the file", two("[0,4]", "[4,8]"), 7,
       "tensors have 8 bytes but the file has 7"},
  };
}

/// Length words that promise what is not there; more than the file has, more than any header has.
std::vector<BrokenFile> broken_lengths() {
  std::vector<BrokenFile> files;
  auto const add = [&](std::uint64_t length, std::string const& words) {
    files.push_back({concat("length word ", length), length_word(length) + "{}", words});
  };
  add(0, "header is empty");
  add(1, "not JSON");
  for (std::uint64_t const length : {3u, 1000u, 99'999'999u, 100'000'000u})
    add(length, concat("header of ", length, " bytes in a file of 10"));
  for (std::uint64_t const length :
       {std::uint64_t{100'000'001}, std::uint64_t{1} << 32, std::uint64_t{1} << 48,
        std::uint64_t{1} << 63, ~std::uint64_t{0} - 8, ~std::uint64_t{0} - 7, ~std::uint64_t{0}})
    add(length, concat("header of ", length, " bytes where at most 100000000"));
  return files;
}

/// Larger files whose headers ask for much more than they are.
std::vector<BrokenFile> broken_large() {
  std::vector<BrokenFile> files;
  auto const add = [&](std::string title, std::string const& header, std::size_t data,
                       std::string words) {
    files.push_back({std::move(title), file_of(header, data), std::move(words)});
  };
  std::string const f64 = R"("F64")";
  add("a terabyte in 4 KiB", one(f64, "[137438953472]", "[0,1099511627776]"), 4096,
      "tensors have 1099511627776 bytes but the file has 4096");
  add("2^61 - 1 elements", one(R"("U8")", "[2305843009213693951]", "[0,2305843009213693951]"), 4096,
      "tensors have 2305843009213693951 bytes but the file has 4096");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i)
    many += concat(i == 0 ? "" : ",", "\"t", i,
                   "\":", entry(R"("F32")", "[2]", concat("[", 8 * i, ",", 8 * i + 8, "]")));
  add("the last of 1000 tensors is missing", many + "}", 7992,
      "tensors have 8000 bytes but the file has 7992");
  add("1001 tensors, the last without end", many + R"(,"u":{"dtype":"F32")", 8000, "not JSON");
  add("a long value in the metadata",
      R"({"__metadata__":{"a":")" + std::string(50000, 'x') + R"("},"w":1})", 0,
      "'w' is a number where an object");
  add("a long value of escapes",
      R"({"__metadata__":{"a":")" + std::string(30000, '\\') + R"("},"w":1})", 0,
      "'w' is a number where an object");
  add("a long string without end", "{\"" + std::string(50000, 'x'), 0, "not JSON at byte 50003");
  add("a long key in an entry", R"({"w":{")" + std::string(50000, 'x') + R"(":[1,]}})", 0,
      "not JSON");
  add("a long number", one(f64, "[" + std::string(50000, '9') + "]", "[0,8]"), 8,
      "no 64-bit integer");
  return files;
}

/// A good file cut at every byte, and longer by some.
std::vector<BrokenFile> broken_sizes() {
  std::vector<BrokenFile> files;
  std::string const whole = valid_safetensors();
  std::size_t const data = whole.size() - 9;
  for (std::size_t size = 0; size < whole.size() + 9; ++size) {
    if (size == whole.size()) continue;
    std::string bytes = whole;
    bytes.resize(size);
    files.push_back({concat(size, " of ", whole.size(), " bytes"), bytes,
                     size < 8 ? concat(size, " bytes where a header needs at least 8")
                     : size < data
                         ? concat("in a file of ", size)
                         : concat("tensors have 9 bytes but the file has ", size - data)});
  }
  return files;
}

}  // namespace

std::vector<BrokenFile> broken_safetensors() {
  std::vector<BrokenFile> corpus;
  for (auto const& table : {broken_texts(), broken_names(), broken_numbers(), broken_pairs()})
    for (Broken const& broken : table)
      corpus.push_back({broken.title, file_of(broken.header, broken.data_bytes), broken.words});
  for (auto const& files : {broken_lengths(), broken_large(), broken_sizes()})
    corpus.insert(corpus.end(), files.begin(), files.end());
  return corpus;
}

}  // namespace nntile::test
