// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/support/options.hh"

#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::support;
using test::contains;
using test::message_of;

TEST_CASE("by default there are as many workers as the affinity mask has cores",
          "[runtime][options]") {
  CheckedOptions const options = check_options({}, "ring");
  CHECK(options.workers == static_cast<int>(allowed_cores().size()));
  CHECK(options.spawned == options.workers - 1);
  CHECK_FALSE(options.oversubscribed);
}

TEST_CASE("with own_driver all workers are spawned", "[runtime][options]") {
  CHECK(check_options({3, true, false}, "ring").spawned == 3);
  CHECK(check_options({3, false, false}, "ring").spawned == 2);
}

TEST_CASE("fewer than 1 and more than 1,024 workers throw, naming runtime, value and range",
          "[runtime][options]") {
  CHECK(check_options({1024, false, false}, "ring").workers == 1024);
  for (int const workers : {-5, 0, 1025}) {
    std::string const text =
        message_of<ValueError>([&] { (void)check_options({workers, false, false}, "ring"); });
    for (auto const& piece : {std::string("ring"), concat(workers), std::string("1 to 1024")})
      CHECK(contains(text, piece));
  }
}

TEST_CASE("a runtime's own limit counts", "[runtime][options]") {
  CHECK_THROWS_AS(check_options({5, true, false}, "starpu", 4), ValueError);
  CHECK(check_options({}, "starpu", 1).workers == 1);
}

TEST_CASE("more workers than cores are neither pinned nor spinning", "[runtime][options]") {
  int const cores = static_cast<int>(allowed_cores().size());
  CheckedOptions const options = check_options({cores + 1, false, true}, "ring");
  CHECK(options.oversubscribed);
  CHECK_FALSE(options.pin);
  CHECK(check_options({cores, false, true}, "ring").pin);
}

TEST_CASE("cores of the mask ascend", "[runtime][options]") {
  auto const cores = allowed_cores();
  REQUIRE_FALSE(cores.empty());
  for (std::size_t i = 1; i < cores.size(); ++i) CHECK(cores[i - 1] < cores[i]);
}
