// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/words.hh"

#include "examples/gpt2/machine.hh"
#include "tests/support/catch.hh"

using namespace gpt2;

TEST_CASE("a name is one word of a shell", "[io][words]") {
  CHECK(shell_word("run") == "'run'");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
}

TEST_CASE("times of any length are said", "[io][words]") {
  CHECK(readable_time(0.2) == "0:00");
  CHECK(readable_time(59.6) == "1:00");
  CHECK(readable_time(3723) == "1:02:03");
  CHECK(readable_time(-1) == "0:00");
  CHECK(readable_time(1e19) == "2500000000000000:00:00");
}
