// SPDX-License-Identifier: BSD-3-Clause
// A runtime whose calls throw where they must not fails a check; the battery goes on, and ends.
#include <cerrno>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/conformance.hh"
#include "tests/support/catch.hh"

namespace {

using namespace nntile;

enum class Wrong {
  nothing,
  done_is_for_its_thread,    // done() throws on other threads than the constructor's
  submit_is_for_its_thread,  // and so does submit()
  submit_throws_at_last,     // submit() throws from the 600th task on
  done_throws_in_releases,
  refuses_by_another_error,  // a submission within a task, by what is no Error
  done_says_yes,
  refuses_retire_in_flight,  // where the latest task is asynchronous
  locks_the_first_half,
  refuses_scopes,  // of those lifetimes that are not of a step or an operation
  keeps_scopes,    // their buffers outlive them
  drives_itself,   // whatever own_driver says
};

/// Serial with calls that go wrong.
class WrongSerial : public Serial {
 public:
  using Handle = Serial::Handle;
  WrongSerial(Wrong wrong, RuntimeOptions const& options)
      : Serial(constructed(wrong, options)), wrong_(wrong) {}

  bool done(Event event) {
    if (is(Wrong::done_is_for_its_thread)) check_thread();
    if (is(Wrong::done_throws_in_releases) && in_release_)
      throw LifetimeError("wrong: inside a release");
    return Serial::done(event) || is(Wrong::done_says_yes);
  }
  Event submit(Task<Handle> const& task) {
    if (is(Wrong::submit_is_for_its_thread)) check_thread();
    if (is(Wrong::submit_throws_at_last) && ++submitted_ > 600) throw Error("wrong: enough");
    asynchronous_ = task.codelet != nullptr && task.codelet->async != nullptr;
    try {
      return Serial::submit(task);
    } catch (LifetimeError const& error) {
      if (is(Wrong::refuses_by_another_error)) throw std::logic_error(error.what());
      throw;
    }
  }
  void retire(Handle handle) {
    if (is(Wrong::refuses_retire_in_flight) && asynchronous_) throw LifetimeError("wrong: in use");
    Serial::retire(handle);
  }
  std::span<std::byte> lock(Handle handle, Access access) {
    auto const bytes = Serial::lock(handle, access);
    return bytes.first(bytes.size() / (is(Wrong::locks_the_first_half) ? 2 : 1));
  }
  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here()) {
    if (is(Wrong::refuses_scopes) && rare(lifetime)) throw ValueError("wrong: no such scopes");
    open_ += rare(lifetime);
    return Serial::open_scope(lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name) {
    Serial::close_scope(lifetime, name);
    open_ -= rare(lifetime);
  }
  void close_scope(Lifetime lifetime) {
    Serial::close_scope(lifetime);
    open_ -= rare(lifetime);
  }
  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    bool const keeps = is(Wrong::keeps_scopes) && rare(lifetime) && open_ > 0;
    return Serial::allocate(bytes, place, keeps ? Lifetime::persistent : lifetime);
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) {
    if (!is(Wrong::done_throws_in_releases)) return Serial::adopt(bytes, place, release);
    release_ = release;
    auto const call = [](void* self) noexcept { static_cast<WrongSerial*>(self)->release(); };
    return Serial::adopt(bytes, place, {call, this});
  }

 private:
  static RuntimeOptions constructed(Wrong wrong, RuntimeOptions options) {
    if (wrong == Wrong::drives_itself) options.own_driver = false;
    return options;
  }
  static bool rare(Lifetime lifetime) {
    return lifetime == Lifetime::scope || lifetime == Lifetime::staging;
  }
  bool is(Wrong wrong) const { return wrong_ == wrong; }
  void check_thread() const {
    if (std::this_thread::get_id() != thread_) throw LifetimeError("wrong: another thread");
  }
  void release() noexcept {
    in_release_ = true;
    release_();
    in_release_ = false;
  }

  Wrong const wrong_;
  std::thread::id const thread_ = std::this_thread::get_id();
  int submitted_ = 0;
  bool asynchronous_ = false;
  int open_ = 0;  // scopes of the rare lifetimes
  bool in_release_ = false;
  Release release_;
};
static_assert(ScopedRuntime<WrongSerial> && NestingRuntime<WrongSerial>);
static_assert(RegionRuntime<WrongSerial>);

