// SPDX-License-Identifier: BSD-3-Clause
// A runtime that hangs ends the battery with words: which check, which configuration, which call.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/testing/conformance.hh"
#include "tests/support/catch.hh"
#include "tests/testing/broken_replay.hh"
#include "tests/testing/child.hh"
#include "tests/testing/faulty_threads.hh"

namespace {

using namespace nntile;
using test::Fault;
using test::FaultyThreads;
using test::run_in_child;

template <Fault fault> testing::Report run_with(testing::ConformanceOptions const& options) {
  return testing::conformance(
      [](RuntimeOptions const& one) { return Engine<FaultyThreads<fault>>(one); }, options);
}

/// Hangs end when the watchdog has seen them.
template <Fault fault> testing::Report run_asleep(std::string const& check, int workers) {
  testing::ConformanceOptions options;
  options.max_workers = workers;
  options.helping_driver = false;
  options.rounds = 1;
  options.only = check;
  options.watchdog = {1, [](testing::Report const&) { FaultyThreads<fault>::mend(); }};
  return run_with<fault>(options);
}

/// A call that does not return until the watchdog has seen it.
class Hang {
 public:
  testing::Watchdog watchdog() {
    return {1, [this](testing::Report const&) {
              seen_ = true;
              seen_.notify_all();
            }};
  }
  void until_seen() { seen_.wait(false); }

