#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: what the runtime calls back, polls and releases, may ask of it.

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

/// Makes every call where `done` alone is allowed, once; what was not refused.
class Trespasser {
 public:
  /// Before the first call; `handle` has been written. Outlives the runtime.
  void begin(Subject& runtime, Subject::Handle handle, Event ended, bool scopes) {
    runtime_ = &runtime;
    handle_ = handle;
    ended_ = ended;
    scopes_ = scopes;
  }
  /// Any thread, until `end`.
  void trespass() {
    std::lock_guard const hold(mutex_);
    if (runtime_ == nullptr) return;
    Subject& runtime = *std::exchange(runtime_, nullptr);
    called_ = true;
    guard("done()", [&] {
      if (!runtime.done(ended_)) problem_ = "done() of a task that has ended says no";
    });
    expect("allocate()", [&] { runtime.allocate(8, host, Lifetime::persistent); });
    expect("adopt()",
           [&] { runtime.adopt(std::as_writable_bytes(std::span(&word_, 1)), host, {}); });
    expect("submit()", [&] {
      Use<Subject::Handle> const use{handle_, Access::read};
      auto nothing = [](KernelCall const&) { return Status{}; };
      CallNote const note = call_note(nothing);
      runtime.submit({&call_codelet, {&use, 1}, detail::bytes_of(note), {}, {}});
    });
    if (scopes_)
      expect("open_scope()", [&] { runtime.open_scope(Lifetime::step, CallSite::here()); });
    expect("retire()", [&] { runtime.retire(handle_); });
    expect("lock()", [&] { (void)runtime.lock(handle_, Access::read); });
    expect("wait()", [&] { runtime.wait(ended_); });
    expect("wait_all()", [&] { runtime.wait_all(); });
  }
  bool called() const {
    std::lock_guard const hold(mutex_);
    return called_;
  }
  /// The first call that was not refused, or was by another error; "" if there is none. Nothing is
  /// called from here on.
  std::string end() {
    std::lock_guard const hold(mutex_);
    runtime_ = nullptr;
    return problem_;
  }

 private:
  /// Calls nothing more where one was let in, as it may have changed the runtime.
  template <class Call> void expect(char const* name, Call call) {
    if (!problem_.empty()) return;
    auto const refused = [&] {
      try {
        call();
        problem_ = concat(name, " was not refused");
      } catch (LifetimeError const&) {
      }
    };
    guard(name, refused, ", which is not a LifetimeError");
  }
  /// Notes what the call throws, since a release must not throw.
  template <class Call> void guard(char const* name, Call call, char const* but = "") {
    try {
      call();
    } catch (std::exception const& error) {
      problem_ = concat(name, " threw '", error.what(), "'", but);
    } catch (...) {
      problem_ = concat(name, " threw something that is no std::exception");
    }
  }

  mutable std::mutex mutex_;
  Subject* runtime_ = nullptr;
  Subject::Handle handle_{};
  Event ended_{};
  bool scopes_ = false;
  bool called_ = false;
  std::string problem_;
  std::uint64_t word_ = 0;
};

inline void polls_only_ask(Trial const& trial) {
  for (bool const driver_only : {true, false}) {
    Trespasser trespasser;
    auto const poll = [](void* state, Completion token) {
      static_cast<Trespasser*>(state)->trespass();
      token.complete();
      return true;
    };
    auto start = [&](KernelCall const&, Completion token) {
      token.poll(poll, &trespasser, driver_only);
      return Status{};
    };
    Scene scene(trial);
    std::uint32_t const buffer = scene.allocate();
    Event const ended = scene.task({{buffer, write}});
    scene.runtime().wait(ended);
    trespasser.begin(scene.runtime(), scene.handle(buffer), ended, trial.scopes);
    Event const polled = scene.start({}, start);
    scene.runtime().wait(polled);
    std::string const problem = trespasser.end();
    require(problem.empty(), "in a poll " + problem);
    scene.runtime().wait_all();
  }
}

inline void releases_only_ask(Trial const& trial) {
  for (bool const in_use : {false, true}) {
    std::uint64_t word = 0;
    Trespasser trespasser;
    Scene scene(trial);
    Subject& runtime = scene.runtime();
    std::uint32_t const buffer = scene.allocate();
    Event last = scene.task({{buffer, write}});
    runtime.wait(last);
    trespasser.begin(runtime, scene.handle(buffer), last, trial.scopes);
    auto const handle = runtime.adopt(
        std::as_writable_bytes(std::span(&word, 1)), host,
        {[](void* state) noexcept { static_cast<Trespasser*>(state)->trespass(); }, &trespasser});
    auto body = [](KernelCall const&) { return Status{}; };
    CallNote const note = call_note(body);
    Use<Subject::Handle> const use{handle, Access::update};
    if (in_use) last = runtime.submit({&call_codelet, {&use, 1}, detail::bytes_of(note), {}, {}});
    runtime.retire(handle);
    runtime.wait_all();
    // From another thread it may be soon; a runtime may also release at a next call.
    auto const hang = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!trespasser.called() && std::chrono::steady_clock::now() < hang) {
      (void)runtime.done(last);
      runtime.wait_all();
      std::this_thread::yield();
    }
    bool const released = trespasser.called();
    std::string const problem = trespasser.end();
    require(released, "adopted memory was retired, and not released in five minutes");
    require(problem.empty(), "in a release " + problem);
    runtime.wait_all();
  }
}

inline std::vector<NamedCheck> callbacks() {
  return {{"a poll may ask done alone", polls_only_ask},
          {"the release of adopted memory may ask done alone", releases_only_ask}};
}

}  // namespace nntile::testing::checks
