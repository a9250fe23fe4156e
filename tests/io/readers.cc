// SPDX-License-Identifier: BSD-3-Clause
// What readers of text cost, whatever stands in it: the bytes of operator new that a reader holds
// at a time, the file's own included, are at most twice the file's and 4 KiB (paths, texts of
// errors); and no file of 100 MB takes more than 5 seconds to be read or refused.
#include <cstdio>
#include <ctime>

#include "nntile/io/checkpoint.hh"
#include "tests/io/allocations.hh"
#include "tests/io/broken_safetensors.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

struct Text {
  std::string title;
  std::string text;
};

/// f(0), f(1), ... with commas between, up to that number of bytes; in brackets.
template <class F> std::string list(std::string_view brackets, std::size_t bytes, F f) {
  std::string text(1, brackets[0]);
  text.reserve(bytes + 1000);
  for (std::size_t i = 0; text.size() < bytes; ++i) {
    if (i > 0) text += ',';
    text += f(i);
  }
  return text + brackets[1];
}

/// The shortest names there are, each once: "", "!", ..., "~", "!!", ...
std::string name_of(std::size_t number) {
  std::string name;
  for (; number > 0; number = (number - 1) / 90)
    name +=
        "!#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|"
            [(number - 1) % 90];
  return name;
}
std::string quoted_name(std::size_t number) { return '"' + name_of(number) + '"'; }
/// The same name, longer.
std::string escaped_name(std::size_t number) {
  std::string text = "\"";
  for (char const c : name_of(number))
    text += concat("\\u00", "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]);
  return text + '"';
}
std::string repeated(std::string_view piece, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + piece.size());
  while (text.size() < bytes) text += piece;
  return text;
}

/// JSON texts of n bytes each that need the most memory.
std::vector<Text> hostile_json(std::size_t n) {
  auto const same = [n](std::string_view brackets, std::string const& item) {
    return list(brackets, n, [&](std::size_t) { return item; });
  };
  auto const keys = [n](auto name) {
    return list("{}", n, [&](std::size_t i) { return name(i) + ":1"; });
  };
  std::string level = "1";  // thirty objects in one another, each with all keys of one letter
  for (int i = 0; i < 30; ++i)
    level = list("{}", 600, [](std::size_t k) {
              return quoted_name(k + 1) + ":0";
            }).insert(1, "\"~\":" + level + ",");
  std::string const prefix(200, 'x');
  return {
      {"digits", same("[]", "1")},
      {"fractions", same("[]", "0.5")},
      {"doubles", same("[]", "-1.7976931348623157e308")},
      {"one long number", repeated("7", n)},
      {"one long exponent", "1e" + repeated("0", n) + "1"},
      {"empty arrays", same("[]", "[]")},
      {"empty objects", same("[]", "{}")},
      {"arrays nested and in sequence", same("[]", std::string(31, '[') + std::string(31, ']'))},
      {"objects of one member", same("[]", R"({"a":1})")},
      {"objects within objects", same("[]", level)},
      {"empty strings", same("[]", "\"\"")},
      {"strings of one letter", same("[]", "\"a\"")},
      {"one string", '"' + repeated("a", n) + '"'},
      {"one string of escapes", '"' + repeated("\\u0041", n) + '"'},
      {"one string of pairs", '"' + repeated("\\ud83d\\ude00", n) + '"'},
      {"short keys", keys(quoted_name)},
      {"escaped keys", keys(escaped_name)},
      {"keys backwards", keys([](std::size_t i) { return quoted_name(99'999'999 - i); })},
      {"long keys with one prefix",
       keys([&](std::size_t i) { return concat('"', prefix, i * 7919 % 1'000'003, '.', i, '"'); })},
      {"a long key", R"({")" + repeated("k", n) + R"(":1})"},
      {"the last key twice",
       keys([&](std::size_t i) { return quoted_name(i); }).insert(1, R"("":2,)")},
      {"one key", same("{}", "\"a\":1")},
      {"spaces", repeated(" ", n) + "[]" + repeated("\n", n)},
      {"open brackets", repeated("[", n)},
      {"open objects", repeated("{\"a\":", n)},
      {"an error at the end", same("[]", "1") + "]"},
      {"no end", '"' + repeated("a", n)},
  };
}

