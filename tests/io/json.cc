// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/json.hh"

#include <limits>

#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

/// A text as a value of its own, after its comparison in place agreed.
Json read(std::string const& text) {
  JsonView const view = parse_json(text, "text");
  Json json = to_json(view);
  CHECK(view == json);
  return json;
}

// The view keeps the text: none that ends with the call.
template <class T>
constexpr bool parses = requires(T text) { parse_json(static_cast<T&&>(text), "source"); };
static_assert(parses<std::string&> && parses<std::string const&> && parses<std::string_view> &&
              parses<char const*> && !parses<std::string> && !parses<std::string const>);

}  // namespace

TEST_CASE("a JSON value reads back as it was written", "[io][json]") {
  Json value = Json::object({{"width", 256}, {"name", "tiny"}, {"tied", true}, {"minus", -3}});
  value["list"] = std::vector<double>{0.1, 1, -2.5e-300};
  value["nothing"] = Json();
  value["nested"]["deep"].push_back(std::uint64_t{18446744073709551615u});
  for (int const indent : {-1, 0, 2}) CHECK(read(to_text(value, indent)) == value);
}

TEST_CASE("the text of a value has sorted keys and one form for each number", "[io][json]") {
  Json const value =
      Json::object({{"b", 1.0}, {"a", std::vector<int>{1, -2}}, {"c", Json::object()}});
  CHECK(to_text(value) == R"({"a":[1,-2],"b":1.0,"c":{}})");
  CHECK(to_text(value, 1) == "{\n \"a\": [\n  1,\n  -2\n ],\n \"b\": 1.0,\n \"c\": {}\n}");
  CHECK(to_text(Json(1e300)) == "1e+300");
  CHECK(to_text(Json(-0.0)) == "-0.0");
  CHECK(Json(1) != Json(1.0));
  CHECK(Json(std::int64_t{7}) == Json(std::uint64_t{7}));
}

TEST_CASE("doubles keep their bits through text", "[io][json]") {
  for (double const value :
       {0.1, 1.0 / 3, 5e-324, std::numeric_limits<double>::max(), 123456789012345678.0})
    CHECK(read(to_text(Json(value))) == Json(value));
  CHECK_THROWS_AS(to_text(Json(std::numeric_limits<double>::infinity())), ValueError);
}

TEST_CASE("strings are escaped as the format asks", "[io][json]") {
  CHECK(json_string("a\"b\\c\n\t\x01\x1f/\xC3\xA9") ==
        "\"a\\\"b\\\\c\\n\\t\\u0001\\u001f/\xC3\xA9\"");
  std::string const every = "\xF4\x8F\xBF\xBF\xEF\xBF\xBF\xED\x9F\xBF\xC2\x80\x7f";
  CHECK(read(json_string(every)) == Json(every));
}

TEST_CASE("a string that is not UTF-8 is not written", "[io][json]") {
  for (char const* const bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "a\xFF"})
    CHECK_THROWS_AS(json_string(bad), ValueError);
}

TEST_CASE("a value is given as what can hold it", "[io][json]") {
  auto const value = [](char const* text) { return parse_json(text, "text"); };
  CHECK(value("300").as<int>() == 300);
  CHECK_FALSE(value("300").as<std::uint8_t>());
  CHECK_FALSE(value("-1").as<unsigned>());
  CHECK(value("-0").as<unsigned>() == 0u);
  CHECK(value("3").as<double>() == 3.0);
  CHECK_FALSE(value("3.0").as<int>());
  CHECK_FALSE(value("1e300").as<float>());
  CHECK_FALSE(value("-3.5e38").as<float>());
  CHECK(value("-3.4e38").as<float>() == -3.4e38f);
  CHECK(value("1e-300").as<float>() == 0.0f);
  CHECK_FALSE(value("1e2").as<int>());
  CHECK_FALSE(value("\"3\"").as<int>());
  CHECK(value("false").as<bool>() == false);
  CHECK_FALSE(value("null").as<bool>());
  CHECK(value("[1,2]").as<std::vector<double>>() == std::vector<double>{1, 2});
  CHECK_FALSE(value("[1,null]").as<std::vector<double>>());
  CHECK(value(R"({"a":1})").as<std::map<std::string, int>>() ==
        std::map<std::string, int>{{"a", 1}});
  CHECK(JsonView()["missing"].is_null());
  CHECK_FALSE(value("[1]").find("a"));
  CHECK_THROWS_AS(Json(1)["a"], TypeError);
}

TEST_CASE("JSON that cannot be trusted is refused with its place", "[io][json]") {
  auto const refused = [](std::string_view text) {
    return thrown<FormatError>([&] { parse_json(text, "a.json"); });
  };
  CHECK_THAT(refused("{\"a\":}"), Contains("'a.json': not JSON at byte 6"));
  CHECK_THAT(refused(""), Contains("not JSON at byte 1"));
  CHECK_THAT(refused("{} x"), Contains("not JSON"));
  CHECK_THAT(refused("[1e999]"),
             Contains("number '1e999' is out of range") || Contains("not JSON"));
  CHECK_THAT(refused(R"({"a":1,"b":{"a":2},"a":3})"), Contains("key 'a' comes twice"));
  CHECK_THAT(refused(std::string(100000, '[')), Contains("nested deeper than 32"));
  CHECK_THAT(refused(std::string_view("{}\0", 3)), Contains("a NUL byte"));
  CHECK_THAT(refused("\xEF\xBB\xBF{}"), Contains("byte order mark"));
  CHECK_THAT(refused("[\"\xFF\"]"), Contains("not JSON"));
  CHECK_THAT(thrown<FormatError>([] { parse_json(std::string_view("[]"), "a.json", -1); }),
             Contains("nested deeper than 0 levels"));
}

TEST_CASE("a missing or mistyped member is named", "[io][json]") {
  JsonView const config = parse_json(R"({"n_layer":"two"})", "config.json");
  CHECK_THAT(thrown<FormatError>([&] { json_field<int>(config, "n_head", "config.json"); }),
             Contains("'config.json': 'n_head' is missing"));
  CHECK_THAT(thrown<FormatError>([&] { json_field<int>(config, "n_layer", "config.json"); }),
             Contains("'n_layer' is \"two\" where another type is needed"));
  JsonView const groups = parse_json(R"({"a\nb":"x"})", "graph.json");
  CHECK(thrown<FormatError>([&] { json_field<int>(groups, "a\nb", "graph.json"); }) ==
        "'graph.json': 'a\\x0ab' is \"x\" where another type is needed");
  CHECK(thrown<FormatError>([&] { json_field<int>(groups, "a\n", "graph.json"); }) ==
        "'graph.json': 'a\\x0a' is missing");
}
