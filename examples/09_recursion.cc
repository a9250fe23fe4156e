// SPDX-License-Identifier: BSD-3-Clause
// Tasks that submit tasks: Fibonacci numbers by recursion, in which no body waits.
//
// 09_recursion [n [workers]]: fib(n), by default fib(20) on all cores.

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "nntile/runtime/ring/nest.hh"

using namespace nntile;

namespace {

using Handle = Ring::Handle;

constexpr Codelet put{"put",
                      +[](KernelCall const& call) noexcept -> Status {
                        *static_cast<long*>(call.buffers[0]) =
                            *static_cast<long const*>(call.arguments);
                        return {};
                      },
                      nullptr, nullptr};
constexpr Codelet add{"add",
                      +[](KernelCall const& call) noexcept -> Status {
                        *static_cast<long*>(call.buffers[0]) =
                            *static_cast<long const*>(call.buffers[1]) +
                            *static_cast<long const*>(call.buffers[2]);
                        return {};
                      },
                      nullptr, nullptr};

/// The body of a task that writes fib(n) into `result`.
struct Fibonacci {
  long n;
  Handle result;

  void operator()(nested_t<Ring>& nested) const {
    Use<Handle> const out{result, Access::write};
    if (n < 2) {
      nested.submit({&put, std::span(&out, 1), std::as_bytes(std::span(&n, 1)), {}, {}});
      return;
    }
    Handle const a = nested.allocate(sizeof(long)), b = nested.allocate(sizeof(long));
    nested.orchestrate(Fibonacci{n - 1, a}, Use<Handle>{a, Access::write});
    nested.orchestrate(Fibonacci{n - 2, b}, Use<Handle>{b, Access::write});
    Use<Handle> const uses[] = {out, {a, Access::read}, {b, Access::read}};
    nested.submit({&add, uses, {}, {}, {}});
  }  // a and b end with this task, which ends with the last of its tasks
};

/// The number that a word is; ends the program for another one.
int number(char const* what, char const* word, int least, int most) {
  int value = least - 1;
  char const* const end = word + std::strlen(word);
  auto const parsed = std::from_chars(word, end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && value >= least && value <= most)
    return value;
  std::fprintf(stderr, "09_recursion: %s is a number from %d to %d, not '%s'\n", what, least, most,
               word);
  std::exit(2);
}

}  // namespace

int main(int count, char** words) {
  int const n = count > 1 ? number("n", words[1], 0, 40) : 20;  // fib(40) takes minutes
  Ring ring(
      {.workers = count > 2 ? std::optional(number("workers", words[2], 1, 1024)) : std::nullopt});
  Handle const result = ring.allocate(sizeof(long));
  ring.orchestrate(Fibonacci{n, result}, Use<Handle>{result, Access::write});
  std::printf("fib(%d) = %ld\n", n,
              *reinterpret_cast<long const*>(ring.lock(result, Access::read).data()));
}