/// Headers that ask for much.
std::vector<Text> hostile_headers(std::size_t n) {
  std::string const empty = R"(:{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  std::string ones = "1";
  for (int i = 1; i < 64; ++i) ones += ",1";
  auto const entries = [&](auto name, auto rest) {
    return list("{}", n, [&](std::size_t i) { return name(i) + rest(i); });
  };
  auto const same = [](std::string const& rest) { return [&rest](std::size_t) { return rest; }; };
  auto const bytes = [](std::size_t begin, std::size_t end) {
    return concat(R"(:{"dtype":"U8","shape":[1],"data_offsets":[)", begin, ',', end, "]}");
  };
  std::string const ranks = R"(:{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]})";
  std::string const opening = R"({"__metadata__":)";
  return {
      {"tiny tensors", entries(quoted_name, same(empty))},
      {"tiny tensors under escaped names", entries(escaped_name, same(empty))},
      {"one name", entries([](std::size_t) { return "\"a\""; }, same(empty))},
      {"64 dimensions", entries(quoted_name, same(ranks))},
      {"data in order", entries(quoted_name, [&](std::size_t i) { return bytes(i, i + 1); })},
      {"data backwards",
       entries(quoted_name, [&](std::size_t i) { return bytes(99'999'999 - i, 100'000'000 - i); })},
      {"all at one place", entries(quoted_name, [&](std::size_t) { return bytes(0, 1); })},
      {"metadata of short keys",
       opening + list("{}", n, [](std::size_t i) { return quoted_name(i) + R"(:"")"; }) + "}"},
      {"metadata of one key",
       opening + list("{}", n, [](std::size_t) { return R"("a":"")"; }) + "}"},
      {"unknown keys", R"({"w":{"x":)" + list("[]", n, [](std::size_t) { return "1"; }) + "}}"},
      {"a shape", R"({"w":{"shape":)" + list("[]", n, [](std::size_t) { return "1"; }) + "}}"},
      {"a long name", "{\"" + repeated("w", n) + '"' + empty + "}"},
      {"a long dtype", R"({"w":{"dtype":")" + repeated("F", n) + R"("}})"},
  };
}

/// Manifests that ask for much; a checkpoint has no such files.
std::vector<Text> hostile_manifests(std::size_t n) {
  Manifest manifest;
  manifest.files = {{"model.safetensors", 0, 0}};
  std::string const plain =
      manifest_text(manifest).substr(io::detail::manifest_opening.size() + 18);
  auto const with = [&](std::string const& from, std::string const& to) {
    std::string body = plain;
    std::size_t const at = body.find(from);
    REQUIRE(at != body.npos);
    body.replace(at, from.size(), to);
    return concat(io::detail::manifest_opening, to_hex(hash64(body)),
                  io::detail::manifest_after_checksum, body);
  };
  auto const numbers = list("[]", n, [](std::size_t) { return "1"; });
  auto const keys = list("{}", n, [](std::size_t i) { return quoted_name(i) + ":1"; });
  auto const tensors = list("[]", n, [](std::size_t i) {
    return "{\"name\":" + quoted_name(i) +
           R"(,"dtype":"U8","shape":[],"file":"model.safetensors","checksum":"0000000000000000"})";
  });
  auto const files = list("[]", n, [](std::size_t) {
    return R"({"name":"model.safetensors","bytes":0,"checksum":"0000000000000000"})";
  });
  return {
      {"tensors", with("\"tensors\": []", "\"tensors\":" + tensors)},
      {"a file again and again", with("\"files\": [", "\"files\":" + files + ",\"more\": [")},
      {"a run", with("\"run\": {}", R"("run":{"train":)" + numbers + "}")},
      {"a model of keys", with("\"model\": {}", "\"model\":" + keys)},
      {"numbers of the optimizer", with("\"optimizer\": {}", "\"optimizer\":" + keys)},
      {"a long seed", with("\"seed\": \"0\"", "\"seed\": \"" + repeated("0", n) + "\"")},
  };
}

/// Indices of a set whose one file has few tensors or all of them.
std::vector<Text> hostile_indices(std::size_t n) {
  auto const map = [&](auto entry) { return R"({"weight_map":)" + list("{}", n, entry) + "}"; };
  return {
      {"tensors that are not there", map([](std::size_t i) { return quoted_name(i) + R"(:"f")"; })},
      {"files that are not there",
       map([](std::size_t i) { return concat(quoted_name(i), ":\"", i, '"'); })},
      {"no map", R"({"weight_map":)" + list("[]", n, [](std::size_t) { return "1"; }) + "}"},
  };
}

struct Cost {
  std::size_t bytes = 0;  // held beside what was held before, at most
  double seconds = 0;
  std::string refusal;
};

/// Of this thread: the machine may be busy with other things.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What one call of a reader costs.
template <class Read> Cost cost_of(Read read) {
  Cost cost;
  std::size_t const before = held_bytes();
  forget_allocations();
  double const begin = cpu_seconds();
  try {
    read();
  } catch (Error const& error) {
    cost.refusal = error.what();
  }
  cost.seconds = cpu_seconds() - begin;
  cost.bytes = most_held_bytes() - before;
  return cost;
}

constexpr std::size_t small = 4096;

