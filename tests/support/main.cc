// SPDX-License-Identifier: BSD-3-Clause
// The one Catch2 main of all test executables, for Catch2 2.13 and 3. A run in which every test
// case called nntile::test::skip() exits with 77, which Meson counts as skipped. One in which a
// single-threaded test case starts a thread fails: the thread sanitizer does not run it.
#include "tests/support/skip.hh"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
namespace {
using Listener = Catch::EventListenerBase;
}
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
namespace {
using Listener = Catch::TestEventListenerBase;
}
#endif

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

int cases_run = 0;
int cases_skipped = 0;
int cases_wrong = 0;  // single-threaded ones that start threads
bool skipping = false;
std::atomic<long> threads_started{0};

struct Count : Listener {
  using Listener::Listener;
  void testCaseStarting(Catch::TestCaseInfo const& info) override {
    skipping = false;
    name_ = info.name;
    single_ = std::getenv("NNTILE_SINGLE_THREADED") != nullptr ||
              info.tagsAsString().find("[single-threaded]") != std::string::npos;
    threads_before_ = threads_started;
  }
  void testCaseEnded(Catch::TestCaseStats const&) override {
    ++cases_run;
    cases_skipped += skipping ? 1 : 0;
    if (!single_ || threads_started == threads_before_) return;
    ++cases_wrong;
    std::printf("'%s' starts threads: take it off those that are single-threaded\n", name_.c_str());
  }

 private:
  std::string name_;
  bool single_ = false;
  long threads_before_ = 0;
};
CATCH_REGISTER_LISTENER(Count)

constexpr int meson_skipped = 77;  // exit status that Meson reads as "skipped"

}  // namespace

void nntile::test::skip(std::string const& reason) {
  skipping = true;
  std::printf("skipped: %s\n", reason.c_str());
}

#ifdef NNTILE_COUNT_THREADS
/// The C library's, counted.
extern "C" int pthread_create(pthread_t* thread, pthread_attr_t const* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  static auto const original =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  ++threads_started;
  return original(thread, attributes, body, argument);
}
#endif

int main(int argc, char** argv) {
  Catch::Session session;
  int const failed = session.run(argc, argv);
  if (failed != 0) return failed;
  if (cases_wrong > 0) return 1;
  if (session.configData().filenamesAsTags && cases_run == 0) {  // a test of the build has no cases
    std::printf("no test case was run\n");
    return 1;
  }
  return cases_run > 0 && cases_run == cases_skipped ? meson_skipped : 0;
}
