// SPDX-License-Identifier: BSD-3-Clause
// The JSON reader: what it takes is written and read back unchanged; and nothing is read in another
// way than nlohmann's reader does, where that is there.
#include "nntile/io/json.hh"
#include "tests/fuzz/check.hh"
#if __has_include(<nlohmann/json.hpp>)
#include "tests/io/json_oracle.hh"
#endif

using namespace nntile::io;
using namespace nntile::test;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text = text_of(data, size);
  JsonView view;
  if (reads([&] { view = parse_json(text, "source"); })) {
    Json const json = to_json(view);
    must(view == json, "a value is the same in place and copied");
    for (int const indent : {-1, 1}) {
      std::string const written = to_text(json, indent);
      must(parse_json(written, "written") == json, "what was read is written", written);
    }
    must(json_difference(view, json).empty(), "a value does not differ from itself");
    must(json_difference(view, Json("x")).size() < 2000, "differences are short");
  }
#if __has_include(<nlohmann/json.hpp>)
  std::string const difference = json_disagreement(text);
  must(difference.empty(), "both readers agree", difference);
#endif
  return 0;
}
