#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The floating-point mode that tasks run under, whatever the caller's is.

#include <cstdint>

namespace nntile::support {

/// While it lives, the calling thread rounds to nearest, keeps subnormals and traps nothing (on
/// x86: MXCSR 0x1F80; on ARM: FPCR 0). Then the caller's mode is back. Cost: two reads of the
/// register where the mode is the default already.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept : callers_(get()) {
    if ((callers_ & control) != initial) set(initial);
  }
  ~DefaultFloatEnvironment() {
    if (((get() ^ callers_) & control) != 0) set(callers_);
  }
  /// Makes the calling thread's mode the default again, whatever a task has left.
  static void renew() noexcept {
    if ((get() & control) != initial) set(initial);
  }
  DefaultFloatEnvironment(DefaultFloatEnvironment const&) = delete;
  DefaultFloatEnvironment& operator=(DefaultFloatEnvironment const&) = delete;

 private:
#if defined(__x86_64__)
  using Word = std::uint32_t;
  static constexpr Word control = 0xffc0;  // all but the six sticky flags
  static constexpr Word initial = 0x1f80;
  static Word get() noexcept { return __builtin_ia32_stmxcsr(); }
  static void set(Word value) noexcept { __builtin_ia32_ldmxcsr(value); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word control = ~Word{0};
  static constexpr Word initial = 0;
  static Word get() noexcept {
    Word value;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(Word value) noexcept { __asm__ __volatile__("msr fpcr, %0" : : "r"(value)); }
#else
  using Word = int;
  static constexpr Word control = 0;
  static constexpr Word initial = 0;
  static Word get() noexcept { return 0; }
  static void set(Word) noexcept {}
#endif
  Word const callers_;
};

}  // namespace nntile::support
