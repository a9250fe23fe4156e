// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/core/utf8.hh"

#include "tests/support/catch.hh"

using nntile::detail::as_utf8;
using nntile::detail::markup_text;
using nntile::detail::utf8_length;

TEST_CASE("a sequence of UTF-8 is as long as its first byte says", "[core][utf8]") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xc3\xb6l") == 2);
  CHECK(utf8_length("\xe2\x82\xac") == 3);
  CHECK(utf8_length("\xf0\x9f\x98\x80") == 4);
}

TEST_CASE("what is no UTF-8 has no length", "[core][utf8]") {
  for (char const* const text : {"", "\x80", "\xf6", "\xc3", "\xc3(", "\xc0\x80", "\xe0\x80\x80",
                                 "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80"})
    CHECK(utf8_length(text) == 0);
}

TEST_CASE("text becomes UTF-8 byte by byte where it is not", "[core][utf8]") {
  CHECK(as_utf8("") == "");
  CHECK(as_utf8("a\n<\xe2\x82\xac") == "a\n<\xe2\x82\xac");
  CHECK(as_utf8("\xf6z\xe2\x82") == "\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("markup holds any text", "[core][utf8]") {
  CHECK(markup_text("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
  CHECK(markup_text("a\n\tb") == "a  b");
  CHECK(markup_text("\xe2\x82\xac\xf6\xc3") == "\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(markup_text(
            "\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbc") ==  // U+FFFE, U+FFFF: no characters of XML
        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbc");
}
