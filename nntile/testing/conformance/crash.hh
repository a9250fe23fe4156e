#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Names the check in which a runtime crashes the process.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "nntile/core/threads.hh"

namespace nntile::testing::detail {

/// While one lives, a signal that ends the process first writes the latest note to stderr. Then the
/// handler that was there before acts on the signal: a debugger, a sanitizer or a test framework
/// reports it as ever.
class CrashNote {
 public:
  CrashNote() {
    nntile::detail::Lock const hold(mutex());
    if (lives()++ != 0) return;
    struct sigaction action{};
    action.sa_sigaction = &crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (Signal& one : signals) one.set = sigaction(one.number, &action, &one.before) == 0;
  }
  CrashNote(CrashNote const&) = delete;
  CrashNote& operator=(CrashNote const&) = delete;
  ~CrashNote() {
    nntile::detail::Lock const hold(mutex());
    for (std::string const& note : notes_) {
      char const* own = note.c_str();
      (void)latest.compare_exchange_strong(own, nullptr);
    }
    if (--lives() != 0) return;
    for (Signal& one : signals) restore(one);
  }

  void write(std::string text) {
    std::string& note = notes_[next_];  // the other one is the latest, which a crash may read
    next_ = 1 - next_;
    note = std::move(text);
    latest.store(note.c_str(), std::memory_order_release);
  }

 private:
  struct Signal {
    int number;
    char const* name;
    bool set;
    struct sigaction before;
  };
  static inline Signal signals[] = {
      {SIGSEGV, ": SIGSEGV\n", false, {}}, {SIGBUS, ": SIGBUS\n", false, {}},
      {SIGFPE, ": SIGFPE\n", false, {}},   {SIGILL, ": SIGILL\n", false, {}},
      {SIGABRT, ": SIGABRT\n", false, {}},
  };
  static inline std::atomic<char const*> latest{nullptr};
  static nntile::detail::Mutex& mutex() {
    static nntile::detail::Mutex one;
    return one;
  }
  static int& lives() {
    static int count = 0;
    return count;
  }

  /// Unless another handler was set meanwhile.
  static void restore(Signal& one) {
    struct sigaction now{};
    bool const own = one.set && sigaction(one.number, nullptr, &now) == 0 &&
                     (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &crashed;
    if (own) (void)sigaction(one.number, &one.before, nullptr);
  }
  static void put(char const* text) {
    for (std::size_t left = std::strlen(text); left != 0;) {
      ssize_t const count = ::write(STDERR_FILENO, text, left);
      if (count <= 0) return;
      text += count;
      left -= static_cast<std::size_t>(count);
    }
  }
  /// Calls only what a signal handler may. Behind it the instruction that failed does so again.
  static void crashed(int number, siginfo_t* info, void*) {
    int const error = errno;
    for (Signal const& one : signals) {
      if (one.number != number) continue;
      if (char const* const note = latest.exchange(nullptr)) {
        put("CRASHES: ");
        put(note);
        put(one.name);
      }
      (void)sigaction(number, &one.before, nullptr);
    }
    if (info->si_code <= 0) (void)raise(number);  // by a call: there is no such instruction
    errno = error;
  }

  std::string notes_[2];
  int next_ = 0;
};

}  // namespace nntile::testing::detail