 private:
  std::atomic<bool> seen_{false};
};

void require_words(std::string const& text, std::initializer_list<char const*> pieces) {
  for (char const* const piece : pieces) {
    INFO(text << "\nlacks: " << piece);
    CHECK(text.find(piece) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("an executor one thread short ends the process with the report so far",
          "[testing][watchdog]") {
  auto const ended = run_in_child([] {
    std::printf("said before\n");
    (void)run_with<Fault::one_thread_short>({.max_workers = 2,
                                             .rounds = 1,
                                             .only = "a reader sees the writer before it",
                                             .watchdog = {.seconds = 2}});
  });
  CHECK(ended.status == 1);
  require_words(ended.output,
                {"said before\n",
                 "FAILED: a reader sees the writer before it: hangs in wait_all() after submit() "
                 "of task 31 [program 1, step 31] (1 worker, own driver, seed 1); 0 other checks",
                 "HANGS: check 'a reader sees the writer before it', 1 worker, own driver: in "
                 "wait_all() after submit() of task 31 [program 1, step 31]: no call returned for "
                 "2 seconds\n",
                 "in 3 configurations: [1 worker] [2 workers] [1 worker, own driver: 1 failed]"});
}

TEST_CASE("a caller may live with a hang, and the check counts as failed", "[testing][watchdog]") {
  testing::ConformanceOptions options;
  options.rounds = 1;
  options.only = "a sleeping driver wakes";
  std::string told;
  options.watchdog = {1, [&](testing::Report const& so_far) {
                        told = so_far.hang;
                        test::BrokenReplay::wake_driver();
                      }};
  auto const report = testing::conformance(
      [](RuntimeOptions const& one) {
        return test::BrokenReplay(test::Defect::loses_a_wakeup, one);
      },
      options);
  CHECK(told == report.hang);
  CHECK(report.failed() == 1);
  CHECK_FALSE(report.passed());
  require_words(report.hang, {"check 'a sleeping driver wakes when what it waits for ends', "
                              "1 worker: in ",
                              " after submit() of task "});
}

TEST_CASE("a report of a hang says how many checks it kept from their turn",
          "[testing][watchdog]") {
  auto const ended = run_in_child([] {
    (void)run_with<Fault::one_thread_short>({.max_workers = 1,
                                             .helping_driver = false,
                                             .rounds = 1,
                                             .only = "sees the",
                                             .watchdog = {.seconds = 1}});
  });
  require_words(ended.output, {"FAILED: a reader sees the writer before it",
                               "0 checks passed, 1 failed, 0 left out, 1 not reached, in 1 conf"});
}

TEST_CASE("a worker that sleeps through a wake-up is found", "[testing][watchdog]") {
  auto const report = run_asleep<Fault::sleeps_late>("a sleeping worker wakes", 1);
  CHECK(report.failed() == 1);
  require_words(report.hang, {"outside of the runtime after submit() of task "});
}

TEST_CASE("an executor that wakes one worker for three tasks is found", "[testing][watchdog]") {
  auto const report = run_asleep<Fault::wakes_one>("as many sleeping workers wake", 4);
  CHECK(report.failed() == 1);
  require_words(report.hang, {"4 workers, own driver: in wait_all() after submit() of task "});
}

TEST_CASE("threads without these faults wake", "[testing][watchdog]") {
  testing::ConformanceOptions options;
  options.max_workers = 2;
  options.rounds = 1;
  options.only = "wake";
  auto const report = run_with<Fault::none>(options);
  INFO(to_string(report));
  CHECK(report.passed());
}

TEST_CASE("a constructor that does not return is named", "[testing][watchdog]") {
  Hang hang;
  testing::ConformanceOptions options;
  options.only = "a runtime that is given nothing to do ends";
  options.watchdog = hang.watchdog();
  auto const report = testing::conformance(
      [&](RuntimeOptions const& one) {
        if (one.own_driver) hang.until_seen();
        return test::BrokenReplay(test::Defect::none, one);
      },
      options);
  require_words(report.hang,
                {"check 'a runtime can be built', 1 worker, own driver: in the constructor: "});
  CHECK(to_string(report).starts_with("HANGS: "));
  CHECK_FALSE(report.passed());
}

TEST_CASE("a destructor that does not return is named", "[testing][watchdog]") {
  struct Lingering : test::BrokenReplay {
    Lingering(RuntimeOptions const& one, Hang* hang)
        : BrokenReplay(test::Defect::none, one), hang_(hang) {}
    ~Lingering() {
      if (hang_ != nullptr) hang_->until_seen();
    }
    Hang* hang_;
  };
  Hang hang;
  int built = 0;
  testing::ConformanceOptions options;
  options.only = "a runtime that is given nothing to do ends";
  options.own_driver = false;
  options.watchdog = hang.watchdog();
  auto const report = testing::conformance(
      [&](RuntimeOptions const& one) {
        return Lingering(one, ++built > 1 ? &hang : nullptr);  // the first is built to try
      },
      options);
  require_words(report.hang, {"do ends', 1 worker: in the destructor after wait_all()"});
}

TEST_CASE("a log names the calls that have not returned", "[testing][watchdog]") {
  testing::CallLogs logs;
  CHECK(logs.where() == "outside of the runtime");
  testing::CallLog log(logs);
  {
    testing::CallLog::Call const call(log, testing::CallLog::submit_name);
  }
  log.submitted();
  CHECK(logs.where() == "outside of the runtime after submit() of task 1");
  log.at(7, 31);
  testing::CallLog::Call const wait(log, "wait()");
  testing::CallLog::Call const done(log, "done()");
  CHECK(logs.where() == "in wait() and done() after submit() of task 1 [program 7, step 31]");
}

TEST_CASE("a log names the runtime that is inside a call, not the youngest",
          "[testing][watchdog]") {
  testing::CallLogs logs;
  testing::CallLog first(logs);
  testing::CallLog const second(logs);
  testing::CallLog::Call const wait(first, "wait()");
  CHECK(logs.where() == "in wait()");
}

TEST_CASE("a call that got nothing done is no progress", "[testing][watchdog]") {
  testing::CallLogs logs;
  testing::CallLog log(logs);
  {
    testing::CallLog::Call(log, "done()").got_nothing_done();
  }
  CHECK(logs.returned() == 0);
  CHECK(logs.where() == "asking done() again and again");
  {
    testing::CallLog::Call const call(log, "done()");
  }
  CHECK(logs.returned() == 1);
  CHECK(logs.where() == "outside of the runtime after done(), tasks submitted: 0");
}

TEST_CASE("stillness is reported once, and anew after progress", "[testing][watchdog]") {
  testing::detail::Stillness stillness(10, 10, 1);
  for (int second = 1; second < 10; ++second) CHECK_FALSE(stillness.look(1, {0}));
  CHECK(stillness.look(1, {0}));
  for (int second = 1; second < 20; ++second) CHECK_FALSE(stillness.look(1, {0}));
  CHECK_FALSE(stillness.look(1, {1}));
  for (int second = 1; second < 10; ++second) CHECK_FALSE(stillness.look(1, {1}));
  CHECK(stillness.look(1, {1}));
  CHECK(stillness.seconds() == 10);
}

TEST_CASE("stillness is reported sooner where the runtime alone can go on", "[testing][watchdog]") {
  testing::detail::Stillness stillness(10, 3, 1);
  for (int second = 0; second < 5; ++second) CHECK_FALSE(stillness.look(1, {0, false}));
  for (int second = 1; second < 3; ++second) CHECK_FALSE(stillness.look(1, {0, true}));
  CHECK_FALSE(stillness.look(1, {0, false}));
  for (int second = 1; second < 3; ++second) CHECK_FALSE(stillness.look(1, {1, true}));
  CHECK_FALSE(stillness.look(1, {1, true}));  // the first of these was progress
  CHECK(stillness.look(1, {1, true}));
}

TEST_CASE("a lost wake-up is found soon, since nothing else is under way", "[testing][watchdog]") {
  testing::ConformanceOptions options;
  options.rounds = 1;
  options.max_workers = 1;
  options.only = "a sleeping driver wakes";
  options.watchdog.on_hang = [](testing::Report const&) { test::BrokenReplay::wake_driver(); };
  options.watchdog.idle_seconds = 0.5;
  auto const report = testing::conformance(
      [](RuntimeOptions const& one) {
        return test::BrokenReplay(test::Defect::loses_a_wakeup, one);
      },
      options);
  CHECK(report.failed() == 1);
}

TEST_CASE("a constructor that takes its time is no hang", "[testing][watchdog]") {
  std::atomic<int> hangs{0};
  testing::ConformanceOptions options;
  options.max_workers = 1;
  options.rounds = 1;
  options.only = "a runtime that is given nothing to do ends";
  options.watchdog.on_hang = [&](testing::Report const&) { ++hangs; };
  options.watchdog.idle_seconds = 0.5;  // longer than a busy machine keeps a thread from its turn
  auto const report = testing::conformance(
      [](RuntimeOptions const& one) {
        std::this_thread::sleep_for(std::chrono::milliseconds(800));
        return test::BrokenReplay(test::Defect::none, one);
      },
      options);
  CHECK(report.passed());
  CHECK(hangs == 0);
}

TEST_CASE("a process that was stopped for an hour has not hung", "[testing][watchdog]") {
  testing::detail::Stillness stillness(10, 10, 1);
  CHECK_FALSE(stillness.look(3600, {}));
}

TEST_CASE("a watchdog that is off watches nothing", "[testing][watchdog]") {
  testing::ConformanceOptions options;
  options.only = "wait returns when its task has ended";
  options.watchdog = testing::Watchdog::off();
  auto const report = testing::conformance(
      [](RuntimeOptions const& one) { return test::BrokenReplay(test::Defect::none, one); },
      options);
  CHECK(report.passed());
}
