// SPDX-License-Identifier: BSD-3-Clause
// Dimensions that are numbers or names.
#include "nntile/core/dims.hh"

#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a dimension is a number or a name", "[core][dims]") {
  Dims const dims{512, "seq", std::string("batch")};
  CHECK(to_string(dims) == "{512, seq, batch}");
  CHECK(dims.open());
  CHECK((dims[1].open() && dims[1] == "seq" && dims[1].name() == "seq"));
  CHECK_FALSE(dims[1] == dims[2]);
  CHECK(dims[0] == 512);
  CHECK(Index{dims[0]} == 512);
  CHECK(Dims(Shape{2, 3}) == Shape{2, 3});
  CHECK_FALSE(dims == Dims{512, "seq", "time"});
  CHECK(Shape(Dims{2, 3}) == Shape{2, 3});
}

TEST_CASE("an open dimension has no number, and says so", "[core][dims]") {
  std::string const text = message_of<GraphError>([] { (void)Shape(Dims{2, "seq"}); });
  CHECK(text ==
        "dimension 'seq' is open, and has no number before planning binds it: "
        "PlanOptions::dims = {{\"seq\", 512}}");
  CHECK_THROWS_AS(element_count(Dims{2, "seq"}), GraphError);
}

TEST_CASE("a name is an identifier", "[core][dims]") {
  for (char const* const name :
       {"", "1a", "a b", "a-b", "[", "`", "{", "@", "/", ":", "a_name_of_24_characters_"}) {
    INFO(name);
    CHECK(contains(message_of<GraphError>([&] { (void)Dim(name); }),
                   concat("dimension: '", name, "' is no name")));
  }
  for (char const* const name : {"_", "a", "Z9", "seq_2", "a_name_of_23_characters"})
    CHECK(to_string(Dim(name)) == name);
  static_assert(Dim("seq").open() && Dim("seq") == Dim("seq") && !(Dim("seq") == Dim("seq2")));
  static_assert(!Dim(0).open() && !(Dim("seq") == 0));
  CHECK(to_string(Dim(-1)) == "-1");  // which a graph refuses, naming the tensor
}

TEST_CASE("a graph's shape of nine dimensions is named with the limit", "[core][dims]") {
  CHECK(message_of<ShapeError>([] { (void)Dims{1, 2, 3, 4, 5, 6, 7, "seq", "batch"}; }) ==
        "shape {1, 2, 3, 4, 5, 6, 7, seq, batch}: 9 dimensions; a tensor has at most 8");
}
