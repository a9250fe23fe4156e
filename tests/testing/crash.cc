// SPDX-License-Identifier: BSD-3-Clause
// A runtime that crashes does not leave one to guess in which check.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance.hh"
#include "tests/support/catch.hh"
#include "tests/testing/child.hh"

namespace {

using namespace nntile;

enum class Crash { none, fault, abort, terminate };

void crash(Crash how) {
  if (how == Crash::fault)
    *static_cast<char volatile*>(
        mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
  if (how == Crash::abort) std::abort();
  if (how == Crash::terminate) std::thread([] { throw std::runtime_error("lost"); }).join();
}

/// Crashes in a call of `wait`.
class Crashing : public Forward<Serial> {
 public:
  Crashing(Crash how, RuntimeOptions const& options) : Forward<Serial>(options), how_(how) {}
  void wait(Event event) {
    crash(how_);
    inner().wait(event);
  }

 private:
  Crash const how_;
};
static_assert(Runtime<Crashing>);

testing::Report run(Crash how, bool name_crashes = true) {
  testing::ConformanceOptions options;
  options.only = "wait returns when its task has ended";
  options.name_crashes = name_crashes;
  return testing::conformance([=](RuntimeOptions const& one) { return Crashing(how, one); },
                              options);
}

/// The handler that was there before the battery.
extern "C" void say_and_exit(int) {
  (void)!write(STDOUT_FILENO, "before", 6);
  _exit(3);
}
void handle(void (*handler)(int)) {
  for (int const one : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) (void)signal(one, handler);
}

}  // namespace

TEST_CASE("a crash names its check, and then the handler before acts", "[testing][crash]") {
  for (Crash const how : {Crash::fault, Crash::abort, Crash::terminate}) {
    auto const ended = test::run_in_child([&] {
      handle(say_and_exit);
      (void)run(how);
    });
    INFO("crash " << static_cast<int>(how) << ": " << ended.output);
    CHECK(ended.status == 3);
    std::string const line = how == Crash::fault ? "1 worker: SIGSEGV\n" : "1 worker: SIGABRT\n";
    CHECK(ended.output.find("CRASHES: check 'wait returns when its task has ended', " + line +
                            "before") != std::string::npos);
  }
}

TEST_CASE("a crash ends the process where nothing handles it", "[testing][crash]") {
  auto const ended = test::run_in_child([] {
    handle(SIG_DFL);
    (void)run(Crash::abort);
  });
  CHECK(ended.status == -1);
  CHECK(ended.output.find("CRASHES: check 'wait returns") != std::string::npos);
}

TEST_CASE("a battery that is over, or was asked not to, names no crash", "[testing][crash]") {
  auto const over = test::run_in_child([] {
    handle(say_and_exit);
    (void)run(Crash::none);
    crash(Crash::abort);
  });
  auto const asked = test::run_in_child([] {
    handle(say_and_exit);
    (void)run(Crash::abort, false);
  });
  CHECK(over.output == "before");
  CHECK(asked.output == "before");
}

TEST_CASE("a handler that the runtime sets is left there", "[testing][crash]") {
  auto const ended = test::run_in_child([] {
    (void)testing::conformance(
        [](RuntimeOptions const& one) {
          handle(say_and_exit);
          return Crashing(Crash::none, one);
        },
        {.only = "wait returns when its task has ended"});
    crash(Crash::abort);
  });
  CHECK(ended.status == 3);
  CHECK(ended.output == "before");
}