testing::Report run(Wrong wrong, std::string const& only) {
  testing::ConformanceOptions options;
  options.max_workers = 1;
  options.rounds = 1;
  options.only = only;
  options.watchdog = testing::Watchdog::off();
  return testing::conformance([=](RuntimeOptions const& one) { return WrongSerial(wrong, one); },
                              options);
}

/// The runtime fails that check alone of those whose name has these words, with that problem; one
/// with nothing wrong passes it.
void check_fails(Wrong wrong, std::string const& check, std::string const& problem) {
  auto const good = run(Wrong::nothing, check), bad = run(wrong, check);
  INFO("wrong " << static_cast<int>(wrong) << "\n" << to_string(good) << to_string(bad));
  CHECK(good.passed());
  CHECK(bad.failed() == 1);
  CHECK(to_string(bad).find(problem) != std::string::npos);
}

}  // namespace

TEST_CASE("what a runtime throws on another thread fails the check", "[testing][wrong]") {
  char const* const thrown = "threw 'wrong: another thread'";
  for (char const* const check : {"events say what is done", "any thread may ask"})
    check_fails(Wrong::done_is_for_its_thread, check, thrown);
  check_fails(Wrong::submit_is_for_its_thread, "one thread after the other may drive", thrown);
}

TEST_CASE("what the driver is thrown ends the thread that asks meanwhile", "[testing][wrong]") {
  check_fails(Wrong::submit_throws_at_last, "any thread may ask", "threw 'wrong: enough'");
}

TEST_CASE("what a runtime throws into a release or a task fails the check", "[testing][wrong]") {
  check_fails(Wrong::done_throws_in_releases, "the release of adopted memory may ask done",
              "in a release done() threw 'wrong: inside a release'");
  check_fails(Wrong::refuses_by_another_error, "a task that submits is refused, or nested",
              "refused by something that is no Error");
}

TEST_CASE("what goes wrong while a token is out is named, and is no hang", "[testing][wrong]") {
  check_fails(Wrong::done_says_yes, "a task that submits ends behind", "was done before");
  check_fails(Wrong::done_says_yes, "tasks that submit never commute", "token is out is done");
  check_fails(Wrong::refuses_retire_in_flight, "a task holds what it accesses in no order",
              "threw 'wrong: in use'");
}

TEST_CASE("a lock of too few bytes is not looked at beyond them", "[testing][wrong]") {
  check_fails(Wrong::locks_the_first_half, "a buffer may be written region by region",
              "a lock of a region is not from its first byte to its last");
  check_fails(Wrong::locks_the_first_half, "a body may wait for its tasks", "of 8 bytes gave 4");
}

TEST_CASE("scopes of every lifetime are tried", "[testing][wrong]") {
  for (char const* const check : {"scopes retire exactly what", "a handle is refused once"}) {
    check_fails(Wrong::refuses_scopes, check, "threw 'wrong: no such scopes'");
    check_fails(Wrong::keeps_scopes, check, "threw nothing where a LifetimeError is due");
  }
}

TEST_CASE("a driver that was to wait, and executes, is found", "[testing][wrong]") {
  auto const report = run(Wrong::drives_itself, "a driver that only waits");
  INFO(to_string(report, true));
  CHECK(report.failed() == 1);
  CHECK(run(Wrong::nothing, "a driver that only waits").left_out() == 1);
}

TEST_CASE("a configuration that cannot be built is left out, whatever its constructor throws",
          "[testing][wrong]") {
  testing::ConformanceOptions options;
  options.max_workers = 4;
  options.only = "given nothing to do";
  options.watchdog = testing::Watchdog::off();
  auto const report_of = [&](auto refuse) {
    auto const report = testing::conformance(
        [&](RuntimeOptions const& one) {
          refuse(one.workers.value_or(1));
          return Ring(one);
        },
        options);
    CHECK(report.passed());
    return to_string(report);
  };
  auto const all = [](std::string const& text, int count) {
    INFO(text);
    CHECK(text.find(concat("in ", count, " configurations: ")) != std::string::npos);
  };
  all(report_of([](int) {}), 6);
  all(report_of([](int workers) {
        if (workers > 2) throw std::system_error(EAGAIN, std::generic_category(), "thread");
      }),
      4);
  all(report_of([](int workers) {
        if (workers > 2) throw 1;
      }),
      4);
  all(report_of([](int workers) {
        if (workers == 1) throw ValueError("wrong: 2 workers or more");
      }),
      4);
}
