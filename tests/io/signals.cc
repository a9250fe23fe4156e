// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/signals.hh"

#include <ctime>

#include "examples/gpt2/corpus.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using gpt2::EndSignals;
using nntile::test::status_in_child;

namespace {

/// In a child: takes signals where `ignored` is ignored, and raises one. Returns whether that asks
/// for an end.
bool asks(int raised, int ignored = 0) {
  int const status = status_in_child([&] {
    for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
    if (ignored != 0) std::signal(ignored, SIG_IGN);
    EndSignals::take(true);
    std::raise(raised);
    return EndSignals::asked() ? 1 : 0;
  });
  CHECK(status <= 1);  // else it ended the child
  return status == 1;
}

}  // namespace

TEST_CASE("Ctrl-C, SIGTERM, SIGHUP and SIGPIPE ask for an end", "[io][signals]") {
  for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    INFO("signal " << signal);
    CHECK(asks(signal));
  }
}

TEST_CASE("a pipe without a reader asks once, however much is printed", "[io][signals]") {
  CHECK(status_in_child([] {
          EndSignals::take(true);
          std::raise(SIGPIPE);
          timespec const second{1, 0};
          ::nanosleep(&second, nullptr);
          std::raise(SIGPIPE);
          return EndSignals::asked() && !EndSignals::asked_again() ? 0 : 1;
        }) == 0);
}

TEST_CASE("pipes of a rank stay its launcher's", "[io][signals]") {
  CHECK(status_in_child([] {
          for (int const signal : {SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
          EndSignals::take(false);
          std::raise(SIGTERM);
          return EndSignals::asked() && std::signal(SIGPIPE, SIG_DFL) == SIG_DFL ? 0 : 1;
        }) == 0);
}

TEST_CASE("a signal that was ignored stays so, and the others ask", "[io][signals]") {
  for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    INFO("signal " << signal);
    CHECK_FALSE(asks(signal, signal));
    CHECK(asks(signal == SIGTERM ? SIGINT : SIGTERM, signal));
  }
}

TEST_CASE("a command is heard where a parent had children ignored", "[io][signals]") {
  CHECK(status_in_child([] {
          std::signal(SIGCHLD, SIG_IGN);
          bool const heard = gpt2::output_of("echo text") == "text\n";
          bool const failed = gpt2::output_of("echo text; false").empty();
          return heard && failed && std::signal(SIGCHLD, SIG_DFL) == SIG_IGN ? 0 : 1;
        }) == 0);
}