void check(std::string const& title, Cost const& cost, std::size_t allowed) {
  INFO(title << ": " << cost.refusal);
  CHECK(cost.bytes <= allowed + small);
  CHECK(cost.refusal.find('\n') == std::string::npos);
  CHECK(cost.refusal.size() < 1000);
}

/// Calls f(title, bytes of the text, cost, bytes that are allowed) for every reader and text.
template <class F> void for_each_reader(std::size_t n, F f) {
  for (auto const& [title, text] : hostile_json(n))  // the text itself is the caller's
    f(title, text.size(), cost_of([&, &text = text] { parse_json(text, "text"); }), text.size());
  Scratch const scratch;
  for (auto const& [title, text] : hostile_headers(n)) {
    put(scratch / "f", file_of(text, 0));
    for (Reading const reading : {Reading::lenient, Reading::strict})
      f(title, text.size(), cost_of([&] { SafetensorsFile::open(scratch / "f", reading); }),
        2 * text.size());
  }
  for (auto const& [title, text] : hostile_manifests(n)) {
    put(scratch / "manifest.json", text);
    f(title, text.size(), cost_of([&] { Checkpoint::open(scratch.path()); }), 2 * text.size());
  }
  put(scratch / "f", file_of(hostile_headers(n)[0].text, 0));
  std::size_t const file = get(scratch / "f").size();
  for (auto const& [title, text] : hostile_indices(n)) {
    put(scratch / "i.json", text);
    f(title, text.size(), cost_of([&] { SafetensorsSet::open(scratch / "i.json"); }),
      2 * (text.size() + file));
  }
}

}  // namespace

TEST_CASE("a reader needs at most twice the bytes of the file", "[io][readers]") {
  if (!allocations_watched()) return;
  for (std::size_t const n : {std::size_t{3000}, std::size_t{30'000}})
    for_each_reader(n, [&](std::string const& title, std::size_t, Cost const& cost,
                           std::size_t allowed) { check(title, cost, allowed); });
}

TEST_CASE("keys whose hashes agree are distinguished", "[io][readers]") {
  // Among 2 MB of keys, about seven pairs agree in 32 bits.
  std::string text = list("{}", 2'200'000, [](std::size_t i) { return quoted_name(i) + ":1"; });
  std::vector<std::uint32_t> hashes;
  for (auto const& [key, value] : parse_json(text, "text").members())
    hashes.push_back(io::detail::hash_of(key));
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::adjacent_find(hashes.begin(), hashes.end()) != hashes.end());
  CHECK_THROWS_AS(parse_json(text.insert(1, R"("\u0021\u0022":1,"!\"":1,)"), "text"), FormatError);
}

TEST_CASE("a name is found among many of one hash without a look at each", "[io][readers]") {
  // FNV-1a of 64 bits is 0 behind this text, and stays 0 for each zero byte.
  std::string const zero = "!0IC=VloaY";
  std::vector<std::string> texts;
  io::detail::NameIndex index;
  for (std::size_t i = 0; i < 256; ++i)
    texts.push_back('"' + zero + repeated("\\u0000", 6 * (255 - i)) + '"');
  std::size_t looks = 0;
  auto const name = [&](std::uint32_t number) {
    ++looks;
    return JsonString(texts[number].data());
  };
  for (std::uint32_t i = 0; i < 256; ++i) index.add(name(i), i);
  CHECK(io::detail::hash_of(name(0)) == io::detail::hash_of(zero));
  CHECK_FALSE(index.settle(name).has_value());
  for (std::uint32_t i = 0; i < 256; ++i) {
    looks = 0;
    CHECK(index.find(zero + std::string(255 - i, '\0'), name) == i);
    CHECK(looks < 20);
  }
  CHECK_FALSE(index.find(zero + '0', name).has_value());
}

TEST_CASE("refusing a file of the corpus needs at most twice its bytes", "[io][readers]") {
  if (!allocations_watched()) return;
  Scratch const scratch;
  for (BrokenFile const& broken : broken_safetensors()) {
    put(scratch / "f", broken.bytes);
    check(broken.title, cost_of([&] { SafetensorsFile::open(scratch / "f"); }),
          2 * broken.bytes.size());
  }
}

// By hand: build/tests/test_io -s "[readers_100MB]"
TEST_CASE("no file of 100 MB takes more than 5 seconds", "[.][io][readers_100MB]") {
  for_each_reader(60'000'000, [&](std::string const& title, std::size_t bytes, Cost const& cost,
                                  std::size_t allowed) {
    std::printf("%5.2f s %4.2f of %zu MB  %s  %.60s\n", cost.seconds,
                static_cast<double>(cost.bytes) / static_cast<double>(bytes), bytes / 1'000'000,
                title.c_str(), cost.refusal.c_str());
    std::fflush(stdout);
    CHECK(cost.seconds < 5);
    check(title, cost, allowed);
  });
}
